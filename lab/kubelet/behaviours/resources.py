"""Pods of Argo's resource templates: one kubectl verb, conditions that are waited for, outputs.

Source: argo-workflows v4.0.5, `cmd/argoexec/commands/resource.go`, `workflow/executor/resource.go`.
"""

import asyncio
from typing import Any

import yaml

from lab import apis
from lab.kubelet.behaviours import (
    computed,
    conditions,
    contracts,
    grounds,
    kubectls,
    paths,
    pods,
    results,
    templates,
)

LOOK_S = 5.0
"""Simulated seconds between two looks at the resource (`RESOURCE_STATE_CHECK_INTERVAL`)."""
SHORTEST_LOOK_S = 0.2
"""Wall seconds, lest a fast lab asks the API server all the time."""
REFUSED = "successCondition, failureCondition and outputs are not supported for delete action"


class ResourceError(Exception):
    """The template failed; the text is Argo's message."""


class ResourcePod:
    """One pod of a resource template."""

    def __init__(self, host: contracts.Host, ground: grounds.Ground) -> None:
        self._host = host
        namespace, _ = pods.key(host.pod)
        self._kubectl = kubectls.Kubectl(ground, namespace)
        self._outputs: dict[str, Any] = {}

    async def prepare(self) -> contracts.ContainerEnd:
        """Do nothing: the manifest stands in the template."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Do the verb, wait for the conditions, read the outputs."""
        template = await templates.read(self._host.api, self._host.pod)
        try:
            await self._do(template)
        except (
            ResourceError,
            kubectls.KubectlError,
            conditions.ConditionError,
            paths.PathError,
            yaml.YAMLError,
        ) as error:
            end = contracts.ContainerEnd(
                exit_code=computed.EXECUTOR_FAILED, reason="Error", message=str(error)
            )
            return contracts.Outcome(phase="Failed", containers={pods.MAIN: end})
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Tell the outputs."""
        await results.report(self._host.api, self._host.pod, outputs=self._outputs)
        return outcome

    async def _do(self, template: templates.Template) -> None:
        resource = template["resource"]
        action = str(resource["action"])
        words = kubectls.parse(resource.get("flags") or [])
        waits = resource.get("successCondition") or resource.get("failureCondition")
        if action == "delete" and (waits or templates.parameters(template)):
            raise ResourceError(REFUSED)
        manifest = yaml.safe_load(resource.get("manifest") or "")
        if manifest is None and not words.free:
            raise ResourceError("Must provide at least one of flags or manifest.")
        try:
            path, found = await self._acted(action, resource, words=words, manifest=manifest)
        except kubectls.KubectlError as error:
            raise ResourceError(f"no more retries {error}") from error
        if action == "delete":
            return
        if waits:
            found = await self._wait(path, resource)
        elif templates.parameters(template):
            found = await self._kubectl.get((path, ""))
        self._outputs = (
            {"parameters": parameters} if (parameters := outputs(template, found)) else {}
        )

    async def _acted(
        self,
        action: str,
        resource: dict[str, Any],
        *,
        words: kubectls.Words,
        manifest: Any,
    ) -> tuple[str, apis.Object]:
        """Do the verb; return the object's path and the object."""
        kubectl = self._kubectl
        if action == "create":
            created = await kubectl.create(manifest, words)
            return (await kubectl.target(created, kubectls.Words()))[0], created
        if action == "apply":
            return (await kubectl.target(manifest, words))[0], await kubectl.apply(manifest)
        if action == "delete":
            await kubectl.delete(manifest, words)
            return "", {}
        if action == "patch":
            kind = resource.get("mergeStrategy") or "strategic"
            # A list, or a patch that names no kind, belongs to what the flags name.
            whole = manifest if isinstance(manifest, dict) else None
            target = await kubectl.target(whole, words)
            return target[0], await kubectl.patch(target, manifest, kind=kind)
        if action == "get":
            target = await kubectl.target(manifest, words)
            return target[0], await kubectl.get(target)
        raise ResourceError(f"unknown action {action!r}")

    async def _wait(self, path: str, resource: dict[str, Any]) -> apis.Object:
        """Look at the resource until a condition holds."""
        success = conditions.parse(resource.get("successCondition") or "")
        failure = conditions.parse(resource.get("failureCondition") or "")
        while True:
            try:
                found = await self._host.api.get(path)
            except apis.ApiError as error:
                if error.status != 404:
                    raise
                raise ResourceError(
                    "The resource has been deleted while its status was still being checked. "
                    f"Will not be retried: {error}"
                ) from error
            for requirement in failure:
                if requirement.matches(found):
                    raise ResourceError(f"failure condition '{requirement}' evaluated true")
            if all(requirement.matches(found) for requirement in success):
                return found
            await asyncio.sleep(max(SHORTEST_LOOK_S, self._host.clock.wall_duration(LOOK_S)))


def outputs(template: templates.Template, found: apis.Object) -> list[dict[str, Any]]:
    """Return the output parameters with what the resource holds at their paths."""
    filled = []
    for parameter in templates.parameters(template):
        source = parameter.get("valueFrom") or {}
        if path := source.get("jsonPath"):
            value = paths.jsonpath(found, path)
        elif program := source.get("jqFilter"):
            value = paths.jq(found, program)
        else:
            filled.append(parameter)
            continue
        filled.append({**parameter, "value": value})
    return filled
