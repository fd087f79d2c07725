"""Whether a node takes a pod: what a kubelet checks again after the scheduler has bound it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.kubelet import pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a node does not take a pod, in a kubelet's words."""

    reason: str
    message: str


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
                message="Pod was rejected: Predicate NodeAffinity failed: "
                "node(s) didn't match Pod's node affinity/selector",
            )
    used, count = pods.NONE, 0
    for other in others:
        used, count = used + other.requests, count + 1
    if count + 1 > most_pods:
        return _out_of("pods", requested=1, used=count, capacity=most_pods)
    for resource, field in (
        ("cpu", "cpu_m"),
        ("memory", "memory_bytes"),
        ("ephemeral-storage", "storage_bytes"),
        (pods.GPU_RESOURCE, "gpus"),
    ):
        requested, taken = getattr(pod.requests, field), getattr(used, field)
        capacity = getattr(allocatable, field)
        if requested and requested + taken > capacity:
            return _out_of(resource, requested=requested, used=taken, capacity=capacity)
    return None


def _out_of(resource: str, *, requested: int, used: int, capacity: int) -> Refusal:
    return Refusal(
        reason=f"OutOf{resource}",
        message=f"Pod was rejected: Node didn't have enough resource: {resource}, "
        f"requested: {requested}, used: {used}, capacity: {capacity}",
    )
