"""A cluster in memory for submissions: what is created runs to its end, or does not."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from lab import apis, homes, journals


@dataclass(slots=True, kw_only=True)
class Cluster:
    """Workflows by (namespace, name); each has one pod, which is written to audit and journal."""

    home: homes.Home
    workflows: dict[tuple[str, str], apis.Object] = field(default_factory=dict)
    namespaces: set[str] = field(default_factory=set)
    phase: str = "Succeeded"
    """How a workflow ends; empty for one that never does."""
    loses_pods: bool = False
    """Whether the kubelet forgets to write the end of a pod."""
    accepted: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    """Names of workflows in the order of their creation."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def client(self, *_: object, **__: object) -> "Client":
        """Stand in for `apis.Api`."""
        return Client(self)

    def accept(self, body: apis.Object, *, namespace: str) -> apis.Object:
        """Create a workflow, and its pod in the API server's audit log."""
        key = (namespace, body["metadata"]["name"])
        if key in self.workflows:
            raise apis.ApiError(status=409, reason="AlreadyExists", message="", call="POST")
        made = body | {"metadata": body["metadata"] | {"uid": f"uid-{key[1]}"}, "status": {}}
        self.workflows[key] = made
        pod = f"{key[1]}-step-1"
        self._audit("create", namespace, pod)
        if self.phase:
            made["status"] = {"phase": self.phase, "progress": "1/1"}
            self._end(namespace, pod, workflow=key[1])
        self.accepted.put_nowait(key[1])
        self.changed.set()
        return made

    def drop(self, namespace: str) -> None:
        """Delete the workflows of a namespace, and with them their pods."""
        for key in [key for key in self.workflows if key[0] == namespace]:
            gone = self.workflows.pop(key)
            if not gone["status"]:
                self._end(namespace, f"{key[1]}-step-1", workflow=key[1])

    def _audit(self, verb: str, namespace: str, name: str) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1)) + ".000000Z"
        event = {
            "stage": "ResponseComplete",
            "verb": verb,
            "requestReceivedTimestamp": moment,
            "stageTimestamp": moment,
            "objectRef": {"resource": "pods", "namespace": namespace, "name": name},
            "responseStatus": {"code": 201},
        }
        with self.home.audit_log.open("a") as file:
            file.write(json.dumps(event) + "\n")

    def _end(self, namespace: str, name: str, *, workflow: str) -> None:
        if self.loses_pods:
            return
        record = journals.PodRecord(
            uid=f"uid-{name}",
            namespace=namespace,
            name=name,
            workflow=workflow,
            node="node-0",
            group="node",
            seen_at=time.time(),
            ended_at=time.time(),
            reason="Completed",
        )
        with self.home.journal.open("ab") as file:
            file.write(msgspec.json.encode(record) + b"\n")


class Client:
    """The calls that submissions make."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def create(self, path: str, body: apis.Object) -> apis.Object:
        """Create a namespace or a workflow."""
        if path.endswith("/namespaces"):
            self._cluster.namespaces.add(body["metadata"]["name"])
            return body
        return self._cluster.accept(body, namespace=path.split("/")[-2])

    async def get(self, path: str, *, params: Mapping[str, str] | None = None) -> apis.Object:
        """Read a ServiceAccount, or list workflows or pods."""
        if "/serviceaccounts/" in path:
            if path.split("/")[-3] not in self._cluster.namespaces:
                raise apis.ApiError(status=404, reason="NotFound", message="", call="GET")
            return {}
        return {"items": list(self._cluster.workflows.values()) if "argoproj" in path else []}

    async def delete(self, path: str, *, params: Mapping[str, str] | None = None) -> None:
        """Delete the workflows of a namespace."""
        self._cluster.drop(path.split("/")[-2])

    async def watch(
        self, path: str, *, params: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Any]]:
        """Yield every workflow again whenever one was created, as after a cut."""
        yield "LISTED", {"uids": set()}
        while True:
            await self._cluster.changed.wait()
            self._cluster.changed.clear()
            listed = list(self._cluster.workflows.values())
            for item in listed:
                yield "ADDED", item
            yield "LISTED", {"uids": {item["metadata"]["uid"] for item in listed}}
