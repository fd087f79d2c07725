"""What a user does with one example: submit it, wait, resume it, end it."""

import asyncio
import copy
import datetime
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lab import apis
from lab.corpus import examples, expectations, preparations, watchers
from lab.kubelet import pods

LIMIT_S = 200.0
"""Wall seconds that an example has; the longest documented one takes 30 of them and 250 of sleep,
which the lab shortens."""
RUNS_FOR_S = 8.0
"""Wall seconds after which an example that runs forever is believed and ended."""
SCHEDULE_S = 75.0
"""Wall seconds in which a CronWorkflow of every minute must have started a Workflow."""
NAMESPACE, QUOTA_NAMESPACE = "argo-examples", "argo-examples-quota"
NAMESPACES = (NAMESPACE, QUOTA_NAMESPACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one example."""

    name: str
    kind: str
    expected: tuple[str, ...]
    end: str
    """Phase, or what happened to an object that has none."""
    message: str = ""
    wall_s: float = 0.0

    @property
    def reached(self) -> bool:
        """Whether it came to an end that is documented for it."""
        return self.end in self.expected


class Driver:
    """Does for each example what its user would do."""

    def __init__(self, api: apis.Api, watcher: watchers.Watcher) -> None:
        self._api = api
        self._watcher = watcher

    async def drive(self, example: examples.Example, known: expectations.Expectations) -> Result:
        """Take one example to its end; never raises for what the cluster says about it."""
        began = time.monotonic()
        if example.is_workflow:
            expected = known.workflows[example.name].ends
            work = self._workflow(example, known.workflows[example.name])
        else:
            stored = known.stored[example.name]
            expected = {
                "stored": ("stored",),
                "submitted": ("Succeeded",),
                "scheduled": ("Succeeded",),
            }[stored.as_]
            work = self._object(example, stored)
        try:
            end, message = await work
        except apis.ApiError as error:
            end, message = "refused", str(error)
        return Result(
            name=example.name,
            kind=example.kind,
            expected=expected,
            end=end,
            message=message,
            wall_s=time.monotonic() - began,
        )

    # Workflows

    async def _workflow(
        self, example: examples.Example, expectation: expectations.Expectation
    ) -> tuple[str, str]:
        body = copy.deepcopy(example.edited(expectation.edit))
        if expectation.name:
            body["metadata"]["generateName"] = expectation.name
        if expectation.clock == "wall":
            annotations = {pods.CLOCK_ANNOTATION: "wall"}
            body["spec"]["podMetadata"] = {"annotations": annotations}
        key = await self._submit(body, NAMESPACE)
        if expectation.drive.terminate:
            end, message = await self._terminated(key)
        elif expectation.drive.resumes:
            end, message = await self._resumed(key, expectation.drive.supply)
        else:
            end, message = await self._ended(key)
        if wrong := _wrong_nodes(self._watcher.workflows.get(key, {}), expectation.nodes):
            return f"{end} with {wrong}", message
        return end, message

    async def _submit(self, body: apis.Object, namespace: str) -> watchers.Key:
        """Create a Workflow; one of the same name from an earlier run is deleted first."""
        collection = preparations.path("Workflow", namespace)
        if name := body["metadata"].get("name"):
            await self._delete(f"{collection}/{name}")
        created = await self._api.create(collection, body)
        return namespace, str(created["metadata"]["name"])

    async def _delete(self, path: str) -> None:
        await self._api.delete(path)
        for _ in range(100):
            try:
                await self._api.get(path)
            except apis.ApiError as error:
                if error.status == 404:
                    return
                raise
            await asyncio.sleep(0.1)

    async def _ended(self, key: watchers.Key) -> tuple[str, str]:
        found = await self._watcher.wait(key, watchers.ended, limit_s=LIMIT_S)
        if found is None:
            last = self._watcher.workflows.get(key, {})
            shown = watchers.phase(last) or "unseen"
            return f"still {shown}", watchers.message(last)
        return watchers.phase(found), watchers.message(found)

    async def _terminated(self, key: watchers.Key) -> tuple[str, str]:
        """See that it runs and goes on, then end it as `argo terminate` does."""
        found = await self._watcher.wait(key, _has_running_pod, limit_s=LIMIT_S)
        await asyncio.sleep(RUNS_FOR_S)
        still = self._watcher.workflows.get(key, {})
        if found is None or watchers.ended(still):
            return watchers.phase(still), watchers.message(still)
        path = preparations.path("Workflow", *key)
        await self._api.patch(path, {"spec": {"shutdown": "Terminate"}})
        end, message = await self._ended(key)
        return ("Running", message) if end == "Failed" else (end, message)

    async def _resumed(self, key: watchers.Key, supply: dict[str, str]) -> tuple[str, str]:
        """Wait for the end, and meanwhile resume what waits for somebody."""
        resuming = asyncio.create_task(self._resume(key, supply))
        try:
            return await self._ended(key)
        finally:
            resuming.cancel()

    async def _resume(self, key: watchers.Key, supply: dict[str, str]) -> None:
        """Resume every suspended step that waits for somebody, as `argo resume` does."""
        path = preparations.path("Workflow", *key)
        while True:
            await self._watcher.wait(
                key, lambda item: any(True for _ in _suspended(item)), limit_s=LIMIT_S
            )
            workflow = await self._api.get(path)
            for node in _suspended(workflow):
                _complete(node, supply)
            try:
                await self._api.call("PUT", path, body=workflow)
            except apis.ApiError as error:
                if error.status != 409:
                    raise
            await asyncio.sleep(0.5)

    # Everything else

    async def _object(
        self, example: examples.Example, stored: expectations.Stored
    ) -> tuple[str, str]:
        body, name = example.body, example.body["metadata"]["name"]
        namespace = QUOTA_NAMESPACE if example.kind == "ResourceQuota" else NAMESPACE
        if stored.as_ == "scheduled":
            return await self._scheduled(body, namespace)
        await preparations.apply(self._api, body, namespace)
        path = preparations.path(example.kind, namespace, name)
        if stored.as_ == "stored":
            if example.kind == "PersistentVolumeClaim":
                return await self._bound(path)
            return "stored", ""
        try:
            workflow = _from(body, stored.parameters)
            return await self._ended(await self._submit(workflow, namespace))
        finally:
            if example.kind == "CronWorkflow":
                await self._api.delete(path)

    async def _scheduled(self, body: apis.Object, namespace: str) -> tuple[str, str]:
        """Let a CronWorkflow start its first Workflow itself."""
        name = body["metadata"]["name"]
        await preparations.apply(self._api, body, namespace)
        try:
            found = await self._watcher.first(
                lambda key, item: (
                    key[0] == namespace
                    and (item["metadata"].get("labels") or {}).get(watchers.CRON_LABEL) == name
                ),
                limit_s=SCHEDULE_S,
            )
            return await self._ended(found[0]) if found else ("not started", "")
        finally:
            await self._api.delete(preparations.path("CronWorkflow", namespace, name))

    async def _bound(self, path: str) -> tuple[str, str]:
        for _ in range(300):
            if (await self._api.get(path))["status"].get("phase") == "Bound":
                return "stored", ""
            await asyncio.sleep(0.1)
        return "unbound", "no volume was provided for the claim"


def _wrong_nodes(workflow: apis.Object, expected: dict[str, str]) -> str:
    """Return which nodes ended otherwise than expected; empty where all are right."""
    found: dict[str, set[str]] = {}
    for node in ((workflow.get("status") or {}).get("nodes") or {}).values():
        found.setdefault(node.get("displayName", ""), set()).add(node.get("phase", ""))
    return ", ".join(
        f"{name} {'/'.join(sorted(found.get(name, {'absent'})))}, not {phase}"
        for name, phase in expected.items()
        if found.get(name) != {phase}
    )


def _has_running_pod(workflow: apis.Object) -> bool:
    nodes = ((workflow.get("status") or {}).get("nodes") or {}).values()
    return any(node["type"] == "Pod" and node.get("phase") == "Running" for node in nodes)


def _suspended(workflow: apis.Object) -> Iterator[dict[str, Any]]:
    """Yield the nodes that wait for a person (not for a time)."""
    timed = {
        template["name"]
        for template in (workflow.get("spec") or {}).get("templates") or []
        if (template.get("suspend") or {}).get("duration")
    }
    for node in ((workflow.get("status") or {}).get("nodes") or {}).values():
        waits = node["type"] == "Suspend" and node.get("phase") == "Running"
        if waits and node.get("templateName") not in timed:
            yield node


def _complete(node: dict[str, Any], supply: dict[str, str]) -> None:
    """Mark a suspended node as done, with the values that it asks for."""
    for parameter in (node.get("outputs") or {}).get("parameters") or []:
        source = parameter.get("valueFrom") or {}
        if "supplied" in source:
            parameter["value"] = supply.get(parameter["name"], source.get("default"))
            del parameter["valueFrom"]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    node.update(phase="Succeeded", finishedAt=now, message="resumed by the corpus driver")


def _from(body: apis.Object, parameters: dict[str, str]) -> apis.Object:
    """Return a Workflow as `argo submit --from` makes it."""
    name = body["metadata"]["name"]
    if body["kind"] == "CronWorkflow":
        spec = dict(body["spec"]["workflowSpec"])
    else:
        cluster = body["kind"] == "ClusterWorkflowTemplate"
        spec = {
            "workflowTemplateRef": {"name": name, **({"clusterScope": True} if cluster else {})}
        }
    if parameters:
        values = [{"name": key, "value": value} for key, value in parameters.items()]
        spec["arguments"] = {"parameters": values}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": f"{name}-"},
        "spec": spec,
    }
