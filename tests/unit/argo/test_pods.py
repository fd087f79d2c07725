"""Pods by the role of each container, in every layout that Argo has."""

import pytest

from tests.unit.argo import builders
from tests.unit.argo.builders import CREATED_AT, a_container, a_pod
from tiphys.argo import names
from tiphys.argo import pods as argo_pods
from tiphys.models.domain import amounts, errors, pods
from tiphys.models.domain.pods import ContainerRole, PodRole

ALIGN = {"name": "align", "container": {"image": "x"}}
INIT = a_container("init", template=ALIGN)
WAIT = a_container("wait")
MAIN = a_container("main")


def roles(pod: dict[str, object]) -> dict[str, ContainerRole]:
    """Return the role of each container by name."""
    read = argo_pods.read(pod)
    return {each.name: each.role for each in (*read.init_containers, *read.containers)}


def test_a_task_is_known_by_its_owner_and_its_node() -> None:
    """Workflow, node, path, template and attempt come from what Argo wrote."""
    pod = argo_pods.read(a_pod(WAIT, MAIN, init=(INIT,), node="wf[0].align(0:a)(2)"))
    expected = ("wf", "u-wf", "wf-1234", "wf[0].align(0:a)(2)", "align", 2)
    assert PodRole.TASK is pod.role
    assert expected == (
        pod.workflow,
        pod.workflow_uid,
        pod.node_id,
        pod.task,
        pod.template,
        pod.attempt,
    )
    assert ("genomics/wf-align-1234", CREATED_AT) == (pod.key, pod.created_at)


def test_the_legacy_layout() -> None:
    """Init, plugin, the author's own init, wait, main, sidecars and plugins are told apart."""
    pod = a_pod(
        WAIT,
        MAIN,
        a_container("istio-proxy"),
        a_container("artifact-plugin-git"),
        init=(
            INIT,
            a_container("init-artifact-git"),
            a_container("prepare"),
            a_container("log", restartPolicy="Always"),
        ),
    )
    assert {
        "init": ContainerRole.INIT,
        "init-artifact-git": ContainerRole.ARTIFACT_PLUGIN,
        "prepare": ContainerRole.USER_INIT,
        "log": ContainerRole.SIDECAR,
        "wait": ContainerRole.WAIT,
        "main": ContainerRole.MAIN,
        "istio-proxy": ContainerRole.SIDECAR,
        "artifact-plugin-git": ContainerRole.ARTIFACT_PLUGIN,
    } == roles(pod)


def test_the_layout_without_init_of_argo_4_1() -> None:
    """The supervisor holds the template; there are no init containers."""
    supervisor = a_container("supervisor", template=ALIGN)
    pod = a_pod(
        supervisor, MAIN, a_container("artifact-plugin-git"), volumes=[{"name": "b", "image": {}}]
    )
    assert {
        "supervisor": ContainerRole.SUPERVISOR,
        "main": ContainerRole.MAIN,
        "artifact-plugin-git": ContainerRole.ARTIFACT_PLUGIN,
    } == roles(pod)
    assert ("align", ()) == (
        argo_pods.read(pod).template,
        argo_pods.read(pod).constraints.unmodelled,
    )


def test_members_of_a_container_set() -> None:
    """All of its containers are members, also one called main; what it says in texts is none."""
    template = {"name": "set", "containerSet": {"containers": [{"name": "a"}, {"name": "main"}]}}
    pod = a_pod(
        WAIT, a_container("a"), a_container("main"), init=(a_container("init", template=template),)
    )
    assert (ContainerRole.MEMBER, ContainerRole.MEMBER) == (roles(pod)["a"], roles(pod)["main"])
    quoting = {"name": "q", "script": {"source": '"containerSet":{'}}
    pod = a_pod(WAIT, MAIN, init=(a_container("init", template=quoting),))
    assert ContainerRole.MAIN is roles(pod)["main"]


def test_a_set_whose_template_was_offloaded() -> None:
    """Above 128 KiB the template is elsewhere: then the lack of a main tells."""
    pod = a_pod(WAIT, a_container("a"), init=(a_container("init", template=names.OFFLOADED),))
    assert ContainerRole.MEMBER is roles(pod)["a"]
    assert "align" == argo_pods.read(pod).template


@pytest.mark.parametrize("kind", ["resource", "data"])
def test_resource_and_data_templates_have_no_wait(kind: str) -> None:
    """Argo's executor runs as main."""
    init = a_container("init", template={"name": "align", kind: {}})
    assert {"init": ContainerRole.INIT, "main": ContainerRole.MAIN} == roles(
        a_pod(MAIN, init=(init,))
    )


def test_the_agent() -> None:
    """It has no node; plugins of the executor run beside it."""
    pod = a_pod(
        MAIN,
        a_container("slack-plugin"),
        init=(a_container("init"),),
        labels={names.LABEL_COMPONENT: "agent"},
    )
    pod["metadata"]["annotations"] = {}
    read = argo_pods.read(pod)
    assert (PodRole.AGENT, "", "") == (read.role, read.task, read.template)
    assert {
        "init": ContainerRole.INIT,
        "main": ContainerRole.AGENT,
        "slack-plugin": ContainerRole.SIDECAR,
    } == roles(pod)


def test_collection_of_artifacts() -> None:
    """Such a pod belongs to a task of its own kind; its label names the Workflow."""
    owner = {**builders.WORKFLOW, "kind": "WorkflowArtifactGCTask", "name": "wf-artgc-0"}
    pod = a_pod(a_container("artifact-plugin-git"), MAIN, owner=owner)
    read = argo_pods.read(pod)
    assert (PodRole.ARTIFACT_GC, "wf", "") == (read.role, read.workflow, read.node_id)
    assert {
        "artifact-plugin-git": ContainerRole.ARTIFACT_PLUGIN,
        "main": ContainerRole.ARTIFACT_GC,
    } == roles(pod)


def test_an_exit_handler() -> None:
    """Argo labels its pods."""
    pod = a_pod(WAIT, MAIN, init=(INIT,), labels={names.LABEL_ON_EXIT: "true"}, node="wf.onExit")
    assert PodRole.EXIT_HANDLER is argo_pods.read(pod).role


@pytest.mark.parametrize(
    "owner",
    [
        {**builders.WORKFLOW, "controller": False},
        {**builders.WORKFLOW, "kind": "Job"},
        {**builders.WORKFLOW, "apiVersion": "batch/v1"},
    ],
)
def test_labels_alone_make_no_pod_of_argo(owner: dict[str, object]) -> None:
    """Anybody can set labels and annotations; only a controlling Workflow counts."""
    pod = argo_pods.read(a_pod(MAIN, owner=owner))
    assert (PodRole.FOREIGN, "", "", "") == (pod.role, pod.workflow, pod.node_id, pod.task)


def test_a_pod_that_a_resource_template_made_is_foreign() -> None:
    """A Workflow may own it, but it is no node."""
    pod = a_pod(MAIN)
    del pod["metadata"]["annotations"]
    assert PodRole.FOREIGN is argo_pods.read(pod).role


@pytest.mark.parametrize(
    ("node", "attempt"),
    [
        ("wf", 0),
        ("wf(3)", 3),
        ("wf[0].a", 0),
        ("wf[0].a(0)", 0),
        ("wf[0].a(12)", 12),
        ("wf[0].a(1:x)", 0),
        ("wf[0].a(1:x)(4)", 4),
        ("wf(2).a", 2),
        ("wf(2).a(0)", 0),
        ("wf.a(0:7)", 0),
        ("wf.a(0:3.5)", 0),
    ],
)
def test_attempts(node: str, attempt: int) -> None:
    """The innermost number alone in parentheses; an element of a fan-out is none."""
    assert attempt == names.attempt(node)


@pytest.mark.parametrize(
    ("pod", "template"),
    [
        ("wf-align-99", "align"),
        ("wf-a-b-99", "a-b"),
        ("wf", ""),
        ("other-align-99", ""),
        ("wf-99", ""),
        ("wf-align-x", ""),
        ("wf-" + "a" * 240 + "-99", ""),
    ],
)
def test_templates_in_names_of_pods(pod: str, template: str) -> None:
    """`WORKFLOW-TEMPLATE-HASH`, unless Argo had to cut it."""
    assert template == names.template_of_pod_name(pod, "wf")


def test_times_are_those_of_the_work() -> None:
    """From the start of main, not of wait or the pod, to the end of the last container."""
    pod = argo_pods.read(a_pod(WAIT, MAIN, init=(INIT,), status=builders.ENDED))
    expected = (CREATED_AT + 1, CREATED_AT + 6, CREATED_AT + 21)
    assert expected == (pod.bound_at, pod.started_at, pod.ended_at)
    assert not pod.active


def test_a_pod_that_never_ran_ended_all_the_same() -> None:
    """Rejected or evicted before anything started: its conditions tell when."""
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "conditions": [{"type": "DisruptionTarget", "lastTransitionTime": "2026-11-30T08:01:00Z"}],
    }
    pod = argo_pods.read(a_pod(MAIN, status=status))
    assert (None, CREATED_AT + 60) == (pod.started_at, pod.ended_at)


def test_gates_and_placement() -> None:
    """Gates by name, node, priority and phase as they stand."""
    pod = argo_pods.read(
        a_pod(
            MAIN,
            schedulingGates=[{"name": "other/gate"}, {"name": pods.STEERING_GATE}],
            nodeName="n1",
            priority=-5,
        )
    )
    assert (("other/gate", pods.STEERING_GATE), True) == (pod.gates, pod.gated)
    assert ("n1", -5, pods.Phase.PENDING) == (pod.node, pod.priority, pod.phase)
    assert pod.preempts
    assert not argo_pods.read(a_pod(MAIN, preemptionPolicy="Never")).preempts


def test_a_pod_counts_itself() -> None:
    """Nodes have room for so many pods only."""
    assert 1 == argo_pods.read(a_pod(MAIN)).requests.other(amounts.PODS)


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        ("text", "pod: expected an object"),
        ({"spec": []}, "spec: expected an object"),
        ({"spec": {"containers": {}}}, "spec.containers: expected a list"),
        ({"spec": {"containers": [1]}}, r"spec.containers\[0\]: expected an object"),
        ({"spec": {"containers": [{"name": 5}]}}, "name: expected text"),
        ({"spec": {"priority": "high"}}, "spec.priority: expected a whole number"),
        ({"spec": {"nodeSelector": {"a": 1}}}, "spec.nodeSelector.a: expected text"),
        ({"metadata": {"creationTimestamp": "noon"}}, "metadata.creationTimestamp: expected a t"),
    ],
)
def test_another_shape_is_a_named_error(pod: dict[str, object], place: str) -> None:
    """The error says where and what was expected."""
    with pytest.raises(errors.InputError, match=place):
        argo_pods.read(pod)
