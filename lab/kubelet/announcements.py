"""Which Events a kubelet writes about pods and nodes where something is not as usual. Pure.

A real kubelet also tells when each container was pulled, created and started: some nine objects a
pod of Argo's, as many writes as all else about it, and read by nobody in a run. Those are left out.
"""

from collections.abc import Iterator

from lab import events
from lab.kubelet import endings, pods, statuses
from lab.kubelet.behaviours import contracts

COMPONENT = "kubelet"
BELOW = 1 - 1e-9
"""Part of its memory limit below which a container was not killed by that (rounding)."""


def of_pod(
    pod: pods.Pod, reason: str, message: str, *, container: str = "", warning: bool = True
) -> events.Event:
    """Return an event about a pod, or about one container of it."""
    first = any(container == item.name for item in pod.init_containers)
    kind = "initContainers" if first else "containers"
    return events.Event(
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        part=f"spec.{kind}{{{container}}}" if container else "",
        node=pod.node,
        reason=reason,
        message=message,
        warning=warning,
    )


def of_node(node: str, reason: str, message: str, *, warning: bool = False) -> events.Event:
    """Return an event about a node; kubelets name it by its name in place of a uid."""
    return events.Event(
        kind="Node",
        namespace="default",
        name=node,
        uid=node,
        node=node,
        reason=reason,
        message=message,
        warning=warning,
    )


def of_stop(pod: pods.Pod, view: statuses.View, stop: endings.Stop) -> Iterator[events.Event]:
    """Yield what is told when a pod is cut short; only what the kubelet itself ends."""
    if stop is endings.Stop.DEADLINE:
        yield of_pod(pod, stop.value, endings.DEADLINE_MESSAGE, warning=False)
    if stop in (endings.Stop.DELETED, endings.Stop.GONE, endings.Stop.DEADLINE):
        yield from _killing(pod, view)


def of_outcome(
    pod: pods.Pod, view: statuses.View, outcome: contracts.Outcome, *, peak_bytes: float
) -> Iterator[events.Event]:
    """Yield what is told of an end by memory, before the containers have ended.

    `peak_bytes` is the largest working set. Of a container that its own limit killed kubelets tell
    nothing: its status says so.
    """
    if outcome.reason == statuses.EVICTED:
        message = "Attempting to reclaim memory"
        yield of_node(pod.node, "EvictionThresholdMet", message, warning=True)
        yield of_pod(pod, outcome.reason, outcome.message)
        yield from _killing(pod, view)
    for name, end in outcome.containers.items():
        limit = pod.main.limit_memory_bytes
        if end.reason == endings.OOM_KILLED and (limit is None or peak_bytes < limit * BELOW):
            message = f"System OOM encountered, victim process: {name}"
            yield of_node(pod.node, "SystemOOM", message, warning=True)


def of_back_off(pod: pods.Pod, view: statuses.View) -> Iterator[events.Event]:
    """Yield what is told when containers that failed wait for their restart."""
    whole = f"{pod.name}_{pod.namespace}({pod.uid})"
    for run in view.runs:
        if run.end is not None and run.end.exit_code:
            message = f"Back-off restarting failed container {run.name} in pod {whole}"
            yield of_pod(pod, "BackOff", message, container=run.name)


def _killing(pod: pods.Pod, view: statuses.View) -> Iterator[events.Event]:
    for run in view.every_run:
        if run.running:
            message = f"Stopping container {run.name}"
            yield of_pod(pod, "Killing", message, container=run.name, warning=False)
