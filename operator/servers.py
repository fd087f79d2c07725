"""TLS and HTTP servers: certificates are replaced while they serve, no listener is ever closed."""

import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from aiohttp import web

from tiphys.models.domain import errors

Files = Mapping[str, bytes]


class Identity:
    """Who we are and whom we trust, as TLS contexts for both directions.

    A server's context is swapped for each new connection in the callback for server names, which
    OpenSSL also calls when a client sends none: key, certificate and trusted roots change together.
    """

    def __init__(self) -> None:
        self._current: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None
        self.version = 0
        """Rises with each certificate that was taken."""
        self.listening = _context(ssl.PROTOCOL_TLS_SERVER)
        self.listening.verify_mode = ssl.CERT_REQUIRED
        self.listening.sni_callback = self._swap

    @property
    def calling(self) -> ssl.SSLContext:
        """The context for calls to other processes of ours."""
        if self._client is None:
            raise errors.UnavailableError("no certificate yet: the leader makes it")
        return self._client

    def take(self, files: Files) -> None:
        """Use the leaf and roots of a Secret from now on; raises `InputError` for unusable ones."""
        server = _context(ssl.PROTOCOL_TLS_SERVER)
        server.verify_mode = ssl.CERT_REQUIRED
        client = _context(ssl.PROTOCOL_TLS_CLIENT)
        try:
            for context in (server, client):
                context.load_verify_locations(cadata=files["ca.crt"].decode())
                with _as_file(files["tls.crt"] + b"\n" + files["tls.key"]) as path:
                    context.load_cert_chain(path)
        except (KeyError, ssl.SSLError, ValueError) as error:
            raise errors.InputError(f"certificate cannot be used: {error!r}") from error
        self._current, self._client = server, client
        self.version += 1

    def _swap(
        self, connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext
    ) -> int | None:
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


def caller(request: web.Request) -> str:
    """Return the common name of the client's certificate; empty when there is none."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""


async def start(
    application: web.Application, host: str, port: int, *, tls: ssl.SSLContext | None = None
) -> tuple[web.AppRunner, int]:
    """Serve; returns the runner (to clean up) and the port that it listens on."""
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=3.0)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=1024)
    await site.start()
    return runner, int(runner.addresses[0][1])


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """Give bytes a path without touching a disk: OpenSSL reads keys from files only."""
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
