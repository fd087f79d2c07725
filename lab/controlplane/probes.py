"""Is a component ready? One question each, asked again and again by the supervisor."""

import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import aiohttp

from lab import apis, homes
from lab.controlplane import components, configurations
from lab.processnode import settings

ANSWER_WITHIN_S = 3.0


class Probes:
    """Asks with the certificates of one lab; use as `async with Probes(...)`."""

    def __init__(self, home: homes.Home, *, node_names: frozenset[str]) -> None:
        self._home = home
        self._node_names = node_names
        self._session: aiohttp.ClientSession | None = None
        self._tls: dict[str, ssl.SSLContext] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True),
            timeout=aiohttp.ClientTimeout(total=ANSWER_WITHIN_S),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def ready(self, name: str, ports: Mapping[str, int]) -> bool:
        """Whether the component answers as one that can serve."""
        match name:
            case components.ETCD:
                url = f"https://127.0.0.1:{ports['client']}/health"
                return await self._answers(url, tls=self._context("etcd-ca", "etcd-client"))
            case components.API_SERVER:
                url = f"https://127.0.0.1:{ports['secure']}/readyz"
                return await self._answers(url, tls=self._context("ca", "admin"))
            case components.CONTROLLER_MANAGER | components.SCHEDULER:
                url = f"https://127.0.0.1:{ports['secure']}/healthz"
                return await self._answers(url, tls=self._context("ca", "admin"))
            case components.ARGO:
                return await self._answers(f"http://127.0.0.1:{ports['metrics']}/metrics")
            case components.KUBELET:
                return await self.nodes_ready() >= self._node_names
            case components.PROCESS_NODE:
                return settings.NODE in await self.nodes_ready()
            case _:
                return True

    async def nodes_ready(self) -> frozenset[str]:
        """Return the names of the nodes whose Ready condition is True."""
        kubeconfig = configurations.client_kubeconfig(self._home, "admin")
        async with apis.Api(kubeconfig, attempts=1) as api:
            try:
                listed = await api.get("/api/v1/nodes")
            except apis.ApiError:
                return frozenset()
        return frozenset(
            node["metadata"]["name"] for node in listed.get("items") or () if is_ready(node)
        )

    async def _answers(self, url: str, *, tls: ssl.SSLContext | None = None) -> bool:
        assert self._session is not None
        try:
            async with self._session.get(url, ssl=tls if tls is not None else True) as response:
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError, ConnectionError):
            return False

    def _context(self, authority: str, client: str) -> ssl.SSLContext:
        if client not in self._tls:
            pki = self._home.pki
            context = ssl.create_default_context(cafile=pki / f"{authority}.crt")
            context.load_cert_chain(pki / f"{client}.crt", pki / f"{client}.key")
            self._tls[client] = context
        return self._tls[client]


def is_ready(node: apis.Object) -> bool:
    """Whether a Node object says that it is ready."""
    conditions = node.get("status", {}).get("conditions") or ()
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
