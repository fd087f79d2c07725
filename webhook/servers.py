"""The TLS listener: who may call, how much, how long; renewed and drained without a dropped call.

Certificates are renewed by a second server on a copy of the same socket: connections that wait in
its queue are taken by whichever is there, and the old server is ended only then. A connection made
with the old certificates answers its next call with `Connection: close`, so that an authority that
was withdrawn is gone after one more call. TLS sessions are never resumed.

A caller is known by its certificate; where the API server cannot show one, by the secret part of
the path that it was given (`models/wire/paths.py`), and for everybody else there is no such page.
"""

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from tiphys.models.domain import errors
from tiphys.models.wire import paths
from tiphys.webhook import admissions, metrics, reviews, settings

_log = logging.getLogger(__name__)

BACKLOG = 1024
GOODBYE_S = 0.5
GOODBYE_STEP_S = 0.01
LINGER_S = 1.0
"""How long the rest of a refused body is read, so that the answer is seen."""
NO_SUCH_PAGE = "POST /mutate or /validate"

Call = Callable[[reviews.Review, admissions.Effects], Awaitable[bytes]]
Subject = frozenset[tuple[str, str]]
_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
}


def subject(text: str) -> Subject:
    """Read `O=…,CN=…`.  Raises `errors.InputError`."""
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if any(not key or not sign or not value for key, sign, value in pairs):
        raise errors.InputError(f"clients.subjects: {text!r}: expected KEY=VALUE,KEY=VALUE")
    return frozenset((key.strip(), value.strip()) for key, _, value in pairs)


class Listener:
    """Serves `/mutate` and `/validate`."""

    def __init__(
        self,
        effects: admissions.Effects,
        *,
        subjects: Iterable[str],
        segment_holds: Callable[[str], bool] | None,
        limits: settings.Limits,
        counted: metrics.Metrics,
    ) -> None:
        """`segment_holds` judges the secret part of a path; None where certificates are shown."""
        self._effects = effects
        self._segment_holds = segment_holds
        self._subjects = frozenset(subject(text) for text in subjects)
        self._limits = limits
        self._metrics = counted
        self._protocols = web.Server(
            self._handle,
            keepalive_timeout=limits.idle_s,
            lingering_time=LINGER_S,
            access_log=None,
            auto_decompress=False,
        )
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._context: ssl.SSLContext | None = None
        self._draining = False
        self._held_bytes = 0
        """Of bodies that are being read or answered."""

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        assert self._socket is not None
        return int(self._socket.getsockname()[1])

    @property
    def serving(self) -> bool:
        """Say whether it takes connections."""
        return self._server is not None

    @property
    def connections(self) -> int:
        """Return the number of open connections."""
        return len(self._protocols.connections)

    def bind(self, address: str, port: int) -> None:
        """Take the port; nothing is accepted before there are certificates.

        Raises `errors.UnavailableError`.
        """
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setblocking(False)
        try:
            self._socket.bind((address, port))
        except OSError as error:
            self._socket.close()
            raise errors.UnavailableError(f"{address}:{port}: {error.strerror}") from error

    async def adopt(self, context: ssl.SSLContext) -> None:
        """Serve new connections with `context` from now on; no connection is lost.

        Raises `OSError` where that cannot be done now; the certificates so far stay in use then.
        """
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        listening = self._socket.dup()
        before, known = self._server, self._context
        self._context = context
        try:
            server = await loop.create_server(
                self._protocols,
                sock=listening,
                ssl=context,
                backlog=BACKLOG,
                ssl_handshake_timeout=self._limits.handshake_s,
                ssl_shutdown_timeout=1.0,
            )
        except BaseException:
            # What was made with the certificates so far is not old then.
            self._context = known
            # Cancelled at its last step, it serves already and nobody knows it.
            loop.remove_reader(listening)
            listening.close()
            raise
        if self._draining:
            await _stopped(server)
            return
        self._server = server
        if before is not None:
            await _stopped(before)

    async def drain(self, after_s: float) -> None:
        """Answer with `Connection: close` for `after_s` seconds, then end; no call is cut."""
        self._draining = True
        await asyncio.sleep(after_s)
        if self._server is not None:
            await _stopped(self._server)
        if self._socket is not None:
            self._socket.close()
        transports = [found.transport for found in self._protocols.connections if found.transport]
        self._protocols.pre_shutdown()
        await self._protocols.shutdown(self._limits.read_s)
        await _closed(transports)
        self._server = None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await self._answered(request)
        except Exception:
            # Never more of the path: what comes after it may be the secret.
            call = "/" + request.path.lstrip("/").partition("/")[0][:40]
            _log.exception("call failed", extra={"values": {"path": call}})
            response = web.Response(status=500, text="fault of the webhook")
            response.force_close()
        transport = request.transport
        if self._draining or (
            transport is not None and transport.get_extra_info("sslcontext") is not self._context
        ):
            response.force_close()
        return response

    async def _answered(self, request: web.BaseRequest) -> web.Response:
        path, segment = request.path, ""
        if self._segment_holds is not None:
            path, _, segment = request.path.rpartition("/")
        else:
            transport = request.transport
            shown = transport.get_extra_info("peercert") if transport is not None else None
            if _subject_of(shown) not in self._subjects:
                return self._refused("subject", 403, "this client certificate may not call here")
        answer = _CALLS.get(path)
        if answer is None or request.method != "POST":
            return self._refused("path", 404, NO_SUCH_PAGE)
        if self._segment_holds is not None and not self._segment_holds(segment):
            return self._refused("secret", 404, NO_SUCH_PAGE)
        most = self._limits.body_bytes
        size = most if request.content_length is None else request.content_length
        if size > most:
            return self._refused("too-large", 413, f"at most {most} bytes")
        # One is always taken, or the largest never were.
        if self._held_bytes and self._held_bytes + size > self._limits.bodies_bytes:
            return self._refused("crowded", 503, "too many large pods at once")
        self._held_bytes += size
        try:
            return await self._read(request, answer)
        finally:
            self._held_bytes -= size

    async def _read(self, request: web.BaseRequest, answer: Call) -> web.Response:
        try:
            async with asyncio.timeout(self._limits.read_s):
                body = await self._body(request)
        except TimeoutError:
            return self._refused("slow", 408, f"no whole body within {self._limits.read_s:g} s")
        if body is None:
            return self._refused("too-large", 413, f"at most {self._limits.body_bytes} bytes")
        try:
            review = reviews.read(body)
        except errors.InputError as error:
            self._metrics.refused_calls.labels("malformed").inc()
            return web.Response(status=400, text=str(error)[:500])
        return web.Response(
            body=await answer(review, self._effects), content_type="application/json"
        )

    async def _body(self, request: web.BaseRequest) -> bytes | None:
        """Return the body; None for one that is too large, of which no more is kept."""
        most = self._limits.body_bytes
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > most:
                return None
        return bytes(body)

    def _refused(self, why: str, status: int, text: str) -> web.Response:
        """Return a refusal after which the connection is closed."""
        self._metrics.refused_calls.labels(why).inc()
        response = web.Response(status=status, text=text)
        response.force_close()
        return response


async def _validated(review: reviews.Review, effects: admissions.Effects) -> bytes:
    return admissions.validate(review, effects)


_CALLS: dict[str, Call] = {
    paths.MUTATE: admissions.mutate,
    paths.VALIDATE: _validated,
}


async def _stopped(server: asyncio.Server) -> None:
    """End a server without losing a connection.

    asyncio drops one that was accepted but has no transport yet when its server is closed: no more
    are accepted here, and those get theirs before the end.
    """
    loop = asyncio.get_running_loop()
    for listening in server.sockets:
        loop.remove_reader(listening)
    try:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    finally:
        server.close()


async def _closed(transports: Iterable[asyncio.Transport]) -> None:
    """Let the other sides say goodbye; cut those that do not."""
    left = list(transports)
    for _ in range(int(GOODBYE_S / GOODBYE_STEP_S)):
        # Once it is gone, a TLS transport knows its socket no more.
        left = [found for found in left if found.get_extra_info("socket") is not None]
        if not left:
            return
        await asyncio.sleep(GOODBYE_STEP_S)
    for transport in left:
        transport.abort()
    await asyncio.sleep(GOODBYE_STEP_S)


def _subject_of(certificate: object) -> Subject:
    """Return the subject of a certificate as the `ssl` module shows it; empty without one."""
    if not isinstance(certificate, dict):
        return frozenset()
    return frozenset(
        (_SHORT.get(key, key), value)
        for names in certificate.get("subject", ())
        for key, value in names
    )
