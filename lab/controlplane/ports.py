"""Free ports on loopback, and who holds one that is taken.

Ports are drawn outside the range from which the kernel takes source ports. Inside it, a client that
keeps trying a server that is down can be given that very port as its own source, connect to itself,
and so keep the server from coming back.
"""

import contextlib
import random
import socket
from dataclasses import dataclass
from pathlib import Path

from lab import errors
from lab.controlplane import processes

LOWEST, HIGHEST = 20000, 65000
TRIES = 100
"""Ports to look at for each that is wanted."""
LISTEN = "0A"
"""Socket state in `/proc/net/tcp`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The process that listens on a port; `pid` is None where `/proc` does not tell."""

    port: int
    pid: int | None
    command: str

    def __str__(self) -> str:
        if self.pid is None:
            return "a process of another user"
        return f"process {self.pid} ({self.command[:80]})"


def free(count: int, *, chance: random.Random | None = None) -> list[int]:
    """Return `count` different ports that nothing listened on an instant ago.

    Another program may still take one before it is used: whoever starts a server on it must be
    ready to ask again. Raises `SetupError` when no port can be had.
    """
    chance = chance or random.Random()
    candidates = _candidates()
    found: list[int] = []
    for _ in range(TRIES * count):
        if len(found) == count:
            break
        port = chance.choice(candidates)
        if port not in found and is_free(port):
            found.append(port)
    if len(found) == count:
        return found
    raise errors.SetupError(
        f"no {count} free ports on 127.0.0.1 between {LOWEST} and {HIGHEST}: "
        "end some of the programs that listen there (`ss -ltn` shows them)"
    )


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:`port` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def refuse_taken(port: int) -> None:
    """Raise `SetupError` with the holder's name if somebody listens on a port of our choice."""
    if is_free(port):
        return
    if found := holder(port):
        raise errors.SetupError(
            f"port {port} for kube-apiserver is taken by {found}: "
            "end it, or choose another with --api-port"
        )
    raise errors.SetupError(
        f"port {port} for kube-apiserver may not be used by you (those below 1024 belong to root): "
        "choose another with --api-port"
    )


def holder(port: int) -> Holder | None:
    """Return who listens on `port` on any address, or None if nobody does."""
    inodes = {
        fields[9]
        for name in ("tcp", "tcp6")
        for fields in _sockets(Path("/proc/net") / name)
        if fields[3] == LISTEN and int(fields[1].rpartition(":")[2], 16) == port
    }
    if not inodes:
        return None
    links = {f"socket:[{inode}]" for inode in inodes}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        if _descriptors(entry) & links:
            pid = int(entry.name)
            return Holder(port=port, pid=pid, command=processes.command(pid))
    return Holder(port=port, pid=None, command="")


def _descriptors(entry: Path) -> set[str]:
    """Return what a process (its folder in `/proc`) has open; less where we may not look."""
    found: set[str] = set()
    with contextlib.suppress(OSError):
        for path in (entry / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(str(path.readlink()))
    return found


def _candidates() -> range:
    """The wider of the two ranges beside the kernel's own."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    low, high = (int(word) for word in text.split())
    below, above = range(LOWEST, min(low, HIGHEST)), range(max(high + 1, LOWEST), HIGHEST)
    return max(below, above, key=len) or range(LOWEST, HIGHEST)


def _sockets(path: Path) -> list[list[str]]:
    try:
        return [line.split() for line in path.read_text().splitlines()[1:]]
    except OSError:
        return []
