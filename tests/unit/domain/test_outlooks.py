"""What is left of a workflow."""

import pytest

from tiphys.models.domain import outlooks, workflows

AT = 1_000.0


def a_task(name: str, *, ran_s: float | None = None, daemon: bool = False) -> workflows.Task:
    """Return a task of one core after `root`, running for so long or not started."""
    running = workflows.TaskState.RUNNING
    return workflows.Task(
        id=name,
        name=name,
        parents=() if name == "root" else ("root",),
        state=workflows.TaskState.UNSTARTED if ran_s is None else running,
        started_at=None if ran_s is None else AT - ran_s,
        cpu_m=1000,
        daemon=daemon,
    )


def left(*tasks: workflows.Task) -> outlooks.Outlook:
    """Return the outlook of tasks that are taken for a minute each."""
    workflow = workflows.Workflow(namespace="ns", name="w", uid="u", tasks=tasks)
    return outlooks.of(workflow, lambda task: 60.0, at=AT)


@pytest.mark.parametrize(("ran_s", "expected"), [(0.0, 60.0), (20.0, 40.0), (200.0, 50.0)])
def test_a_late_task_is_not_as_good_as_done(ran_s: float, expected: float) -> None:
    """Within its estimate the rest counts, past it a quarter of its age."""
    outlook = left(a_task("root", ran_s=ran_s), a_task("next"))
    assert (expected + 60.0, expected + 60.0) == (outlook.work, outlook.path_s)


@pytest.mark.parametrize("ran_s", [None, 500.0])
def test_a_daemon_counts_no_time(ran_s: float | None) -> None:
    """It ends with its workflow: neither work nor a part of the longest path."""
    outlook = left(a_task("root", ran_s=ran_s, daemon=True), a_task("next"))
    assert (60.0, 60.0) == (outlook.work, outlook.path_s)
