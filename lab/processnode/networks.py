"""Keeps cluster IPs and `/etc/hosts` as the Services and the pods of this node are."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Protocol

from lab import apis
from lab.processnode import addresses, caches, events, pods, proxies, services

SETTLE_S = 0.02
"""Changes that come together are acted upon together."""
SERVER_SERVICE = "default/kubernetes"
PRIVILEGED = 1024
RETRY_S = 10.0
"""Pause after which an address that could not be bound is tried again."""


class Pod(Protocol):
    """A pod that has an address and a hosts file."""

    @property
    def endpoint(self) -> services.Endpoint:
        """The pod as Services see it."""
        ...

    def show_hosts(self, content: bytes) -> None:
        """Replace what stands in its `/etc/hosts`."""
        ...


class Network:
    """The Services of the cluster, for the pods of one node."""

    def __init__(
        self,
        api: apis.Api,
        *,
        server: services.Address,
        neighbours: Callable[[], Iterable[Pod]],
        events: events.Events,
    ) -> None:
        self._server = server
        self._neighbours = neighbours
        self._events = events
        self._changed = asyncio.Event()
        self._services = caches.Cache(
            api, "/api/v1/services", key=caches.full_name, on_change=lambda *_: self.changed()
        )
        self._proxies = proxies.Proxies(on_refused=self._refused)
        self._unbound: dict[services.Address, str] = {}
        self._said: dict[services.Address, str] = {}

    @property
    def known(self) -> asyncio.Event:
        """Set once the Services are known."""
        return self._services.ready

    @property
    def trouble(self) -> str:
        """Why some Services lead nowhere, as one sentence; empty if all do."""
        plain = self._services.items.get(SERVER_SERVICE)
        if plain and not addresses.is_loopback(plain["spec"].get("clusterIP", "")):
            return (
                "cluster IPs are not on loopback, so Services lead nowhere: start the API server "
                "with a --service-cluster-ip-range in 127.0.0.0/8"
            )
        shown = (f"{ip}:{port} ({why})" for (ip, port), why in sorted(self._unbound.items()))
        return f"cannot listen on {', '.join(shown)}" if self._unbound else ""

    def changed(self) -> None:
        """A pod came, went, or is ready or not."""
        self._changed.set()

    def hosts(self, pod: apis.Object, address: str) -> bytes:
        """Return `/etc/hosts` for a pod as things are now."""
        lines = services.hosts(
            self._services.items.values(),
            self._endpoints(),
            namespace=pod["metadata"]["namespace"],
        )
        return services.hosts_file(pod, address, lines=lines)

    async def run(self) -> None:
        """Follow Services and pods for ever."""
        watching = asyncio.create_task(self._services.run())
        try:
            await self._services.ready.wait()
            while True:
                self._changed.clear()
                await self._update()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_S if self._unbound else None):
                        await self._changed.wait()
                await asyncio.sleep(SETTLE_S)
        finally:
            watching.cancel()
            self._proxies.close()

    async def _update(self) -> None:
        found = self._services.items.values()
        self._said, self._unbound = self._unbound, {}
        await self._proxies.apply(services.listeners(found, self._endpoints(), server=self._server))
        for pod in self._neighbours():
            endpoint = pod.endpoint
            pod.show_hosts(self.hosts(endpoint.pod, endpoint.address))

    def _endpoints(self) -> list[services.Endpoint]:
        return [pod.endpoint for pod in self._neighbours()]

    def _refused(self, address: services.Address, why: str) -> None:
        found = self._services.items.values()
        service = next(
            (item for item in found if item["spec"].get("clusterIP") == address[0]), None
        )
        # Pods are told the API server's own address; who is not root can do without this one.
        if service is None or pods.name(service) == SERVER_SERVICE:
            return
        self._unbound[address] = why
        if address not in self._said:
            hint = ": a Service port from 1024 on needs no right of root"
            self._events.warning(
                {"kind": "Service", **service},
                "ProcessNodeCannotListen",
                f"cannot listen on {address[0]}:{address[1]} ({why})"
                f"{hint if address[1] < PRIVILEGED else ''}",
            )
