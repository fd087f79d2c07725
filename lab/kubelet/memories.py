"""What a restarted kubelet must know to go on where the one before it stopped.

Written whole once a wall second while anything changes, and at an orderly end. The engine of the
physics is kept as a pickle: only the same user reads it back, from the folder of the lab, and one
that another version wrote is dropped (tasks then begin anew, which is logged).
"""

import logging
import os
import pickle
import threading
from pathlib import Path

import msgspec

from lab import apis, clocks
from lab.kubelet import computations, meters, pods
from tiphys.models.physics import engines

logger = logging.getLogger(__name__)

FORMAT = 3


class Memory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What must be remembered of one pod. `_s` is simulated time, `_at` wall time."""

    pod: pods.Pod
    seen_at: float
    address: str = ""
    gpus: tuple[int, ...] = ()
    started_at: float | None = None
    """When the containers of the present run started."""
    first_started_at: float | None = None
    restarts: int = 0
    failures: int = 0
    """Restarts since the back-off last began anew."""
    ready: dict[str, bool] = {}
    sleeps: list[float] = []
    """When (simulated) each sleep of the present run ends; a behaviour that runs again after a
    restart of the kubelet meets them in the same order."""
    computes: list[computations.End | None] = []
    """How each computation of the present run ended, in the same way; None while it runs."""
    used: computations.Usage = computations.Usage()
    """Of every computation that ended."""

    def restart(self) -> None:
        """Begin another run of the containers."""
        self.restarts += 1
        self.started_at = None
        self.ready, self.sleeps, self.computes = {}, [], []


def fresh(pod: pods.Pod, item: apis.Object, *, at: float) -> Memory:
    """Return what is known of a pod that no checkpoint has: by its status it may run already.

    That is a pod whose start a crash of the kubelet made it forget; it goes on from its status.
    """
    status = item["status"]
    memory = Memory(pod=pod, seen_at=at)
    if status.get("phase") == "Running":
        memory.address = status.get("podIP", "")
        starts = [
            state["running"]["startedAt"]
            for state in (run.get("state", {}) for run in status.get("containerStatuses") or ())
            if "running" in state
        ]
        if starts:
            memory.started_at = memory.first_started_at = clocks.unix_s(min(starts))
            memory.seen_at = clocks.unix_s(status["startTime"])
    return memory


class NodeMemory(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What must be remembered of one node."""

    lost: bool = False
    not_ready: str = ""
    """Why it says that it is not ready; empty while it is."""
    images: dict[str, float] = {}
    addresses: int = 0
    start_free_s: float = 0.0
    pressed_until_s: float = 0.0
    total: computations.Usage = computations.Usage()
    """Of everything that ended on it."""
    meter: meters.Meter = msgspec.field(default_factory=meters.Meter)


class Checkpoint(msgspec.Struct, kw_only=True):
    """Everything at one instant."""

    format: int = FORMAT
    pods: dict[str, Memory] = {}
    nodes: dict[str, NodeMemory] = {}
    ended: dict[str, computations.End] = {}
    """Ends of computations that no pod has taken note of."""
    engine: bytes = b""
    version: str = ""
    """Of the pods, as the API server counts: up to here everything was heard of."""


def encode(checkpoint: Checkpoint) -> bytes:
    """Return what `write` puts into a file."""
    return msgspec.json.encode(checkpoint)


def write(path: Path, content: bytes) -> None:
    """Replace the checkpoint; a reader sees the old one or the new one, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    beside.replace(path)


def read(path: Path) -> Checkpoint:
    """Return the last checkpoint; an empty one where there is none that can be used."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Checkpoint()
    try:
        checkpoint = msgspec.json.decode(raw, type=Checkpoint)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        logger.error("%s cannot be used, pods begin anew: %s", path, error)
        return Checkpoint()
    if checkpoint.format != FORMAT:
        logger.error("%s has another format, pods begin anew", path)
        return Checkpoint()
    return checkpoint


def engine(checkpoint: Checkpoint) -> engines.Engine | None:
    """Return the engine of a checkpoint, or None if it has none that can be used."""
    if not checkpoint.engine:
        return None
    try:
        thawed = pickle.loads(checkpoint.engine)
    except Exception as error:
        logger.error("the engine of the checkpoint cannot be used, tasks begin anew: %s", error)
        return None
    return thawed if isinstance(thawed, engines.Engine) else None
