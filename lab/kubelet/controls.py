"""Commands to the running kubelet, on `HOME/kubelet.sock` (see `lab.sockets`)."""

import msgspec


class Command(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to happen, and to which node; amounts as the fault needs them."""

    fault: str
    node: str = ""
    bandwidth: float | None = None
    """Disk cap in bytes/s; None leaves it as it is."""
    iops: float | None = None
    root: int = 0
    """PCIe root complex."""
