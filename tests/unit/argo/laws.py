"""What holds for every Workflow that could be read, whatever somebody wrote."""

from tiphys.models.domain import workflows


def check(workflow: workflows.Workflow) -> None:
    """Assert that the tasks are a DAG in order, and that nothing contradicts itself."""
    seen: set[str] = set()
    for task in workflow.tasks:
        assert task.id not in seen, f"{task.id} is there twice"
        missing = [parent for parent in task.parents if parent not in seen]
        assert not missing, f"{task.name} comes before what it waits for: {missing}"
        assert len(set(task.parents)) == len(task.parents)
        seen.add(task.id)
        assert task.count is None or task.count >= 1
        assert min(task.cpu_m, task.memory_bytes, task.input_bytes or 0) >= 0
        begun = task.state not in (workflows.TaskState.UNSTARTED, workflows.TaskState.SKIPPED)
        assert not (begun and task.conditional), f"{task.name} runs, so nothing may skip it"
        if workflow.ended:
            assert task.state is not workflows.TaskState.UNSTARTED
    assert all(isinstance(unknown, str) and unknown for unknown in workflow.unknowns)


def edges(workflow: workflows.Workflow) -> dict[str, list[str]]:
    """Return for each task, by its name without the entry point, those that it waits for."""
    names = {task.id: task.name.removeprefix("main") for task in workflow.tasks}
    return {names[task.id]: [names[parent] for parent in task.parents] for task in workflow.tasks}
