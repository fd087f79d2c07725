"""What a pod does while nothing better is known: compute its truth, or sleep."""

from lab.kubelet.behaviours import contracts
from lab.truths import Truth

NAP_S = 10.0


class Default:
    """Computes or sleeps, and reports to Argo that its outputs are complete."""

    def __init__(self, host: contracts.Host, truth: Truth | None) -> None:
        self._host, self._truth = host, truth

    async def prepare(self) -> contracts.ContainerEnd:
        """Need no init containers."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Compute, or sleep."""
        if self._truth is not None:
            return await self._host.compute(self._truth)
        await self._host.sleep(NAP_S)
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Write the WorkflowTaskResult without outputs."""
        pod = self._host.pod
        metadata = pod["metadata"]
        workflow = metadata.get("labels", {}).get("workflows.argoproj.io/workflow")
        if not workflow:
            return outcome
        main = outcome.containers.get("main", contracts.ContainerEnd())
        namespace = metadata["namespace"]
        path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflowtaskresults"
        await self._host.api.create(
            path,
            {
                "apiVersion": "argoproj.io/v1alpha1",
                "kind": "WorkflowTaskResult",
                "metadata": {
                    "name": metadata["annotations"]["workflows.argoproj.io/node-id"],
                    "labels": {
                        "workflows.argoproj.io/workflow": workflow,
                        "workflows.argoproj.io/report-outputs-completed": "true",
                    },
                    "ownerReferences": metadata.get("ownerReferences"),
                },
                "outputs": {"exitCode": str(main.exit_code)},
            },
        )
        return outcome


def choose(host: contracts.Host, truth: Truth | None) -> contracts.Behaviour:
    """Return the behaviour."""
    return Default(host, truth)
