"""What the process node is told once, at its start; everything below is passed down from here."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.processnode import addresses

MARK = "lab.tiphys.dev/run"
MARKED = "process"
"""The annotation `lab.tiphys.dev/run: process` on a pod means: run it here, as processes."""
NODE = "process-0"
NODE_LABEL = "lab.tiphys.dev/process-node"
"""Label (`true`) and taint (NoSchedule) of the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a container that ended waits before it runs again, as kubelets do it."""

    first_s: float = 10.0
    """Pause before the second restart (the first is at once); doubles with each."""
    longest_s: float = 300.0
    forgotten_after_s: float = 600.0
    """A container that ran as long starts again without a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where things are, who the node is, and the clocks that a test may shorten."""

    kubeconfig: Path
    root: Path
    """Home of the lab; hostPath volumes must lie in it."""
    node: str
    block: addresses.Block
    client_authority: Path | None
    """Authority (PEM) whose clients may read logs and run commands; None = nobody."""
    backoff: Backoff = Backoff()
    token_refresh: float = 0.8
    """Share of a token's life after which a new one is asked for."""
    config_retry_s: float = 2.0
    """Pause between two looks for a ConfigMap or Secret that a pod needs and that is absent."""
    log_bytes: int = 10 * 1024 * 1024
    """A log file this long is moved to `.1`; so a container keeps at most twice as much."""

    @property
    def pods(self) -> Path:
        """Folder of what running pods need; emptied at each start."""
        return self.root / "processnode" / "pods"

    @property
    def logs(self) -> Path:
        """Folder `NAMESPACE_POD` per pod, `CONTAINER.log` in it; outlives the pods."""
        return self.root / "logs" / "pods"

    @property
    def images(self) -> Path:
        """Optional YAML file `entrypoints: {IMAGE: [WORD, ...]}`."""
        return self.root / "images.yaml"


def search_path() -> str:
    """Return PATH for containers: the programs of this interpreter's environment come first."""
    own = Path(sys.executable).parent
    rest = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
    return os.pathsep.join((str(own), *rest))
