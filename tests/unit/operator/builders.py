"""Caches, pods, nodes and workflows for tests of the operator, in one line each."""

from typing import Any

from tests.fakes import pods as fake_pods
from tiphys.models.domain import amounts, clusters, decisions, pods, workflows
from tiphys.operator import caches, objects

WORKFLOW_UID = fake_pods.WORKFLOW_UID
AT = 1_796_000_000.0


def a_node(name: str, *, cpu_m: int = 8000, kind: str = "m5", rack: str = "a") -> clusters.Node:
    """Return a node with 32 GiB."""
    return clusters.Node(
        name=name,
        labels=(
            ("node.kubernetes.io/instance-type", kind),
            ("topology.kubernetes.io/rack", rack),
        ),
        allocatable=amounts.Amounts(cpu_m, 32 * 2**30, (("pods", 110),)),
    )


def a_seen(name: str, *, cpu_m: int = 1000, gated: bool = False, **fields: Any) -> objects.Seen:
    """Return a task's pod of the workflow `exome` as the caches keep it."""
    given: dict[str, Any] = {
        "namespace": "genomics",
        "uid": f"uid-{name}",
        "role": pods.PodRole.TASK,
        "workflow": "exome",
        "workflow_uid": WORKFLOW_UID,
        "node_id": f"exome-{name}",
        "template": "align",
        "requests": amounts.Amounts(cpu_m, 2**30, (("pods", 1),)),
        "gates": (pods.STEERING_GATE,) if gated else (),
        "created_at": AT,
        "containers": (pods.Container(name="main", role=pods.ContainerRole.MAIN, image="bwa:1"),),
        **fields,
    }
    labels = ((decisions.GATED_LABEL, "true"), (decisions.LABEL, "true")) if gated else ()
    return objects.Seen(pod=pods.Pod(name=name, **given), version="1", labels=labels)


def a_run(*tasks: str, uid: str = WORKFLOW_UID, **fields: Any) -> objects.Run:
    """Return the workflow `exome`, whose tasks follow one another."""
    found = [
        workflows.Task(
            id=f"exome-{name}",
            name=f"exome.{name}",
            template="align",
            identity=an_identity(),
            cpu_m=1000,
            parents=(f"exome-{tasks[place - 1]}",) if place else (),
        )
        for place, name in enumerate(tasks)
    ]
    return objects.Run(
        workflow=workflows.Workflow(
            namespace="genomics",
            name="exome",
            uid=uid,
            tasks=tuple(found),
            created_at=AT,
            source="wftmpl/genomics/exome",
        ),
        **fields,
    )


def an_identity() -> workflows.Identity:
    """Return the identity of these tasks."""
    return workflows.Identity(source="wftmpl/genomics/exome", template="align", image="bwa:1")


def filled(*nodes: clusters.Node, opted_in: bool = True) -> caches.Caches:
    """Return caches that have been read, with some nodes and the namespace genomics."""
    cached = caches.Caches()
    for node in nodes:
        cached.nodes.put(node.name, node)
    annotations = (("tiphys.dev/enabled", "true"),) if opted_in else ()
    cached.namespaces.put(
        "genomics", objects.Layer(name="genomics", uid="ns", annotations=annotations)
    )
    for cache in cached.all:
        cache.retain(tuple(cache.keys()))
        cache.heard_at, cache.current = AT, True
    return cached
