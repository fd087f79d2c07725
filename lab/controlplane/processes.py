"""Processes by pid and start time, so that a pid that was used again is never mistaken for ours.

Linux only: reads `/proc`, dies with the parent by `PR_SET_PDEATHSIG`. Every process of a lab
carries `TIPHYS_LAB_ROOT=<home>` in its environment; `of_lab` finds by it what nobody wrote down.
"""

import ctypes
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

MARKER = "TIPHYS_LAB_ROOT"
PR_SET_PDEATHSIG = 1
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_libc = ctypes.CDLL(None, use_errno=True)


class Process(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process, for ever: no other one has this pid and this start time in this boot."""

    pid: int
    started_ticks: int
    """Clock ticks since boot (field 22 of `/proc/PID/stat`)."""

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie, which only waits to be reaped, does not."""
        fields = _stat(self.pid)
        return fields is not None and fields[0] != "Z" and int(fields[19]) == self.started_ticks

    def signal(self, number: int) -> None:
        """Send a signal to exactly this process; nothing happens if it is gone."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        # The descriptor pins the pid: checked after opening, it cannot change hands any more.
        try:
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a process has used so far."""

    cpu_s: float
    memory_bytes: int
    """Resident set."""
    uptime_s: float


def process(pid: int) -> Process | None:
    """Return the process that has this pid now, or None."""
    fields = _stat(pid)
    return None if fields is None else Process(pid=pid, started_ticks=int(fields[19]))


def current() -> Process:
    """Return this very process."""
    me = process(os.getpid())
    assert me is not None, "/proc/self must be readable"
    return me


def usage(chosen: Process) -> Usage | None:
    """Return CPU time, memory and age, or None if it is gone."""
    fields = _stat(chosen.pid)
    if fields is None or int(fields[19]) != chosen.started_ticks:
        return None
    return Usage(
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        memory_bytes=int(fields[21]) * PAGE_BYTES,
        uptime_s=time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / TICKS_PER_S,
    )


def boot_id() -> str:
    """Return the kernel's name of this boot: start times of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def command(pid: int) -> str:
    """Return the command line of a process as one line, or an empty string."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b" ").decode(errors="replace").strip()


def of_lab(root: Path) -> list[Process]:
    """Return every process that carries the marker of the lab whose home is `root`."""
    found = [process(pid) for pid, marked in _marked() if marked == str(root)]
    return [item for item in found if item is not None and item.alive]


def roots() -> set[Path]:
    """Return the home of every lab of which a process runs, whichever folder of labs it is in."""
    return {Path(marked) for _, marked in _marked()}


def _marked() -> Iterator[tuple[int, str]]:
    """Yield pid and marker of every other process that belongs to a lab, as far as we may look."""
    prefix = f"{MARKER}=".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        for variable in environment.split(b"\0"):
            if variable.startswith(prefix):
                yield int(entry.name), os.fsdecode(variable.removeprefix(prefix))


def end(chosen: Iterable[Process], *, grace_s: float) -> None:
    """SIGTERM, then SIGKILL for whoever is left after `grace_s`; returns when all are gone."""
    waiting = [item for item in chosen if item.alive]
    if grace_s > 0:
        for item in waiting:
            item.signal(signal.SIGTERM)
            item.signal(signal.SIGCONT)
        waiting = wait_gone(waiting, limit_s=grace_s)
    for item in waiting:
        item.signal(signal.SIGKILL)
    wait_gone(waiting, limit_s=10.0)


def wait_gone(chosen: Iterable[Process], *, limit_s: float) -> list[Process]:
    """Wait until all have ended; returns those that have not after `limit_s`."""
    until = time.monotonic() + limit_s
    left = [item for item in chosen if item.alive]
    while left and time.monotonic() < until:
        time.sleep(0.02)
        left = [item for item in left if item.alive]
    return left


def dying_with(parent: Process) -> Callable[[], None]:
    """Return what a child runs between fork and exec so that it ends when `parent` does."""

    def prepare() -> None:
        # Everything used here was loaded before the fork; nothing may be imported now.
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent.pid:
            os._exit(1)

    return prepare


def _stat(pid: int) -> list[str] | None:
    """Return the fields of `/proc/PID/stat` from the state on; the name before it may hold ')'."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()
