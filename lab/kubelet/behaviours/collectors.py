"""Argo's artifact garbage collection pod: deletes the artifacts that its tasks name.

Source: argo-workflows v4.0.5, `cmd/argoexec/commands/artifact/delete.go`.
"""

from typing import Any

from lab import apis
from lab.kubelet.behaviours import contracts, pods, stores, templates

POD_LABEL = "workflows.argoproj.io/artifact-gc-pod"
POD_VARIABLE = "ARGO_ARTIFACT_POD_NAME"
UNDELETABLE = ("git", "http", "artifactory", "raw")
"""Kinds of locations from which Argo cannot delete."""


class Collector:
    """One artifact garbage collection pod."""

    def __init__(self, host: contracts.Host) -> None:
        self._host = host

    async def prepare(self) -> contracts.ContainerEnd:
        """Do nothing."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Delete what the tasks name, and say of each artifact whether it is gone."""
        path = pods.collection(self._host.pod, "workflowartifactgctasks")
        label = pods.variable(self._host.pod, POD_VARIABLE)
        found = await self._host.api.get(path, params={"labelSelector": f"{POD_LABEL}={label}"})
        for task in found.get("items") or []:
            status = {"artifactResultsByNode": self._deleted(task)}
            name = task["metadata"]["name"]
            await self._host.api.patch(f"{path}/{name}/status", {"status": status})
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Do nothing: the tasks' status is the report."""
        return outcome

    def _deleted(self, task: apis.Object) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for node_id, node in ((task.get("spec") or {}).get("artifactsByNode") or {}).items():
            template = {"archiveLocation": node.get("archiveLocation") or {}}
            results[node_id] = {
                "artifactResults": {
                    name: self._delete(name, artifact, template)
                    for name, artifact in (node.get("artifacts") or {}).items()
                }
            }
        return results

    def _delete(
        self, name: str, artifact: templates.Artifact, template: templates.Template
    ) -> dict[str, Any]:
        try:
            whole = templates.relocated(artifact, template)
        except LookupError as error:
            return {"name": name, "success": False, "error": str(error)}
        kind, _ = templates.location(whole) or ("", {})
        if kind in UNDELETABLE:
            reason = "delete not supported for this artifact storage"
            return {"name": name, "success": False, "error": reason}
        stores.delete(stores.place(self._host.artifacts, whole))
        return {"name": name, "success": True}
