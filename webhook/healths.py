"""`/metrics`, `/healthz` and `/readyz` on a plain port, and what ready means.

Ready: there are certificates and keys, and it is known whether the decision API can be reached.
When it cannot, the webhook is ready all the same: it is known to be failing open.
"""

import asyncio
import dataclasses
import time
from collections.abc import Awaitable, Callable

import orjson
from aiohttp import web

from tiphys.webhook import breakers, materials, metrics, servers

IDLE_S = 120.0
"""Seconds without a whole request after which a connection is closed: any pod may make them."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Health:
    """What readiness is read from."""

    current: Callable[[], materials.Materials]
    listener: servers.Listener
    breaker: breakers.Breaker
    metrics: metrics.Metrics
    disabled: bool = False
    draining: bool = False
    reachable: bool | None = None
    """None: nobody looked yet."""
    clock: Callable[[], float] = time.time

    def state(self) -> dict[str, object]:
        """Return what `/readyz` says; `ready` decides."""
        decisions = "unknown"
        if self.disabled:
            decisions = "disabled"
        elif self.breaker.is_open or self.reachable is False:
            decisions = "failing-open"
        elif self.reachable:
            decisions = "reachable"
        keys_present = self.current().signs_and_checks(self.clock())
        known = self.disabled or (keys_present and decisions != "unknown")
        return {
            "ready": self.listener.serving and known and not self.draining,
            "serving": self.listener.serving,
            "keys": keys_present,
            "decisions": decisions,
            "draining": self.draining,
        }

    async def look(self, probe: Callable[[], Awaitable[bool]], *, every_s: float) -> None:
        """Ask again and again whether the decision API can be reached; for ever."""
        while True:
            if self.current().tls is not None:
                self.reachable = await probe()
            await asyncio.sleep(every_s if self.reachable is not None else 0.1)


async def serve(health: Health, *, address: str, port: int) -> tuple[web.ServerRunner, int]:
    """Serve the three pages; return the runner and the port."""

    async def answered(request: web.BaseRequest) -> web.Response:
        if request.path == "/metrics":
            return web.Response(body=health.metrics.text(), content_type="text/plain")
        if request.path == "/healthz":
            return web.Response(text="ok")
        if request.path == "/readyz":
            state = health.state()
            return web.Response(
                status=200 if state["ready"] else 503,
                body=orjson.dumps(state),
                content_type="application/json",
            )
        return web.Response(status=404, text="/metrics, /healthz or /readyz")

    server = web.Server(answered, access_log=None, keepalive_timeout=IDLE_S)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, address, port)
    await site.start()
    return runner, int(runner.addresses[0][1])
