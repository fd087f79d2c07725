"""The Node object and its Lease: what scheduler and controllers are told, again and again."""

import asyncio
import logging
import platform
import time
import uuid
from collections.abc import Callable, Mapping

from lab import apis, clocks
from lab.processnode import settings, statuses

logger = logging.getLogger(__name__)

LEASE_S = 40
RENEW_S = 10.0
STATUS_S = 60.0
WEBSOCKETS_FROM = (1, 36)
"""The first version in which a node can say that it takes `kubectl exec` as a WebSocket."""

CAPACITY: Mapping[str, str] = {
    "cpu": "64",
    "memory": "256Gi",
    "ephemeral-storage": "256Gi",
    "pods": "200",
}
"""More than the machine has, on purpose: requests of a chart are sized for a cluster, and nothing
here is limited by them."""

BOOT_ID = str(uuid.uuid4())
"""What this life of the node is called: containers of an earlier one have ended, as at a reboot."""

HEALTHY = {
    "MemoryPressure": "KubeletHasSufficientMemory",
    "DiskPressure": "KubeletHasNoDiskPressure",
    "PIDPressure": "KubeletHasSufficientPID",
}


def node(chosen: settings.Settings) -> apis.Object:
    """Return the Node as it is created."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": chosen.node,
            "labels": {
                settings.NODE_LABEL: "true",
                "kubernetes.io/hostname": chosen.node,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": _architecture(),
            },
        },
        "spec": {"taints": [{"key": settings.NODE_LABEL, "value": "true", "effect": "NoSchedule"}]},
    }


def status(
    chosen: settings.Settings, *, version: str, port: int, limits: Mapping[str, str], now: float
) -> apis.Object:
    """Return the status of a node that is well; `limits` name what it cannot do here, and why.

    `version` is the API server's, as `v1.36.3`; `port` that of the node's own API.
    """
    at = clocks.timestamp(now)
    conditions = [
        {"type": kind, "status": "False", "reason": reason, "lastHeartbeatTime": at}
        for kind, reason in HEALTHY.items()
    ]
    for kind, why in limits.items():
        conditions.append(
            {
                "type": kind,
                "status": "False" if why else "True",
                "reason": "Limited" if why else "Works",
                "message": why,
                "lastHeartbeatTime": at,
            }
        )
    conditions.append(
        {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the process node runs pods as processes",
            "lastHeartbeatTime": at,
        }
    )
    # An older API server refuses a field that it does not know.
    features = ["ExtendWebSocketsToKubelet"] if minor(version) >= WEBSOCKETS_FROM else None
    found: apis.Object = {
        "capacity": dict(CAPACITY),
        "allocatable": dict(CAPACITY),
        "conditions": conditions,
        # No host name: the API server would prefer it, and nothing here resolves it.
        "addresses": [
            statuses.REPLACE,
            {"type": "InternalIP", "address": chosen.block.node},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": {
            "architecture": _architecture(),
            "bootID": BOOT_ID,
            "containerRuntimeVersion": "process://1",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": version,
            "machineID": chosen.node,
            "operatingSystem": "linux",
            "osImage": "processes of the host",
            "systemUUID": chosen.node,
        },
    }
    return found | ({"declaredFeatures": features} if features else {})


def minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version such as `v1.36.3`."""
    first, second = version.removeprefix("v").split(".")[:2]
    return int(first), int(second)


class Node:
    """Keeps the Node and its Lease fresh."""

    def __init__(
        self,
        api: apis.Api,
        chosen: settings.Settings,
        *,
        port: int,
        limits: Callable[[], Mapping[str, str]],
    ) -> None:
        self._api = api
        self._settings = chosen
        self._port = port
        self._limits = limits
        self._version = ""
        self._since: dict[str, tuple[str, str | None]] = {}

    async def register(self) -> None:
        """Make the Node if there is none, and say that it is ready."""
        path = f"/api/v1/nodes/{self._settings.node}"
        self._version = (await self._api.get("/version"))["gitVersion"]
        wanted = node(self._settings)
        try:
            await self._api.create("/api/v1/nodes", wanted)
        except apis.ApiError as error:
            if error.status != 409:
                raise
            await self._api.patch(path, {"metadata": {"labels": wanted["metadata"]["labels"]}})
        await self._write_status()
        await self._renew()

    async def run(self) -> None:
        """Renew for ever; a node that was deleted is made again."""
        written_at = time.monotonic()
        shown = dict(self._limits())
        while True:
            await asyncio.sleep(RENEW_S)
            try:
                await self._renew()
                limits = dict(self._limits())
                if limits != shown or time.monotonic() - written_at >= STATUS_S:
                    await self._write_status()
                    written_at, shown = time.monotonic(), limits
            except apis.ApiError as error:
                logger.warning("node not renewed: %s", error)
                if error.status == 404:
                    await self._register_again()

    async def _register_again(self) -> None:
        try:
            await self.register()
        except apis.ApiError as error:
            logger.warning("node not registered: %s", error)

    async def _write_status(self) -> None:
        chosen = status(
            self._settings,
            version=self._version,
            port=self._port,
            limits=self._limits(),
            now=time.time(),
        )
        for item in chosen["conditions"]:
            value, since = self._since.get(item["type"], ("", None))
            if value != item["status"]:
                since = item["lastHeartbeatTime"]
            self._since[item["type"]] = (item["status"], since)
            item["lastTransitionTime"] = since
        await self._api.patch(
            f"/api/v1/nodes/{self._settings.node}/status",
            {"status": chosen},
            content_type=apis.STRATEGIC_PATCH,
        )

    async def _renew(self) -> None:
        name = self._settings.node
        await self._api.apply(
            f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}",
            {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"},
                "spec": {
                    "holderIdentity": name,
                    "leaseDurationSeconds": LEASE_S,
                    "renewTime": clocks.micro_timestamp(time.time()),
                },
            },
            manager="tiphys-lab-processnode",
        )


def _architecture() -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
