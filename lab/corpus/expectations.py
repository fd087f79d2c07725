"""What each example must come to (`expectations.yaml`), checked against the examples."""

import functools
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from lab import errors
from lab.corpus import examples

FILE = Path(__file__).with_name("expectations.yaml")
SIMULATED = (
    r"\bcurl\b",
    r"\bcowsay\b",
    r"\bnginx\b",
    r"\binfluxd\b",
    r"\bkubectl ",
    r"\bapk add\b",
    r"^\s+(?:http|git|gcs|oss|azure|hdfs|artifactory):",
)
"""What betrays, in an example's text, a stand-in or a simulated site or store. MinIO's S3 is left
out: to a Workflow it is the artifact repository, which is a folder for every example."""
SIMULATED_SETUPS = {"argo-repository", "artifact-driver", "route-crd", "s3"}
ARGO_TEST = "Argo's own test of its examples runs it and expects this"
Phase = Literal["Succeeded", "Failed", "Error", "Running"]


class Drive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the example's user does while it runs."""

    resume: bool = False
    supply: dict[str, str] = {}
    """Values of a suspended step's output parameters; it is resumed with them."""
    terminate: bool = False
    """Once it has run for a while: it would not end by itself."""

    @property
    def resumes(self) -> bool:
        """Whether somebody must resume its suspended steps."""
        return self.resume or bool(self.supply)


class Expectation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a Workflow must come to."""

    end: Phase | tuple[Phase, ...]
    source: str
    nodes: dict[str, str] = {}
    """Phases of nodes by display name, where the end alone would not show that it is right."""
    setup: tuple[str, ...] = ()
    drive: Drive = Drive()
    edit: dict[str, str] = {}
    name: str = ""
    """generateName for an example that has none."""
    clock: Literal["lab", "wall"] = "lab"
    needs: tuple[str, ...] = ()
    long: bool = False
    """It takes long on the wall, so it is submitted among the first."""

    @property
    def ends(self) -> tuple[str, ...]:
        """The phases that are right."""
        return (self.end,) if isinstance(self.end, str) else self.end


class Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is done with an object that is no Workflow."""

    as_: Literal["stored", "submitted", "scheduled"] = msgspec.field(name="as")
    why: str = ""
    setup: tuple[str, ...] = ()
    parameters: dict[str, str] = {}


class Expectations(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them."""

    argo_test: tuple[str, ...]
    described: dict[str, Expectation]
    not_runnable: dict[str, str]
    stored: dict[str, Stored]

    @property
    def workflows(self) -> dict[str, Expectation]:
        """Every Workflow that is to reach its end, by name."""
        tested = Expectation(end="Succeeded", source=ARGO_TEST)
        return dict.fromkeys(self.argo_test, tested) | self.described

    def simulated(self, found: Mapping[str, examples.Example]) -> list[str]:
        """Return the Workflows whose end rests on a stand-in, or a simulated site or store."""
        words = re.compile("|".join(SIMULATED), re.MULTILINE)
        return [
            name
            for name, expectation in self.workflows.items()
            if words.search(found[name].source) or SIMULATED_SETUPS & set(expectation.setup)
        ]

    def missing_programs(self, name: str) -> list[str]:
        """Return the programs that an example needs and this machine lacks."""
        expectation = self.workflows.get(name)
        return [word for word in expectation.needs if not shutil.which(word)] if expectation else []


@functools.cache
def load() -> Expectations:
    """Return the shipped expectations."""
    return msgspec.convert(yaml.safe_load(FILE.read_text()), Expectations)


def check(found: Mapping[str, examples.Example], known: Expectations) -> None:
    """Raise `UsageError` unless file and examples name exactly the same objects."""
    groups: list[tuple[str, Collection[str], bool]] = [
        ("argo_test and described", known.workflows, True),
        ("not_runnable", known.not_runnable, True),
        ("stored", known.stored, False),
    ]
    for group, names, workflow in groups:
        for name in names:
            if name not in found or found[name].is_workflow != workflow:
                raise errors.UsageError(
                    f"{FILE}: {group} names {name}, which is no such example of this Argo version"
                )
    listed = {name for _, names, _ in groups for name in names}
    if absent := sorted(set(found) - listed):
        raise errors.UsageError(
            f"{FILE} says nothing about {', '.join(absent)}: write down what each must come to"
        )
