"""Descriptions of simulated clusters: YAML in, frozen values out; unknown keys are refused.

A cluster is a list of groups of equal nodes. Units stand in the names; quantities of memory and
disk may be written as Kubernetes does (`128Gi`). Shipped ones live in `lab/catalog/`.
"""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from lab import errors
from tiphys.models.domain import quantities

SHIPPED = Path(__file__).parent / "catalog"
QUANTITY_KEYS = frozenset(
    {
        "memory",
        "memory_bandwidth",
        "bandwidth",
        "burst",
        "capacity",
        "nic",
        "rack_uplink",
        "object_store",
        "gpu_memory",
        "link_bandwidth",
    }
)


class Disk(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node's local or provisioned disk."""

    kind: str
    """Storage level as the scheduler reads it: `nvme`, `ssd`, `hdd`, `network`."""
    bandwidth: float
    """Cap in bytes/s."""
    iops: float
    burst: float = 0.0
    """Token bucket: bytes above the cap that a rested disk serves before it falls to the cap."""
    capacity: float = 200 * 2**30
    """Ephemeral storage in bytes."""


class Gpus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node's GPUs."""

    model: str
    roots: tuple[int, ...]
    """GPUs on each PCIe root complex: (2, 2) = four GPUs on two."""
    gpu_memory: float
    """Bytes of each."""
    speed: float = 1.0
    link_bandwidth: float = 12.0 * 2**30
    """Bytes/s between two GPUs of one root complex; a fifth of it across (see physics)."""


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Equal nodes: one instance type in one rack."""

    name: str
    count: int
    instance_type: str
    rack: str
    zone: str
    cores: int
    memory: float
    """Bytes, of which `reserved` belongs to the system."""
    memory_bandwidth: float
    """Sustained bytes/s of the whole node."""
    disk: Disk
    nic: float
    """Bytes/s."""
    speed: float = 1.0
    """CPU speed; 1 is the reference that truths are written in."""
    pods: int = 110
    gpus: Gpus | None = None
    labels: dict[str, str] = {}
    taints: tuple[dict[str, str], ...] = ()


class Network(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lies between the nodes."""

    rack_uplink: float
    """Bytes/s of each rack."""
    object_store: float
    """Bytes/s of the object store, shared by all."""
    rtt_ms: float = 0.2
    """Round trip inside a rack."""
    rtt_ms_between: dict[str, float] = {}
    """Round trip between two racks, key `rackA/rackB`; a pair that is absent counts 1.0 ms."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole simulated cluster."""

    name: str
    about: str
    groups: tuple[Group, ...]
    network: Network
    start_median_s: float = 3.0
    """Median service time of the pod start server of one node (reference: CWS runs)."""

    @property
    def nodes(self) -> list[tuple[str, Group]]:
        """Every node as (name, group), in a stable order: `GROUP-0`, `GROUP-1`, …."""
        return [
            (f"{group.name}-{index}", group)
            for group in self.groups
            for index in range(group.count)
        ]


def names() -> list[str]:
    """Return the names of the shipped clusters."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def load(name_or_path: str) -> Cluster:
    """Return a shipped cluster by name, or the one described by a YAML file.

    Raises `UsageError`: no such cluster, no such file, not YAML, unknown or missing keys, values
    that no cluster can have.
    """
    path = SHIPPED / f"{name_or_path}.yaml"
    if "/" in name_or_path or name_or_path.endswith((".yaml", ".yml")):
        path = Path(name_or_path)
    if not path.is_file():
        raise errors.UsageError(
            f"no cluster {name_or_path!r}: choose one of {', '.join(names())}, "
            "or give the path of a YAML file (lab/catalog/ has examples)"
        )
    try:
        text = path.read_text()
    except UnicodeDecodeError as error:
        raise errors.UsageError(f"{path} is not YAML: it is not even text ({error})") from error
    return parse(text, source=str(path))


def parse(text: str, *, source: str) -> Cluster:
    """Parse one cluster description; `source` names it in errors."""
    try:
        cluster = msgspec.convert(_in_units(yaml.safe_load(text)), Cluster)
    except yaml.YAMLError as error:
        raise errors.UsageError(f"{source} is not YAML: {error}") from error
    except (msgspec.ValidationError, quantities.QuantityError) as error:
        raise errors.UsageError(f"{source}: {error}") from error
    _check(cluster, source=source)
    return cluster


def _in_units(value: Any) -> Any:
    """Turn Kubernetes quantities (`128Gi`) of the known keys into plain numbers."""
    if isinstance(value, dict):
        return {
            key: float(quantities.parse(item))
            if key in QUANTITY_KEYS and isinstance(item, str)
            else _in_units(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_in_units(item) for item in value]
    return value


def _check(cluster: Cluster, *, source: str) -> None:
    """Refuse what parses but cannot be built."""
    seen: set[str] = set()
    racks = {group.rack for group in cluster.groups}
    for pair in cluster.network.rtt_ms_between:
        if unknown := [rack for rack in pair.split("/") if rack not in racks]:
            raise errors.UsageError(
                f"{source}: network.rtt_ms_between has the pair {pair!r}, but no group is in rack "
                f"{unknown[0]!r}: write rackA/rackB with racks of {', '.join(sorted(racks))}"
            )
    if not cluster.groups:
        raise errors.UsageError(f"{source}: `groups` is empty; a cluster needs one group at least")
    for group in cluster.groups:
        where = f"{source}: group {group.name!r}"
        if group.name in seen:
            raise errors.UsageError(f"{where} appears twice; group names must differ")
        seen.add(group.name)
        positive = {
            "count": group.count,
            "cores": group.cores,
            "memory": group.memory,
            "memory_bandwidth": group.memory_bandwidth,
            "speed": group.speed,
            "nic": group.nic,
            "disk.bandwidth": group.disk.bandwidth,
            "disk.iops": group.disk.iops,
            "pods": group.pods,
        }
        for field, number in positive.items():
            if not number > 0:
                raise errors.UsageError(f"{where}: `{field}` is {number}; it must be above 0")
