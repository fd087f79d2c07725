"""Pods of which the truth is known: the node's physics says how long they take and how they end.

They never start a process and read nothing from the API server: one WorkflowTaskResult is all that
they cost beyond their status. Their outputs stand in the truth; artifacts are named, not stored.
"""

from lab.kubelet.behaviours import artifacts, contracts, pods, results, templates
from lab.truths import Truth

EXECUTOR_FAILED = 64
"""Exit code of Argo's executor when it fails itself."""


class Computed:
    """One pod whose task is computed."""

    def __init__(self, host: contracts.Host, truth: Truth) -> None:
        self._host = host
        self._truth = truth

    async def prepare(self) -> contracts.ContainerEnd:
        """Do nothing: inputs are part of the truth."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Compute the task."""
        return await self._host.compute(self._truth)

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Tell the outputs that the truth names; a missing one fails the task, as in Argo."""
        outputs: dict[str, object] = {}
        try:
            outputs = self._outputs(await templates.read(self._host.api, self._host.pod))
        except artifacts.ExecutorError as error:
            if outcome.phase == "Succeeded":
                outcome = failed_wait(outcome, str(error))
        await results.report(self._host.api, self._host.pod, outputs=outputs)
        return outcome

    def _outputs(self, template: templates.Template) -> dict[str, object]:
        outputs: dict[str, object] = {}
        known = self._truth.outputs
        if "result" in known:
            outputs["result"] = known["result"]
        parameters = []
        for parameter in templates.parameters(template):
            source = parameter.get("valueFrom") or {}
            value = known.get(parameter["name"], source.get("default"))
            if value is None and source.get("path"):
                raise artifacts.ExecutorError(
                    f"open /var/run/argo/outputs/parameters{source['path']}: "
                    "no such file or directory"
                )
            parameters.append(
                {**parameter, "value": str(value)} if value is not None else parameter
            )
        if parameters:
            outputs["parameters"] = parameters
        saved = []
        for artifact in templates.output_artifacts(template):
            try:
                name = f"{artifact['name']}.tgz"
                saved.append(templates.keyed(artifact, template, file=name))
            except LookupError as error:
                raise artifacts.ExecutorError(str(error)) from error
        if saved:
            outputs["artifacts"] = saved
        return outputs


def failed_wait(outcome: contracts.Outcome, message: str) -> contracts.Outcome:
    """Return the outcome when a task's commands ended, but `wait` could not do its part."""
    end = contracts.ContainerEnd(exit_code=EXECUTOR_FAILED, reason="Error", message=message)
    return contracts.Outcome(
        phase="Failed",
        containers={**outcome.containers, pods.WAIT: end},
        reason=outcome.reason,
        message=outcome.message,
    )
