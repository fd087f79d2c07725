"""Whether a node takes a pod: what a kubelet checks again after the scheduler has bound it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.kubelet import pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node does not take a pod, in a kubelet's words: its event says it, its status too."""

    reason: str
    message: str

    @property
    def status_message(self) -> str:
        """What stands in the pod's status."""
        return f"Pod was rejected: {self.message}"


def refusal(
    pod: pods.Pod,
    *,
    others: Iterable[pods.Pod],
    allocatable: pods.Resources,
    most_pods: int,
    labels: Mapping[str, str],
) -> Refusal | None:
    """Return why the node must refuse the pod beside the `others` on it, or None."""
    for key, value in pod.node_selector.items():
        if labels.get(key) != value:
            return Refusal(
                reason="NodeAffinity",
                message="Predicate NodeAffinity failed: "
                "node(s) didn't match Pod's node affinity/selector",
            )
    beside = list(others)
    if len(beside) + 1 > most_pods:
        short: Shortage | None = Shortage(
            resource="pods", requested=1, used=len(beside), capacity=most_pods
        )
    else:
        short = shortage(pod.requests, others=beside, allocatable=allocatable)
    if short is None:
        return None
    return Refusal(reason=f"OutOf{short.resource}", message=short.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """What a node has too little of."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def message(self) -> str:
        """In a kubelet's words."""
        return (
            f"Node didn't have enough resource: {self.resource}, requested: {self.requested}, "
            f"used: {self.used}, capacity: {self.capacity}"
        )


def shortage(
    requests: pods.Resources, *, others: Iterable[pods.Pod], allocatable: pods.Resources
) -> Shortage | None:
    """Return what a node has too little of for `requests` beside the `others` on it, or None."""
    used = pods.NONE
    for other in others:
        used = used + other.requests
    for resource, field in (
        ("cpu", "cpu_m"),
        ("memory", "memory_bytes"),
        ("ephemeral-storage", "storage_bytes"),
        (pods.GPU_RESOURCE, "gpus"),
    ):
        requested, taken = getattr(requests, field), getattr(used, field)
        capacity = getattr(allocatable, field)
        if requested and requested + taken > capacity:
            return Shortage(resource=resource, requested=requested, used=taken, capacity=capacity)
    return None
