"""How Argo's examples, and the pods and Workflows that came of them, read: against `tests/goldens`.

After a change on purpose: `python -m tests.goldens write`, and look at the difference.
"""

from typing import Any

import pytest

from tests.goldens import argo
from tests.unit.argo import laws
from tiphys.argo import pods as argo_pods
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import pods, workflows

INPUTS = argo.load()
TEXTS = argo.texts(INPUTS)
EVER = [*INPUTS["halfway"], *INPUTS["ended"]]
LEAVES = ("Pod", "HTTP", "Plugin", "Suspend")


def read(objs: list[dict[str, Any]]) -> list[workflows.Workflow]:
    """Return recorded Workflows; what they ran stands in their status, so no templates."""
    return [argo_workflows.read(obj) for obj in objs]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_reads_as_before(name: str) -> None:
    """Every task and pod, line by line."""
    assert (argo.FOLDER / name).read_text() == TEXTS[name]


def test_the_goldens_are_complete_and_small() -> None:
    """All examples of the module are there, and most of them ran; nothing is left over."""
    kinds = [example["kind"] for example in INPUTS["examples"].values()]
    assert (218, 190) == (len(kinds), kinds.count("Workflow"))
    assert 175 <= len(INPUTS["ended"])
    assert sorted(TEXTS) == [path.name for path in argo.files()]
    assert argo.MOST_BYTES > sum(path.stat().st_size for path in argo.FOLDER.iterdir())


@pytest.mark.parametrize("name", sorted(INPUTS["examples"]))
def test_every_example_keeps_the_laws(name: str) -> None:
    """Acyclic, parents first, unique ids."""
    obj = argo.submitted(INPUTS["examples"][name])
    if obj:
        objects = argo.by_key(INPUTS["examples"].values())
        laws.check(argo_workflows.read(obj, templates=objects))


def test_every_recorded_state_keeps_the_laws() -> None:
    """Half way and at the end."""
    for workflow in read(EVER):
        laws.check(workflow)


def test_every_node_that_runs_something_is_a_task() -> None:
    """What Argo made is found in the spec, with an identity; nothing is missed or added twice."""
    for obj, workflow in zip(EVER, read(EVER), strict=True):
        tasks = {task.id: task for task in workflow.tasks}
        for node in (obj["status"].get("nodes") or {}).values():
            if node["type"] in LEAVES:
                assert tasks[node["id"]].identity is not None, node["name"]


def test_nothing_began_before_what_it_waits_for_had_ended() -> None:
    """The edges are those that Argo kept to; daemons only had to begin."""
    for workflow in read(INPUTS["ended"]):
        tasks = {task.id: task for task in workflow.tasks}
        for task in workflow.tasks:
            if task.started_at is None or task.state is workflows.TaskState.SKIPPED:
                continue
            for parent in (tasks[name] for name in task.parents):
                if parent.daemon or parent.state is workflows.TaskState.SKIPPED:
                    continue
                assert parent.ended_at is not None, (workflow.name, task.name, parent.name)
                assert parent.ended_at <= task.started_at, (workflow.name, task.name, parent.name)


def test_what_was_foretold_came_about() -> None:
    """Where a spec leaves nothing open, the tasks that it tells are those that there were."""
    foretold = 0
    for obj in INPUTS["ended"]:
        unstarted = {**obj, "status": {}}
        stored = obj["status"].get("storedWorkflowTemplateSpec") or obj["status"].get(
            "storedTemplates"
        )
        before = argo_workflows.read(unstarted)
        if before.unknowns or stored:
            continue
        after = argo_workflows.read(obj)
        first = {task.name for task in before.tasks}
        later = {task.name for task in after.tasks}
        assert first <= later, after.name
        assert all(argo_is_retry(name) for name in later - first), (after.name, later - first)
        foretold += 1
    assert 130 <= foretold


def argo_is_retry(name: str) -> bool:
    """Say whether a task is (in) another attempt: a number alone in parentheses."""
    return any(part.partition(")")[0].isdigit() for part in name.split("(")[1:])


def test_identities_outlive_generated_names_and_runs() -> None:
    """A Workflow under another name, with other times and arguments, has the same identities."""
    for obj in INPUTS["examples"].values():
        if obj["kind"] != "Workflow":
            continue
        metadata = {"name": "another", "namespace": "argo", "creationTimestamp": None}
        again = {**obj, "metadata": metadata}
        first, later = argo_workflows.read(obj), argo_workflows.read(again)
        assert [task.identity for task in first.tasks] == [task.identity for task in later.tasks]


def test_pods_and_their_workflows_agree() -> None:
    """A pod's node id is that of a task, with the same template and the image that it runs."""
    tasks = {(workflow.name, task.id): task for workflow in read(EVER) for task in workflow.tasks}
    met = 0
    for pod in (argo_pods.read(obj) for obj in INPUTS["pods"]):
        task = tasks.get((pod.workflow, pod.node_id))
        if task is None or pod.role not in (pods.PodRole.TASK, pods.PodRole.EXIT_HANDLER):
            continue
        met += 1
        assert task.exit_handler == (pod.role is pods.PodRole.EXIT_HANDLER)
        assert task.template == pod.template or not pod.template
        if task.identity is not None and task.identity.image:
            assert task.identity.image in [each.image for each in pod.containers]
    assert 50 <= met
