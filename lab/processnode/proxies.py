"""Carries connections from cluster IPs to pods: what kube-proxy does, in user space, for TCP.

A listener exists only while somebody stands behind it, so that otherwise a connection is refused at
once, as with kube-proxy; a backend that does not answer is passed over for the next.
"""

import asyncio
import contextlib
import itertools
import logging
import socket
import struct
from collections.abc import Callable, Mapping
from typing import cast

from lab.processnode import services

logger = logging.getLogger(__name__)

CONNECT_S = 2.0
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of zero seconds: closing sends RST, so the peer sees a fault and not an end."""


class Proxies:
    """The listeners of one node."""

    def __init__(self, *, on_refused: Callable[[services.Address, str], None]) -> None:
        self._behind: dict[services.Address, tuple[services.Address, ...]] = {}
        self._servers: dict[services.Address, asyncio.Server] = {}
        self._on_refused = on_refused
        self._turn = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()

    async def apply(self, wanted: Mapping[services.Address, tuple[services.Address, ...]]) -> None:
        """Open, change and close listeners so that they are as wanted.

        An address that cannot be bound (a port below 1024 without the right to it) is told to
        `on_refused` with the reason, and tried again at the next call.
        """
        closing, opening = services.changes(self._servers_as_keys(), wanted)
        for address in closing:
            self._servers.pop(address).close()
        self._behind = dict(wanted)
        for address in opening:
            try:
                self._servers[address] = await self._open(address)
            except OSError as error:
                self._on_refused(address, error.strerror or str(error))

    def close(self) -> None:
        """Close every listener."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()

    def _servers_as_keys(self) -> dict[services.Address, tuple[services.Address, ...]]:
        return dict.fromkeys(self._servers, ())

    async def _open(self, address: services.Address) -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(
            lambda: _Front(lambda front: self._accept(address, front)), *address, backlog=256
        )

    def _accept(self, address: services.Address, front: "_Front") -> None:
        task = asyncio.get_running_loop().create_task(self._connect(address, front))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, address: services.Address, front: "_Front") -> None:
        behind = self._behind.get(address, ())
        first = next(self._turn)
        for step in range(len(behind)):
            backend = behind[(first + step) % len(behind)]
            try:
                async with asyncio.timeout(CONNECT_S):
                    await asyncio.get_running_loop().create_connection(
                        lambda: _Side(front), *backend
                    )
                return
            except (OSError, TimeoutError) as error:
                logger.info("%s:%s: %s does not answer: %s", *address, backend, error)
        front.reset()


class _Side(asyncio.Protocol):
    """One end of a carried connection; writes what it reads to the other end."""

    def __init__(self, peer: "_Side | None" = None) -> None:
        self._peer = peer
        self.transport: asyncio.Transport | None = None
        self._early = b""
        """What was read before there was a peer: older interpreters read once while paused."""
        self._ended = False
        """Whether everything that this end says has been read."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self._peer is not None:
            self._peer.join(self)

    def join(self, peer: "_Side") -> None:
        """The other end is there: let bytes flow."""
        self._peer = peer
        if self.transport is None or self.transport.is_closing():
            peer.leave()
            return
        if self._early and peer.transport is not None:
            peer.transport.write(self._early)
        if self._ended and peer.transport is not None:
            peer.transport.write_eof()
        self._early = b""
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            self._early += data
        elif self._peer.transport is not None:
            self._peer.transport.write(data)

    def eof_received(self) -> bool:
        self._ended = True
        peer = self._peer
        if peer is not None and peer.transport is not None:
            with contextlib.suppress(OSError, RuntimeError):
                peer.transport.write_eof()
            if peer._ended:
                peer.leave()
                self.leave()
        return True  # the other direction may still have something to say

    def pause_writing(self) -> None:
        if self._peer is not None and self._peer.transport is not None:
            self._peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._peer is not None and self._peer.transport is not None:
            self._peer.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._peer is not None:
            if error is None:
                self._peer.leave()
            else:
                self._peer.reset()
        self._peer = None

    def leave(self) -> None:
        """The other end is gone: say what is left to say, and close."""
        if self.transport is not None:
            self.transport.close()

    def reset(self) -> None:
        """End the connection so that the peer sees a fault."""
        if self.transport is not None:
            endpoint = self.transport.get_extra_info("socket")
            if endpoint is not None and endpoint.fileno() >= 0:
                endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            self.transport.abort()


class _Front(_Side):
    """The end towards the client, which waits until a backend is found."""

    def __init__(self, accept: "Callable[[_Front], None]") -> None:
        super().__init__()
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._accept(self)
