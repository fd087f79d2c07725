"""Progressive filling over NICs, rack uplinks and the object store.

Two kinds of flow: to the store (NIC, uplink, store: it stands outside the racks) and to siblings
(NIC for the part off the node, uplink for the part off the rack, PCIe links as a cap). All flows
over a link rise together until the link is full; a flow that is held elsewhere leaves its part.
"""

import numpy as np

from . import fillings, states
from .clusters import Floats, Ints
from .states import State

SETTLED = 1e-9
"""Relative change of a phase that counts as none."""


class Links:
    """The network of one call of `rates`: keeps its levels from round to round."""

    def __init__(self, state: State, *, shared: bool) -> None:
        work, node, nodes = state.work, state.node, state.machines
        self._store, self._peer = work[states.STORE_BYTES], work[states.PEER_BYTES]
        off_node, off_rack = work[states.OFF_NODE], work[states.OFF_RACK]
        self._rack = nodes.rack[node]
        nic, uplink = nodes.nic_bytes_per_s[node], nodes.uplink_bytes_per_s[self._rack]
        leaves_node = np.where(off_node > 0, self._peer, 0.0)
        leaves_rack = np.where(off_rack > 0, self._peer, 0.0)
        none = np.zeros_like(self._peer)
        self._store_alone = self._store / np.minimum(
            np.minimum(nic, uplink), nodes.store_bytes_per_s
        )
        self._peer_alone = np.maximum(
            self._peer / work[states.PEER_CAP], np.maximum(leaves_node / nic, leaves_rack / uplink)
        )
        self._across_racks = self._store + off_rack * self._peer
        whole = np.zeros(state.count, dtype=np.intp)
        # (load, work of the store phase, work of the peer phase, group, capacity)
        self._links: list[tuple[Floats, Floats, Floats, Ints, Floats]] = [
            (
                self._store + off_node * self._peer,
                self._store,
                leaves_node,
                node,
                nodes.nic_bytes_per_s,
            )
        ]
        if shared:
            self._links += [
                (
                    self._across_racks,
                    self._store,
                    leaves_rack,
                    self._rack,
                    nodes.uplink_bytes_per_s,
                ),
                (self._store, self._store, none, whole, np.array([nodes.store_bytes_per_s])),
            ]
        self._levels: list[Floats | None] = [None] * len(self._links)
        self._phases: list[tuple[Floats, Floats]] = [(none, none)] * len(self._links)
        self._uplinks = len(nodes.uplink_bytes_per_s)
        self.alone: Floats = self._store_alone + self._peer_alone
        """[T] seconds per unit of progress in both network phases when nobody else is there."""
        self.moved = False
        """Whether the last `share` moved a phase that another binding link had already seen."""

    @property
    def loads(self) -> list[tuple[Floats, Ints, Floats]]:
        """(load [T] per unit of progress, group [T], capacity [G]) of each link."""
        return [(load, group, capacity) for load, _, _, group, capacity in self._links]

    def uplink_use(self, per_s: Floats) -> Floats:
        """Return the bytes/s [R] over each uplink."""
        return fillings.sums(self._rack, self._across_racks * per_s, self._uplinks)

    def share(self, rest: Floats) -> Floats:
        """Return the seconds [T] in both phases; `rest` [T] is the time in all others."""
        binding, moved = 0, False
        for index, (load, store, peer, group, capacity) in enumerate(self._links):
            store_floor, peer_floor = self._store_alone, self._peer_alone
            for other, (store_phase, peer_phase) in enumerate(self._phases):
                if other != index and self._levels[other] is not None:
                    store_floor = np.maximum(store_floor, store_phase)
                    peer_floor = np.maximum(peer_floor, peer_phase)
            # A phase that the link does not govern has no work here and keeps its floor.
            level = fillings.levels(
                load,
                ((store, store_floor), (peer, peer_floor)),
                rest=rest,
                weight=None,
                group=group,
                capacity=capacity,
                guess=self._levels[index],
            )
            self._levels[index] = level
            binding += level is not None
            then = self._phases[index]
            now = (fillings.phase(store, level, group), fillings.phase(peer, level, group))
            self._phases[index] = now
            moved = moved or any(
                bool((np.abs(new - old) > SETTLED * (new + old)).any())
                for new, old in zip(now, then, strict=True)
            )
        self.moved = moved and binding > 1
        store_time, peer_time = self._store_alone, self._peer_alone
        for store_phase, peer_phase in self._phases:
            store_time = np.maximum(store_time, store_phase)
            peer_time = np.maximum(peer_time, peer_phase)
        result: Floats = store_time + peer_time
        return result
