"""The API server's audit log as calls: who asked for what, when it came in, how long it took.

`at` is the moment the API server received the call (microseconds, wall time, unix seconds). A pod
can be seen, bound and even started before the answer to its creation has left, so it is the one
time that is never later than what follows from the call.
"""

import datetime
from collections.abc import Iterator, Set
from pathlib import Path

import msgspec

from lab import errors, homes

COMPLETE = "ResponseComplete"
GATED = "gated"
"""Outcome of the admission of a pod that Tiphys means to hold."""
SHADOW = "shadow"
"""Outcome of the admission of a pod that Tiphys only watches."""
DECIDED = frozenset({GATED, "placed", "passed", SHADOW})
"""Outcomes of an admission that are decisions; with any other a pod came in as without Tiphys."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call that was answered."""

    at: float
    latency_s: float
    """Wall seconds from received to answered, admission and etcd included."""
    verb: str
    resource: str
    """With its subresource: `pods`, `pods/binding`, `pods/status`, `workflows`."""
    namespace: str
    name: str
    uid: str = ""
    """Of the object, where the caller named it (a binding does, a creation cannot)."""
    user: str = ""
    code: int = 0
    outcome: str = ""
    """What Tiphys' webhook said of the creation of a pod; empty where it was not asked."""

    @property
    def decided(self) -> bool:
        """Whether Tiphys decided about the pod that this call created."""
        return self.outcome in DECIDED

    @property
    def steered(self) -> bool:
        """Whether what Tiphys decided held for the pod that this call created."""
        return self.decided and self.outcome != SHADOW

    @property
    def accepted(self) -> bool:
        """Whether the API server did what was asked."""
        return 200 <= self.code < 300


class _Reference(msgspec.Struct, rename="camel"):
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Status(msgspec.Struct):
    code: int = 0


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Annotations(msgspec.Struct, frozen=True):
    """What admission added to an event."""

    outcome: str = msgspec.field(default="", name="pods.tiphys.dev/outcome")


class _Event(msgspec.Struct, rename="camel"):
    """The part of an audit.k8s.io/v1 Event that reports need."""

    stage: str
    verb: str
    request_received_timestamp: datetime.datetime
    stage_timestamp: datetime.datetime
    user: _User = _User()
    request_uri: str = msgspec.field(default="", name="requestURI")
    object_ref: _Reference | None = None
    response_status: _Status | None = None
    annotations: _Annotations = _Annotations()


def read(home: homes.Home) -> Iterator[Call]:
    """Yield the calls of one lab in the order of the log, rotated files first.

    A last line that is still being written is left out. Raises `UsageError` when there is no audit
    log, and when a line of it is damaged.
    """
    if not home.audit_log.is_file():
        raise errors.UsageError(
            f"no audit log at {home.audit_log}: lab {home.name!r} never ran, or was purged"
        )
    # The API server renames a full log to audit-TIME.log; TIME sorts as text.
    rotated = sorted(home.root.glob(f"{home.audit_log.stem}-*{home.audit_log.suffix}"))
    for path in (*rotated, home.audit_log):
        yield from read_file(path)


def read_file(path: Path) -> Iterator[Call]:
    """Yield the calls of one file of the log; dry runs change nothing and are left out."""
    decoder = msgspec.json.Decoder(_Event)
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                event = decoder.decode(line)
            except (msgspec.ValidationError, msgspec.DecodeError) as error:
                raise errors.UsageError(
                    f"{path}, line {number} is not an audit event ({error}): remove that line, "
                    "or purge the lab and run again"
                ) from error
            answered = event.stage == COMPLETE and "dryRun=" not in event.request_uri
            if answered and event.object_ref is not None:
                yield _call(event, event.object_ref)


def workflow_of(pod: tuple[str, str], workflows: Set[tuple[str, str]]) -> str:
    """Return the name of the workflow whose pod this is, both by (namespace, name); empty if none.

    Argo names a pod `WORKFLOW` or `WORKFLOW-TEMPLATE-HASH`, so the longest that fits is meant.
    """
    namespace, name = pod
    words = name.split("-")
    names = ("-".join(words[:length]) for length in range(len(words), 0, -1))
    return next((name for name in names if (namespace, name) in workflows), "")


def _call(event: _Event, reference: _Reference) -> Call:
    received = event.request_received_timestamp.timestamp()
    return Call(
        at=received,
        latency_s=event.stage_timestamp.timestamp() - received,
        verb=event.verb,
        resource="/".join(filter(None, (reference.resource, reference.subresource))),
        namespace=reference.namespace,
        name=reference.name,
        uid=reference.uid,
        user=event.user.username,
        code=event.response_status.code if event.response_status else 0,
        outcome=event.annotations.outcome,
    )
