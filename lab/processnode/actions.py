"""What probes and life-cycle hooks do: run a command, ask by HTTP, open a socket, or sleep."""

import asyncio
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from lab import apis
from lab.processnode import launches, pods

OUTPUT_BYTES = 10 * 1024
"""That much of what a command or page says is kept for the message."""
HTTP_FAULTS = (aiohttp.ClientError, OSError, TimeoutError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The running container that is acted upon."""

    container: apis.Object
    pod_ip: str
    environment: Mapping[str, str]
    folder: str
    isolation: launches.Isolation
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Whether it went well, and in words why not."""

    ok: bool
    message: str = ""


async def perform(action: apis.Object, subject: Subject, *, limit_s: float) -> Outcome:
    """Do what a probe or hook says; it fails when it takes longer than `limit_s`."""
    if command := action.get("exec"):
        return await _run(list(command["command"]), subject, limit_s=limit_s)
    try:
        async with asyncio.timeout(limit_s):
            if request := action.get("httpGet"):
                return await _ask(request, subject)
            if request := action.get("tcpSocket"):
                return await _connect(request, subject)
            if request := action.get("sleep"):
                await asyncio.sleep(float(request["seconds"]))
                return Outcome(ok=True)
    except TimeoutError:
        return Outcome(ok=False, message=f"no answer within {limit_s:g} s")
    return Outcome(ok=False, message=f"nothing known to do in {sorted(action)}")


async def _run(command: list[str], subject: Subject, *, limit_s: float) -> Outcome:
    read_end, write_end = os.pipe()
    launched = launches.Launched(
        launches.Spec(
            command=command,
            environment=dict(subject.environment),
            folder=subject.folder,
            enter=subject.pid if subject.isolation != "none" else None,
        ),
        streams=(-3, write_end, write_end),
    )
    os.close(write_end)
    reading = asyncio.create_task(_output(read_end))
    try:
        await launched.started()
        async with asyncio.timeout(limit_s):
            code = await asyncio.shield(launched.exited)
    except launches.StartError as error:
        return Outcome(ok=False, message=str(error))
    except TimeoutError:
        return Outcome(
            ok=False, message=f"command {pods.shown_command(command)} took over {limit_s:g} s"
        )
    finally:
        launched.kill()
        output = await reading
    return Outcome(ok=code == 0, message="" if code == 0 else f"exit code {code}: {output}")


async def _output(descriptor: int) -> str:
    """Read a pipe to its end, keeping the beginning."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    kept = b""
    try:
        while received := await reader.read(OUTPUT_BYTES):
            kept = (kept + received)[:OUTPUT_BYTES]
    finally:
        transport.close()
    return kept.decode(errors="replace").strip()


async def _ask(request: apis.Object, subject: Subject) -> Outcome:
    port = pods.port(subject.container, request["port"])
    if port is None:
        return Outcome(ok=False, message=f"the container has no port {request['port']!r}")
    scheme = str(request.get("scheme", "HTTP")).lower()
    host = request.get("host") or subject.pod_ip
    url = f"{scheme}://{host}:{port}/{str(request.get('path', '')).removeprefix('/')}"
    headers = {"User-Agent": "kube-probe/lab", "Accept": "*/*"}
    headers |= {item["name"]: item["value"] for item in request.get("httpHeaders") or ()}
    # Kubelets do not verify either: the probe asks whether it serves, not who it is.
    connector = aiohttp.TCPConnector(force_close=True, ssl=False)
    try:
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(url, headers=headers, allow_redirects=False) as response,
        ):
            if 200 <= response.status < 400:
                return Outcome(ok=True)
            page = (await response.content.read(OUTPUT_BYTES)).decode(errors="replace").strip()
            return Outcome(ok=False, message=f"GET {url}: status {response.status}: {page[:200]}")
    except HTTP_FAULTS as error:
        if isinstance(error, TimeoutError):
            raise
        reason: object = error
        if isinstance(error, aiohttp.ClientConnectorError):
            # Without the TLS context that aiohttp shows: one fault has one text, so one Event.
            reason = error.os_error.strerror or error.os_error
        return Outcome(ok=False, message=f"GET {url}: {reason}")


async def _connect(request: apis.Object, subject: Subject) -> Outcome:
    port = pods.port(subject.container, request["port"])
    if port is None:
        return Outcome(ok=False, message=f"the container has no port {request['port']!r}")
    host = request.get("host") or subject.pod_ip
    loop = asyncio.get_running_loop()
    with socket.socket() as probe:
        probe.setblocking(False)
        try:
            await loop.sock_connect(probe, (host, port))
        except OSError as error:
            return Outcome(ok=False, message=f"connect {host}:{port}: {error.strerror}")
    return Outcome(ok=True)


def working_folder(container: apis.Object, home: Path) -> str:
    """Return where a container's processes start."""
    return str(container.get("workingDir") or home)
