"""`kube_pod_*` and `kube_node_*` as kube-state-metrics exports them, for the simulated nodes.

Pods that are not bound yet belong to no node and are not here.
"""

import re
from collections.abc import Iterable

from lab import clocks
from lab.kubelet import nodes, pods, statuses
from lab.kubelet.exporters import observations
from lab.kubelet.exporters.pages import Page

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
QUALITIES = ("BestEffort", "Burstable", "Guaranteed")


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
            said = "true" if condition.status else "false"
            # Of a node that is not heard of the API server says: unknown.
            holds = status == (said if node.reachable else "unknown")
            page.gauge(
                "kube_node_status_condition",
                "The condition of a cluster node, as its kubelet says it while it is heard of.",
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
        host_ip=member.host_address,
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
    created = clocks.unix_s(pod.created_at)
    page.gauge("kube_pod_created", "Unix creation timestamp.", created, **own)
    page.gauge("kube_pod_start_time", "Start time in unix timestamp.", int(view.seen_at), **own)
    for phase in PHASES:
        holds = float(view.phase == phase)
        page.gauge("kube_pod_status_phase", "The pod's current phase.", holds, **own, phase=phase)
    for condition in ("true", "false", "unknown"):
        holds = float(condition == ("true" if view.ready else "false"))
        about = "Describes whether the pod is ready to serve requests."
        page.gauge("kube_pod_status_ready", about, holds, **own, condition=condition)
    for quality in QUALITIES:
        holds, about = float(pod.qos == quality), "The pods current qosClass."
        page.gauge("kube_pod_status_qos_class", about, holds, **own, qos_class=quality)
    about = "Describes the restart policy in use by this pod."
    page.gauge("kube_pod_restart_policy", about, 1, **own, type=pod.restart_policy)
    if view.reason:
        about = "The pod status reasons."
        page.gauge("kube_pod_status_reason", about, 1, **own, reason=view.reason)
    ended = [run.ended_at for run in view.runs if run.ended_at is not None]
    if view.phase in statuses.ENDED and ended:
        about = "Completion time in unix timestamp."
        page.gauge("kube_pod_completion_time", about, int(max(ended)), **own)
    for kind, containers in (("", pod.containers), ("init_", pod.init_containers)):
        for container in containers:
            _container(page, container, {**own, "node": pod.node}, kind=kind)
    for run in view.runs:
        _run(page, pod, run, own, waits=view.waits(run))


def _container(page: Page, container: pods.Container, own: dict[str, str], *, kind: str) -> None:
    labels = {**own, "container": container.name}
    about = "The number of requested request resource by a container."
    for resource, unit, amount in _amounts(container.requests):
        page.gauge(
            f"kube_pod_{kind}container_resource_requests",
            about,
            amount,
            **labels,
            resource=resource,
            unit=unit,
        )
    about = "The number of requested limit resource by a container."
    family = f"kube_pod_{kind}container_resource_limits"
    if container.limit_cpu_m is not None:
        cores = container.limit_cpu_m / 1000
        page.gauge(family, about, cores, **labels, resource="cpu", unit="core")
    if container.limit_memory_bytes is not None:
        amount = container.limit_memory_bytes
        page.gauge(family, about, amount, **labels, resource="memory", unit="byte")


def _run(page: Page, pod: pods.Pod, run: statuses.Run, own: dict[str, str], *, waits: str) -> None:
    labels = {**own, "container": run.name}
    began = run.started_at is not None
    digest = f"simulated://{statuses.container_id(pod, run)}" if began else ""
    page.gauge(
        "kube_pod_container_info",
        "Information about a container in a pod.",
        1,
        **labels,
        image=run.image,
        image_spec=run.image,
        image_id=run.image if began else "",
        container_id=digest,
    )
    if run.running and run.started_at is not None:
        about = "Start time in unix timestamp for a pod container."
        page.gauge("kube_pod_container_state_started", about, int(run.started_at), **labels)
    if waits:
        about = "Describes the reason the container is currently in waiting state."
        family = "kube_pod_container_status_waiting_reason"
        page.gauge(family, about, 1, **labels, reason=waits)
    page.counter(
        "kube_pod_container_status_restarts_total",
        "The number of container restarts per container.",
        run.restarts,
        **labels,
    )
    for family, holds in (
        ("kube_pod_container_status_ready", run.ready),
        ("kube_pod_container_status_running", run.running),
        ("kube_pod_container_status_terminated", run.end is not None and not waits),
        ("kube_pod_container_status_waiting", bool(waits)),
    ):
        page.gauge(family, "Describes the state of the container.", float(holds), **labels)
    if run.end is not None and not waits:
        page.gauge(
            "kube_pod_container_status_terminated_reason",
            "Describes the reason the container is currently in terminated state.",
            1,
            **labels,
            reason=run.end.reason,
        )
    if last := (run.state() if waits else run.last).get("terminated"):
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
