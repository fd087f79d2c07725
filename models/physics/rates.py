"""How fast every task goes on while nothing changes: dx/dt and the shares behind it.

    dx/dt = 1 / (C m / (s c) + D / d + N / v + G + round trips)

A task is in one phase at a time, so on average it uses a resource only for its phase's part of
the cycle. Capacities bind these averages: a task that waits for its disk 55 % of the time leaves
55 % of its cores to others. Every resource then has a level (see `fillings`), and the levels are
found in turn, each exactly, until none moves: usually one to six rounds.
"""

from dataclasses import dataclass

import numpy as np

from . import constants, fillings, links, states
from .clusters import Floats, Ints
from .states import State

ROUNDS = 100
"""At most; what is left then is made to fit by `_within`."""
DAMPED_AFTER = 10
"""Rounds after which the memory slow-down moves by half steps only."""
TOLERANCE = 1e-9
"""Change of any phase, relative to the cycle, at which the rounds end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """What holds until the next event. [T] tasks, [V] nodes, [R] racks."""

    per_s: Floats
    """[T] dx/dt"""
    cores: Floats
    """[T] cores while in the CPU phase (c)."""
    slowdown: Floats
    """[T] memory slow-down (m)."""
    cpu_cores: Floats
    """[T] average cores used."""
    disk_bytes_per_s: Floats
    """[T] average."""
    disk_ops_per_s: Floats
    """[T] average."""
    store_bytes_per_s: Floats
    """[T] average."""
    peer_bytes_per_s: Floats
    """[T] average to siblings off the node."""
    memory_pressure: Floats
    """[V] unhindered demand over sustained memory bandwidth."""
    uplink_bytes_per_s: Floats
    """[R] average over each rack's uplink, of the tasks given."""
    store_total_bytes_per_s: float
    """Average from and to the store, of the tasks given."""

    def part(self, tasks: slice, nodes: slice) -> "Rates":
        """Return the rates of some tasks and nodes; uplinks and store stay those of all."""
        return Rates(
            per_s=self.per_s[tasks],
            cores=self.cores[tasks],
            slowdown=self.slowdown[tasks],
            cpu_cores=self.cpu_cores[tasks],
            disk_bytes_per_s=self.disk_bytes_per_s[tasks],
            disk_ops_per_s=self.disk_ops_per_s[tasks],
            store_bytes_per_s=self.store_bytes_per_s[tasks],
            peer_bytes_per_s=self.peer_bytes_per_s[tasks],
            memory_pressure=self.memory_pressure[nodes],
            uplink_bytes_per_s=self.uplink_bytes_per_s,
            store_total_bytes_per_s=self.store_total_bytes_per_s,
        )


def disk_cap(state: State) -> Floats:
    """Return the bytes/s [V] that each disk serves now: burst while tokens last."""
    nodes = state.machines
    return np.where(state.tokens > 0, nodes.disk_burst_bytes_per_s, nodes.disk_bytes_per_s)


def latency(pressure: Floats) -> Floats:
    """Return the rise of memory latency at a demand over the sustained bandwidth; 1 at rest.

    Served bandwidth follows demand up to the knee and then bends towards 1 without reaching it:
    served(p) = k + (1 - k)(1 - exp(-(p - k) / (1 - k))); latency is demand over served.
    """
    knee = constants.MEMORY_KNEE
    beyond = np.maximum(pressure - knee, 0.0) / (1 - knee)
    served = knee + (1 - knee) * -np.expm1(-beyond)
    return np.where(pressure > knee, pressure / served, 1.0)


def rates(state: State, *, shared: bool = True) -> Rates:
    """Return the rates of all tasks.

    `shared=False` leaves out contention for rack uplinks and the store: for some nodes of a cluster
    on their own, when the caller knows that those links do not bind.
    """
    work, node, nodes = state.work, state.node, state.machines
    cpu_s, cap, weight = work[states.CPU_S], work[states.CPU_CAP], work[states.CPU_WEIGHT]
    disk_bytes, disk_ops = work[states.DISK_BYTES], work[states.DISK_OPS]
    bytes_cap = disk_cap(state)
    network = links.Links(state, shared=shared)

    cores, slow = cap, np.ones_like(cap)
    cpu_alone = cpu_s / cap
    disk_alone = np.maximum(disk_bytes / bytes_cap[node], disk_ops / nodes.disk_iops[node])
    disk, net = disk_alone, network.alone
    fixed = work[states.GPU_S] + work[states.ROUND_TRIP_S]
    fixed = fixed + np.maximum(constants.LEAST_TASK_S - (cpu_alone + disk + net + fixed), 0.0)

    has_traffic, has_disk = bool(work[states.TRAFFIC_BYTES].any()), bool(disk_alone.any())
    has_net = bool(net.any())
    pressure = np.zeros(nodes.count)
    cpu_level = bytes_level = ops_level = None
    bytes_phase = ops_phase = np.zeros_like(cap)
    for turn in range(ROUNDS):
        before = (cpu_s * slow / cores, disk, net, ops_phase)
        rest = disk + net + fixed
        if has_traffic:
            last = slow
            slow, pressure = _slowdown(state, cpu_s / cores, rest=rest)
            if turn > DAMPED_AFTER:
                slow = (slow + last) / 2
        loaded = cpu_s * slow
        cpu_level = fillings.levels(
            loaded,
            ((loaded, cpu_alone * slow),),
            rest=rest,
            weight=weight,
            group=node,
            capacity=nodes.cores,
            guess=cpu_level,
        )
        cores = cap if cpu_level is None else np.minimum(cap, weight * cpu_level[node])
        cpu = loaded / cores
        if has_disk:
            rest = cpu + net + fixed
            bytes_level = fillings.levels(
                disk_bytes,
                ((disk_bytes, np.maximum(disk_alone, ops_phase)),),
                rest=rest,
                weight=None,
                group=node,
                capacity=bytes_cap,
                guess=bytes_level,
            )
            bytes_phase = fillings.phase(disk_bytes, bytes_level, node)
            ops_level = fillings.levels(
                disk_ops,
                ((disk_ops, np.maximum(disk_alone, bytes_phase)),),
                rest=rest,
                weight=None,
                group=node,
                capacity=nodes.disk_iops,
                guess=ops_level,
            )
            ops_phase = fillings.phase(disk_ops, ops_level, node)
            disk = np.maximum(disk_alone, np.maximum(bytes_phase, ops_phase))
        if has_net:
            net = network.share(cpu + disk + fixed)
        # The CPU saw the old disk and net, memory the old cores, bytes the old operations; the rest
        # was solved with what holds now.
        allowed = TOLERANCE * (cpu + disk + net + fixed)
        settled = True
        for now, then, needed in (
            (cpu, before[0], has_traffic),
            (disk, before[1], has_disk),
            (net, before[2], has_net),
            (ops_phase, before[3], bytes_level is not None),
        ):
            if needed and (np.abs(now - then) > allowed).any():
                settled = False
                break
        if settled and not network.moved:
            break
    per_s = _within(state, network, 1 / (cpu + disk + net + fixed), slow=slow, bytes_cap=bytes_cap)
    return Rates(
        per_s=per_s,
        cores=cores,
        slowdown=slow,
        cpu_cores=cpu_s * slow * per_s,
        disk_bytes_per_s=disk_bytes * per_s,
        disk_ops_per_s=disk_ops * per_s,
        store_bytes_per_s=work[states.STORE_BYTES] * per_s,
        peer_bytes_per_s=work[states.PEER_BYTES] * work[states.OFF_NODE] * per_s,
        memory_pressure=pressure,
        uplink_bytes_per_s=network.uplink_use(per_s),
        store_total_bytes_per_s=float((work[states.STORE_BYTES] * per_s).sum()),
    )


def _slowdown(state: State, cpu: Floats, *, rest: Floats) -> tuple[Floats, Floats]:
    """Return the memory slow-down [T] and pressure [V]; `cpu` [T] is the CPU phase without it.

    Latency slows by sensitivity. If tasks then still ask for more than the bandwidth, each that has
    traffic is slowed by the same further amount until the bytes fit.
    """
    node, count = state.node, state.machines.count
    bandwidth = state.machines.memory_bandwidth
    traffic, sensitivity = state.work[states.TRAFFIC_BYTES], state.work[states.SENSITIVITY]
    pressure = fillings.sums(node, traffic / (cpu + rest), count) / bandwidth
    if not (pressure > constants.MEMORY_KNEE).any():
        return np.ones_like(cpu), pressure
    slow = 1 + sensitivity * (latency(pressure)[node] - 1)
    moves = traffic > 0
    extra = np.zeros(count)
    for _ in range(fillings.STEPS):
        cycle = cpu * (slow + np.where(moves, extra[node], 0.0)) + rest
        served = traffic / cycle
        over = fillings.sums(node, served, count) - bandwidth
        if not (over > fillings.TOLERANCE * bandwidth).any():
            break
        fall = fillings.sums(node, served * cpu / cycle, count)
        extra = extra + np.where(over > 0, over / np.where(fall > 0, fall, 1.0), 0.0)
    return slow + np.where(moves, extra[node], 0.0), pressure


def _within(
    state: State, network: links.Links, per_s: Floats, *, slow: Floats, bytes_cap: Floats
) -> Floats:
    """Return the rates, lowered where rounding or unfinished rounds left a capacity exceeded."""
    work, node, nodes = state.work, state.node, state.machines
    scale = np.ones_like(per_s)
    for load, capacity in (
        (work[states.CPU_S] * slow, nodes.cores),
        (work[states.TRAFFIC_BYTES], nodes.memory_bandwidth),
        (work[states.DISK_BYTES], bytes_cap),
        (work[states.DISK_OPS], nodes.disk_iops),
    ):
        scale = _lowered(scale, load, per_s, group=node, capacity=capacity)
    for load, group, capacity in network.loads:
        scale = _lowered(scale, load, per_s, group=group, capacity=capacity)
    return per_s * scale


def _lowered(
    scale: Floats, load: Floats, per_s: Floats, *, group: Ints, capacity: Floats
) -> Floats:
    use = fillings.sums(group, load * per_s, len(capacity))
    if not (use > capacity).any():
        return scale
    fits = np.minimum(1.0, capacity / np.where(use > 0, use, 1.0))[group]
    return np.where(load > 0, np.minimum(scale, fits), scale)
