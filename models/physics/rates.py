"""How fast every task goes on while nothing changes: dx/dt and the shares behind it.

    dx/dt = 1 / (C m / (s c) + D / d + N / v + G + round trips)

A task is in one phase at a time, so on average it uses a resource only for its phase's part of
the cycle. Capacities bind these averages: a task that waits for its disk 55 % of the time leaves
55 % of its cores to others.
"""

from dataclasses import dataclass

import numpy as np

from . import balances, capacities, constants, groups, slowdowns, states
from .capacities import Link, Local
from .clusters import Floats
from .states import State


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
    phases: Floats
    """[P, T] part of its time that each task is in each phase; the rest is the fixed one."""
    prices: Floats
    """[K, V] seconds per unit at which each capacity of a node is shared; 0 where it is enough."""

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
            phases=self.phases[:, tasks],
            prices=self.prices[:, nodes],
        )


def rates(state: State, *, shared: bool = True, start: Floats | None = None) -> Rates:
    """Return the rates of all tasks.

    `shared=False` leaves out contention for rack uplinks and the store: for some nodes of a cluster
    on their own, when the caller knows that those links do not bind. `start` [K, V] are the prices
    of an earlier state of the same nodes: it saves time and changes nothing but the last digits.
    """
    work, node, nodes = state.work, state.node, state.machines
    times = capacities.alone(state)
    fixed = work[states.GPU_S] + work[states.ROUND_TRIP_S]
    cycle = times.sum(axis=0) + fixed
    fixed = fixed + np.maximum(constants.LEAST_TASK_S - cycle, 0.0)
    per_s = 1 / np.maximum(cycle, constants.LEAST_TASK_S)
    slow = np.ones_like(per_s)
    local = capacities.local(state)
    bus = slowdowns.Bus(
        node=node,
        traffic=work[states.TRAFFIC_BYTES],
        sensitivity=work[states.SENSITIVITY],
        bandwidth=nodes.memory_bandwidth,
    )

    # Whatever slows a task lowers all its uses: what is enough for all tasks alone never binds.
    pressure = bus.pressure(1 / per_s)
    full = (local.use(per_s) > local.amounts).any(axis=0) | (pressure > constants.MEMORY_KNEE)
    links = [
        link
        for link in (capacities.links(state) if shared else [])
        if (link.use(per_s) > link.amount).any()
    ]
    prices = np.zeros_like(local.amounts)
    if links:
        balance = balances.with_links(local, links, times, fixed=fixed, bus=bus, start=start)
        times, slow, prices = balance.times, balance.slow, balance.prices
    elif full.all():
        balance = balances.of_nodes(local, times, fixed=fixed, bus=bus, start=start)
        times, slow, prices = balance.times, balance.slow, balance.prices
    elif full.any():
        places, tasks = np.flatnonzero(full), np.flatnonzero(full[node])
        balance = balances.of_nodes(
            local.of_nodes(places, tasks),
            times[:, tasks],
            fixed=fixed[tasks],
            bus=bus.of_nodes(places, tasks),
            start=None if start is None else start[:, places],
        )
        times[:, tasks], slow[tasks] = balance.times, balance.slow
        prices[:, places] = balance.prices
    if links or full.any():
        cycle = times.sum(axis=0) + fixed
        pressure = bus.pressure(cycle - times[capacities.CPU] * (1 - 1 / slow))
        per_s = _within(local, links, bus, 1 / cycle, slow=slow)

    loaded, cpu = work[states.CPU_S] * slow, times[capacities.CPU]
    store = work[states.STORE_BYTES] * per_s
    off_rack = work[states.OFF_RACK] * work[states.PEER_BYTES] * per_s
    return Rates(
        per_s=per_s,
        cores=np.where(cpu > 0, loaded / np.where(cpu > 0, cpu, 1.0), work[states.CPU_CAP]),
        slowdown=slow,
        cpu_cores=loaded * per_s,
        disk_bytes_per_s=work[states.DISK_BYTES] * per_s,
        disk_ops_per_s=work[states.DISK_OPS] * per_s,
        store_bytes_per_s=store,
        peer_bytes_per_s=work[states.PEER_BYTES] * work[states.OFF_NODE] * per_s,
        memory_pressure=pressure,
        uplink_bytes_per_s=groups.sums(
            nodes.rack[node], store + off_rack, len(nodes.uplink_bytes_per_s)
        ),
        store_total_bytes_per_s=float(store.sum()),
        phases=times * per_s,
        prices=prices,
    )


def _within(
    local: Local, links: list[Link], bus: slowdowns.Bus, per_s: Floats, *, slow: Floats
) -> Floats:
    """Return the rates, lowered where rounding or unfinished rounds left a capacity exceeded."""
    scale = np.ones_like(per_s)
    taken = local.use(per_s, slow=slow)
    over = taken > local.amounts
    if over.any():
        fits = np.where(over, local.amounts / np.where(over, taken, 1.0), 1.0)
        for load, fit in zip(local.loads, fits, strict=True):
            scale = np.where(load > 0, np.minimum(scale, fit[local.node]), scale)
    excess = np.maximum(bus.pressure(1 / per_s), 1.0)
    scale = np.where(bus.traffic > 0, np.minimum(scale, 1 / excess[bus.node]), scale)
    for link in links:
        excess = np.maximum(link.use(per_s) / link.amount, 1.0)
        scale = np.where(link.load > 0, np.minimum(scale, 1 / excess[link.group]), scale)
    return per_s * scale
