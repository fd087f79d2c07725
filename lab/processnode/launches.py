"""Starting processes of containers, through their shim, and knowing when all of them are gone."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import msgspec

from lab import errors
from lab.processnode import shims

Isolation = Literal["mount", "user", "none"]
"""`mount`: a mount namespace; `user`: one inside a user namespace, for those who are not root;
`none`: neither is permitted, and volumes do not appear where the pod wants them."""

SHIM = Path(shims.__file__)
ENDED_ABNORMALLY = 137


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One file or folder that is laid over the container's file tree."""

    source: str
    target: str
    read_only: bool


class Spec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a shim is told; crosses a socket, so that no Secret stands in a file."""

    command: list[str]
    environment: dict[str, str]
    folder: str
    """Working directory, as the container sees it."""
    isolation: Isolation = "none"
    enter: int | None = None
    """Join the namespaces of this process instead of making own ones."""
    hostname: str = ""
    stage: str = ""
    """An empty folder for the shim's own use."""
    mounts: list[Mount] = []
    log: str = ""
    """File for stdout and stderr; empty: both stay those that the shim was given."""
    log_bytes: int = 0
    terminal: bool = False
    """Whether stdin is a terminal that the program shall own."""


class StartError(errors.LabError):
    """The program of a container could not be started; `str()` is the kernel's reason."""


class Launched:
    """A shim and the processes behind it; `exited` is done when the last of them is gone."""

    def __init__(
        self,
        spec: Spec,
        *,
        streams: tuple[int, int, int] = (subprocess.DEVNULL,) * 3,
    ) -> None:
        """Start the shim; `streams` are its stdin, stdout and stderr."""
        loop = asyncio.get_running_loop()
        self.pid = 0
        """The container's first process; 0 until it is known."""
        self.exited: asyncio.Future[int] = loop.create_future()
        self._started: asyncio.Future[None] = loop.create_future()
        # Whoever only waits for the end must not be told off for not asking about the start.
        self._started.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._control, other = socket.socketpair()
        self._control.setblocking(False)
        # A session of its own: Ctrl-C in a terminal is for the lab, which ends its pods in order.
        self._popen = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SHIM), str(other.fileno())],
            env=marker(),
            stdin=streams[0],
            stdout=streams[1],
            stderr=streams[2],
            pass_fds=(other.fileno(),),
            start_new_session=True,
        )
        other.close()
        self._task = loop.create_task(self._converse(msgspec.json.encode(spec) + b"\n"))

    async def started(self) -> int:
        """Return the pid once the program runs; raises `StartError` if it does not."""
        await asyncio.shield(self._started)
        return self.pid

    def signal(self, number: int) -> None:
        """Signal the process group of the container's first process."""
        if not self.exited.done():
            with contextlib.suppress(OSError):
                self._control.send(msgspec.json.encode({"signal": number}) + b"\n")

    def kill(self) -> None:
        """Kill everything at once."""
        if not self.exited.done():
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_WR)

    async def end(self, *, grace_s: float) -> int:
        """SIGTERM, everything killed after `grace_s`; returns the exit code."""
        self.signal(signal.SIGTERM)
        await asyncio.wait([self.exited], timeout=grace_s)
        self.kill()
        return await self.exited

    async def _converse(self, spec: bytes) -> None:
        """Tell the shim what to run and hear what becomes of it."""
        loop = asyncio.get_running_loop()
        code = ENDED_ABNORMALLY
        rest = b""
        try:
            await loop.sock_sendall(self._control, spec)
            while received := await loop.sock_recv(self._control, 65536):
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    match msgspec.json.decode(line):
                        case {"started": pid}:
                            self.pid = pid
                            self._started.set_result(None)
                        case {"failed": reason}:
                            self._started.set_exception(StartError(reason))
                        case {"exited": code}:
                            pass
        except OSError:
            pass  # the shim is gone; that it said nothing before is an answer too
        finally:
            self._control.close()
        # The socket closes when the shim ends, so this waits for an instant only.
        self._popen.wait()
        if self._popen.returncode and self.pid:
            # Somebody killed the shim itself; its container died with it, but not its children.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        if not self._started.done():
            self._started.set_exception(StartError("its shim ended before it ran"))
        self.exited.set_result(code)


async def isolation(folder: Path) -> tuple[Isolation, str]:
    """Return the strongest isolation that works here, and why stronger ones do not.

    Found by trying: kernels, containers and security modules forbid it in many ways.
    """
    reasons = []
    kinds: tuple[Isolation, ...] = ("mount", "user") if os.geteuid() == 0 else ("user",)
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=folder) as trial:
            if not (reason := await _fails(kind, Path(trial))):
                return kind, ""
            reasons.append(reason)
    return "none", "; ".join(dict.fromkeys(reasons))


async def _fails(kind: Isolation, folder: Path) -> str:
    """Return why `kind` does not work; empty if it does."""
    (folder / "stage").mkdir()
    (folder / "source").mkdir()
    target = "/run/tiphys-lab-trial"
    launched = Launched(
        Spec(
            command=["/bin/sh", "-c", f"test -d {target}"],
            environment={},
            folder="/",
            isolation=kind,
            hostname="trial",
            stage=str(folder / "stage"),
            mounts=[Mount(source=str(folder / "source"), target=target, read_only=True)],
        )
    )
    try:
        await launched.started()
    except StartError as error:
        return str(error)
    finally:
        code = await launched.exited
    return "" if code == 0 else "a mount did not show where it was made"


def marker() -> dict[str, str]:
    """Return the variable by which `lab down` finds processes that a crash left behind."""
    return {key: value for key, value in os.environ.items() if key == "TIPHYS_LAB_ROOT"}
