"""What Argo's executor tells the controller: one WorkflowTaskResult per pod.

Written once, complete, before the pod's final status. Argo's executor writes it twice (empty at
the start, outputs and the label at the end); the controller needs only the second.
Source: argo-workflows v4.0.5, `workflow/executor/taskresult.go`.
"""

import logging
from typing import Any

from lab import apis
from lab.kubelet.behaviours import pods

logger = logging.getLogger(__name__)

COMPLETED = "workflows.argoproj.io/report-outputs-completed"
INSTANCE = "workflows.argoproj.io/controller-instanceid"
CONFLICT, GONE = 409, (403, 404)
"""A namespace that is being deleted refuses new objects with 403, later with 404."""


async def report(api: apis.Api, pod: apis.Object, *, outputs: dict[str, Any]) -> None:
    """Create or complete the pod's WorkflowTaskResult; a pod without one (agent) is left alone."""
    await _upsert(api, pod, {"outputs": outputs} if outputs else {}, completed=True)


async def report_progress(api: apis.Api, pod: apis.Object, progress: str) -> None:
    """Write `N/M` while the pod runs; the outputs are not complete yet."""
    await _upsert(api, pod, {"progress": progress}, completed=False)


async def _upsert(
    api: apis.Api, pod: apis.Object, content: dict[str, Any], *, completed: bool
) -> None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    node_id = (metadata.get("annotations") or {}).get(pods.NODE_ID)
    if not node_id or pods.WORKFLOW not in labels:
        return
    own = {name: labels[name] for name in (pods.WORKFLOW, INSTANCE) if name in labels}
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "WorkflowTaskResult",
        "metadata": {
            "name": node_id,
            "labels": {**own, COMPLETED: "true" if completed else "false"},
            "ownerReferences": [
                {name: owner[name] for name in ("apiVersion", "kind", "name", "uid")}
                for owner in metadata.get("ownerReferences") or []
            ],
        },
        **content,
    }
    path = pods.collection(pod, "workflowtaskresults")
    try:
        await api.create(path, body)
    except apis.ApiError as error:
        if error.status == CONFLICT:
            patch = {"metadata": {"labels": body["metadata"]["labels"]}, **content}
            await api.patch(f"{path}/{node_id}", patch)
        elif error.status in GONE:
            logger.info("nobody reads the result of %s any more: %s", node_id, error)
        else:
            raise
