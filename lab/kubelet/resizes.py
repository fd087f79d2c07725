"""Resizing running pods in place: what stands in the way, in a kubelet's words. Pure.

A kubelet gives a pod what its spec asks for by now if the node has it. Infeasible is what the node
could never give, Deferred what others hold at present; a memory limit below what is in use is not
set. Whatever stands in the way is looked at again until it is gone or the spec is another.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lab.kubelet import admissions, pods

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
CONDITIONS = frozenset({PENDING, IN_PROGRESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """A condition of the pod while it does not have what its spec asks for."""

    kind: str
    reason: str
    message: str


def resized(pod: pods.Pod, asked: pods.Pod) -> pods.Pod:
    """Return the pod with the requests and limits of `asked`; all else stays as it runs."""
    return replace(
        pod,
        containers=_sized(pod.containers, asked.containers),
        init_containers=_sized(pod.init_containers, asked.init_containers),
        requests=asked.requests,
    )


def _sized(
    containers: tuple[pods.Container, ...], asked: tuple[pods.Container, ...]
) -> tuple[pods.Container, ...]:
    return tuple(
        replace(
            container,
            requests=wanted.requests,
            limit_cpu_m=wanted.limit_cpu_m,
            limit_memory_bytes=wanted.limit_memory_bytes,
            resources=wanted.resources,
        )
        for container, wanted in zip(containers, asked, strict=True)
    )


def hindrance(
    pod: pods.Pod,
    *,
    others: Iterable[pods.Pod],
    allocatable: pods.Resources,
    held_bytes: float,
) -> Hindrance | None:
    """Return why a node cannot give a pod what it asks for beside the `others` on it, or None.

    `held_bytes` is the working set of its main container.
    """
    for beside, reason in (((), "Infeasible"), (others, "Deferred")):
        if problem := admissions.shortage(pod.requests, others=beside, allocatable=allocatable):
            return Hindrance(kind=PENDING, reason=reason, message=problem.message)
    limit = pod.main.limit_memory_bytes
    if limit is not None and limit < held_bytes:
        message = f"attempting to set pod memory limit ({limit}) below current usage"
        return Hindrance(kind=IN_PROGRESS, reason="Error", message=f"{message} ({int(held_bytes)})")
    return None
