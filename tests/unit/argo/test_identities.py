"""What makes two tasks the same over runs."""

from tests.unit.argo.builders import (
    Object,
    a_container,
    a_dag,
    a_node,
    a_pod,
    a_status,
    a_step,
    a_task,
    a_template,
    a_workflow,
    the_steps,
)
from tiphys.argo import identities
from tiphys.argo import pods as argo_pods
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import workflows


def source(obj: Object) -> str:
    """Return the source of a Workflow."""
    return argo_workflows.read(obj).source


def test_the_shape_of_a_run_does_not_change_what_its_tasks_are() -> None:
    """Programs write other steps, DAGs and arguments each time."""
    narrow = a_workflow(a_dag(a_task("a")))
    wide = a_workflow(
        a_dag(*(a_task(f"t{n}") for n in range(9))),
        arguments={"parameters": [{"name": "sample", "value": "7"}]},
        priority=4,
    )
    wide["metadata"]["name"] = "generated-x7k2p"
    assert source(narrow) == source(wide)


def test_other_work_is_another_source() -> None:
    """A changed command or request makes a new digest."""
    first = a_workflow(the_steps([a_step("a")]), a_template("work", container={"image": "x"}))
    later = a_workflow(
        the_steps([a_step("a")]), a_template("work", container={"image": "x", "args": ["-v"]})
    )
    assert source(first) != source(later)


def test_a_pod_takes_the_identity_of_its_task() -> None:
    """The Workflow knows where a template came from."""
    step = a_step("align", templateRef={"name": "lib", "template": "leaf"})
    stored = {"namespaced/lib/leaf": a_template("leaf")}
    node = {**a_node("wf[0].align"), "id": "wf-1234"}
    obj = a_workflow(the_steps([step]), status=a_status(node, storedTemplates=stored))
    pod = argo_pods.read(a_pod(a_container("main"), node="wf[0].align"))
    assert "wftmpl/genomics/lib#leaf@image-of-leaf" == str(
        identities.of(pod, argo_workflows.read(obj))
    )


def test_a_pod_whose_workflow_is_not_known_yet_matches_nothing() -> None:
    """Its source stays empty; its image is that of main."""
    pod = argo_pods.read(a_pod(a_container("wait"), a_container("main")))
    assert workflows.Identity(source="", template="align", image="image-of-main") == (
        identities.of(pod, None)
    )


def test_a_set_is_known_by_its_main_or_its_first_member() -> None:
    """One image stands for all."""
    template = {"name": "set", "containerSet": {"containers": []}}
    init = (a_container("init", template=template),)
    several = argo_pods.read(a_pod(a_container("a"), a_container("b"), init=init))
    with_main = argo_pods.read(a_pod(a_container("a"), a_container("main"), init=init))
    assert ("image-of-a", "image-of-main") == (
        identities.image(several),
        identities.image(with_main),
    )


def test_pods_that_are_no_task_have_none() -> None:
    """Agents, collectors of artifacts, foreign pods."""
    pod = argo_pods.read(
        a_pod(a_container("main"), labels={"workflows.argoproj.io/component": "agent"})
    )
    assert None is identities.of(pod, None)
