"""What a pod takes of a cluster while it runs, as one number.

Requested cores alone rank workflows wrongly where memory runs out first, or where a pod of half a
node keeps a second one off it: eight cores and Argo's 10m beside them are all of a node with 16 to
others like them.  So a pod counts for what it keeps from pods of its own size: all cores of the
cluster over the number of such pods that its nodes hold when they are empty.
"""

from collections import Counter
from collections.abc import Iterable

from tiphys.models.domain import amounts

UNASKED_CPU_M = 100
"""What a pod without a CPU request counts for; kube-scheduler assumes the same."""
BESIDE = amounts.Amounts(10, 64 * 2**20)
"""What stands beside a task and in no template: Argo's wait container as its manifests have it
(also agents of the node).  It decides whether two pods of half a node fit on one."""
MOST_KEPT = 4096
"""Sizes that are remembered; generated requests could be without end."""


class Footprints:
    """Sizes of pods against the nodes of one cluster; taints and cordons are not looked at."""

    def __init__(self, allocatable: Iterable[amounts.Amounts] = ()) -> None:
        self._nodes: Counter[tuple[int, int]] = Counter()
        """By allocatable millicores and bytes."""
        self._kept: dict[tuple[int, int], float] = {}
        for each in allocatable:
            self.add(each, 1)

    def add(self, allocatable: amounts.Amounts, count: int) -> None:
        """Count nodes of that size; below zero they have gone."""
        self._nodes[allocatable.cpu_m, allocatable.memory_bytes] += count
        self._kept.clear()

    def cores(self, cpu_m: int, memory_bytes: int) -> float:
        """Return the cores that a pod counts for; those it asks for if no node could hold it."""
        size = (cpu_m or UNASKED_CPU_M, memory_bytes)
        known = self._kept.get(size)
        if known is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            known = self._kept[size] = self._made(*size)
        return known

    def _made(self, cpu_m: int, memory_bytes: int) -> float:
        places = 0
        for (node_cpu_m, node_bytes), count in self._nodes.items():
            places += count * min(
                node_cpu_m // (cpu_m + BESIDE.cpu_m),
                node_bytes // (memory_bytes + BESIDE.memory_bytes),
            )
        if not places:
            return cpu_m / 1000
        return sum(size[0] * count for size, count in self._nodes.items()) / places / 1000
