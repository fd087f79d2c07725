"""How long a gate may stay shut: what Argo's clocks leave of a task's time."""

import dataclasses

from tiphys.argo import clocks
from tiphys.models.domain import errors
from tiphys.operator import objects

START_S = 10.0
"""Assumed from a release to a start where a clock of Argo's runs: being late fails the task."""
NODE_CLOCKS = frozenset({"timeout", "pendingTimeout"})


def must_open_by(
    seen: objects.Seen,
    run: objects.Run | None,
    *,
    cron: objects.Cron | None = None,
    since: float = 0.0,
    run_s: float = 0.0,
    now: float,
) -> float | None:
    """Return the unix second at which no slack is left; None where no clock runs.

    `since` is the start of its node in Argo, `run_s` how long it is expected to run.  Without
    its workflow only the pod's own clocks count.
    """
    if run is None:
        return clocks.open_by(seen.clocks, start_s=START_S)
    # A pod's own clocks were read from its creation; one that was created again is later.
    late_s = max(0.0, (seen.pod.created_at or since) - since)
    running = [
        dataclasses.replace(clock, at=clock.at - late_s) if clock.name in NODE_CLOCKS else clock
        for clock in seen.clocks
    ]
    running.extend(clocks.of_workflow(run.workflow))
    if cron is not None:
        running.extend(_next_run(cron, now))
    return clocks.open_by(running, start_s=START_S, run_s=run_s)


def _next_run(cron: objects.Cron, now: float) -> tuple[clocks.Clock, ...]:
    """Return the clock of a CronWorkflow's next run; one that cannot be read starts none."""
    try:
        return clocks.of_cron_workflow(cron.written, after=now)
    except errors.InputError:
        return ()
