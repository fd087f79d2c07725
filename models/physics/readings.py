"""What can be read of running and ended tasks and of nodes: frozen values for callers."""

from dataclasses import dataclass
from enum import Enum

from . import caches, capacities, states
from .rates import Rates
from .states import State


class Reason(Enum):
    """Why a task ended."""

    COMPLETED = "Completed"
    OOM_KILLED = "OOMKilled"
    """Its working set crossed its limit, or memory ran out faster than a kubelet looks (137)."""
    EVICTED = "Evicted"
    """The node ran short of memory and it was furthest above its request."""
    STOPPED = "Stopped"
    """The caller took it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a task has used since it started."""

    progress: float
    cpu_core_s: float
    disk_read_bytes: float
    """From the disk; hits of the page cache are not in it."""
    disk_written_bytes: float
    disk_ops: float
    net_bytes: float
    """To and from the store, and to siblings on other nodes."""
    gpu_s: float
    memory_byte_s: float
    """Of the working set."""
    memory_peak_bytes: float
    """Of the working set."""
    memory_current_peak_bytes: float
    """Of working set and page cache (cgroup's memory.peak)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A task is gone from its node."""

    key: str
    node: str
    at_s: float
    reason: Reason
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A running task at one time."""

    key: str
    node: str
    usage: Usage
    memory_working_set_bytes: float
    memory_current_bytes: float
    """Working set and the page cache that is charged to it."""
    cpu_cores: float
    """Average cores used now."""
    cpu_share: float
    """Part of its time in the CPU phase: 0 to 1."""
    cpu_wait_share: float
    """Part of its time that contention for cores costs it; the rest of `cpu_share` it computes."""
    disk_share: float
    """Part of its time in the disk phase."""
    memory_slowdown: float
    rate_per_s: float
    """Progress a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReading:
    """A node at one time."""

    node: str
    tasks: int
    cpu_cores: float
    memory_working_set_bytes: float
    page_cache_bytes: float
    memory_pressure: float
    """Unhindered demand over sustained memory bandwidth."""
    disk_bytes_per_s: float
    disk_ops_per_s: float
    disk_busy: float
    """Part of the tighter of both caps that is used: 0 to 1."""
    disk_burst_left_bytes: float
    net_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What would happen at present rates if a task began on a node."""

    own_s: float
    """How long the task would take."""
    others_s: float
    """How much later all other tasks of the node would end, in sum."""


def usages(state: State) -> list[Usage]:
    """Return what each task of a node has used."""
    used = state.used
    return [
        Usage(
            progress=x,
            cpu_core_s=column[states.USED_CPU],
            disk_read_bytes=column[states.USED_READ],
            disk_written_bytes=column[states.USED_DISK] - column[states.USED_READ],
            disk_ops=column[states.USED_OPS],
            net_bytes=column[states.USED_NET],
            gpu_s=column[states.USED_GPU],
            memory_byte_s=column[states.USED_MEMORY],
            memory_peak_bytes=column[states.USED_PEAK],
            memory_current_peak_bytes=column[states.USED_CURRENT_PEAK],
        )
        for x, column in zip(state.x.tolist(), used.T.tolist(), strict=True)
    ]


def of_tasks(state: State, flow: Rates, keys: list[str], *, node: str) -> list[Reading]:
    """Return the tasks of one node."""
    held = state.held.bytes
    current = held + caches.charged(state.cache, state.count)
    cpu_share = flow.phases[capacities.CPU]
    waits = cpu_share * (1 - flow.cores / state.work[states.CPU_CAP])
    return [
        Reading(
            key=key,
            node=node,
            usage=usage,
            memory_working_set_bytes=float(held[i]),
            memory_current_bytes=float(current[i]),
            cpu_cores=float(flow.cpu_cores[i]),
            cpu_share=float(cpu_share[i]),
            cpu_wait_share=max(0.0, float(waits[i])),
            disk_share=float(flow.phases[capacities.DISK, i]),
            memory_slowdown=float(flow.slowdown[i]),
            rate_per_s=float(flow.per_s[i]),
        )
        for i, (key, usage) in enumerate(zip(keys, usages(state), strict=True))
    ]


def of_node(state: State, flow: Rates, *, node: str) -> NodeReading:
    """Return a node; `state` and `flow` hold it alone."""
    disk, ops = float(flow.disk_bytes_per_s.sum()), float(flow.disk_ops_per_s.sum())
    cap = float(capacities.disk_bytes_per_s(state)[0])
    return NodeReading(
        node=node,
        tasks=state.count,
        cpu_cores=float(flow.cpu_cores.sum()),
        memory_working_set_bytes=float(state.held.bytes.sum()),
        page_cache_bytes=float(state.cache.resident.sum()),
        memory_pressure=float(flow.memory_pressure[0]),
        disk_bytes_per_s=disk,
        disk_ops_per_s=ops,
        disk_busy=max(disk / cap, ops / float(state.machines.disk_iops[0])),
        disk_burst_left_bytes=float(state.tokens[0]),
        net_bytes_per_s=float((flow.store_bytes_per_s + flow.peer_bytes_per_s).sum()),
    )
