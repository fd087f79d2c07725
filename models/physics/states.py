"""The state of nodes and their tasks as arrays: what `rates`, `next_event`, `advance` work on.

T tasks, V nodes. What a task still is lies in one matrix `work` [K, T], one row per quantity (the
row numbers are constants below): adding and removing a task is then one copy, not thirty.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import caches, constants, curves, networks
from .clusters import Cluster, Floats, Ints, Machines, machines
from .tasks import Task

CPU_S = 0
"""Core-seconds on this node without memory slow-down: C x noise / (speed x affinity)."""
DISK_BYTES = 1
"""Bytes that reach the disk: written, and read past the page cache. The cache keeps it current."""
DISK_OPS = 2
"""Operations that reach the disk."""
STORE_BYTES = 3
LOADS = 4
"""The first rows are what a unit of progress takes of a node's capacities, in their order."""
CPU_CAP = 4
"""Most cores while on CPU: min(parallelism, limit, cores of the node)."""
CPU_WEIGHT = 5
"""Cores requested, the least weight at least."""
TRAFFIC_BYTES = 6
"""Memory traffic of the whole task."""
SENSITIVITY = 7
PEER_BYTES = 8
"""Bytes to siblings."""
OFF_NODE = 9
"""Part of PEER_BYTES that leaves the node."""
OFF_RACK = 10
"""Part of PEER_BYTES that leaves the rack."""
PEER_CAP = 11
"""Most bytes/s to siblings by PCIe links alone."""
ROUND_TRIP_S = 12
"""All round trips to siblings."""
GPU_S = 13
"""G x noise / speed of the GPUs."""
WRITTEN_BYTES = 14
ALL_OPS = 15
"""Operations if nothing were cached."""
READ_BYTES = 16
"""Bytes of all files, cached or not."""
MEMORY_REQUEST = 17
MEMORY_LIMIT = 18
"""inf without a limit."""
ROWS = 19

USED_CPU = 0
"""Core-seconds."""
USED_DISK = 1
"""Bytes read from and written to the disk."""
USED_OPS = 2
USED_NET = 3
"""Bytes to the store and to siblings off the node."""
USED_MEMORY = 4
"""Byte-seconds of the working set."""
USED_GPU = 5
"""GPU seconds busy."""
USED_PEAK = 6
"""Largest working set so far, bytes."""
USED_CURRENT_PEAK = 7
"""Largest working set plus page cache so far, bytes (cgroup's memory.peak)."""
USED_READ = 8
"""Bytes read from the disk; the rest of USED_DISK was written."""
USES = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Everything that is true at one time; values never change in place."""

    machines: Machines
    node: Ints
    """[T] index of each task's node."""
    work: Floats
    """[K, T]"""
    held: curves.Values
    """[T] working sets at `x`."""
    curves: curves.Curves
    """[T, M]"""
    x: Floats
    """[T] progress."""
    used: Floats
    """[U, T] integrals and peaks since the start of each task."""
    tokens: Floats
    """[V] bytes left in each disk's bucket."""
    cache: caches.Cache
    at_s: float
    """Simulated time."""

    @property
    def count(self) -> int:
        """T."""
        return len(self.x)


def empty(nodes: Machines, *, at_s: float = 0.0) -> State:
    """Return nodes without tasks; token buckets are full, page caches empty."""
    return State(
        machines=nodes,
        node=np.zeros(0, dtype=np.intp),
        work=np.zeros((ROWS, 0)),
        curves=curves.none(),
        x=np.zeros(0),
        held=curves.at(curves.none(), np.zeros(0)),
        used=np.zeros((USES, 0)),
        tokens=nodes.disk_burst_bytes.copy(),
        cache=caches.empty(),
        at_s=at_s,
    )


def column(
    task: Task,
    *,
    cores: float,
    speed: float,
    gpu_speed: float = 1.0,
    work_factor: float = 1.0,
    path: networks.Path = networks.ALONE,
) -> Floats:
    """Return one task's column [K] of `work`.

    `speed` is the node's times the template's affinity; `work_factor` the noise of this attempt;
    `path` leads to its siblings. Nothing of its files is cached yet (`caches.demand` says it).
    """
    values = np.zeros(ROWS)
    read = sum(item.bytes for item in task.reads)
    values[CPU_S] = task.cpu_s * work_factor / speed
    values[ASKED_ROWS] = asked_rows(task, cores=cores)
    values[TRAFFIC_BYTES] = task.memory_traffic_bytes_per_s * task.cpu_s * work_factor
    values[SENSITIVITY] = task.memory_sensitivity
    values[DISK_BYTES] = task.written_bytes + read
    values[DISK_OPS] = values[ALL_OPS] = task.disk_ops
    values[STORE_BYTES] = task.store_bytes
    values[PEER_BYTES] = task.sibling_bytes
    values[PATH_ROWS] = path_rows(task, path)
    values[GPU_S] = task.gpu_s * work_factor / gpu_speed
    values[WRITTEN_BYTES] = task.written_bytes
    values[READ_BYTES] = read
    return values


ASKED_ROWS = [CPU_CAP, CPU_WEIGHT, MEMORY_REQUEST, MEMORY_LIMIT]
"""The rows that change when a task is resized in place."""


def asked_rows(task: Task, *, cores: float) -> Floats:
    """Return a task's values of `ASKED_ROWS` on a node with so many cores."""
    cap = min(task.parallelism, cores)
    if task.cpu_limit_cores is not None:
        cap = min(cap, task.cpu_limit_cores)
    weight = max(task.cpu_request_cores, constants.LEAST_CPU_WEIGHT_CORES)
    limit = np.inf if task.memory_limit_bytes is None else task.memory_limit_bytes
    return np.array([cap, weight, task.memory_request_bytes, limit])


PATH_ROWS = [OFF_NODE, OFF_RACK, PEER_CAP, ROUND_TRIP_S]
"""The rows that change when siblings come and go."""


def path_rows(task: Task, path: networks.Path) -> Floats:
    """Return a task's values of `PATH_ROWS`."""
    round_trip_s = task.round_trips * path.rtt_s
    return np.array([path.off_node, path.off_rack, path.link_bytes_per_s, round_trip_s])


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A task that joins a node."""

    task: Task
    node: int
    column: Floats
    """[K], see `column`."""


def add(state: State, arrivals: Sequence[Arrival]) -> State:
    """Return the state with more tasks, appended in order; pages that are cached now are hits."""
    if not arrivals:
        return state
    first = state.count
    fresh = np.zeros((USES, len(arrivals)))
    cache = caches.join(
        state.cache,
        [
            caches.Opening(task=first + index, node=arrival.node, file=read.file, bytes=read.bytes)
            for index, arrival in enumerate(arrivals)
            for read in arrival.task.reads
        ],
        at_s=state.at_s,
    )
    shapes = [
        curves.curve(arrival.task.memory_curve, limit_bytes=arrival.task.memory_limit_bytes)
        for arrival in arrivals
    ]
    joined = curves.join([state.curves, *shapes] if first else shapes)
    x = np.concatenate((state.x, np.zeros(len(arrivals))))
    held = curves.at(joined, x)
    fresh[USED_PEAK] = fresh[USED_CURRENT_PEAK] = held.bytes[first:]
    added = State(
        machines=state.machines,
        node=np.concatenate((state.node, np.array([a.node for a in arrivals], dtype=np.intp))),
        work=np.concatenate((state.work, np.stack([a.column for a in arrivals], axis=1)), axis=1),
        curves=joined,
        x=x,
        held=held,
        used=np.concatenate((state.used, fresh), axis=1),
        tokens=state.tokens,
        cache=cache,
        at_s=state.at_s,
    )
    return _with_demand(added)


def remove(state: State, indexes: Sequence[int]) -> State:
    """Return the state without some tasks; the others keep their order."""
    if not indexes:
        return state
    keep = np.ones(state.count, dtype=bool)
    keep[list(indexes)] = False
    kept = np.flatnonzero(keep)
    return _with_demand(
        State(
            machines=state.machines,
            node=state.node[kept],
            work=state.work[:, kept],
            curves=state.curves.take(kept),
            x=state.x[kept],
            held=state.held.take(kept),
            used=state.used[:, kept],
            tokens=state.tokens,
            cache=caches.leave(state.cache, kept, at_s=state.at_s),
            at_s=state.at_s,
        )
    )


def _with_demand(state: State) -> State:
    """Set the rows of the disk to what the page cache leaves; fresh arrays only, never shared."""
    if state.cache.readers:
        with_cache(state.work, state.cache)
    return state


def with_cache(work: Floats, cache: caches.Cache) -> None:
    """Write what reaches the disk into `work` (in place: for arrays that nobody else holds)."""
    missed = caches.demand(cache, work.shape[1])
    everything = work[READ_BYTES] + work[WRITTEN_BYTES]
    work[DISK_BYTES] = work[WRITTEN_BYTES] + missed
    work[DISK_OPS] = work[ALL_OPS] * work[DISK_BYTES] / np.where(everything > 0, everything, 1.0)
    bare = everything == 0
    if bare.any():
        work[DISK_OPS] = np.where(bare, work[ALL_OPS], work[DISK_OPS])


def of_cluster(cluster: Cluster, *, at_s: float = 0.0) -> State:
    """Return a whole cluster without tasks."""
    return empty(machines(cluster), at_s=at_s)
