"""`kubectl exec`: a command in a running container, its streams over one WebSocket.

The protocol is `v5.channel.k8s.io` (or v4): each message begins with the number of its channel.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import select
import struct
import subprocess
import termios
from collections.abc import Callable

from aiohttp import WSMsgType, web

from lab import apis
from lab.processnode import actions, launches

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
READ_BYTES = 32 * 1024
PINGED_EVERY_S = 30.0


class Streams:
    """The three streams of a command, as its shim gets them and as this side holds them."""

    def __init__(self, *, stdin: bool, terminal: bool) -> None:
        self._theirs: set[int] = set()
        self.readers: dict[int, int] = {}
        """Channel of each descriptor that is read here."""
        self.stdin: int | None = None
        self.terminal: int | None = None
        if terminal:
            self.terminal, other = os.openpty()
            self.given = (other, other, other)
            self._theirs.add(other)
            self.readers[self.terminal] = STDOUT
            self.stdin = self.terminal
            return
        source = subprocess.DEVNULL
        if stdin:
            source, self.stdin = os.pipe()
            self._theirs.add(source)
        self.given = (source, self._sink(STDOUT), self._sink(STDERR))

    def _sink(self, channel: int) -> int:
        read_end, write_end = os.pipe()
        self.readers[read_end] = channel
        self._theirs.add(write_end)
        return write_end

    def hand_over(self) -> None:
        """Close what the shim has got by now."""
        for descriptor in self._theirs:
            os.close(descriptor)
        self._theirs.clear()

    def write(self, text: bytes) -> None:
        """Give the command something to read; what it does not take is lost with its end.

        Blocks until it has taken all of it.
        """
        if self.stdin is None:
            return
        room = select.poll()
        room.register(self.stdin, select.POLLOUT)
        with contextlib.suppress(OSError):
            while text:
                # A terminal is read without waiting, so it may take a part, or nothing now.
                room.poll()
                text = text[os.write(self.stdin, text) :]

    def end_input(self) -> None:
        """Let the command see the end of its input."""
        if self.stdin is not None and self.terminal is None:
            os.close(self.stdin)
            self.stdin = None

    def resize(self, size: apis.Object) -> None:
        """Tell the terminal how large it is shown."""
        if self.terminal is not None:
            packed = struct.pack("HHHH", size.get("Height", 24), size.get("Width", 80), 0, 0)
            fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, packed)

    def close(self) -> None:
        """Close this side."""
        self.hand_over()
        self.end_input()
        for descriptor in self.readers:
            os.close(descriptor)
        self.readers.clear()


async def serve(request: web.Request, subject: actions.Subject) -> web.StreamResponse:
    """Run the command that a request asks for and carry its streams until it ends."""
    query = request.query
    socket = web.WebSocketResponse(protocols=PROTOCOLS, heartbeat=PINGED_EVERY_S)
    if not socket.can_prepare(request):
        return web.Response(
            status=400,
            text="commands are carried by WebSockets only: use kubectl 1.31 or later\n",
        )
    await socket.prepare(request)
    streams = Streams(stdin=query.get("input") == "1", terminal=query.get("tty") == "1")
    launched = launches.Launched(
        launches.Spec(
            command=query.getall("command", []),
            environment=dict(subject.environment) | {"TERM": "xterm"},
            folder=subject.folder,
            enter=subject.pid if subject.isolation != "none" else None,
            terminal=streams.terminal is not None,
        ),
        streams=streams.given,
    )
    streams.hand_over()
    hearing = asyncio.create_task(_hear(socket, streams, on_end=launched.kill))
    telling = [
        asyncio.create_task(_tell(socket, descriptor, channel))
        for descriptor, channel in streams.readers.items()
    ]
    try:
        verdict = await _verdict(launched)
        await asyncio.gather(*telling)
        with contextlib.suppress(ConnectionError):
            await socket.send_bytes(bytes([ERROR]) + json.dumps(verdict).encode())
    finally:
        launched.kill()
        for task in (hearing, *telling):
            task.cancel()
        await asyncio.gather(hearing, *telling, return_exceptions=True)
        streams.close()
    await socket.close()
    return socket


async def _verdict(launched: launches.Launched) -> apis.Object:
    """Return the Status that says how the command ended."""
    try:
        await launched.started()
    except launches.StartError as error:
        return {
            "metadata": {},
            "status": "Failure",
            "reason": "InternalError",
            "message": str(error),
        }
    code = await asyncio.shield(launched.exited)
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _hear(
    socket: web.WebSocketResponse, streams: Streams, *, on_end: Callable[[], None]
) -> None:
    """Pass on what the person types; when the connection ends, so does the command."""
    async for message in socket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, text = message.data[0], message.data[1:]
        if channel == STDIN:
            await asyncio.to_thread(streams.write, text)
        elif channel == RESIZE:
            streams.resize(json.loads(text))
        elif channel == CLOSE and text[:1] == bytes([STDIN]):
            streams.end_input()
    on_end()


async def _tell(socket: web.WebSocketResponse, descriptor: int, channel: int) -> None:
    """Send what the command says on one stream, to its end."""
    loop = asyncio.get_running_loop()
    os.set_blocking(descriptor, False)
    while True:
        readable = loop.create_future()
        loop.add_reader(descriptor, readable.set_result, None)
        try:
            await readable
        finally:
            loop.remove_reader(descriptor)
        try:
            text = os.read(descriptor, READ_BYTES)
        except OSError:
            return  # a terminal whose last process is gone reads as an error
        if not text:
            return
        try:
            await socket.send_bytes(bytes([channel]) + text)
        except ConnectionError:
            return
