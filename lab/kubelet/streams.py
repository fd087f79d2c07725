"""The kubelet's own HTTPS port, as the API server uses it: `exec` and container logs.

One port for all nodes, on each node's own address. `exec` runs no program: `kill` is carried out
on the pod, everything else is refused with exit code 126.
"""

import asyncio
import contextlib
import logging
import re
import socket
import ssl
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from lab.kubelet import spdy

logger = logging.getLogger(__name__)

HEAD_WITHIN_S = 10.0
STREAMS_WITHIN_S = 30.0
"""Wall seconds in which a client opens its streams, and in which it closes afterwards."""
REFUSED = 126
SIGNALS = {"HUP": 1, "INT": 2, "QUIT": 3, "KILL": 9, "TERM": 15}
KILL = re.compile(r"\bkill\s+(?:-s\s+)?-?(?:SIG)?([A-Z]+|\d+)\s+\d+\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What came of a command in a container."""

    exit_code: int = 0
    stderr: str = ""


class Containers(Protocol):
    """What the port does to pods."""

    def execute(
        self, namespace: str, pod: str, container: str, *, command: list[str]
    ) -> Executed | None:
        """Run a command in a container; None if there is no such container."""
        ...

    def log(self, namespace: str, pod: str, container: str) -> str | None:
        """Return what a container has printed; None if there is no such container."""
        ...


def signal_of(command: Sequence[str]) -> int | None:
    """Return the signal that a `kill` sends to the container's processes; None for no `kill`."""
    match = KILL.search(" ".join(command))
    if match is None:
        return None
    name = match.group(1)
    return int(name) if name.isdigit() else SIGNALS.get(name)


def bind(addresses: Sequence[str]) -> tuple[list[socket.socket], int]:
    """Return a listening socket on each address, all on one free port, and that port."""
    while True:
        bound: list[socket.socket] = []
        port = 0
        try:
            for address in addresses:
                bound.append(socket.create_server((address, port), backlog=64))
                port = bound[0].getsockname()[1]
        except OSError:
            for listener in bound:
                listener.close()
            if not port:
                raise
        else:
            return bound, port


async def serve(
    containers: Containers, *, sockets: Sequence[socket.socket], certificate: Path
) -> list[asyncio.Server]:
    """Serve on the sockets until the servers are closed; `certificate` has `.crt` and `.key`."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError, spdy.SpdyError):
            await _answer(containers, reader, writer)
        writer.close()

    return [await asyncio.start_server(answer, sock=one, ssl=tls) for one in sockets]


async def _answer(
    containers: Containers, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        async with asyncio.timeout(HEAD_WITHIN_S):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    request, *lines = head.decode("latin-1").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    target = urllib.parse.urlsplit(request.split(" ")[1])
    query = urllib.parse.parse_qs(target.query)
    what, *where = [urllib.parse.unquote(part) for part in target.path.strip("/").split("/")]
    if what == "containerLogs" and len(where) == 3:
        log = containers.log(*where)
        writer.write(_response("404 Not Found" if log is None else "200 OK", log or ""))
    elif what == "exec" and len(where) == 3 and "spdy" in headers.get("upgrade", "").lower():
        executed = containers.execute(*where, command=query.get("command", []))
        if executed is None:
            writer.write(_response("404 Not Found", "no such container runs here"))
        else:
            await _stream(executed, query, reader, writer)
    else:
        writer.write(_response("404 Not Found", "the simulated kubelet serves exec and logs only"))
    await writer.drain()


def _response(status: str, body: str) -> bytes:
    content = body.encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


async def _stream(
    executed: Executed,
    query: dict[str, list[str]],
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
) -> None:
    """Speak SPDY: wait for the client's streams, send what the command left, and close them."""
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n"
    )
    asked = {"input": "stdin", "output": "stdout", "error": "stderr"}
    expected = {"error", *(kind for key, kind in asked.items() if query.get(key) == ["1"])}
    connection = spdy.Connection()
    streams: dict[str, int] = {}
    async with asyncio.timeout(STREAMS_WITHIN_S):
        while not expected <= streams.keys():
            received = await reader.read(65536)
            if not received:
                return
            for event in connection.receive(received):
                if isinstance(event, spdy.Pinged):
                    writer.write(event.frame)
                else:
                    streams[event.headers.get("streamtype", "")] = event.stream
                    writer.write(connection.reply(event.stream))
    for kind in ("stdout", "stderr"):
        if kind in streams:
            text = executed.stderr.encode() if kind == "stderr" else b""
            writer.write(spdy.data(streams[kind], text, last=True))
    status = msgspec.json.encode(_status(executed.exit_code))
    writer.write(spdy.data(streams["error"], status, last=True))
    await writer.drain()
    async with asyncio.timeout(STREAMS_WITHIN_S):
        while await reader.read(65536):
            pass


def _status(exit_code: int) -> dict[str, object]:
    if not exit_code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
    }
