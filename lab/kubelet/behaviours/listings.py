"""Pods of Argo's data templates: list the keys of an artifact location, transform the list.

Source: argo-workflows v4.0.5, `workflow/data`, `workflow/executor/data.go`.
"""

import json

from lab.kubelet.behaviours import (
    computed,
    contracts,
    expressions,
    pods,
    results,
    stores,
    templates,
)


class Listing:
    """One pod of a data template."""

    def __init__(self, host: contracts.Host) -> None:
        self._host = host
        self._outputs: dict[str, object] = {}

    async def prepare(self) -> contracts.ContainerEnd:
        """Do nothing."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """List and transform."""
        template = await templates.read(self._host.api, self._host.pod)
        try:
            self._outputs = {"result": self._transformed(template)}
        except (LookupError, expressions.ExpressionError) as error:
            end = contracts.ContainerEnd(
                exit_code=computed.EXECUTOR_FAILED,
                reason="Error",
                message=f"unable to process data template: {error}",
            )
            return contracts.Outcome(phase="Failed", containers={pods.MAIN: end})
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Tell the list as the template's result."""
        await results.report(self._host.api, self._host.pod, outputs=self._outputs)
        return outcome

    def _transformed(self, template: templates.Template) -> str:
        body = template["data"]
        artifact = (body.get("source") or {}).get("artifactPaths")
        if artifact is None:
            raise LookupError("no valid source is used for data template")
        kind, location = templates.location(artifact) or ("", {})
        whole = templates.relocated(artifact, template) if not location.get("bucket") else artifact
        if not kind:
            raise LookupError("unable to source artifact paths: no location")
        place = stores.place(self._host.artifacts, whole)
        data: object = list(stores.keys_below(place))
        for step in body.get("transformation") or []:
            if expression := step.get("expression"):
                data = expressions.evaluate(expression, {"data": data})
        return json.dumps(data)
