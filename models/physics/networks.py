"""Paths between tasks: which links they cross, how long a round trip takes, what PCIe allows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import constants
from .clusters import Cluster, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """From one task to the siblings that run now, as means over them."""

    off_node: float
    """Part of them on other nodes: 0 to 1."""
    off_rack: float
    """Part of them in other racks."""
    rtt_s: float
    """Mean round trip."""
    link_bytes_per_s: float
    """The slowest PCIe link on the way; inf if none is crossed."""


ALONE = Path(off_node=0.0, off_rack=0.0, rtt_s=0.0, link_bytes_per_s=float("inf"))
"""Nobody to talk to: bytes to siblings then cost nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a task runs."""

    node: Node
    gpus: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Distances:
    """Round trips between racks of one cluster."""

    inside_s: float
    between_s: Mapping[frozenset[str], float]

    def rtt_s(self, one: Node, other: Node) -> float:
        """Return the round trip between two nodes."""
        if one.name == other.name:
            return constants.RTT_INSIDE_NODE_S
        if one.rack == other.rack:
            return self.inside_s
        pair = frozenset((one.rack, other.rack))
        return self.between_s.get(pair, constants.RTT_BETWEEN_RACKS_S)


def distances(cluster: Cluster) -> Distances:
    """Return the round trips of a cluster."""
    return Distances(
        cluster.network.rtt_s,
        {frozenset((one, other)): s for one, other, s in cluster.network.rtt_between_s},
    )


def path(
    place: Place,
    siblings: Sequence[Place],
    *,
    distances: Distances,
    link_health: Mapping[tuple[str, int], float] | None = None,
) -> Path:
    """Return the path of one task.

    `link_health` says per (node name, root complex) how much of a GPU link's bandwidth is left:
    1 (or absent) whole, 0 down. Down means that the task hangs until the link is back.
    """
    health = link_health or {}
    if not siblings:
        if len(place.gpus) < 2:
            return ALONE
        inner = _pcie(place.node, place.gpus, place.gpus, health)
        return Path(off_node=0.0, off_rack=0.0, rtt_s=0.0, link_bytes_per_s=inner)
    here, count = place.node, len(siblings)
    link = _pcie(here, place.gpus, place.gpus, health) if len(place.gpus) > 1 else float("inf")
    for sibling in siblings:
        if sibling.node.name == here.name:
            link = min(link, _pcie(here, place.gpus, sibling.gpus, health))
        elif place.gpus:
            link = min(link, *(_link(here, here.root_of(gpu), health) for gpu in place.gpus))
    return Path(
        off_node=sum(s.node.name != here.name for s in siblings) / count,
        off_rack=sum(s.node.rack != here.rack for s in siblings) / count,
        rtt_s=sum(distances.rtt_s(here, s.node) for s in siblings) / count,
        link_bytes_per_s=link,
    )


def _pcie(
    node: Node,
    ours: tuple[int, ...],
    theirs: tuple[int, ...],
    health: Mapping[tuple[str, int], float],
) -> float:
    """Return the slowest link between two sets of GPUs of one node; inf if one of them is empty."""
    if not ours or not theirs:
        return float("inf")
    roots = {node.root_of(gpu) for gpu in (*ours, *theirs)}
    slowest = min(_link(node, root, health) for root in roots)
    if len(roots) > 1:
        slowest *= constants.CROSS_ROOT_SHARE
    return max(slowest, constants.DOWN_LINK_BYTES_PER_S)


def _link(node: Node, root: int, health: Mapping[tuple[str, int], float]) -> float:
    left = node.gpu_link_bytes_per_s * health.get((node.name, root), 1.0)
    return max(left, constants.DOWN_LINK_BYTES_PER_S)
