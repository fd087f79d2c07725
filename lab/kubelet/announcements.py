"""Which Events a kubelet writes about a pod's turns, in its words. Pure."""

from collections.abc import Iterator

from lab.kubelet import endings, events, pods, statuses
from lab.kubelet.behaviours import contracts

BELOW = 1 - 1e-9
"""Part of its memory limit below which a container was not killed by that (rounding)."""


def of_stop(pod: pods.Pod, view: statuses.View, stop: endings.Stop) -> Iterator[events.Event]:
    """Yield what is told when a pod is cut short; only what the kubelet itself ends."""
    if stop is endings.Stop.DEADLINE:
        yield events.of_pod(pod, stop.value, endings.DEADLINE_MESSAGE, warning=False)
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
        yield events.of_node(pod.node, "EvictionThresholdMet", message, warning=True)
        yield events.of_pod(pod, outcome.reason, outcome.message)
        yield from _killing(pod, view)
    for name, end in outcome.containers.items():
        limit = pod.main.limit_memory_bytes
        if end.reason == endings.OOM_KILLED and (limit is None or peak_bytes < limit * BELOW):
            message = f"System OOM encountered, victim process: {name}"
            yield events.of_node(pod.node, "SystemOOM", message, warning=True)


def of_back_off(pod: pods.Pod, view: statuses.View) -> Iterator[events.Event]:
    """Yield what is told when containers that failed wait for their restart."""
    whole = f"{pod.name}_{pod.namespace}({pod.uid})"
    for run in view.runs:
        if run.end is not None and run.end.exit_code:
            message = f"Back-off restarting failed container {run.name} in pod {whole}"
            yield events.of_pod(pod, "BackOff", message, container=run.name)


def _killing(pod: pods.Pod, view: statuses.View) -> Iterator[events.Event]:
    for run in view.every_run:
        if run.running:
            message = f"Stopping container {run.name}"
            yield events.of_pod(pod, "Killing", message, container=run.name, warning=False)
