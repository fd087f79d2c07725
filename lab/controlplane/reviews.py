"""What `status` and `nodes` say: a lab's state joined with what processes and nodes use now."""

import msgspec
from msgspec import structs

from lab import apis
from lab.controlplane import components, configurations, probes, processes, states
from lab.kubelet import pods
from tiphys.models.domain import quantities

ENDED = ("Succeeded", "Failed")
PAGE = "1000"
"""Pods asked for in one call."""


class ProcessReview(msgspec.Struct, frozen=True, kw_only=True):
    """One component and what its process has used since it was started."""

    component: states.Component
    cpu_s: float | None = None
    memory_bytes: int | None = None
    """Resident."""
    uptime_s: float | None = None


class NodeReview(msgspec.Struct, frozen=True, kw_only=True):
    """One node: what it offers, and what pods that have not ended request of it."""

    name: str
    ready: bool
    instance_type: str
    rack: str
    cpu_m: int
    """Allocatable."""
    memory_bytes: int
    """Allocatable."""
    requested_cpu_m: int = 0
    requested_memory_bytes: int = 0
    pods: int = 0


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Which times run at the lab's speed, which were set instead, and which are wall time."""

    speed: float
    simulated_s: float
    """Simulated seconds since the lab was started."""
    scaled: tuple[str, ...]
    chosen: tuple[str, ...]
    wall: tuple[str, ...]


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """All that `status` shows."""

    running: bool
    state: states.State
    """As it was written; of a lab that crashed, as it is now (see `as_it_is`)."""
    processes: list[ProcessReview]
    times: Times
    nodes: list[NodeReview] | None
    """None where the API server does not answer."""


WALL = (
    "API calls, watches, scheduling cycles",
    "CronWorkflows and CronJobs",
    "times written into objects and judged by Argo or Kubernetes (timeout, activeDeadlineSeconds "
    "of workflows, retry back-off, ttlStrategy, podGC delay, termination grace)",
    "leases and heartbeats, and with them when a node counts as lost (node-monitor-grace-period, "
    "50 s, looked at each 5 s)",
    "token lifetimes, dead-man bounds",
    "Argo's waits for lost task results (2 and 10 min)",
)


def review(state: states.State, *, nodes: list[NodeReview] | None) -> Review:
    """Return all that `status` shows; `nodes` is None where the API server does not answer."""
    known = as_it_is(state)
    return Review(
        running=state.running,
        state=known,
        processes=of_processes(known),
        times=times(known),
        nodes=nodes,
    )


def as_it_is(state: states.State) -> states.State:
    """Return the state of a lab, without the processes that have ended since it was written.

    Where the supervisor lives, that is an end which it has not written down: it does so within
    milliseconds, but cannot while the disk is full.
    """
    alive = {item for item in state.processes() if item.alive}
    ended = states.Phase.CRASHED if state.running else states.Phase.GONE
    components = tuple(
        item
        if item.process in alive or (state.running and item.process is None)
        else structs.replace(item, phase=ended, process=None)
        for item in state.components
    )
    if state.running:
        return structs.replace(state, components=components)
    return structs.replace(state, phase=ended, supervisor=None, components=components)


def of_processes(state: states.State) -> list[ProcessReview]:
    """Return each component with what its process uses."""
    return [_of_process(item) for item in state.components]


def times(state: states.State) -> Times:
    """Return what this lab's speed holds for."""
    speed = state.asked.speed
    return Times(
        speed=speed,
        simulated_s=state.clock.now_s(),
        scaled=(
            "the work of tasks, start of pods, image pulls, transfers",
            "what the simulated kubelet judges: activeDeadlineSeconds of pods, restart back-off",
            f"Argo's requeue: {components.REQUEUE_S / speed:.3g} s of wall time "
            f"for {components.REQUEUE_S:g} s",
            f"Argo's notice to waiters of a semaphore: "
            f"{components.SEMAPHORE_NOTIFY_S / speed:.3g} s of wall time "
            f"for {components.SEMAPHORE_NOTIFY_S:g} s",
            f"the stay of pods on a lost node (default tolerationSeconds): "
            f"{components.toleration_wall_s(speed)} s of wall time for "
            f"{components.TOLERATION_S:g} s (1 s at least)",
            "evictions from lost nodes (node-eviction-rate): "
            f"{components.EVICTED_NODES_PER_S * speed:g} nodes a second of wall time "
            f"for {components.EVICTED_NODES_PER_S:g}",
        ),
        chosen=(
            f"kube-scheduler's back-off: {configurations.BACKOFF_S} s of wall time "
            "(its default is 1 to 10 s)",
            "Argo's sleep of 1 s after each update of a workflow: "
            + ("as it is" if speed == 1 else "left out (INFORMER_WRITE_BACK)"),
        ),
        wall=WALL,
    )


async def nodes(api: apis.Api) -> list[NodeReview]:
    """Return every node with what is requested of it, by name."""
    listed = await api.get("/api/v1/nodes")
    totals: dict[str, tuple[int, int, int]] = {}
    params = {"limit": PAGE, "fieldSelector": "spec.nodeName!="}
    while True:
        page = await api.get("/api/v1/pods", params=params)
        for pod in page.get("items") or ():
            if pod["status"].get("phase") not in ENDED:
                name = pod["spec"]["nodeName"]
                cpu_m, memory_bytes, count = totals.get(name, (0, 0, 0))
                more = pods.read(pod).requests
                totals[name] = (cpu_m + more.cpu_m, memory_bytes + more.memory_bytes, count + 1)
        if not (token := page["metadata"].get("continue")):
            break
        params["continue"] = token
    reviews = [_of_node(node, totals) for node in listed.get("items") or ()]
    return sorted(reviews, key=lambda review: review.name)


def _of_process(component: states.Component) -> ProcessReview:
    used = processes.usage(component.process) if component.process else None
    if used is None:
        return ProcessReview(component=component)
    return ProcessReview(
        component=component,
        cpu_s=used.cpu_s,
        memory_bytes=used.memory_bytes,
        uptime_s=used.uptime_s,
    )


def _of_node(node: apis.Object, totals: dict[str, tuple[int, int, int]]) -> NodeReview:
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    allocatable = node["status"].get("allocatable") or {}
    cpu_m, memory_bytes, count = totals.get(name, (0, 0, 0))
    return NodeReview(
        name=name,
        ready=probes.is_ready(node),
        instance_type=labels.get("node.kubernetes.io/instance-type", ""),
        rack=labels.get("topology.kubernetes.io/rack", ""),
        cpu_m=quantities.cpu_m(allocatable.get("cpu", "0")),
        memory_bytes=quantities.memory_bytes(allocatable.get("memory", "0")),
        requested_cpu_m=cpu_m,
        requested_memory_bytes=memory_bytes,
        pods=count,
    )
