"""The HTTP endpoint that Prometheus scrapes, on loopback.

`/metrics/cadvisor?node=NAME` and `/metrics/node?node=NAME` are one node's kubelet and
node-exporter, `/metrics/state` is kube-state-metrics, `/metrics` is about the simulated kubelet
itself. A lost node answers 503, as a scrape of it would fail.
"""

from typing import Protocol

import msgspec
from aiohttp import web

from lab.kubelet import settings
from lab.kubelet.exporters import (
    cadvisors,
    kube_states,
    node_exporters,
    observations,
    pages,
    scrapes,
)


class Source(Protocol):
    """Where the pages get their values."""

    settings: settings.Settings

    def observe_nodes(self) -> dict[str, observations.Node]:
        """Return every node at this instant, by name."""
        ...

    def observe_pods(self, *, node: str | None = None) -> list[observations.Pod]:
        """Return every pod that is bound to a simulated node, or to one of them."""
        ...

    def counts(self) -> dict[str, float]:
        """Return figures about the simulated kubelet itself, by the end of their name."""
        ...


class Exporter:
    """Answers scrapes from one source."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._speed = source.settings.clock.speed

    def application(self) -> web.Application:
        """Return the web application."""
        application = web.Application()
        application.router.add_get("/metrics/cadvisor", self._cadvisor)
        application.router.add_get("/metrics/node", self._node_exporter)
        application.router.add_get("/metrics/state", self._state)
        application.router.add_get("/metrics", self._own)
        return application

    async def _cadvisor(self, request: web.Request) -> web.Response:
        node = self._node(request)
        page = pages.Page()
        cadvisors.write(
            page,
            node,
            self._source.observe_pods(node=node.place.name),
            speed=self._speed,
            at=self._source.settings.clock.wall(),
        )
        return _answer(page)

    async def _node_exporter(self, request: web.Request) -> web.Response:
        page = pages.Page()
        node_exporters.write(page, self._node(request), speed=self._speed)
        return _answer(page)

    async def _state(self, _: web.Request) -> web.Response:
        page = pages.Page()
        nodes = self._source.observe_nodes().values()
        kube_states.write(page, nodes, self._source.observe_pods())
        return _answer(page)

    async def _own(self, _: web.Request) -> web.Response:
        page = pages.Page()
        about = "Simulated seconds per wall second; counters of the other pages are divided by it."
        page.gauge("tiphys_lab_speed", about, self._speed)
        for name, value in self._source.counts().items():
            page.gauge(f"tiphys_lab_kubelet_{name}", "About the simulated kubelet.", value)
        return _answer(page)

    def _node(self, request: web.Request) -> observations.Node:
        name = request.query.get("node", "")
        nodes = self._source.observe_nodes()
        if name not in nodes:
            raise web.HTTPNotFound(
                text=f"no node {name!r}: add `?node=` and one of {', '.join(nodes)}\n"
            )
        if not nodes[name].reachable:
            raise web.HTTPServiceUnavailable(text=f"node {name} is lost\n")
        return nodes[name]


def _answer(page: pages.Page) -> web.Response:
    return web.Response(body=page.text(), headers={"Content-Type": pages.CONTENT_TYPE})


async def serve(source: Source) -> web.AppRunner:
    """Serve on 127.0.0.1; write down where, and a Prometheus configuration that scrapes it."""
    chosen = source.settings
    runner = web.AppRunner(Exporter(source).application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", chosen.metrics_port)
    await site.start()
    port = int(runner.addresses[0][1])
    names = [name for name, _ in chosen.cluster.nodes]
    chosen.endpoints.write_bytes(
        msgspec.json.encode({"url": f"http://127.0.0.1:{port}", "nodes": names}) + b"\n"
    )
    chosen.prometheus_config.write_text(scrapes.config(port=port, nodes=names))
    return runner
