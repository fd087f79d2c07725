"""Nodes and node groups as the scheduler counts them."""

import dataclasses

from tiphys.models.domain import amounts

OTHER = "other"
"""The group of nodes that a topology key does not label and of merged small groups: pods that go
there get no placement."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint; PreferNoSchedule ones never mask."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()
    """Sorted."""
    taints: tuple[Taint, ...] = ()
    allocatable: amounts.Amounts = amounts.NOTHING
    """`pods` is one of the others."""
    schedulable: bool = True
    """Neither cordoned nor leaving, and Ready."""
    mbpi: float | None = None
    """Memory-bandwidth pressure index, 0 to 1 and above; None = not measured."""
    storage_level: int | None = None
    """Level of its disks' latency, 0 is the best; None = not measured."""
    gpu_roots: tuple[int, ...] = ()
    """GPUs still free below each PCIe root complex; empty = not told."""

    def label(self, key: str) -> str | None:
        """Return one label's value."""
        return dict(self.labels).get(key)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Nodes that share the values of the policy's topology keys."""

    name: str
    """The values joined by `/`, or `other`."""
    selector: tuple[tuple[str, str], ...] = ()
    """The labels that make it; empty for `other`."""
    nodes: tuple[str, ...] = ()
    """Names, sorted."""
