"""What one kubelet process was told; read once, then passed down."""

from dataclasses import dataclass
from pathlib import Path

from lab import catalogs, clocks, homes

RESERVED_MEMORY_BYTES = 1465 * 2**20
"""Memory of the system on every node: 255 MiB + 11 MiB for each of 110 pods, as EKS reserves it.
Small nodes give up an eighth at most (`nodes.reserved_bytes`)."""

LEASE_PERIOD_S = 10.0
"""Wall seconds between two lease renewals and looks at the node status, as a real kubelet."""

NODE_STATUS_PERIOD_S = 300.0
"""Wall seconds after which an unchanged node status is written again, as a real kubelet."""

SLOW_S = 1.0
"""Wall seconds: what a pod passes through faster than this is not written as a status of its own
(a kubelet's status writes are batched too)."""

SAMPLE_PERIOD_S = 1.0
"""Wall seconds between two node samples in the journal and, while anything changes, between two
checkpoints: what a crash may forget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One kubelet process for all simulated nodes of one lab."""

    home: homes.Home
    kubeconfig: Path
    cluster: catalogs.Cluster
    clock: clocks.SimClock
    seed: int = 0
    version: str
    """What the nodes report as kubeletVersion."""
    metrics_port: int = 0
    """Port of the metrics endpoint on 127.0.0.1; 0 = any free one."""

    @property
    def state(self) -> Path:
        """Checkpoint: what a restarted kubelet continues from."""
        return self.home.data / "kubelet.json"

    @property
    def certificate(self) -> Path:
        """Of the kubelets' own port: this path with `.crt` and `.key`."""
        return self.home.data / "kubelet-serving"

    @property
    def endpoints(self) -> Path:
        """Where the metrics endpoint listens, for whoever scrapes it."""
        return self.home.data / "kubelet-metrics.json"

    @property
    def prometheus_config(self) -> Path:
        """A Prometheus configuration that scrapes this lab."""
        return self.home.data / "prometheus.yml"
