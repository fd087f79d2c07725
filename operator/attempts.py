"""From what the caches see to rows of the history: pods that ended, and tasks whose pod is gone."""

from tiphys.argo import identities
from tiphys.models.domain import pods, workflows
from tiphys.operator import caches, histories, objects, optins

WORKERS = frozenset({pods.ContainerRole.MAIN, pods.ContainerRole.MEMBER})
ROUNDING_S = 1.0
"""A difference of two times of whole seconds is as far off; more is the kubelet's or our delay."""
SHORTEST_S = 0.5
"""What work counts for that began and ended within one second of the clock."""
EVICTED = frozenset({"Evicted", "Preempting", "NodeLost", "Shutdown", "Terminated"})
"""Values of `status.reason` of pods that the cluster ended."""


def of_pod(
    cached: caches.Caches,
    seen: objects.Seen,
    group: str,
    *,
    observed_s: float | None = None,
) -> histories.Attempt | None:
    """Return the row of a pod that ended; None for what is no task or of no known Workflow.

    `group` is that of its node; `observed_s` its run time as we saw it ourselves, since Kubernetes
    keeps whole seconds only.
    """
    pod = seen.pod
    if pod.role is not pods.PodRole.TASK or pod.active:
        return None
    run = cached.workflows.of_uid(pod.workflow_uid)
    identity = identities.of(pod, run.workflow if run is not None else None)
    if run is None or identity is None or not pod.node_id:
        return None
    task = next((task for task in run.workflow.tasks if task.id == pod.node_id), None)
    duration_s, evidence = _finer(_duration_s(seen), observed_s)
    return histories.Attempt(
        identity=identity,
        workflow_uid=pod.workflow_uid,
        node_id=pod.node_id,
        namespace=pod.namespace,
        task=pod.task,
        attempt=pod.attempt,
        node=pod.node,
        group=group,
        outcome=_outcome(seen),
        queued_s=pod.bound_at - pod.created_at if pod.bound_at is not None else None,
        duration_s=duration_s,
        evidence=evidence,
        ended_at=pod.ended_at or pod.created_at,
        cpu_m=pod.requests.cpu_m,
        memory_bytes=pod.requests.memory_bytes,
        input_bytes=task.input_bytes if task is not None else None,
        steered=optins.of(cached, pod.namespace, run).enabled,
    )


def of_task(
    cached: caches.Caches, run: objects.Run, task: workflows.Task
) -> histories.Attempt | None:
    """Return the row of a task that ended in a Workflow's status.

    Argo's times hold the queue and start-up too, so such a row counts for widths and outcomes
    only; it is all that is left where pods ended and were deleted while no operator ran.
    """
    ended = task.state in (workflows.TaskState.SUCCEEDED, workflows.TaskState.FAILED)
    if not ended or task.identity is None or task.kind is not workflows.TaskKind.POD:
        return None
    if task.started_at is None or task.ended_at is None or task.daemon:
        return None
    succeeded = task.state is workflows.TaskState.SUCCEEDED
    return histories.Attempt(
        identity=task.identity,
        workflow_uid=run.workflow.uid,
        node_id=task.id,
        namespace=run.workflow.namespace,
        task=task.name,
        attempt=0,
        node="",
        group="",
        outcome=histories.Outcome.SUCCEEDED if succeeded else histories.Outcome.FAILED,
        queued_s=None,
        duration_s=max(0.0, task.ended_at - task.started_at),
        evidence=histories.Evidence.WORKFLOW,
        ended_at=task.ended_at,
        cpu_m=task.cpu_m,
        memory_bytes=task.memory_bytes,
        input_bytes=task.input_bytes,
        steered=optins.of(cached, run.workflow.namespace, run).enabled,
    )


def _outcome(seen: objects.Seen) -> histories.Outcome:
    if any(end.reason == "OOMKilled" for end in seen.ends):
        return histories.Outcome.OOM
    if seen.reason in EVICTED:
        return histories.Outcome.EVICTED
    if not seen.ran:
        return histories.Outcome.NEVER_RAN
    if seen.pod.phase is pods.Phase.SUCCEEDED:
        return histories.Outcome.SUCCEEDED
    return histories.Outcome.FAILED


def worked(seen: objects.Seen) -> bool:
    """Say whether every container that does the work has ended."""
    ended = {end.container for end in seen.ends}
    workers = {each.name for each in seen.pod.containers if each.role in WORKERS}
    return bool(workers) and workers <= ended


def _duration_s(seen: objects.Seen) -> float:
    """Return from the first start to the last end of the containers that do the work."""
    workers = {each.name for each in seen.pod.containers if each.role in WORKERS}
    ends = [end for end in seen.ends if end.container in workers]
    starts = [end.started_at for end in ends if end.started_at is not None]
    stops = [end.ended_at for end in ends if end.ended_at is not None]
    return max(SHORTEST_S, max(stops) - min(starts)) if starts and stops else 0.0


def _finer(status_s: float, observed_s: float | None) -> tuple[float, histories.Evidence]:
    """Return the observed run time where it agrees with the status, else the latter."""
    if observed_s is not None and observed_s > 0 and abs(observed_s - status_s) <= ROUNDING_S:
        return observed_s, histories.Evidence.SEEN
    return status_s, histories.Evidence.POD
