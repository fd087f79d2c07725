"""Labs as a person sees them: bring one up, take it down, whatever became of it meanwhile."""

import contextlib
import fcntl
import math
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from lab import catalogs, errors, homes, invocations, records
from lab.controlplane import (
    binaries,
    builds,
    certificates,
    children,
    components,
    configurations,
    controls,
    ports,
    processes,
    states,
)
from lab.processnode import addresses

READY_WITHIN_S = 240.0
"""Every component has its own, shorter limit; this one holds if the supervisor itself hangs."""
DOWN_WITHIN_S = 40.0
LOOK_EVERY_S = 0.1
LOCKED_WITHIN_S = 300.0
ROOM_BYTES = 192 * 2**20
"""What must be free where a lab is to live: etcd alone takes 128 MiB before it holds anything."""
SHUTDOWN_HEARD_WITHIN_S = 10.0
"""A supervisor says at once that it has heard; one that does not hangs, and is killed."""
SOCKET_PATH_MAX = 107
"""Bytes that a Unix socket's path may have on Linux."""

VERSIONS = ("kubernetes", "argo", "etcd")

Progress = Callable[[states.State], None]
Tell = Callable[[str], None]


class Outcome(StrEnum):
    """What `up` or `down` found and did."""

    STARTED = "started"
    RAN_ALREADY = "ran already"
    STOPPED = "stopped"
    CLEANED = "cleaned"
    """The lab had crashed; what it left is gone."""
    WAS_DOWN = "was down"


def up(
    home: homes.Home,
    asked: states.Asked,
    *,
    progress: Progress = lambda state: None,
    report: builds.Report = lambda progress: None,
    tell: Tell = lambda line: None,
) -> Outcome:
    """Bring a lab up and return when it is ready; a lab that runs already is left alone.

    `tell` hears that another command about the lab is waited for.

    Raises `UsageError` (cluster, name), `StaleError` (another version is in the way), `SetupError`
    (no binaries, a port, no room on the disk), `StartError` (a component). On any of them, and on
    an interrupt, nothing of the lab is left running.
    """
    _check(home, asked)
    with _locked(home, tell):
        if _runs_as(home, asked):
            return Outcome.RAN_ALREADY
        try:
            claim = addresses.claim(home.name)
            with claim.socket:
                prepare(home, asked, block=claim.block, report=report)
                _start(home, progress, claim=claim)
        except BaseException:
            _clear(home)
            raise
    return Outcome.STARTED


def prepare(
    home: homes.Home,
    asked: states.Asked,
    *,
    block: addresses.Block | None = None,
    report: builds.Report = lambda progress: None,
) -> states.State:
    """Do all that precedes the first process: programs, home, certificates, files, state.

    `block` holds the lab's addresses; None = its first choice, whoever may hold it.
    """
    cluster = catalogs.load(asked.cluster)
    if asked.api_port is not None:
        ports.refuse_taken(asked.api_port)
    _refuse_full_disk(home)
    programs = binaries.find(asked, report=report)
    state = states.new(home, asked=asked, binaries=programs, nodes=len(cluster.nodes))
    _furnish(home, cluster, state, block=block or addresses.first_choice(home.name))
    return state


def _check(home: homes.Home, asked: states.Asked) -> None:
    """Refuse what cannot become a lab, before anything is written."""
    catalogs.load(asked.cluster)
    if unknown := set(asked.without) - set(components.OPTIONAL):
        raise errors.UsageError(
            f"--without {', '.join(sorted(unknown))}: choose from {', '.join(components.OPTIONAL)}"
        )
    if not (asked.speed > 0 and math.isfinite(asked.speed)):
        raise errors.UsageError(f"--speed {asked.speed}: it must be a number above 0")
    if len(os.fsencode(home.supervisor_socket)) > SOCKET_PATH_MAX:
        raise errors.UsageError(
            f"{home.supervisor_socket} is too long for a socket ({SOCKET_PATH_MAX} bytes): "
            "choose a shorter TIPHYS_LAB_HOME"
        )


def _refuse_full_disk(home: homes.Home) -> None:
    """Raise `SetupError` where a lab would end in mid-start, with the words of etcd's panic."""
    folder = next(path for path in home.root.parents if path.exists())
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise errors.SetupError(
            f"{free / 2**20:.0f} MiB are free in {home.root.parent}, and a lab needs "
            f"{ROOM_BYTES / 2**20:.0f} MiB there at least: make room, or choose another folder "
            "with TIPHYS_LAB_HOME"
        )


def down(
    home: homes.Home,
    *,
    purge: bool = False,
    at_once: bool = False,
    tell: Tell = lambda line: None,
) -> Outcome:
    """Take a lab down and return when its last process has ended; `purge` deletes its home.

    `at_once` gives nobody the time to end in order, for a lab whose records nobody will read.
    `tell` hears that another command about the lab is waited for.
    """
    with _locked(home, tell):
        left = home.state.exists()
        try:
            state = states.read(home)
        except errors.StaleError:
            state = None
        running = state is not None and state.running
        if running and not at_once:
            with contextlib.suppress(errors.LabError):
                controls.send(home, "shutdown", within_s=SHUTDOWN_HEARD_WITHIN_S)
                assert state is not None and state.supervisor is not None
                processes.wait_gone([state.supervisor], limit_s=DOWN_WITHIN_S)
        left = _clear(home) or left
        if purge:
            shutil.rmtree(home.root, ignore_errors=True)
        if running:
            return Outcome.STOPPED
        return Outcome.CLEANED if left else Outcome.WAS_DOWN


def owner(pid: int) -> processes.Process:
    """Return the process to bind a lab to; raises `UsageError` if there is none."""
    found = processes.process(pid)
    if found is None or not found.alive:
        raise errors.UsageError(f"--owner-pid {pid}: there is no such process")
    return found


def _runs_as(home: homes.Home, asked: states.Asked) -> bool:
    """Whether the lab runs as asked; clears what a crash of such a lab left.

    Raises `StaleError` when one runs that was asked for otherwise, or a crash left one of another
    version, whose records somebody may still want.
    """
    state = states.read(home)
    if state is None:
        _clear(home)
        return False
    running = state.running and state.phase is not states.Phase.FAILED
    if difference := _difference(state.asked, asked, fields=None if running else VERSIONS):
        how, purge = ("runs", "") if running else ("crashed", " --purge")
        raise errors.StaleError(
            f"lab {home.name!r} {how} with {difference}: "
            f"end it with `{invocations.lab()} down{purge} --name {home.name}`, "
            "or choose another name with --name"
        )
    if running and catalogs.load(asked.cluster) != catalogs.load(str(home.cluster)):
        raise errors.StaleError(
            f"lab {home.name!r} runs with what {asked.cluster} described when it started: end it "
            f"with `{invocations.lab()} down --name {home.name}`, or choose another name with "
            "--name"
        )
    if not running:
        _clear(home)
    return running


def _difference(there: states.Asked, asked: states.Asked, *, fields: Sequence[str] | None) -> str:
    """Return in words in which of `fields` (None = all but the owner) two labs differ."""
    compared = fields or [name for name in there.__struct_fields__ if name != "owner"]
    pairs = [(name, getattr(there, name), getattr(asked, name)) for name in compared]
    return ", ".join(f"{name} {old} (not {new})" for name, old, new in pairs if old != new)


def _clear(home: homes.Home) -> bool:
    """End every process of the lab, written down or not, and forget its state."""
    recorded: list[processes.Process] = []
    with contextlib.suppress(errors.StaleError):
        if state := states.read(home):
            recorded = state.processes()
    found = {*recorded, *processes.of_lab(home.root)} - {processes.current()}
    left = [item for item in found if item.alive]
    processes.end(left, grace_s=0.0)
    home.state.unlink(missing_ok=True)
    for path in (home.supervisor_socket, home.kubelet_socket, home.kubeconfig):
        path.unlink(missing_ok=True)
    return bool(left)


def _furnish(
    home: homes.Home, cluster: catalogs.Cluster, state: states.State, *, block: addresses.Block
) -> None:
    """Make the home anew: a lab starts empty, with its own certificates."""
    shutil.rmtree(home.root, ignore_errors=True)
    for folder in (home.root, home.logs, home.data, home.truths, home.artifacts):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    records.write_whole(home.cluster, configurations.cluster(cluster).encode(), mode=0o600)
    addresses.record(home.root, block)
    certificates.write_all(home.pki, server_addresses=(block.server,))
    configurations.write_all(home)
    states.write(home, state)


def _start(home: homes.Home, progress: Progress, *, claim: addresses.Claim) -> None:
    """Start the supervisor and wait until the lab is ready."""
    log = home.logs / "supervisor.log"
    with _supervisor(home, log, claim=claim) as held:
        until = time.monotonic() + READY_WITHIN_S
        while True:
            # Nothing is ever written to the pipe: it is readable once its only writer is gone.
            ended = bool(select.select([held], [], [], LOOK_EVERY_S)[0])
            state = states.read(home)
            if state is not None:
                progress(state)
                if state.phase is states.Phase.READY:
                    return
                if state.phase is states.Phase.FAILED:
                    failure = errors.StartError(state.error)
                    failure.exit_code = state.error_code
                    raise failure
            if ended:
                problem = f"the supervisor of lab {home.name!r} ended before the lab was ready"
                raise errors.StartError(problem, log=log, tail=children.tail(log))
            if time.monotonic() > until:
                raise _late(home, state, log=log)


def _late(home: homes.Home, state: states.State | None, *, log: Path) -> errors.StartError:
    """Return the error that names what has not come up, with the end of its log."""
    listed = state.components if state is not None else ()
    late = [item for item in listed if item.phase is not states.Phase.READY]
    shown = Path(late[0].log) if late and Path(late[0].log).exists() else log
    phases = ", ".join(f"{item.name} is {item.phase}" for item in late)
    problem = f"lab {home.name!r} was not ready within {READY_WITHIN_S:.0f} s"
    problem += f": {phases}" if phases else ""
    return errors.StartError(problem, log=shown, tail=children.tail(shown))


@contextlib.contextmanager
def _supervisor(home: homes.Home, log: Path, *, claim: addresses.Claim) -> Iterator[int]:
    """Start the supervisor as nobody's child; yields a pipe that ends when it does.

    It inherits the claim on the lab's addresses, and nobody else does.
    """
    me = processes.current()
    held, writer = os.pipe()
    command = ["-m", "lab.controlplane", f"--lab={home.name}"]
    environment = {
        **os.environ,
        processes.MARKER: str(home.root),
        "TIPHYS_LAB_HOME": str(home.root.parent),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    with os.fdopen(held, "rb") as pipe:
        with os.fdopen(writer, "wb"), log.open("ab") as sink:
            # Returns at once: the program forks, and what goes on belongs to init.
            subprocess.run(
                [sys.executable, *command, f"--starter={me.pid}:{me.started_ticks}"],
                cwd=home.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                pass_fds=[writer, claim.socket.fileno()],
                start_new_session=True,
                check=False,
            )
        yield pipe.fileno()


@contextlib.contextmanager
def _locked(home: homes.Home, tell: Tell) -> Iterator[None]:
    """Hold the lab's lock, so that two commands about one lab come one after the other."""
    home.root.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + LOCKED_WITHIN_S
    told = False
    with (home.root.parent / f".{home.name}.lock").open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    raise errors.LabError(
                        f"another `up` or `down` of lab {home.name!r} has been at work for "
                        f"{LOCKED_WITHIN_S:.0f} s: wait for it or end it"
                    ) from error
                if not told:
                    told = True
                    tell(
                        f"waiting for another `up` or `down` of lab {home.name!r}, "
                        f"{LOCKED_WITHIN_S:.0f} s at most"
                    )
                time.sleep(LOOK_EVERY_S)
        yield
