"""How pods end: what cuts them short, and what their containers and records then say. Pure."""

import enum

from lab.kubelet import statuses
from lab.kubelet.behaviours import contracts

OOM_KILLED = "OOMKilled"
DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"


class Stop(enum.Enum):
    """What cuts a pod's life short; the value is the record's word for it."""

    DELETED = "Deleted"
    """Somebody asked the API server to delete it."""
    GONE = "Deleted by force"
    """Its object is no longer there."""
    SIGNALLED = "Error"
    """Its processes were told to end (`kubectl exec … kill`, as Argo's controller does)."""
    DEADLINE = "DeadlineExceeded"
    """activeDeadlineSeconds passed."""
    LOST = "NodeLost"
    """Its node went down."""

    @property
    def word(self) -> str:
        """The reason that the pod's record gives."""
        return "Deleted" if self is Stop.GONE else self.value


def word(outcome: contracts.Outcome) -> str:
    """Return the record's reason for a pod that ended by itself."""
    if outcome.reason:
        return outcome.reason
    if any(end.reason == OOM_KILLED for end in outcome.containers.values()):
        return OOM_KILLED
    return "Completed" if outcome.phase == statuses.SUCCEEDED else "Error"


def told(view: statuses.View, *, main: str) -> tuple[str, int]:
    """Return the record's reason and exit code of a pod whose end others have written."""
    ends = {run.name: run.end for run in view.runs if run.end is not None}
    outcome = contracts.Outcome(phase=view.phase, containers=ends, reason=view.reason)
    end = ends.get(main)
    failed = view.phase == statuses.FAILED
    return word(outcome), end.exit_code if end else int(failed)


def stopped(view: statuses.View, stop: Stop, *, signal: int) -> contracts.Outcome:
    """Return the outcome of a pod that was stopped; what had ended before stays as it was."""
    end = statuses.UNKNOWN
    if stop is not Stop.LOST:
        end = contracts.ContainerEnd(exit_code=128 + signal, reason="Error")
    deadline = stop is Stop.DEADLINE
    ends = {
        # What never ran was not found either when the pod was to be ended.
        run.name: end if run.started_at is not None else statuses.UNKNOWN
        for run in view.every_run
        if run.end is None
    }
    return contracts.Outcome(
        phase=statuses.FAILED,
        containers=ends,
        reason=stop.value if deadline else "",
        message=DEADLINE_MESSAGE if deadline else "",
    )


def unprepared(view: statuses.View, prepared: contracts.ContainerEnd) -> contracts.Outcome:
    """Return the outcome of a pod of which an init container failed."""
    first = next(run.name for run in view.init_runs if not run.sidecar)
    ends = {run.name: statuses.NEVER_RAN for run in view.runs}
    return contracts.Outcome(phase=statuses.FAILED, containers={**ends, first: prepared})


def end_runs(view: statuses.View, outcome: contracts.Outcome, *, at: float) -> int:
    """End the containers of a pod as the outcome says; return how many were OOM-killed."""
    for run in view.every_run:
        end = outcome.containers.get(run.name, statuses.COMPLETED)
        if end is not statuses.NEVER_RAN:
            run.stop(end, at)
    return sum(end.reason == OOM_KILLED for end in outcome.containers.values())
