"""How long a pod would run on each node, as a multiple of its time at speed 1.

The greedy score after the filter: what history says about the node's group, then what the node's
sensors say.  A sensor that is missing costs nothing.  Multipliers are of run time, so a better node
is a smaller number and all of them compare with a wait in seconds.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import snapshots
from tiphys.models.planner import boards

MBPI_LIMIT = 0.8
"""Memory-bandwidth index from which a node costs heavy tasks."""
MBPI_COST = 1.0
"""Added run time of a heavy task for each whole point of the index above the limit: at 1.0 it
takes 1.2 times as long, about what two streaming neighbours cost in tests/bench/test_corun.py."""
HEAVY_CPU_M = 1000
"""From this request on a task counts as CPU-heavy."""
STORAGE_COST = 0.05
"""Added part of run time for each level of disk latency below the best."""
SPLIT_ROOTS = 0.4
"""A node that has the GPUs, but not below one PCIe root complex, is worth this part (seed)."""
DISTANCE_COST = 0.01
"""Added part of run time for each step away from siblings and inputs: rack 1, zone 2, else 3."""
GPUS = ("nvidia.com/gpu", "amd.com/gpu")
MOST_KEPT = 512
"""Pods differ in who is near them, and each of these is a number for every node."""
_RACK = "topology.kubernetes.io/rack"
_ZONE = "topology.kubernetes.io/zone"


def heavy(waiting: snapshots.Waiting) -> bool:
    """Say whether a task feels the memory bandwidth of its node."""
    demand = dict(waiting.labels).get("demand", "")
    return demand in ("cpu", "memory-bandwidth") or waiting.pod.requests.cpu_m >= HEAVY_CPU_M


def gpus(waiting: snapshots.Waiting) -> int:
    """Return how many whole GPUs a pod asks for."""
    return sum(amount for name, amount in waiting.pod.requests.others if name in GPUS)


class Speeds:
    """Multipliers for all nodes of one snapshot."""

    def __init__(
        self, rooms: Sequence[snapshots.Room], group_factors: Sequence[tuple[str, float]]
    ) -> None:
        self._rooms = rooms
        self._common = dict(group_factors)
        names = sorted({room.group for room in rooms})
        place = {name: number for number, name in enumerate(names)}
        self._names = names
        self._group_of = np.array([place[room.group] for room in rooms], dtype=np.int64)
        self._storage = np.array(
            [1.0 + STORAGE_COST * (room.node.storage_level or 0) for room in rooms]
        )
        self._pressed = np.array(
            [1.0 + MBPI_COST * max(0.0, (room.node.mbpi or 0.0) - MBPI_LIMIT) for room in rooms]
        )
        labels = [dict(room.node.labels) for room in rooms]
        self._racks = _numbered([each.get(_RACK) for each in labels])
        self._zones = _numbered([each.get(_ZONE) for each in labels])
        self._place = {room.node.name: number for number, room in enumerate(rooms)}
        self._kept: dict[object, boards.Floats] = {}

    def bound(self) -> None:
        """Forget what was made where that is much; to be called between ticks."""
        if len(self._kept) > MOST_KEPT:
            self._kept.clear()

    def of(self, waiting: snapshots.Waiting) -> boards.Floats:
        """Return [N] run time over that at speed 1; the caller must not change it."""
        asked = gpus(waiting)
        key = (waiting.group_factors, heavy(waiting), asked > 1 and asked, waiting.near)
        known = self._kept.get(key)
        if known is None:
            known = self._kept[key] = self._made(waiting, asked)
        return known

    def by_group(
        self, places: npt.NDArray[np.int64], times: boards.Floats
    ) -> list[tuple[str, float]]:
        """Return for each group, by name, the least of the times of its nodes; inf for none."""
        best = np.full(len(self._names), np.inf)
        np.minimum.at(best, self._group_of[places], times)
        return list(zip(self._names, best.tolist(), strict=True))

    def _made(self, waiting: snapshots.Waiting, asked: int) -> boards.Floats:
        own = dict(waiting.group_factors)
        by_group = np.array(
            [own.get(name, self._common.get(name, 1.0)) for name in self._names] or [1.0]
        )
        times = by_group[self._group_of] * self._storage
        if heavy(waiting):
            times = times * self._pressed
        if asked > 1:
            split = [
                bool(room.node.gpu_roots) and max(room.node.gpu_roots) < asked
                for room in self._rooms
            ]
            times = np.where(split, times / SPLIT_ROOTS, times)
        if waiting.near:
            times = times * (1.0 + DISTANCE_COST * self._distances(waiting.near))
        return np.asarray(times)

    def _distances(self, near: Sequence[str]) -> boards.Floats:
        """Return [N] mean steps to the nodes that are near: same host 0, rack 1, zone 2, else 3."""
        known = [self._place[name] for name in near if name in self._place]
        if not known:
            return np.zeros(len(self._rooms))
        steps = np.zeros(len(self._rooms))
        pairs = np.stack((self._racks[known], self._zones[known]), axis=1)
        for (rack, zone), count in zip(*np.unique(pairs, axis=0, return_counts=True), strict=True):
            away = np.where((self._zones == zone) & (zone >= 0), 2.0, 3.0)
            steps += count * np.where((self._racks == rack) & (rack >= 0), 1.0, away)
        # On its own host a sibling is no step away.
        for place in known:
            steps[place] -= self._own(place)
        return steps / len(known)

    def _own(self, place: int) -> float:
        """Return the steps that were counted from a node to itself."""
        return 1.0 if self._racks[place] >= 0 else 2.0 if self._zones[place] >= 0 else 3.0


def _numbered(values: Sequence[str | None]) -> npt.NDArray[np.int64]:
    """Return [N] a number for each value that is there, the same for the same; -1 for None."""
    numbers: dict[str | None, int] = {None: -1}
    found = [numbers.setdefault(value, len(numbers)) for value in values]
    return np.array(found, dtype=np.int64)
