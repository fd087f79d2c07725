"""Runs one container of a pod as real processes in a throw-away sandbox (see `cells/cell.py`)."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import apis
from lab.kubelet.behaviours import grounds, volumes

CPU_S = 120
"""CPU seconds after which a container's process is killed: nothing that a lab runs for its effect
needs more; what is to take time is simulated."""
FILES_BYTES = 512 << 20
"""Most that one container may write outside its volumes, and the largest file anywhere."""
OUTPUT_BYTES = 8 << 20
"""How much output is kept, the last of it; the rest is dropped, so no chatty command blocks."""
GRACE_S = 30.0


@dataclass(slots=True, kw_only=True)
class Output:
    """What a container wrote."""

    stdout: bytearray = field(default_factory=bytearray)
    combined: bytearray = field(default_factory=bytearray)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run, and in which surroundings."""

    hostname: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: str = "/"
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents of files outside volumes, by path."""
    mounts: Sequence[volumes.Mount] = ()
    parameters: Sequence[str] = ()
    """Files that are copied to `/var/run/argo/outputs/parameters` after the command."""
    artifacts: Sequence[str] = ()
    """Files and folders that are packed to `/var/run/argo/outputs/artifacts` after it."""
    retries: int = 0
    pause_s: float = 0.0
    """Wall seconds between two tries."""


class Sandbox:
    """One running container."""

    def __init__(
        self, process: asyncio.subprocess.Process, root: tempfile.TemporaryDirectory[str]
    ) -> None:
        self.output = Output()
        self._process = process
        self._root = root
        self._pumps = [
            asyncio.create_task(self._pump(process.stdout, self.output.stdout)),
            asyncio.create_task(self._pump(process.stderr, None)),
        ]

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self._process.returncode is not None

    async def wait(self) -> int:
        """Wait for the end; return the exit code, 128 + N after signal N."""
        code = await self._process.wait()
        # A background process that inherited the pipes is gone with its namespace by now.
        await asyncio.wait(self._pumps)
        self._root.cleanup()
        return code if code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the command."""
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, grace_s: float = GRACE_S) -> int:
        """End it: SIGTERM, and SIGKILL after `grace_s` wall seconds; return the exit code."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                return await self.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            return await self.wait()

    async def _pump(self, stream: asyncio.StreamReader | None, into: bytearray | None) -> None:
        assert stream is not None
        while chunk := await stream.read(1 << 16):
            for kept in (into, self.output.combined):
                if kept is not None:
                    kept.extend(chunk)
                    del kept[: max(0, len(kept) - OUTPUT_BYTES)]


async def start(ground: grounds.Ground, plan: Plan) -> Sandbox:
    """Start a container; it dies with this process."""
    ground.prepare()
    root = tempfile.TemporaryDirectory(dir=ground.roots, ignore_cleanup_errors=True)
    descriptor = os.memfd_create("plan")
    try:
        os.write(descriptor, grounds.encode(_encoded(ground, plan, root.name)))
        os.lseek(descriptor, 0, os.SEEK_SET)
        async with ground.starting:
            process = await asyncio.create_subprocess_exec(
                str(grounds.interpreter()),
                "-IS",
                str(grounds.CELLS / "cell.py"),
                str(descriptor),
                pass_fds=(descriptor,),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env={},
            )
    finally:
        os.close(descriptor)
    return Sandbox(process, root)


def shared_mounts(ground: grounds.Ground) -> list[volumes.Mount]:
    """Return what every container sees: stand-ins, the network, a shell that knows bash's words.

    The examples are written for busybox, whose `sh` knows `[[` and `$RANDOM`; bash does too.
    """
    mounts = [
        volumes.Mount(source=ground.standins, path="/opt/lab/bin", read_only=True),
        volumes.Mount(source=grounds.CELLS / "site", path="/opt/lab/site", read_only=True),
        volumes.Mount(source=ground.standins / "argosay", path="/argosay", read_only=True),
        volumes.Mount(source=ground.standins / "entrypoint", path="/entrypoint.sh", read_only=True),
        volumes.Mount(source=ground.net, path="/opt/lab/net"),
    ]
    bash = Path("/usr/bin/bash")
    if bash.exists():
        mounts.append(volumes.Mount(source=bash, path="/usr/bin/sh", read_only=True))
    return mounts


def _encoded(ground: grounds.Ground, plan: Plan, root: str) -> dict[str, Any]:
    mounts = [*shared_mounts(ground), *plan.mounts]
    files = {
        **grounds.passwd(),
        "/etc/hostname": f"{plan.hostname}\n",
        "/etc/hosts": f"127.0.0.1 localhost {plan.hostname}\n",
        **plan.files,
    }
    return {
        "root": root,
        "hostname": plan.hostname,
        "command": list(plan.command),
        "environment": dict(plan.environment),
        "folder": plan.folder,
        "system": list(grounds.system_paths()),
        "files": files,
        "mounts": [
            {"source": str(mount.source), "path": mount.path, "read_only": mount.read_only}
            for mount in mounts
        ],
        "parameters": list(plan.parameters),
        "artifacts": list(plan.artifacts),
        "retries": plan.retries,
        "pause_s": plan.pause_s,
        "limits": {"cpu_s": CPU_S, "files_bytes": FILES_BYTES},
    }


def hostname(pod: apis.Object) -> str:
    """Return the host name that a pod's containers see."""
    return str(pod["spec"].get("hostname") or pod["metadata"]["name"])[:63]
