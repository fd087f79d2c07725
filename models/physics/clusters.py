"""Clusters as the physics sees them: nodes and what lies between them, as values and as arrays.

Units: cores, bytes, bytes/s, operations/s, seconds. V nodes, R racks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from . import constants, errors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine."""

    name: str
    hardware: str
    """What affinity belongs to (instance type): nodes of one hardware are equal to any template."""
    rack: str
    cores: float
    memory_bytes: float
    """What tasks and page cache share; without what belongs to the system."""
    memory_bandwidth_bytes_per_s: float
    """Sustained, of the whole node."""
    speed: float = 1.0
    disk_bytes_per_s: float
    disk_iops: float
    disk_burst_bytes: float = 0.0
    """Token bucket: bytes above the cap that a rested disk serves."""
    disk_burst_bytes_per_s: float | None = None
    """Rate while tokens last. None: `BURST_RATE_FACTOR` times the cap."""
    nic_bytes_per_s: float
    gpu_roots: tuple[int, ...] = ()
    """GPUs on each PCIe root complex; (2, 2) = four GPUs on two."""
    gpu_speed: float = 1.0
    gpu_link_bytes_per_s: float = constants.GPU_LINK_BYTES_PER_S
    """Between two GPUs of one root complex."""

    def __post_init__(self) -> None:
        for field in (
            "cores",
            "memory_bytes",
            "memory_bandwidth_bytes_per_s",
            "speed",
            "disk_bytes_per_s",
            "disk_iops",
            "nic_bytes_per_s",
            "gpu_speed",
            "gpu_link_bytes_per_s",
        ):
            if not 0 < getattr(self, field) < float("inf"):
                raise errors.PhysicsError(
                    f"node {self.name!r}: `{field}` is {getattr(self, field)}; "
                    "it must be a positive number"
                )

    def root_of(self, gpu: int) -> int:
        """Return the root complex of a GPU; raises `PhysicsError` for one that is not there."""
        first = 0
        for root, count in enumerate(self.gpu_roots):
            first += count
            if 0 <= gpu < first:
                return root
        raise errors.PhysicsError(f"node {self.name!r} has no GPU {gpu}; it has {first}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What lies between nodes. Every node of a rack shares its uplink; all share the store."""

    rack_uplink_bytes_per_s: float
    store_bytes_per_s: float
    rtt_s: float = constants.RTT_INSIDE_RACK_S
    rtt_between_s: tuple[tuple[str, str, float], ...] = ()
    """(rack, rack, seconds); a pair that is absent counts `RTT_BETWEEN_RACKS_S`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A whole cluster; node names differ."""

    nodes: tuple[Node, ...]
    network: Network
    affinity_sigma: float = constants.AFFINITY_SIGMA

    def __post_init__(self) -> None:
        names = [node.name for node in self.nodes]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise errors.PhysicsError(f"node {twice!r} appears twice; node names must differ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Nodes as arrays; all [V] unless stated. Caps may differ from the description (faults)."""

    cores: Floats
    memory_bytes: Floats
    memory_bandwidth: Floats
    disk_bytes_per_s: Floats
    disk_burst_bytes_per_s: Floats
    disk_burst_bytes: Floats
    disk_iops: Floats
    nic_bytes_per_s: Floats
    rack: Ints
    uplink_bytes_per_s: Floats
    """[R]; of all racks of the cluster, also when these are only some of its nodes."""
    store_bytes_per_s: float

    @property
    def count(self) -> int:
        """V."""
        return len(self.cores)

    def take(self, nodes: "slice | Ints | list[int]") -> "Machines":
        """Return some of the nodes, in the given order; racks and store stay the same."""
        changes = {
            field.name: getattr(self, field.name)[nodes]
            for field in fields(self)
            if field.name not in ("uplink_bytes_per_s", "store_bytes_per_s")
        }
        return replace(self, **changes)

    def with_disk(self, node: int, caps: Mapping[str, float]) -> "Machines":
        """Return the nodes with other caps (by field) of one disk."""
        columns = {
            "disk_bytes_per_s": self.disk_bytes_per_s.copy(),
            "disk_burst_bytes_per_s": self.disk_burst_bytes_per_s.copy(),
            "disk_iops": self.disk_iops.copy(),
        }
        for field, amount in caps.items():
            columns[field][node] = amount
        return Machines(
            cores=self.cores,
            memory_bytes=self.memory_bytes,
            memory_bandwidth=self.memory_bandwidth,
            disk_burst_bytes=self.disk_burst_bytes,
            nic_bytes_per_s=self.nic_bytes_per_s,
            rack=self.rack,
            uplink_bytes_per_s=self.uplink_bytes_per_s,
            store_bytes_per_s=self.store_bytes_per_s,
            **columns,
        )


def machines(cluster: Cluster) -> Machines:
    """Return the nodes of a cluster as arrays, in its order."""
    nodes = cluster.nodes
    racks = rack_indexes(cluster)

    def column(field: str) -> Floats:
        return np.array([getattr(node, field) for node in nodes], dtype=np.float64)

    return Machines(
        cores=column("cores"),
        memory_bytes=column("memory_bytes"),
        memory_bandwidth=column("memory_bandwidth_bytes_per_s"),
        disk_bytes_per_s=column("disk_bytes_per_s"),
        disk_burst_bytes_per_s=np.array(
            [
                constants.BURST_RATE_FACTOR * node.disk_bytes_per_s
                if node.disk_burst_bytes_per_s is None
                else node.disk_burst_bytes_per_s
                for node in nodes
            ],
            dtype=np.float64,
        ),
        disk_burst_bytes=column("disk_burst_bytes"),
        disk_iops=column("disk_iops"),
        nic_bytes_per_s=column("nic_bytes_per_s"),
        rack=np.array([racks[node.rack] for node in nodes], dtype=np.intp),
        uplink_bytes_per_s=np.full(len(racks), cluster.network.rack_uplink_bytes_per_s),
        store_bytes_per_s=cluster.network.store_bytes_per_s,
    )


def rack_indexes(cluster: Cluster) -> dict[str, int]:
    """Return racks in the order in which the nodes name them."""
    return {rack: index for index, rack in enumerate(dict.fromkeys(n.rack for n in cluster.nodes))}
