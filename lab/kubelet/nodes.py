"""Simulated nodes as API objects: Node, its status, and its Lease; pure, from group to JSON."""

import hashlib
from dataclasses import dataclass

from lab import apis, catalogs, clocks
from lab.kubelet import pods, settings

READY = "Ready"
MEMORY_PRESSURE = "MemoryPressure"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_DURATION_S = 40
"""Wall seconds; a real kubelet's."""
MOST_IMAGES = 50
"""As many images as a real kubelet names in its status."""

_OKAY = {
    MEMORY_PRESSURE: ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one node of a cluster stands: its name, group, and addresses by index."""

    name: str
    group: catalogs.Group
    index: int
    """Among all nodes of the cluster, from 0."""

    @property
    def address(self) -> str:
        """The node's own address, on loopback, so that the API server can reach its kubelet."""
        return f"127.1.{self.index // 250}.{self.index % 250 + 1}"

    @property
    def pod_cidr(self) -> str:
        """The block that its pods' addresses come from."""
        return f"10.{128 + self.index // 256}.{self.index % 256}.0/24"

    def pod_address(self, number: int) -> str:
        """Return the n-th address of the block; numbers wrap after 253."""
        return f"10.{128 + self.index // 256}.{self.index % 256}.{number % 253 + 2}"


def places(cluster: catalogs.Cluster) -> tuple[Place, ...]:
    """Return every node of a cluster, in its order."""
    return tuple(
        Place(name=name, group=group, index=index)
        for index, (name, group) in enumerate(cluster.nodes)
    )


def reserved_bytes(group: catalogs.Group) -> float:
    """Return the memory that belongs to the system of one node."""
    return min(settings.RESERVED_MEMORY_BYTES, group.memory / 8)


def allocatable(group: catalogs.Group) -> pods.Resources:
    """Return what pods may request of one node."""
    return pods.Resources(
        cpu_m=group.cores * 1000,
        memory_bytes=int(group.memory - reserved_bytes(group)),
        storage_bytes=int(group.disk.capacity * 0.9),
        gpus=sum(group.gpus.roots) if group.gpus else 0,
    )


def labels(place: Place) -> dict[str, str]:
    """Return the labels that a cloud's node has, and those of the description."""
    group = place.group
    found = {
        "kubernetes.io/hostname": place.name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        # Deprecated, but every kubelet still sets them.
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": group.instance_type,
        "topology.kubernetes.io/region": "lab",
        "topology.kubernetes.io/zone": group.zone,
        "topology.kubernetes.io/rack": group.rack,
        "lab.tiphys.dev/group": group.name,
        "lab.tiphys.dev/storage": group.disk.kind,
    }
    if group.gpus:
        found |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.product": group.gpus.model,
            "nvidia.com/gpu.count": str(sum(group.gpus.roots)),
            "nvidia.com/gpu.memory": str(int(group.gpus.gpu_memory / 2**20)),
        }
    return found | group.labels


def node(place: Place) -> apis.Object:
    """Return the Node object as a kubelet registers it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": place.name, "labels": labels(place)},
        "spec": {
            "podCIDR": place.pod_cidr,
            "podCIDRs": [place.pod_cidr],
            "providerID": f"lab://{place.group.zone}/{place.name}",
            "taints": list(place.group.taints),
        },
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of a node; `since` is wall time (unix seconds) of its last change."""

    kind: str
    status: bool
    reason: str
    message: str
    since: float


def condition(kind: str, *, status: bool, since: float, why: str = "") -> Condition:
    """Return a condition with the words that a kubelet uses; `why` replaces them where given."""
    if kind == READY:
        reason, message = "KubeletReady", "kubelet is posting ready status"
        if not status:
            reason, message = "KubeletNotReady", why
    else:
        reason, message = _OKAY[kind]
        if status:
            reason, message = "KubeletHasInsufficientMemory", why
    return Condition(kind=kind, status=status, reason=reason, message=message, since=since)


def healthy(since: float) -> tuple[Condition, ...]:
    """Return the conditions of a node that lacks nothing."""
    pressures = [condition(kind, status=False, since=since) for kind in _OKAY]
    return (*pressures, condition(READY, status=True, since=since))


def status(
    place: Place,
    *,
    conditions: tuple[Condition, ...],
    images: dict[str, float],
    port: int,
    version: str,
    at: float,
) -> apis.Object:
    """Return the node's status; `images` are bytes by name, `port` is that of its kubelet."""
    group = place.group
    amounts = allocatable(group)
    capacity = {
        "cpu": str(group.cores),
        "memory": f"{int(group.memory) // 1024}Ki",
        "ephemeral-storage": str(int(group.disk.capacity)),
        "pods": str(group.pods),
    }
    free = {
        "cpu": str(group.cores),
        "memory": f"{amounts.memory_bytes // 1024}Ki",
        "ephemeral-storage": str(amounts.storage_bytes),
        "pods": str(group.pods),
    }
    if amounts.gpus:
        capacity[pods.GPU_RESOURCE] = free[pods.GPU_RESOURCE] = str(amounts.gpus)
    largest = sorted(images.items(), key=lambda item: -item[1])[:MOST_IMAGES]
    return {
        "capacity": capacity,
        "allocatable": free,
        "conditions": [
            {
                "type": item.kind,
                "status": "True" if item.status else "False",
                "reason": item.reason,
                "message": item.message,
                "lastHeartbeatTime": clocks.timestamp(at),
                "lastTransitionTime": clocks.timestamp(item.since),
            }
            for item in conditions
        ],
        "addresses": [{"type": "InternalIP", "address": place.address}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "images": [{"names": [name], "sizeBytes": int(size)} for name, size in largest],
        "nodeInfo": {
            "architecture": "amd64",
            "bootID": identity(place.name, "boot"),
            "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": identity(place.name, "machine"),
            "operatingSystem": "linux",
            "osImage": "Tiphys lab",
            "systemUUID": identity(place.name, "system"),
        },
    }


def lease(name: str, *, at: float) -> apis.Object:
    """Return the node's Lease, renewed now."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
        "spec": {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_DURATION_S,
            "renewTime": clocks.micro_timestamp(at),
        },
    }


def identity(*names: str) -> str:
    """Return a stable identifier of 32 hexadecimal digits for some names."""
    return hashlib.blake2b("/".join(names).encode(), digest_size=16).hexdigest()
