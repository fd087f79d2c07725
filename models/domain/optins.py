"""Opt-in: whose annotations say that a workflow is steered, and how.

Five kinds of objects may carry the annotations; the nearest to the pod wins, key by key::

    Workflow > CronWorkflow > WorkflowTemplate > ClusterWorkflowTemplate > Namespace

A value that cannot be read is never guessed: the workflow counts as not opted in, and the error
names the object, the annotation and how to write it.
"""

import contextlib
import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from tiphys.models.domain import decisions, durations, errors

ENABLED = "tiphys.dev/enabled"
MODE = "tiphys.dev/mode"
POLICY = "tiphys.dev/policy"
DEADLINE = "tiphys.dev/deadline"
RIGHT_SIZE = "tiphys.dev/right-size"
KEYS = (ENABLED, MODE, POLICY, DEADLINE, RIGHT_SIZE)
"""Every annotation that people write; others below `tiphys.dev/` are written by Tiphys."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SHOWN = 60
_Value = TypeVar("_Value")


class Kind(enum.IntEnum):
    """Whose annotations a layer holds; the greater is the nearer."""

    NAMESPACE = 1
    CLUSTER_WORKFLOW_TEMPLATE = 2
    WORKFLOW_TEMPLATE = 3
    CRON_WORKFLOW = 4
    WORKFLOW = 5

    @property
    def word(self) -> str:
        """The kind as Kubernetes writes it."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class Mode(enum.StrEnum):
    """What is done with decisions."""

    ENFORCE = "enforce"
    SHADOW = "shadow"
    """Decided and recorded, not acted on."""
    OFF = "off"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The annotations of one object that may opt in."""

    kind: Kind
    name: str
    annotations: Mapping[str, str]

    def __str__(self) -> str:
        """Return `WorkflowTemplate genomics/align`."""
        return f"{self.kind.word} {self.name}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptIn:
    """What the annotations around a pod come to."""

    enabled: bool = False
    mode: Mode | None = None
    """None = as the policy says."""
    policy: str = ""
    """Name of the PolicyVersion that is asked for; empty = as the policy says."""
    deadline_s: float | None = None
    """Wanted length of the workflow, seconds from its creation."""
    right_size: bool | None = None
    """None = as the policy says."""
    source: str = ""
    """The object that settled `enabled`, as `Namespace genomics`; empty = nobody said anything."""
    errors: tuple[str, ...] = ()
    """What could not be read, one sentence each; then `enabled` is False."""


def resolve(layers: Iterable[Layer]) -> OptIn:
    """Return what the layers come to, in whatever order they are given."""
    nearest_first = sorted(layers, key=lambda layer: -layer.kind)
    problems: list[str] = []

    def winner(key: str, read: Callable[[str], _Value], nothing: _Value) -> tuple[_Value, str]:
        for layer in nearest_first:
            if key not in layer.annotations:
                continue
            try:
                return read(layer.annotations[key]), str(layer)
            except errors.InputError as error:
                problems.append(f"{layer}: annotation {key}: {error}")
                return nothing, str(layer)
        return nothing, ""

    enabled, source = winner(ENABLED, _switch, False)
    mode, _ = winner(MODE, _mode, None)
    policy, _ = winner(POLICY, _policy, "")
    deadline_s, _ = winner(DEADLINE, _deadline_s, None)
    right_size, _ = winner(RIGHT_SIZE, _switch, None)
    return OptIn(
        enabled=enabled and not problems,
        mode=mode,
        policy=policy,
        deadline_s=deadline_s,
        right_size=right_size,
        source=source,
        errors=tuple(problems),
    )


def unread(names: Iterable[str]) -> list[str]:
    """Return, sorted, which annotations below `tiphys.dev/` nobody reads.

    Those that Tiphys writes itself are not among them: copied onto something else they mean nothing
    and harm nobody.
    """
    return sorted(set(names) - set(KEYS) - set(decisions.WRITTEN))


def _switch(text: object) -> bool:
    if text == "true":
        return True
    if text == "false":
        return False
    raise errors.InputError(f'write "true" or "false", not {_shown(text)}')


def _mode(text: object) -> Mode:
    if isinstance(text, str) and text.lower() in tuple(Mode):
        return Mode(text.lower())
    raise errors.InputError(f"write one of {', '.join(Mode)}, not {_shown(text)}")


def _policy(text: object) -> str:
    if isinstance(text, str) and _NAME.fullmatch(text):
        return text
    raise errors.InputError(f"write the name of a PolicyVersion, not {_shown(text)}")


def _deadline_s(text: object) -> float:
    deadline_s = 0.0
    if isinstance(text, str) and len(text) <= _SHOWN:
        with contextlib.suppress(errors.InputError):
            deadline_s = durations.read(text)
    if 0 < deadline_s < float("inf"):
        return deadline_s
    raise errors.InputError(f"write a time above zero such as 90m or 2h, not {_shown(text)}")


def _shown(text: object) -> str:
    whole = repr(text)
    return whole if len(whole) <= _SHOWN else whole[:_SHOWN] + "…"
