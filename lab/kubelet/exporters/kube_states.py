"""`kube_pod_*` and `kube_node_*` as kube-state-metrics exports them, for the simulated nodes.

Pods that are not bound yet belong to no node and are not here.
"""

import re
from collections.abc import Iterable

from lab.kubelet import nodes, pods, statuses
from lab.kubelet.exporters import observations
from lab.kubelet.exporters.pages import Page

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


def write(
    page: Page, found: Iterable[observations.Node], members: Iterable[observations.Pod]
) -> None:
    """Write the page of all nodes and of all pods bound to them."""
    for node in found:
        _node(page, node)
    for member in members:
        _pod(page, member)


def _node(page: Page, node: observations.Node) -> None:
    place, name = node.place, node.place.name
    group = place.group
    page.gauge(
        "kube_node_info",
        "Information about a cluster node.",
        1,
        node=name,
        internal_ip=place.address,
        os_image="Tiphys lab",
        kernel_version="simulated",
        provider_id=f"lab://{group.zone}/{name}",
        pod_cidr=place.pod_cidr,
    )
    labels = {_label(key): value for key, value in nodes.labels(place).items()}
    about = "Kubernetes labels converted to Prometheus labels."
    page.gauge("kube_node_labels", about, 1, node=name, **labels)
    free = nodes.allocatable(group)
    capacity = pods.Resources(
        cpu_m=group.cores * 1000,
        memory_bytes=int(group.memory),
        storage_bytes=int(group.disk.capacity),
        gpus=free.gpus,
    )
    for family, amounts in (
        ("kube_node_status_capacity", capacity),
        ("kube_node_status_allocatable", free),
    ):
        for resource, unit, amount in _amounts(amounts):
            page.gauge(family, "Resources.", amount, node=name, resource=resource, unit=unit)
        page.gauge(family, "Resources.", group.pods, node=name, resource="pods", unit="integer")
    for condition in node.conditions:
        for status in ("true", "false", "unknown"):
            holds = status == ("true" if condition.status else "false")
            page.gauge(
                "kube_node_status_condition",
                "The condition of a cluster node, as its kubelet says it.",
                float(holds),
                node=name,
                condition=condition.kind,
                status=status,
            )
    for taint in group.taints:
        page.gauge(
            "kube_node_spec_taint",
            "The taint of a cluster node.",
            1,
            node=name,
            key=taint.get("key", ""),
            value=taint.get("value", ""),
            effect=taint.get("effect", ""),
        )


def _pod(page: Page, member: observations.Pod) -> None:
    pod, view = member.pod, member.view
    own = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
    page.gauge(
        "kube_pod_info",
        "Information about pod.",
        1,
        **own,
        node=pod.node,
        pod_ip=view.address,
        host_network="false",
        created_by_kind=pod.owner_kind or "<none>",
        created_by_name=pod.owner_name or "<none>",
        priority_class=pod.priority_class,
    )
    page.gauge(
        "kube_pod_owner",
        "Information about the Pod's owner.",
        1,
        **own,
        owner_kind=pod.owner_kind,
        owner_name=pod.owner_name,
        owner_is_controller="true" if pod.owner_kind else "",
    )
    created = nodes.seconds(pod.created_at)
    page.gauge("kube_pod_created", "Unix creation timestamp.", created, **own)
    page.gauge("kube_pod_start_time", "Start time in unix timestamp.", int(view.seen_at), **own)
    for phase in PHASES:
        holds = float(view.phase == phase)
        page.gauge("kube_pod_status_phase", "The pod's current phase.", holds, **own, phase=phase)
    if view.reason:
        about = "The pod status reasons."
        page.gauge("kube_pod_status_reason", about, 1, **own, reason=view.reason)
    ended = [run.ended_at for run in view.runs if run.ended_at is not None]
    if view.phase in statuses.ENDED and ended:
        about = "Completion time in unix timestamp."
        page.gauge("kube_pod_completion_time", about, int(max(ended)), **own)
    for container in pod.containers:
        _container(page, container, own)
    for run in view.runs:
        _run(page, run, own)


def _container(page: Page, container: pods.Container, own: dict[str, str]) -> None:
    labels = {**own, "container": container.name}
    about = "The number of requested request resource by a container."
    for resource, unit, amount in _amounts(container.requests):
        page.gauge(
            "kube_pod_container_resource_requests",
            about,
            amount,
            **labels,
            resource=resource,
            unit=unit,
        )
    about = "The number of requested limit resource by a container."
    family = "kube_pod_container_resource_limits"
    if container.limit_cpu_m is not None:
        cores = container.limit_cpu_m / 1000
        page.gauge(family, about, cores, **labels, resource="cpu", unit="core")
    if container.limit_memory_bytes is not None:
        amount = container.limit_memory_bytes
        page.gauge(family, about, amount, **labels, resource="memory", unit="byte")


def _run(page: Page, run: statuses.Run, own: dict[str, str]) -> None:
    labels = {**own, "container": run.name}
    page.counter(
        "kube_pod_container_status_restarts_total",
        "The number of container restarts per container.",
        run.restarts,
        **labels,
    )
    for family, holds in (
        ("kube_pod_container_status_ready", run.ready),
        ("kube_pod_container_status_running", run.running),
        ("kube_pod_container_status_terminated", run.end is not None),
        ("kube_pod_container_status_waiting", run.end is None and run.started_at is None),
    ):
        page.gauge(family, "Describes the state of the container.", float(holds), **labels)
    if run.end is not None:
        page.gauge(
            "kube_pod_container_status_terminated_reason",
            "Describes the reason the container is currently in terminated state.",
            1,
            **labels,
            reason=run.end.reason,
        )
    if last := run.last.get("terminated"):
        page.gauge(
            "kube_pod_container_status_last_terminated_reason",
            "Describes the last reason the container was in terminated state.",
            1,
            **labels,
            reason=last["reason"],
        )
        page.gauge(
            "kube_pod_container_status_last_terminated_exitcode",
            "Describes the exit code for the last container in terminated state.",
            last["exitCode"],
            **labels,
        )


def _amounts(amounts: pods.Resources) -> list[tuple[str, str, float]]:
    """Return what is not zero as (resource, unit, amount), named as kube-state-metrics does."""
    every = (
        ("cpu", "core", amounts.cpu_m / 1000),
        ("memory", "byte", float(amounts.memory_bytes)),
        ("ephemeral_storage", "byte", float(amounts.storage_bytes)),
        ("nvidia_com_gpu", "integer", float(amounts.gpus)),
    )
    return [item for item in every if item[2]]


def _label(key: str) -> str:
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)
