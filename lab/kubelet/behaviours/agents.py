"""Argo's agent pod: does the http templates of one workflow, refuses plugin templates.

It watches the workflow's WorkflowTaskSet, does each task once, and writes the results to its
status. Source: argo-workflows v4.0.5, `workflow/executor/agent.go`.
"""

import asyncio
import base64
import contextlib
from typing import Any

from lab import apis
from lab.kubelet.behaviours import (
    contracts,
    environments,
    expressions,
    grounds,
    pods,
    webs,
)

COMPLETED = "workflows.argoproj.io/completed"
PATCH_S = 10.0
"""Simulated seconds between two patches of the results (`ARGO_AGENT_PATCH_RATE`), at most."""
SHORTEST_PATCH_S = 0.1


class Agent:
    """One agent pod."""

    def __init__(self, host: contracts.Host, ground: grounds.Ground) -> None:
        self._host = host
        self._ground = ground
        self._workflow = str(pods.variable(host.pod, "ARGO_WORKFLOW_NAME"))
        self._path = pods.collection(host.pod, "workflowtasksets")
        self._results: dict[str, dict[str, Any]] = {}

    async def prepare(self) -> contracts.ContainerEnd:
        """Do nothing: there are no plugins whose tokens would have to be made."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Do tasks until the workflow has ended."""
        tasks: dict[str, asyncio.Task[None]] = {}
        params = {"fieldSelector": f"metadata.name={self._workflow}"}
        patching = asyncio.create_task(self._patch_results())
        watch = self._host.api.watch(self._path, params=params)
        seen = False
        try:
            async for kind, item in watch:
                if kind == "DELETED" or (kind == "LISTED" and seen):
                    # A second list means that the watch broke; the set is gone if it is not in it.
                    seen = kind == "LISTED"
                    if kind == "DELETED":
                        break
                    continue
                if kind == "LISTED":
                    seen = True
                    continue
                if (item["metadata"].get("labels") or {}).get(COMPLETED) == "true":
                    break
                for node_id, template in ((item.get("spec") or {}).get("tasks") or {}).items():
                    if node_id not in tasks:
                        tasks[node_id] = asyncio.create_task(self._work(node_id, template))
        finally:
            patching.cancel()
            for task in tasks.values():
                task.cancel()
            with contextlib.suppress(RuntimeError):
                await watch.aclose()  # type: ignore[attr-defined]
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Do nothing: an agent has no outputs of its own."""
        return outcome

    async def _work(self, node_id: str, template: dict[str, Any]) -> None:
        """Do one task and keep its result for the next patch."""
        try:
            if "http" in template:
                self._results[node_id] = await self._http(template["http"])
            elif "plugin" in template:
                self._results[node_id] = _failed("no plugin executed the template")
            else:
                self._results[node_id] = {
                    "phase": "Error",
                    "message": "error processing task: agent cannot execute: unknown task type",
                }
        except (
            webs.WebError,
            expressions.ExpressionError,
            environments.MissingReferenceError,
        ) as error:
            self._results[node_id] = _failed(str(error))

    async def _http(self, http: dict[str, Any]) -> dict[str, Any]:
        method = str(http.get("method") or "GET")
        body = str(http.get("body") or "").encode()
        if content := (http.get("bodyFrom") or {}).get("bytes"):
            body = base64.b64decode(content)
        headers = await self._headers(http.get("headers") or [])
        answer = await webs.request(
            self._ground.root / "web.yaml",
            method=method,
            url=str(http["url"]),
            headers=headers,
            body=body,
            timeout_s=http.get("timeoutSeconds"),
        )
        result: dict[str, Any] = {"phase": "Succeeded", "outputs": {"result": answer.body}}
        condition = str(http.get("successCondition") or "")
        if not condition:
            if not 200 <= answer.status < 300:
                result |= _failed(f"received non-2xx response code: {answer.status}")
            return result
        scope = {
            "request": {
                "method": method,
                "url": http["url"],
                "body": body.decode(errors="replace"),
                "headers": {name: [value] for name, value in headers.items()},
            },
            "response": {
                "statusCode": answer.status,
                "body": answer.body,
                "headers": {name: [value] for name, value in answer.headers.items()},
            },
        }
        if expressions.evaluate(condition, scope) is not True:
            result |= _failed(f"successCondition '{condition}' evaluated false")
        return result

    async def _headers(self, headers: list[dict[str, Any]]) -> dict[str, str]:
        found = {}
        for header in headers:
            value = header.get("value") or ""
            if reference := (header.get("valueFrom") or {}).get("secretKeyRef"):
                data = await environments.contents(
                    self._host.api, self._host.pod, "secret", reference
                )
                value = (data or {}).get(reference["key"], b"").decode()
            found[str(header["name"])] = str(value)
        return found

    async def _patch_results(self) -> None:
        """Write what has been done since the last time to the task set's status."""
        while True:
            await asyncio.sleep(max(SHORTEST_PATCH_S, self._host.clock.wall_duration(PATCH_S)))
            if not self._results:
                continue
            results, self._results = self._results, {}
            path = f"{self._path}/{self._workflow}/status"
            try:
                await self._host.api.patch(path, {"status": {"nodes": results}})
            except apis.ApiError as error:
                if error.status == 404:
                    return
                self._results = results | self._results


def _failed(message: str) -> dict[str, Any]:
    return {"phase": "Failed", "message": message}
