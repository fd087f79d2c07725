"""The physics in real time: tasks compute on simulated nodes, and a timer says when one has ended.

One engine for all nodes (they share racks and the object store); it is moved to the present
whenever somebody comes, goes or asks, and at the time of its next event.
"""

import asyncio
import logging
import pickle
from dataclasses import dataclass
from typing import Any

import msgspec

from lab import catalogs, clocks, truths
from lab.kubelet import nodes
from tiphys.models.physics import clusters, engines, tasks

logger = logging.getLogger(__name__)


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What something has used; amounts add up, peaks do not."""

    cpu_core_s: float = 0.0
    disk_read_bytes: float = 0.0
    disk_written_bytes: float = 0.0
    disk_ops: float = 0.0
    net_bytes: float = 0.0
    gpu_s: float = 0.0
    memory_byte_s: float = 0.0
    memory_peak_bytes: float = 0.0
    memory_current_peak_bytes: float = 0.0

    @property
    def read_share(self) -> float:
        """Part of the disk's bytes that was read."""
        total = self.disk_read_bytes + self.disk_written_bytes
        return self.disk_read_bytes / total if total else 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            cpu_core_s=self.cpu_core_s + other.cpu_core_s,
            disk_read_bytes=self.disk_read_bytes + other.disk_read_bytes,
            disk_written_bytes=self.disk_written_bytes + other.disk_written_bytes,
            disk_ops=self.disk_ops + other.disk_ops,
            net_bytes=self.net_bytes + other.net_bytes,
            gpu_s=self.gpu_s + other.gpu_s,
            memory_byte_s=self.memory_byte_s + other.memory_byte_s,
            memory_peak_bytes=max(self.memory_peak_bytes, other.memory_peak_bytes),
            memory_current_peak_bytes=max(
                self.memory_current_peak_bytes, other.memory_current_peak_bytes
            ),
        )


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How one computation ended: `Completed`, `OOMKilled` or `Evicted`, when, and what it used."""

    reason: str
    at_s: float
    usage: Usage


class Computations:
    """Everything that computes on the nodes of one cluster."""

    def __init__(self, engine: engines.Engine, clock: clocks.SimClock) -> None:
        self.engine = engine
        self.ended: dict[str, End] = {}
        """Ends that nobody waited for yet: of tasks that ran on while the kubelet restarted."""
        self.totals: dict[str, Usage] = {}
        """By node: of everything that ended on it."""
        self._clock = clock
        self._waiting: dict[str, asyncio.Future[End]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._adoptable = set(engine.running)
        self._frozen, self._frozen_turns = b"", -1
        self._closed = False

    async def run(self, task: tasks.Task, *, node: str) -> End:
        """Compute a task to its end; one that runs already is waited for.

        When the caller is cancelled, the task goes on until `stop` is called.
        """
        if (end := self.ended.pop(task.key, None)) is not None:
            return end
        future = asyncio.get_running_loop().create_future()
        self._waiting[task.key] = future
        if task.key in self._adoptable:
            self._adoptable.remove(task.key)
        else:
            self.engine.start(task, node=node, at_s=self._clock.now_s())
        self.settle()
        try:
            return await future
        finally:
            self._waiting.pop(task.key, None)

    def stop(self, key: str) -> Usage:
        """Take a task away; returns what it had used."""
        if self._closed:
            return Usage()
        ended = self.engine.stop(key, at_s=self._clock.now_s())
        if ended is not None:
            self._add(ended)
        self.settle()
        if ended is None:
            late = self.ended.pop(key, None)
            return late.usage if late else Usage()
        return usage(ended.usage)

    def resize(self, prefix: str, bounds: "Bounds") -> None:
        """Hold the running tasks whose keys begin with `prefix` to other bounds."""
        for key in self.engine.running:
            if key.startswith(prefix):
                self.engine.resize(key, bounds.asked, at_s=self._clock.now_s())
        self.settle()

    def held_bytes(self, prefix: str, *, node: str) -> float:
        """Return the working sets of the running tasks whose keys begin with `prefix`."""
        found = self.engine.readings(self._clock.now_s(), node=node)
        self.settle()
        return sum(
            reading.memory_working_set_bytes for reading in found if reading.key.startswith(prefix)
        )

    def settle(self) -> None:
        """Move the engine to the present, tell who has ended, and set the timer anew."""
        if self._closed:
            return
        for ended in self.engine.advance(self._clock.now_s()):
            if ended.reason is engines.Reason.STOPPED:
                continue
            self._add(ended)
            end = End(reason=ended.reason.value, at_s=ended.at_s, usage=usage(ended.usage))
            future = self._waiting.get(ended.key)
            if future is not None and not future.done():
                future.set_result(end)
            else:
                self.ended[ended.key] = end
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        next_s = self.engine.next_s()
        if next_s < float("inf"):
            delay = max(0.0, self._clock.wall_duration(next_s - self._clock.now_s()))
            self._timer = asyncio.get_running_loop().call_later(delay, self.settle)

    def _add(self, ended: engines.Ended) -> None:
        total = self.totals.get(ended.node, Usage())
        self.totals[ended.node] = total + usage(ended.usage)

    def forsake(self) -> None:
        """Take away what ran before the restart and nobody has come for."""
        for key in self._adoptable:
            self.stop(key)
        self._adoptable.clear()
        self.ended.clear()

    def frozen(self) -> bytes:
        """Return the engine, to be continued by another process of the same program.

        As long as nobody comes or goes in it, an earlier copy becomes the same by going on to the
        present, so that one is kept.
        """
        self.settle()
        if self._frozen_turns != self.engine.turns:
            self._frozen, self._frozen_turns = _pickled(self.engine), self.engine.turns
        return self._frozen

    def close(self) -> None:
        """Stand still: nothing ends or changes any more (the process is about to end)."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()


def _pickled(engine: engines.Engine) -> bytes:
    # The default protocol takes half as long again.
    return pickle.dumps(engine, protocol=pickle.HIGHEST_PROTOCOL)


def usage(measured: engines.Usage) -> Usage:
    """Return the physics' usage in the form that is remembered."""
    return Usage(
        cpu_core_s=measured.cpu_core_s,
        disk_read_bytes=measured.disk_read_bytes,
        disk_written_bytes=measured.disk_written_bytes,
        disk_ops=measured.disk_ops,
        net_bytes=measured.net_bytes,
        gpu_s=measured.gpu_s,
        memory_byte_s=measured.memory_byte_s,
        memory_peak_bytes=measured.memory_peak_bytes,
        memory_current_peak_bytes=measured.memory_current_peak_bytes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What a task's container asks for, and what it may take at most (None: no limit)."""

    cpu_m: int
    cpu_limit_m: int | None
    memory_bytes: int
    memory_limit_bytes: int | None

    @property
    def asked(self) -> tasks.Asked:
        """The same as the physics takes it."""
        limit = self.cpu_limit_m
        return tasks.Asked(
            cpu_request_cores=self.cpu_m / 1000,
            cpu_limit_cores=None if limit is None else limit / 1000,
            memory_request_bytes=self.memory_bytes,
            memory_limit_bytes=self.memory_limit_bytes,
        )


def task(
    truth: truths.Truth,
    *,
    key: str,
    scope: str,
    bounds: Bounds,
    attempt: int = 0,
    run: str = "",
    gpus: tuple[int, ...] = (),
) -> tasks.Task:
    """Return a truth as the physics takes it.

    `scope` names the workflow among all that run: its tasks know one another by it.
    """
    asked = bounds.asked
    return tasks.Task(
        key=key,
        name=f"{scope}.{truth.task}",
        attempt=attempt,
        run=run,
        template=truth.template,
        cpu_s=truth.cpu_s,
        parallelism=truth.parallelism,
        memory_traffic_bytes_per_s=truth.memory_traffic_bytes_per_s,
        memory_sensitivity=truth.memory_sensitivity,
        reads=tuple(tasks.Read(file=read.file, bytes=read.bytes) for read in truth.reads),
        written_bytes=truth.written_bytes,
        disk_ops=truth.disk_ops,
        store_bytes=truth.store_bytes,
        sibling_bytes=truth.sibling_bytes,
        round_trips=truth.round_trips,
        siblings=tuple(f"{scope}.{sibling}" for sibling in truth.siblings),
        gpu_s=truth.gpu_s,
        memory_curve=truth.memory_curve,
        cpu_request_cores=asked.cpu_request_cores,
        cpu_limit_cores=asked.cpu_limit_cores,
        memory_request_bytes=asked.memory_request_bytes,
        memory_limit_bytes=asked.memory_limit_bytes,
        gpus=gpus,
    )


def cluster(described: catalogs.Cluster) -> clusters.Cluster:
    """Return a cluster of the catalog as the physics takes it."""
    return clusters.Cluster(
        nodes=tuple(_node(place) for place in nodes.places(described)),
        network=clusters.Network(
            rack_uplink_bytes_per_s=described.network.rack_uplink,
            store_bytes_per_s=described.network.object_store,
            rtt_s=described.network.rtt_ms / 1000,
            rtt_between_s=tuple(
                (*_racks(pair), rtt_ms / 1000)
                for pair, rtt_ms in described.network.rtt_ms_between.items()
            ),
        ),
    )


def _racks(pair: str) -> tuple[str, str]:
    one, _, other = pair.partition("/")
    return one, other


def _node(place: nodes.Place) -> clusters.Node:
    group = place.group
    links: dict[str, Any] = {}
    if group.gpus:
        links = {
            "gpu_roots": group.gpus.roots,
            "gpu_speed": group.gpus.speed,
            "gpu_link_bytes_per_s": group.gpus.link_bandwidth,
        }
    return clusters.Node(
        name=place.name,
        hardware=group.instance_type,
        rack=group.rack,
        cores=group.cores,
        memory_bytes=group.memory - nodes.reserved_bytes(group),
        memory_bandwidth_bytes_per_s=group.memory_bandwidth,
        speed=group.speed,
        disk_bytes_per_s=group.disk.bandwidth,
        disk_iops=group.disk.iops,
        disk_burst_bytes=group.disk.burst,
        nic_bytes_per_s=group.nic,
        **links,
    )
