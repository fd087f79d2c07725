"""What is left of a workflow: work still to do, and the longest path from each task to the end."""

import dataclasses
from collections.abc import Callable

from tiphys.models.domain import footprints, workflows

Durations = Callable[[workflows.Task], float]
"""Expected run time of a task at speed 1, seconds."""
Sizes = Callable[[workflows.Task], float]
"""Cores that a task counts for while it runs (`footprints`)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is left of one workflow at one moment."""

    work: float = 0.0
    """Core seconds at speed 1 that unended tasks still take; of a running one what is left."""
    paths_s: tuple[tuple[str, float], ...] = ()
    """Upward rank of each unended task by id (Topcuoglu 2002), seconds at speed 1: its own time
    and the longest chain of what waits for it."""

    @property
    def path_s(self) -> float:
        """The longest of them: the least time to the end."""
        return max((path_s for _, path_s in self.paths_s), default=0.0)


def rest_s(expected_s: float, elapsed_s: float) -> float:
    """Return the expected rest of a run that was to last `expected_s` and has lasted `elapsed_s`.

    What outlives its estimate is of a longer kind: it is expected to last a quarter of its age
    more (for run times with a heavy tail the rest grows with the age, Harchol-Balter 1997).
    """
    return max(expected_s - elapsed_s, 0.25 * elapsed_s, 0.0)


def of(
    workflow: workflows.Workflow,
    durations: Durations,
    *,
    at: float,
    widths: Callable[[workflows.Task], float] = lambda task: 2.0,
    sizes: Sizes = lambda task: (task.cpu_m or footprints.UNASKED_CPU_M) / 1000,
) -> Outlook:
    """Return the outlook of `workflow` at `at` (unix seconds).

    Daemons end with their workflow and take none of its time. A fan-out whose width is not known
    yet counts as `widths` says. Tasks come parents first, so one pass from the end suffices; a
    parent that is not among them is ignored.
    """
    if workflow.ended:
        return Outlook()
    longest_after: dict[str, float] = {}
    paths: list[tuple[str, float]] = []
    work = 0.0
    for task in reversed(workflow.tasks):
        after_s = longest_after.get(task.id, 0.0)
        if task.state.ended:
            path_s = after_s
        else:
            timeless = task.daemon or task.kind is workflows.TaskKind.SUSPEND
            own_s = 0.0 if timeless else durations(task)
            running = task.state is workflows.TaskState.RUNNING
            if running and not timeless and task.started_at is not None:
                own_s = rest_s(own_s, max(0.0, at - task.started_at))
            path_s = own_s + after_s
            count = widths(task) if task.count is None else task.count
            work += own_s * count * sizes(task)
            paths.append((task.id, path_s))
        for parent in task.parents:
            if path_s > longest_after.get(parent, 0.0):
                longest_after[parent] = path_s
    return Outlook(work=work, paths_s=tuple(paths))
