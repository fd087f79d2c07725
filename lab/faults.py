"""Faults on command: to simulated nodes through the kubelet's socket, to servers through the
supervisor's. Every fault is a line in the journal, so that reports can show it.
"""

import os
import socket
import time

import msgspec

from lab import errors, homes, invocations, journals, sockets
from lab.controlplane import controls as supervisor_controls
from lab.kubelet import controls

ANSWER_WITHIN_S = 20.0
"""Wall seconds in which a kubelet carries a fault out."""
RESTARTED_WITHIN_S = 20.0
KUBELET = "kubelet"


def cause(home: homes.Home, command: controls.Command) -> None:
    """Let a fault of a node happen, or end; returns when it has.

    Raises `UsageError` for an unknown node or fault, and where no kubelet listens.
    """
    sockets.send(
        home.kubelet_socket,
        command,
        who=f"the kubelet of lab {home.name!r}",
        absent=f"no simulated kubelet listens in lab {home.name!r}: "
        f"see `{invocations.lab()} status --name {home.name}`",
        log=home.logs / "kubelet.log",
        within_s=ANSWER_WITHIN_S,
    )


def restart(home: homes.Home, component: str) -> None:
    """Restart a server of the lab, or the simulated kubelet; returns when it serves again.

    The kubelet begins anew in its own process: its pods run on, as containers do.
    """
    if component == KUBELET:
        before = _mark(home)
        cause(home, controls.Command(fault="restart"))
        _wait_until_it_listens(home, before)
        return
    at = time.time()
    supervisor_controls.send(home, "restart", component)
    record = journals.FaultRecord(at=at, fault=f"restart {component}", node="")
    descriptor = os.open(home.journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, msgspec.json.encode(record) + b"\n")
    finally:
        os.close(descriptor)


def _mark(home: homes.Home) -> tuple[int, int] | None:
    """Return what tells one kubelet's socket from the next one's."""
    try:
        about = home.kubelet_socket.stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_ctime_ns


def _wait_until_it_listens(home: homes.Home, before: tuple[int, int] | None) -> None:
    """Wait for the kubelet that comes after the one whose socket was `before`."""
    until = time.monotonic() + RESTARTED_WITHIN_S
    while time.monotonic() < until:
        if _mark(home) in (None, before):
            time.sleep(0.05)
            continue
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(home.kubelet_socket))
            except (FileNotFoundError, ConnectionError):
                time.sleep(0.05)
            else:
                return
    raise errors.LabError(
        f"the kubelet of lab {home.name!r} did not come back in {RESTARTED_WITHIN_S:.0f} s: "
        f"see {home.logs / 'kubelet.log'}"
    )
