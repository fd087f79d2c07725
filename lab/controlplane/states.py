"""What a lab is and how it is: `HOME/state.json`, written only by its supervisor, whole or not.

`Asked` is what `up` was told, `State` what became of it. Readers (kubelet, reports, CLI) use
`load`, which says in one sentence what to do where no lab runs or where another version wrote it.
"""

import asyncio
import contextlib
import logging
import time
from enum import StrEnum
from typing import Any

import msgspec

from lab import clocks, errors, homes, invocations, records
from lab.controlplane import processes, tools

WRITE_AGAIN_S = 2.0
"""Pause after which a state that could not be written is tried again."""
FORMAT = 1
"""Raised whenever a reader of the old form could misread the new one."""

logger = logging.getLogger("lab.controlplane")


class Phase(StrEnum):
    """Where a component, or the lab as a whole, stands."""

    WAITING = "waiting"
    STARTING = "starting"
    READY = "ready"
    PAUSED = "paused"
    """Stopped by SIGSTOP, on command."""
    STOPPED = "stopped"
    """Ended on command; stays down until it is started again."""
    CRASHED = "crashed"
    """Ended on its own; will be started again after a pause."""
    FAILED = "failed"
    """Given up: it crashed too often, or did not come up."""
    GONE = "not running"
    """What the state still lists, but a crash of the lab ended; see `reviews`, never written."""


class Binaries(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The programs that a lab runs, by absolute path; empty for what it was told to leave out."""

    etcd: str
    kube_apiserver: str
    kube_controller_manager: str = ""
    kube_scheduler: str = ""
    workflow_controller: str = ""
    argo_manifests: str = ""
    """Folder with Argo's CRDs (`crds/minimal`, `crds/full`) and RBAC (`rbac`)."""
    argo_examples: str = ""
    """Folder with the examples of Argo's module; may be absent with prebuilt programs."""
    versions: dict[str, str] = {}
    """What prebuilt programs call themselves, by name; those that the lab builds are as asked."""


class Asked(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `up` was told; a lab that runs is compared with it."""

    kubernetes: str = tools.KUBERNETES_VERSIONS[0]
    argo: str = tools.ARGO_VERSION
    etcd: str = tools.ETCD_VERSION
    cluster: str = "mixed"
    """Name of a shipped cluster, or path of a file; `HOME/cluster.yaml` is a copy."""
    speed: float = 1.0
    """Simulated seconds per wall second."""
    full_crds: bool = False
    without: tuple[str, ...] = ()
    """Components that are not started."""
    api_port: int | None = None
    """Fixed port of the API server; None = any free one."""
    owner: processes.Process | None = None
    """The lab ends when this process does; None = it runs until `down`."""


class Component(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One supervised process, as it is now."""

    name: str
    version: str
    phase: Phase = Phase.WAITING
    process: processes.Process | None = None
    ports: dict[str, int] = {}
    """By use: `client`, `secure`, `metrics`, `health`."""
    log: str = ""
    started_at: float | None = None
    """Wall time (unix seconds) of the last start."""
    ready_after_s: float | None = None
    """Wall seconds from the last start to ready."""
    crashes: int = 0
    """Ends that nobody commanded."""
    last_exit: str = ""
    """How it last ended, with the last line of its log; empty while it never did."""


class State(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The lab as its supervisor sees it."""

    format: int
    name: str
    phase: Phase
    asked: Asked
    binaries: Binaries
    boot_id: str
    supervisor: processes.Process | None
    created_at: float
    """Wall time (unix seconds) at which `up` began; also the epoch of simulated time."""
    ready_after_s: float | None = None
    nodes: int = 0
    """Nodes that the cluster description has."""
    components: tuple[Component, ...] = ()
    error: str = ""
    """Why the phase is `failed`."""
    error_code: int = 1
    """Exit code that belongs to the error (see `lab.errors`)."""

    @property
    def clock(self) -> clocks.SimClock:
        """Simulated time of this lab."""
        return clocks.SimClock(speed=self.asked.speed, epoch=self.created_at)

    @property
    def running(self) -> bool:
        """Whether the supervisor lives."""
        same_boot = self.boot_id == processes.boot_id()
        return same_boot and self.supervisor is not None and self.supervisor.alive

    def component(self, name: str) -> Component:
        """Return one component; raises `UsageError` naming those that there are."""
        for item in self.components:
            if item.name == name:
                return item
        known = ", ".join(item.name for item in self.components)
        raise errors.UsageError(f"no component {name!r} in lab {self.name!r}: it has {known}")

    def processes(self) -> list[processes.Process]:
        """Return every process that was written down, whether it still lives or not."""
        if self.boot_id != processes.boot_id():
            return []
        listed = [item.process for item in self.components]
        return [item for item in (self.supervisor, *listed) if item is not None]


def read(home: homes.Home) -> State | None:
    """Return the state that stands in the home, or None if there is none.

    Raises `StaleError` when another version of the lab wrote it, or it cannot be read.
    """
    try:
        raw = home.state.read_bytes()
    except FileNotFoundError:
        return None
    remedy = (
        f"clear it with `{invocations.lab()} down --name {home.name}`, which keeps logs and records"
    )
    try:
        written = msgspec.json.decode(raw, type=dict[str, Any]).get("format")
    except msgspec.DecodeError as error:
        raise errors.StaleError(f"{home.state} is damaged ({error}): {remedy}") from error
    if written != FORMAT:
        raise errors.StaleError(
            f"{home.state} was written by another version of the lab "
            f"(format {written}, this one writes {FORMAT}): {remedy}"
        )
    try:
        return msgspec.json.decode(raw, type=State)
    except msgspec.ValidationError as error:
        raise errors.StaleError(f"{home.state} is damaged ({error}): {remedy}") from error


def load(home: homes.Home) -> State:
    """Return the state of a lab that runs; raises `UsageError` if none does."""
    state = read(home)
    if state is None:
        raise errors.UsageError(absent(home))
    if not state.running:
        raise errors.UsageError(
            f"lab {home.name!r} crashed: start it with `{invocations.lab()} up --name {home.name}`"
        )
    return state


def absent(home: homes.Home) -> str:
    """Return what to say where a lab does not run; the name may be mistyped."""
    start = f"{invocations.lab()} up --name {home.name}"
    said = f"lab {home.name!r} is not running: start it with `{start}`"
    others = running()
    return f"{said}, or name one that runs: {', '.join(others)}" if others else said


def running() -> list[str]:
    """Return the names of the labs that run."""
    found = []
    for name in homes.names():
        with contextlib.suppress(errors.StaleError):
            state = read(homes.home(name))
            if state is not None and state.running:
                found.append(name)
    return found


def write(home: homes.Home, state: State) -> None:
    """Replace the state; a reader sees the old one or the new one, never a part."""
    content = msgspec.json.format(msgspec.json.encode(state), indent=1)
    records.write_whole(home.state, content, mode=0o600)


class Keeper:
    """Writes the states of a lab for its supervisor, whose care a full disk must not end."""

    def __init__(self, home: homes.Home) -> None:
        self._home = home
        self._again: asyncio.TimerHandle | None = None
        """Set while what stands on disk is older than what was given last."""

    def keep(self, state: State) -> None:
        """Replace `state.json`, now or as soon as that works; needs a running loop."""
        if self._again is not None:
            self._again.cancel()
            self._again = None
        try:
            write(self._home, state)
        except OSError as error:
            logger.warning("the state is written again in %g s: %s", WRITE_AGAIN_S, error)
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(WRITE_AGAIN_S, self.keep, state)


def new(
    home: homes.Home, *, asked: Asked, binaries: Binaries, nodes: int, at: float | None = None
) -> State:
    """Return the first state of a lab, before its supervisor runs."""
    return State(
        format=FORMAT,
        name=home.name,
        phase=Phase.STARTING,
        asked=asked,
        binaries=binaries,
        boot_id=processes.boot_id(),
        supervisor=None,
        created_at=time.time() if at is None else at,
        nodes=nodes,
    )
