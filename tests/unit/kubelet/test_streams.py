"""The kubelet's own port, spoken to as the API server does: TLS, SPDY, exec, logs."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from lab.controlplane import certificates
from lab.kubelet import spdy, streams


@dataclass
class FakePods:
    """One pod `p` with a container `main`."""

    commands: list[list[str]] = field(default_factory=list)
    answer: streams.Executed = field(default_factory=streams.Executed)

    def execute(
        self, namespace: str, pod: str, container: str, *, command: list[str]
    ) -> streams.Executed | None:
        """Take note of a command."""
        if (namespace, pod, container) != ("default", "p", "main"):
            return None
        self.commands.append(command)
        return self.answer

    def log(self, namespace: str, pod: str, container: str) -> str | None:
        """Return a line."""
        return "hello\n" if pod == "p" else None


@contextlib.asynccontextmanager
async def a_port(pods: FakePods, folder: Path) -> AsyncIterator[int]:
    """Serve on two addresses of one port."""
    certificates.write_authority(folder / "serving", "test")
    sockets, port = streams.bind(["127.0.0.1", "127.1.0.1"])
    servers = await streams.serve(pods, sockets=sockets, certificate=folder / "serving")
    try:
        yield port
    finally:
        for server in servers:
            server.close()


async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as the API server does, which does not verify a kubelet's certificate."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return await asyncio.open_connection("127.1.0.1", port, ssl=tls)


async def exchange(port: int, request: str) -> bytes:
    """Send one request and read everything."""
    reader, writer = await connect(port)
    writer.write(request.encode())
    answer = await reader.read()
    writer.close()
    return answer


async def execute(port: int, query: str) -> dict[int, bytes]:
    """Open the three streams that `exec` has, and return what came over each."""
    reader, writer = await connect(port)
    writer.write(
        f"POST /exec/default/p/main?{query}&output=1&error=1 HTTP/1.1\r\nHost: node\r\n"
        "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
        "X-Stream-Protocol-Version: v5.channel.k8s.io\r\n\r\n".encode()
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    client = spdy.Connection()
    for number, kind in ((1, "error"), (3, "stdout"), (5, "stderr")):
        writer.write(client.open(number, {"streamtype": kind}))
    writer.write(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x01")
    received: dict[int, bytes] = {}
    pending, ended, pinged = b"", set[int](), False
    while ended != {1, 3, 5}:
        pending += await reader.read(4096)
        while len(pending) >= 8 and len(pending) >= 8 + int.from_bytes(pending[5:8], "big"):
            length = int.from_bytes(pending[5:8], "big")
            frame, pending = pending[: 8 + length], pending[8 + length :]
            if frame[0] & 0x80:
                pinged |= frame[3] == spdy.PING
                continue
            number = int.from_bytes(frame[:4], "big")
            received[number] = received.get(number, b"") + frame[8:]
            if frame[4] & spdy.FIN:
                ended.add(number)
    assert pinged
    writer.close()
    return received


async def test_kill_is_carried_out_and_succeeds(tmp_path: Path) -> None:
    """The error stream says Success; the command arrives word by word."""
    pods = FakePods()
    async with a_port(pods, tmp_path) as port:
        query = "command=%2Fvar%2Frun%2Fargo%2Fargoexec&command=kill&command=15&command=1"
        received = await execute(port, query)
    assert [["/var/run/argo/argoexec", "kill", "15", "1"]] == pods.commands
    assert "Success" == msgspec.json.decode(received[1])["status"]
    assert b"" == received[3] == received[5]


async def test_a_failing_command_tells_its_exit_code(tmp_path: Path) -> None:
    """NonZeroExitCode with the code as a cause, the text on stderr."""
    pods = FakePods(answer=streams.Executed(exit_code=126, stderr="no programs\n"))
    async with a_port(pods, tmp_path) as port:
        received = await execute(port, "command=ls")
    status = msgspec.json.decode(received[1])
    assert ("Failure", "NonZeroExitCode") == (status["status"], status["reason"])
    assert [{"reason": "ExitCode", "message": "126"}] == status["details"]["causes"]
    assert b"no programs\n" == received[5]


async def test_logs_are_plain_text(tmp_path: Path) -> None:
    """`kubectl logs` prints what the container printed."""
    async with a_port(FakePods(), tmp_path) as port:
        answer = await exchange(port, "GET /containerLogs/default/p/main HTTP/1.1\r\n\r\n")
        absent = await exchange(port, "GET /containerLogs/default/q/main HTTP/1.1\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"hello\n")
    assert absent.startswith(b"HTTP/1.1 404 ")


async def test_whatever_else_is_asked_is_not_found(tmp_path: Path) -> None:
    """No such container, no such path, no request at all: the port stays up."""
    async with a_port(FakePods(), tmp_path) as port:
        upgrade = "Connection: Upgrade\r\nUpgrade: SPDY/3.1"
        nobody = await exchange(port, f"POST /exec/default/x/main HTTP/1.1\r\n{upgrade}\r\n\r\n")
        path = await exchange(port, "GET /pods HTTP/1.1\r\n\r\n")
        _, writer = await connect(port)
        writer.close()
        again = await exchange(port, "GET /pods HTTP/1.1\r\n\r\n")
    assert {b"HTTP/1.1 404 Not Found"} == {
        answer.split(b"\r\n")[0] for answer in (nobody, path, again)
    }


@pytest.mark.parametrize(
    ("command", "signal"),
    [
        (["/bin/sh", "-c", "kill -15 1"], 15),
        (["/var/run/argo/argoexec", "kill", "9", "1"], 9),
        (["kill", "-TERM", "1"], 15),
        (["kill", "-s", "SIGKILL", "1"], 9),
        (["kill", "1"], None),
        (["ls", "/"], None),
        (["echo", "skill", "9", "1"], None),
    ],
)
def test_a_kill_is_known_by_its_words(command: list[str], signal: int | None) -> None:
    """As Argo writes it, as people do, and what is none."""
    assert signal == streams.signal_of(command)


def test_headers_share_one_compression_over_a_connection() -> None:
    """The second stream's headers are read with what the first left."""
    client, server = spdy.Connection(), spdy.Connection()
    sent = b"".join(client.open(n, {"streamtype": kind}) for n, kind in ((1, "error"), (3, "x")))
    opened = [event for part in (sent[:9], sent[9:]) for event in server.receive(part)]
    assert [spdy.Opened(1, {"streamtype": "error"}), spdy.Opened(3, {"streamtype": "x"})] == opened


def test_garbage_ends_the_connection() -> None:
    """Too long a frame, or headers that are none."""
    with pytest.raises(spdy.SpdyError, match="too long"):
        list(spdy.Connection().receive(b"\x80\x03\x00\x01\x00\xff\xff\xff" + b"x" * 20))
    with pytest.raises(spdy.SpdyError, match="cannot be read"):
        list(spdy.Connection().receive(b"\x80\x03\x00\x01\x00\x00\x00\x0c" + b"x" * 12))
