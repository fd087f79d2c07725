"""`container_*` as cAdvisor in a kubelet exports them: one series per container, pod and node."""

from collections.abc import Iterable

from lab.kubelet import computations, pods, statuses
from lab.kubelet.exporters import observations
from lab.kubelet.exporters.pages import Page

PERIOD_US = 100_000
"""CFS period of a container with a CPU limit (Kubernetes default)."""
SHARES_PER_CORE = 1024
LEAST_SHARES = 2


def write(
    page: Page,
    node: observations.Node,
    members: Iterable[observations.Pod],
    *,
    speed: float,
    at: float,
) -> None:
    """Write one node's page. Series of a pod end when its containers do, as cgroups do."""
    group = node.place.group
    page.gauge("machine_cpu_cores", "Number of logical CPU cores.", group.cores)
    page.gauge("machine_memory_bytes", "Amount of memory installed on the machine.", group.memory)
    root = {"id": "/", "container": "", "image": "", "name": "", "namespace": "", "pod": ""}
    _usage(page, node.usage, speed=speed, labels=root)
    _memory(page, node.working_set_bytes, node.cache_bytes, node.usage, labels=root)
    for member in members:
        if not member.running:
            continue
        _pod(page, member, speed=speed, at=at)


def _pod(page: Page, member: observations.Pod, *, speed: float, at: float) -> None:
    pod = member.pod
    own = {"namespace": pod.namespace, "pod": pod.name}
    cgroup = _cgroup(pod)
    whole = {"id": cgroup, "container": "", "image": "", "name": "", **own}
    _usage(page, member.usage, speed=speed, labels=whole)
    _memory(page, member.working_set_bytes, member.cache_bytes, member.usage, labels=whole)
    half = member.usage.net_bytes / 2 / speed
    for direction in ("receive", "transmit"):
        page.counter(
            f"container_network_{direction}_bytes_total",
            "Cumulative count of bytes; the simulation knows both directions together.",
            half,
            interface="eth0",
            **whole,
        )
    for run in member.view.runs:
        if not run.running or run.started_at is None:
            continue
        container = next(item for item in pod.containers if item.name == run.name)
        labels = {
            "id": f"{cgroup}/cri-containerd-{statuses.container_id(pod, run)}.scope",
            "container": run.name,
            "image": run.image,
            "name": statuses.container_id(pod, run),
            **own,
        }
        if container is pod.main:
            _usage(page, member.usage, speed=speed, labels=labels)
            _memory(page, member.working_set_bytes, member.cache_bytes, member.usage, labels=labels)
            page.counter(
                "container_oom_events_total",
                "Count of out of memory events observed for the container.",
                member.oom_kills,
                **labels,
            )
        _spec(page, container, labels=labels)
        page.gauge(
            "container_start_time_seconds",
            "Start time of the container since unix epoch in seconds.",
            run.started_at,
            **labels,
        )
        page.gauge(
            "container_last_seen", "Last time a container was seen by the exporter.", at, **labels
        )


def _cgroup(pod: pods.Pod) -> str:
    """Return a pod's cgroup as systemd names it: guaranteed pods lie beside the other classes."""
    name = f"pod{pod.uid.replace('-', '_')}.slice"
    if pod.qos == "Guaranteed":
        return f"/kubepods.slice/kubepods-{name}"
    quality = f"kubepods-{pod.qos.lower()}"
    return f"/kubepods.slice/{quality}.slice/{quality}-{name}"


def _usage(page: Page, usage: computations.Usage, *, speed: float, labels: dict[str, str]) -> None:
    cpu_s = usage.cpu_core_s / speed
    about = "Cumulative cpu time consumed in seconds, scaled to wall time."
    page.counter("container_cpu_usage_seconds_total", about, cpu_s, cpu="total", **labels)
    read_share = usage.read_share
    device = {"device": "/dev/sda", **labels}
    for name, amount in (
        ("container_fs_reads_bytes_total", usage.disk_read_bytes),
        ("container_fs_writes_bytes_total", usage.disk_written_bytes),
        ("container_fs_reads_total", usage.disk_ops * read_share),
        ("container_fs_writes_total", usage.disk_ops * (1 - read_share)),
    ):
        page.counter(name, "Cumulative count, scaled to wall time.", amount / speed, **device)


def _memory(
    page: Page,
    working_set: float,
    cache: float,
    usage: computations.Usage,
    *,
    labels: dict[str, str],
) -> None:
    for name, about, amount in (
        ("container_memory_working_set_bytes", "Current working set in bytes.", working_set),
        ("container_memory_rss", "Size of RSS in bytes.", working_set),
        ("container_memory_cache", "Number of bytes of page cache memory.", cache),
        ("container_memory_usage_bytes", "Current memory usage in bytes.", working_set + cache),
        (
            "container_memory_max_usage_bytes",
            "Maximum memory usage recorded in bytes.",
            usage.memory_current_peak_bytes,
        ),
    ):
        page.gauge(name, about, amount, **labels)


def _spec(page: Page, container: pods.Container, *, labels: dict[str, str]) -> None:
    shares = max(LEAST_SHARES, container.requests.cpu_m * SHARES_PER_CORE // 1000)
    page.gauge("container_spec_cpu_shares", "CPU share of the container.", shares, **labels)
    if container.limit_cpu_m is not None:
        quota = container.limit_cpu_m * PERIOD_US // 1000
        page.gauge("container_spec_cpu_quota", "CPU quota of the container.", quota, **labels)
        page.gauge("container_spec_cpu_period", "CPU period.", PERIOD_US, **labels)
    limit = container.limit_memory_bytes or 0
    about = "Memory limit for the container; 0 without one."
    page.gauge("container_spec_memory_limit_bytes", about, limit, **labels)
