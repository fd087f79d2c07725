"""The node's own API, as the API server uses it for `kubectl logs` and `kubectl exec`.

HTTPS on the node's address; only a client whose certificate the cluster's authority signed for
`system:masters`, or for the API server's kubelet client, may connect.
"""

import contextlib
import ssl
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web

from lab import errors
from lab.processnode import certificates, executions, logs, settings, workers

LOGS = "/containerLogs/{namespace}/{pod}/{container}"
EXEC = "/exec/{namespace}/{pod}/{container}"
ABSENT = ("/attach/{rest:.*}", "/portForward/{rest:.*}", "/run/{rest:.*}")
TRUSTED_USER = "kube-apiserver-kubelet-client"
TRUSTED_GROUP = "system:masters"

Find = Callable[[str, str], workers.Worker | None]
"""Returns the worker of a pod by namespace and name."""


class Kubelet:
    """The listener."""

    def __init__(self, chosen: settings.Settings, *, find: Find) -> None:
        self._settings = chosen
        self._find = find
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> int:
        """Listen and return the port; raises `SetupError` where the address is not ours."""
        address = self._settings.block.node
        pair = certificates.self_signed(self._settings.node, address)
        application = web.Application(middlewares=[_only_trusted])
        application.router.add_get("/healthz", _well)
        application.router.add_get(LOGS, self._logs)
        application.router.add_route("*", EXEC, self._exec)
        for path in ABSENT:
            application.router.add_route("*", path, _absent)
        self._runner = web.AppRunner(
            application, access_log=None, handle_signals=False, shutdown_timeout=0.5
        )
        await self._runner.setup()
        context = certificates.server_context(pair, clients=self._settings.client_authority)
        site = web.TCPSite(self._runner, address, port, ssl_context=context)
        try:
            await site.start()
        except OSError as error:
            raise errors.SetupError(
                f"the process node cannot listen on {address}:{port} ({error.strerror}): end what "
                "listens there (`ss -ltnp` shows it), or take the lab down and up again"
            ) from error
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Listen no longer."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        namespace, pod, name = (
            request.match_info[key] for key in ("namespace", "pod", "container")
        )
        folder = logs.folder(
            self._settings.logs, {"metadata": {"namespace": namespace, "name": pod}}
        )
        log, query = folder / f"{name}.log", request.query
        worker = self._find(namespace, pod)
        container = worker.container(name) if worker is not None else None
        if query.get("previous") == "true":
            log = logs.previous(log)
            if not log.exists():
                return _plain(400, f"previous terminated container {name!r} not found")
        elif not log.exists() and container is not None:
            reason, message = container.facts.waiting
            return _plain(400, f"container {name!r} is waiting to start: {message or reason}")
        elif not log.exists():
            return _plain(404, f"no log of container {name!r} of pod {namespace}/{pod} is left")
        wanted = logs.Wanted(
            since=_since(query),
            tail_lines=_number(query.get("tailLines")),
            limit_bytes=_number(query.get("limitBytes")),
            timestamps=query.get("timestamps") == "true",
            stream={"Stdout": "stdout", "Stderr": "stderr"}.get(query.get("stream", ""), ""),
        )
        response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        if query.get("follow") == "true":

            def over() -> bool:
                return container is None or container.facts.running_since is None

            with contextlib.suppress(ConnectionError):
                async for text in logs.follow(log, wanted, over=over):
                    await response.write(text)
        else:
            await response.write(logs.read(log, wanted))
        with contextlib.suppress(ConnectionError):
            await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        place = request.match_info
        name, worker = place["container"], self._find(place["namespace"], place["pod"])
        container = worker.container(name) if worker is not None else None
        subject = container.subject() if container is not None else None
        if subject is None:
            return _plain(404, f"container {name!r} does not run on the process node")
        return await executions.serve(request, subject)


@web.middleware
async def _only_trusted(request: web.Request, handler: Any) -> web.StreamResponse:
    transport = request.transport
    peer = transport.get_extra_info("peercert") if transport is not None else None
    if not is_trusted(peer):
        return _plain(403, "only the API server may ask the process node")
    response: web.StreamResponse = await handler(request)
    return response


def is_trusted(peer: "ssl._PeerCertRetDictType | None") -> bool:
    """Whether a client's certificate, checked by TLS already, is one that may ask."""
    subject = {pair for part in (peer or {}).get("subject", ()) for pair in part}
    return ("organizationName", TRUSTED_GROUP) in subject or (
        "commonName",
        TRUSTED_USER,
    ) in subject


async def _well(request: web.Request) -> web.Response:
    return _plain(200, "ok")


async def _absent(request: web.Request) -> web.Response:
    return _plain(
        501,
        "the process node has no attach and no port-forward: a pod's ports are reached at its "
        "address, which is on loopback",
    )


def _plain(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() else None


def _since(query: "Any") -> str:
    if seconds := _number(query.get("sinceSeconds")):
        at = datetime.fromtimestamp(time.time(), UTC) - timedelta(seconds=seconds)
        return at.strftime("%Y-%m-%dT%H:%M:%S.%f")
    if given := query.get("sinceTime"):
        return datetime.fromisoformat(given).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return ""
