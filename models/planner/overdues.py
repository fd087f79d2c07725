"""When a wait is too long.

`overdueAfter` is the least.  While more waits than the cluster can do in that time, every pod would
soon be overdue and the order would be first come, first served again, so the bound then grows with
the time in which all that still waits could be done.  That time shrinks while a pod waits: were it
the bound itself, all pods would be overdue halfway, and the largest workflows would go first.
"""

from tiphys.models.domain import settings, snapshots

BACKLOG_PART = 4.0
"""Times what is left of the backlog that a pod may wait: of a backlog that only shrinks it goes
first after 4/5 at the latest (docs/policies.md has what other values gave)."""


def after_s(
    snapshot: snapshots.Snapshot, choices: settings.PolicySettings, *, cores: float
) -> float:
    """Return the wait in seconds after which a pod goes first."""
    return max(choices.overdue_after_s, BACKLOG_PART * backlog_s(snapshot, cores=cores))


def backlog_s(snapshot: snapshots.Snapshot, *, cores: float) -> float:
    """Return how long the cluster needs for the remaining work of all waiting workflows.

    `cores` are those of the cluster, each counted by the speed of its group.
    """
    work = {waiting.workflow: waiting.remaining_work for waiting in snapshot.waiting}
    return sum(work.values()) / cores if cores else 0.0
