"""How long a pod would run on each node, as a multiple of its time at speed 1.

The greedy score after the filter: what history says about the node's group, then what the node's
sensors say.  A sensor that is missing costs nothing.  Multipliers are of run time, so a better node
is a smaller number and all of them compare with a wait in seconds.
"""

from collections.abc import Mapping, Sequence

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
        self._kept: dict[object, boards.Floats] = {}

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
        places = {room.node.name: dict(room.node.labels) for room in self._rooms}
        known = [(name, places[name]) for name in near if name in places]
        if not known:
            return np.zeros(len(self._rooms))
        return np.array(
            [
                sum(_steps(room.node.name, places[room.node.name], *other) for other in known)
                / len(known)
                for room in self._rooms
            ]
        )


def _steps(
    name: str, labels: Mapping[str, str], other: str, other_labels: Mapping[str, str]
) -> int:
    if name == other:
        return 0
    for steps, key in ((1, _RACK), (2, _ZONE)):
        if key in labels and labels[key] == other_labels.get(key):
            return steps
    return 3
