"""Descriptions of simulated clusters: YAML in, frozen values out; unknown keys are refused.

A cluster is a list of groups of equal nodes. Units stand in the names; quantities of memory and
disk may be written as Kubernetes does (`128Gi`). Shipped ones live in `lab/catalog/`.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lab import errors
from tiphys.models.domain import quantities

SHIPPED = Path(__file__).parent / "catalog"
EXAMPLES = "lab/catalog/ has examples, lab/catalogs.py says what each key means"
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,45}[a-z0-9])?")
"""A group's: its nodes are called `NAME-0` and so on, which Kubernetes must take as names."""
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""What may stand in a label of a node."""
KEY = re.compile(rf"([a-z0-9]([a-z0-9.-]{{0,251}}[a-z0-9])?/)?({LABEL.pattern})")
"""What may stand before it, and in a taint."""
SAID_BY = {
    "kubernetes.io/hostname": "name",
    "node.kubernetes.io/instance-type": "instance_type",
    "topology.kubernetes.io/rack": "rack",
    "topology.kubernetes.io/zone": "zone",
    "lab.tiphys.dev/group": "name",
    "lab.tiphys.dev/storage": "disk.kind",
}
"""Labels that follow from a key of the group, which the physics goes by."""
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAKEN = "process"
"""Not a group's name: `process-0` is the process node."""
PLACE = re.compile(r" - at `\$(?:\.groups\[(\d+)\])?\.?(.*)`$")
"""Where msgspec says that something is wrong."""
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
        written = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise errors.UsageError(f"{source} is not YAML: {_in_one_line(error)}") from error
    try:
        cluster = msgspec.convert(_in_units(written, where=source), Cluster)
    except quantities.QuantityError as error:
        raise errors.UsageError(str(error)) from error
    except msgspec.ValidationError as error:
        raise errors.UsageError(f"{source}: {_placed(str(error), written)}; {EXAMPLES}") from error
    _check(cluster, source=source)
    return cluster


def _in_one_line(error: yaml.YAMLError) -> str:
    """Return what is wrong with a text and where, without the excerpt that YAML draws."""
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {what}" if mark else what


def _placed(complaint: str, written: Any) -> str:
    """Return msgspec's complaint with the name of the group instead of its number."""
    found = PLACE.search(complaint)
    if found is None:
        return complaint
    number, key = found.groups()
    where = f"`{key}`" if key else ""
    if number is not None:
        group = written["groups"][int(number)]
        name = group.get("name") if isinstance(group, dict) else None
        called = f"group {name!r}" if name else f"group number {int(number) + 1}"
        where = f"{called}, {where}" if where else called
    return f"{where}: {complaint[: found.start()]}"


def _in_units(value: Any, *, where: str) -> Any:
    """Turn Kubernetes quantities (`128Gi`) of the known keys into plain numbers."""
    if isinstance(value, dict):
        if isinstance(value.get("name"), str) and not {"groups", "network"} & value.keys():
            where = f"{where}: group {value['name']!r}"
        return {
            key: float(quantities.parse(item, where=f"{where}: `{key}`"))
            if key in QUANTITY_KEYS and isinstance(item, str)
            else _in_units(item, where=where)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_in_units(item, where=where) for item in value]
    return value


def _check(cluster: Cluster, *, source: str) -> None:
    """Refuse what parses but cannot be built."""
    if not cluster.groups:
        raise errors.UsageError(f"{source}: `groups` is empty; a cluster needs one group at least")
    seen: set[str] = set()
    for group in cluster.groups:
        where = f"{source}: group {group.name!r}"
        if group.name in seen:
            raise errors.UsageError(f"{where} appears twice; group names must differ")
        seen.add(group.name)
        _check_words(group, where=where)
        _check_amounts(_amounts(group), where=where)
    _check_amounts({"start_median_s": cluster.start_median_s}, where=source)
    _check_network(cluster, source=source)


def _check_words(group: Group, *, where: str) -> None:
    """Refuse names that Kubernetes would refuse later, when the nodes come up."""
    if not NAME.fullmatch(group.name):
        raise errors.UsageError(
            f"{where} cannot name nodes: use 1 to 47 of a-z, 0-9 and '-', not at the ends"
        )
    if group.name == TAKEN:
        raise errors.UsageError(
            f"{where} would have a node {TAKEN}-0, which is the lab's own process node: choose "
            "another name"
        )
    words = {
        "instance_type": group.instance_type,
        "rack": group.rack,
        "zone": group.zone,
        "disk.kind": group.disk.kind,
        **({"gpus.model": group.gpus.model} if group.gpus else {}),
        **{f"labels.{key}": value for key, value in group.labels.items() if value},
    }
    for field, word in words.items():
        if not LABEL.fullmatch(word):
            raise errors.UsageError(
                f"{where}: `{field}` is {word!r}, but it becomes a label of the nodes: use 1 to 63 "
                "of letters, digits, '-', '_' and '.', a letter or digit at the ends"
            )
    for key in group.labels:
        if (said_by := SAID_BY.get(key)) is not None:
            raise errors.UsageError(
                f"{where}: the label {key} follows from `{said_by}`: write that"
            )
        _check_key(key, where=f"{where}: `labels`")
    for taint in group.taints:
        if not {"key", "effect"} <= taint.keys() <= {"key", "value", "effect"}:
            raise errors.UsageError(
                f"{where}: the taint {taint} needs `key` and `effect`, and may have `value`"
            )
        _check_key(taint["key"], where=f"{where}: `taints`")
        if taint["effect"] not in EFFECTS:
            raise errors.UsageError(
                f"{where}: the taint {taint} has no such effect: use one of {', '.join(EFFECTS)}"
            )


def _check_key(key: str, *, where: str) -> None:
    if not KEY.fullmatch(key):
        raise errors.UsageError(
            f"{where} has the key {key!r}: use 1 to 63 of letters, digits, '-', '_' and '.', a "
            "letter or digit at the ends, and before it, if anything, a domain and '/'"
        )


def _amounts(group: Group) -> Mapping[str, float]:
    """Return every number of a group that must be above 0, by its key."""
    found: dict[str, float] = {
        "count": group.count,
        "cores": group.cores,
        "memory": group.memory,
        "memory_bandwidth": group.memory_bandwidth,
        "speed": group.speed,
        "nic": group.nic,
        "pods": group.pods,
        "disk.bandwidth": group.disk.bandwidth,
        "disk.iops": group.disk.iops,
        "disk.capacity": group.disk.capacity,
    }
    if group.gpus:
        found |= {
            "gpus.roots": min(group.gpus.roots, default=0),
            "gpus.gpu_memory": group.gpus.gpu_memory,
            "gpus.speed": group.gpus.speed,
            "gpus.link_bandwidth": group.gpus.link_bandwidth,
        }
    return found


def _check_network(cluster: Cluster, *, source: str) -> None:
    network = cluster.network
    racks = {group.rack for group in cluster.groups}
    amounts = {
        "rack_uplink": network.rack_uplink,
        "object_store": network.object_store,
    }
    _check_amounts(amounts, where=f"{source}: network")
    for pair, rtt_ms in (("rtt_ms", network.rtt_ms), *network.rtt_ms_between.items()):
        if not 0 <= rtt_ms < math.inf:
            raise errors.UsageError(
                f"{source}: network: the round trip {pair!r} is {rtt_ms} ms; it must be a number "
                "of milliseconds, 0 or more"
            )
    for pair in network.rtt_ms_between:
        ends = pair.split("/")
        problem = "that is no pair" if len(ends) != 2 else ""
        if unknown := [rack for rack in ends if rack not in racks]:
            problem = f"no group is in rack {unknown[0]!r}"
        if problem:
            raise errors.UsageError(
                f"{source}: network.rtt_ms_between has the pair {pair!r}, but {problem}: "
                f"write rackA/rackB with racks of {', '.join(sorted(racks))}"
            )


def _check_amounts(amounts: Mapping[str, float], *, where: str) -> None:
    for field, number in amounts.items():
        if not 0 < number < math.inf:
            raise errors.UsageError(f"{where}: `{field}` is {number}; it must be a number above 0")
