"""Argo's clocks: by when a pod must have started or ended, or Argo fails what it belongs to.

All of them run while a pod waits behind a gate, except the pod's own `activeDeadlineSeconds`, which
the kubelet starts.  A gate may stay shut until `open_by`, never longer.
"""

import dataclasses
import json
from collections.abc import Iterable, Mapping

from tiphys.argo import documents, moments, names, pods, schedules
from tiphys.models.domain import durations, errors, workflows

_TIMEOUTS = (("timeout", True), ("pendingTimeout", False))
"""Fields of a template; whether the task must have ended by then, or only started."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """One limit that Argo sets."""

    name: str
    """Argo's word: `timeout`, `pendingTimeout`, `ARGO_DEADLINE`, `activeDeadlineSeconds`,
    `schedules`."""
    at: float
    """Unix seconds."""
    to_end: bool
    """The task must have ended by then; False: it must have started."""


def of_pod(
    obj: Mapping[str, object], *, at: float, node_started_at: float | None = None
) -> tuple[Clock, ...]:
    """Return the clocks that stand in a pod itself, the nearest first.  Raises `InputError`.

    Timeouts count from the start of its node (`node_started_at`, as in `Task.started_at`); where
    that is not known, from the pod's creation, and at admission from `at` (unix seconds).
    """
    obj = documents.root(obj, "pod")
    metadata = documents.mapping(obj, "metadata")
    spec = documents.mapping(obj, "spec")
    created_at = moments.read(metadata, "creationTimestamp", "metadata")
    begun_at = node_started_at or created_at or at
    found: list[Clock] = []
    written = pods.written_template(spec)
    if '"timeout":' in written or '"pendingTimeout":' in written:
        template = _template(written)
        for name, to_end in _TIMEOUTS:
            length_s = _length_s(template.get(name))
            if length_s is not None:
                found.append(Clock(name=name, at=begun_at + length_s, to_end=to_end))
    elif written == names.OFFLOADED:
        # The timeout is not visible, but Argo made the pod's own limit from it and others.
        limit_s = documents.whole(spec, "activeDeadlineSeconds", "spec")
        if limit_s is not None:
            begun_at = created_at or at
            found.append(Clock(name="timeout", at=begun_at + limit_s, to_end=True))
    deadline = _deadline(spec)
    if deadline is not None:
        found.append(Clock(name=names.ENV_DEADLINE, at=deadline, to_end=True))
    return tuple(sorted(found, key=lambda clock: clock.at))


def of_workflow(workflow: workflows.Workflow) -> tuple[Clock, ...]:
    """Return the clock of a whole Workflow; its exit handlers are free of it."""
    if workflow.ends_by_at is None:
        return ()
    return (Clock(name="activeDeadlineSeconds", at=workflow.ends_by_at, to_end=True),)


def of_cron_workflow(obj: Mapping[str, object], *, after: float) -> tuple[Clock, ...]:
    """Return the clock of a run that a CronWorkflow started: its next run ends or is kept by it.

    With `Replace` the next run terminates this one, with `Forbid` it is left out; `Allow` has no
    clock.  `after` is now, unix seconds.  Raises `InputError`.
    """
    spec = documents.mapping(documents.root(obj, "CronWorkflow"), "spec")
    if documents.text(spec, "concurrencyPolicy", "spec") not in ("Replace", "Forbid"):
        return ()
    at = schedules.next_run(obj, after)
    return () if at is None else (Clock(name="schedules", at=at, to_end=True),)


def open_by(clocks: Iterable[Clock], *, start_s: float, run_s: float = 0.0) -> float | None:
    """Return when a gate must be open at the latest, unix seconds; None = no clock runs.

    `start_s` is the expected time from release to start (binding, images), `run_s` the expected run
    time, which counts against clocks that the end must meet.
    """
    return min(
        (clock.at - start_s - (run_s if clock.to_end else 0.0) for clock in clocks), default=None
    )


def _template(written: str) -> documents.Document:
    try:
        return documents.root(json.loads(written), names.ENV_TEMPLATE)
    except (ValueError, RecursionError):
        return documents.EMPTY


def _length_s(written: object) -> float | None:
    """Return a timeout in seconds; None where there is none, or one that Argo cannot read."""
    if not isinstance(written, str) or not written or len(written) > 40:
        return None
    try:
        return durations.read(written)
    except errors.InputError:
        return None


def _deadline(spec: documents.Document) -> float | None:
    """Return the end of the Workflow or of its retries as Argo's executor was told it.

    Argo tells every container, after what the author wrote: only its own count where there are any,
    and the last value, or anybody's pod would be let out at once.
    """
    listed = [
        container
        for field in ("initContainers", "containers")
        for container in documents.mappings(spec, field, "spec")
    ]
    executors = [each for each in listed if each.get("name") in names.EXECUTORS]
    for container in executors or listed:
        told = [
            documents.text(variable, "value", "spec.containers.env")
            for variable in documents.mappings(container, "env", "spec.containers")
            if variable.get("name") == names.ENV_DEADLINE
        ]
        if told:
            try:
                return moments.parse(told[-1]) if told[-1] else None
            except errors.InputError:
                return None
    return None
