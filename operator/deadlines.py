"""When a workflow is due: as annotated nearby, else its policy's factor times its longest path.

The path is that of the whole workflow, ended tasks too: it neither shrinks while the workflow gets
on nor depends on when this process first saw it. It is kept until the workflow grows, so that
estimates that come later do not move a deadline.
"""

import dataclasses
from collections.abc import Callable

from tiphys.models.domain import outlooks, settings, workflows
from tiphys.models.estimators import books
from tiphys.operator import caches, objects, optins


class Deadlines:
    """Keeps the longest path of each workflow that is asked for."""

    def __init__(self, cached: caches.Caches, slo: Callable[[str], settings.Slo]) -> None:
        """`slo` returns what counts as late in a namespace."""
        self._caches = cached
        self.slo = slo
        self._paths: dict[str, tuple[int, float]] = {}
        """By uid: of how many tasks, and how long in seconds at speed 1."""
        cached.subscribe(self._changed)

    def of(self, run: objects.Run, book: books.Book) -> float | None:
        """Return the unix second at which a workflow is due; None = never."""
        workflow = run.workflow
        wanted_s = optins.of(self._caches, workflow.namespace, run).deadline_s
        if wanted_s is not None:
            return workflow.created_at + wanted_s
        factor = self.slo(workflow.namespace).default_factor
        return None if factor is None else workflow.created_at + factor * self._path_s(run, book)

    def _path_s(self, run: objects.Run, book: books.Book) -> float:
        workflow, count = run.workflow, len(run.workflow.tasks)
        known = self._paths.get(workflow.uid)
        if known is None or known[0] != count:
            known = self._paths[workflow.uid] = count, path_s(workflow, book)
        return known[1]

    def _changed(self, change: caches.Change) -> None:
        before, after = change.before, change.after
        if isinstance(before, objects.Run) and not (
            isinstance(after, objects.Run) and after.workflow.uid == before.workflow.uid
        ):
            self._paths.pop(before.workflow.uid, None)


def path_s(workflow: workflows.Workflow, book: books.Book) -> float:
    """Return the longest path through a whole workflow, seconds at speed 1; what is skipped is 0 s.

    Estimates stand for ended tasks as well: what a deadline is a multiple of is what was to be
    expected, not how long it took.
    """
    fresh = tuple(
        task
        if task.state is workflows.TaskState.SKIPPED
        else dataclasses.replace(task, state=workflows.TaskState.UNSTARTED)
        for task in workflow.tasks
    )
    return outlooks.of(
        dataclasses.replace(workflow, tasks=fresh, ended=False),
        lambda task: book.estimate(task.identity, input_bytes=task.input_bytes).centre_s,
        at=workflow.created_at,
    ).path_s
