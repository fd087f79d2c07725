"""What tasks share: the capacities of nodes, racks and store, and how phases depend on them.

A task is in one of these phases at a time: CPU, disk, store, peer, and a fixed one (GPU, round
trips). A capacity governs some of them through terms: at price p (1 / level), a term makes its
phase take at least `coefficient x p` seconds per unit of progress, whatever else slows it.

Flows to the store cross the node's NIC, the rack's uplink and the store, which stands outside the
racks; flows to siblings cross the NIC with the part that leaves the node, the uplink with the part
that leaves the rack, and PCIe links as a cap. All flows over a link rise together until it is full;
one that is held elsewhere leaves its part to the others (progressive filling).
"""

from dataclasses import dataclass

import numpy as np

from . import groups, states
from .clusters import Floats, Ints
from .states import State

CPU, DISK, STORE, PEER = range(4)
"""The phases, P = 4."""
CORES, BYTES, OPS, NIC = range(4)
"""The capacities of a node, K = 4."""
TERM_CAPACITY = np.array([CORES, BYTES, OPS, NIC, NIC])
"""Of each of the M = 5 terms of a node."""
TERM_PHASE = np.array([CPU, DISK, DISK, STORE, PEER])


@dataclass(frozen=True, slots=True, kw_only=True)
class Local:
    """The capacities inside V nodes and what T tasks take of them."""

    node: Ints
    """[T]"""
    loads: Floats
    """[K, T] what a unit of progress takes."""
    amounts: Floats
    """[K, V] per second."""
    coefficients: Floats
    """[M, T]"""

    def use(self, per_s: Floats, *, slow: Floats | None = None) -> Floats:
        """Return the use [K, V] at rates [T]; `slow` [T] stretches what is taken of the cores."""
        taken = self.loads * per_s
        if slow is not None:
            taken[CORES] *= slow
        count = self.amounts.shape[1]
        if count == 1:
            return np.asarray(taken.sum(axis=1, keepdims=True), dtype=np.float64)
        return np.array([groups.sums(self.node, row, count) for row in taken])

    def of_nodes(self, nodes: Ints, tasks: Ints) -> "Local":
        """Return some nodes and all of their tasks, renumbered."""
        position = np.zeros(self.amounts.shape[1], dtype=np.intp)
        position[nodes] = np.arange(len(nodes))
        return Local(
            node=position[self.node[tasks]],
            loads=self.loads[:, tasks],
            amounts=self.amounts[:, nodes],
            coefficients=self.coefficients[:, tasks],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A capacity that nodes share, in G places: rack uplinks, or the store."""

    load: Floats
    """[T]"""
    terms: tuple[tuple[int, Floats], ...]
    """(phase, coefficient [T])"""
    group: Ints
    """[T]"""
    amount: Floats
    """[G]"""

    def use(self, per_s: Floats) -> Floats:
        """Return the use [G] at rates [T]."""
        return groups.sums(self.group, self.load * per_s, len(self.amount))


def disk_bytes_per_s(state: State) -> Floats:
    """Return the bytes/s [V] that may be drawn from each disk now: burst while tokens last."""
    nodes = state.machines
    return np.where(state.tokens > 0, nodes.disk_burst_bytes_per_s, nodes.disk_bytes_per_s)


def alone(state: State) -> Floats:
    """Return the seconds [P, T] of each phase per unit of progress when nothing is shared.

    A disk with a token bucket always serves at its burst rate: an empty bucket holds the average
    of what is drawn to the cap (`local`), and a task that works elsewhere in between stays below.
    """
    work, node, nodes = state.work, state.node, state.machines
    phases = np.zeros((4, state.count))
    phases[CPU] = work[states.CPU_S] / work[states.CPU_CAP]
    bucket = nodes.disk_burst_bytes > 0
    fastest = np.where(bucket, nodes.disk_burst_bytes_per_s, nodes.disk_bytes_per_s)
    phases[DISK] = np.maximum(
        work[states.DISK_BYTES] / fastest[node],
        work[states.DISK_OPS] / nodes.disk_iops[node],
    )
    store, peer = work[states.STORE_BYTES], work[states.PEER_BYTES]
    if store.any() or peer.any():
        nic = nodes.nic_bytes_per_s[node]
        uplink = nodes.uplink_bytes_per_s[nodes.rack][node]
        phases[STORE] = store / np.minimum(np.minimum(nic, uplink), nodes.store_bytes_per_s)
        slowest = np.where(work[states.OFF_NODE] > 0, nic, np.inf)
        slowest = np.where(work[states.OFF_RACK] > 0, np.minimum(slowest, uplink), slowest)
        phases[PEER] = peer / np.minimum(slowest, work[states.PEER_CAP])
    return phases


def local(state: State) -> Local:
    """Return the capacities inside the nodes."""
    work, nodes = state.work, state.machines
    loads = work[: states.LOADS].copy()
    coefficients = np.empty((5, state.count))
    coefficients[:3] = loads[:3]
    coefficients[0] /= work[states.CPU_WEIGHT]
    coefficients[3] = loads[NIC]
    leaving = work[states.OFF_NODE] > 0
    peer = work[states.PEER_BYTES]
    coefficients[4] = np.where(leaving, peer, 0.0)
    loads[NIC] += work[states.OFF_NODE] * peer
    return Local(
        node=state.node,
        loads=loads,
        amounts=np.array(
            (nodes.cores, disk_bytes_per_s(state), nodes.disk_iops, nodes.nic_bytes_per_s)
        ),
        coefficients=coefficients,
    )


def links(state: State) -> list[Link]:
    """Return the capacities that nodes share."""
    work, nodes = state.work, state.machines
    store, peer = work[states.STORE_BYTES], work[states.PEER_BYTES]
    off_rack = work[states.OFF_RACK]
    return [
        Link(
            load=store + off_rack * peer,
            terms=((STORE, store), (PEER, np.where(off_rack > 0, peer, 0.0))),
            group=nodes.rack[state.node],
            amount=nodes.uplink_bytes_per_s,
        ),
        Link(
            load=store,
            terms=((STORE, store),),
            group=np.zeros(state.count, dtype=np.intp),
            amount=np.array([nodes.store_bytes_per_s]),
        ),
    ]
