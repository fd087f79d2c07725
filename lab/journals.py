"""The kubelet's own records: what really happened, one JSON line each, in `HOME/journal.jsonl`.

Times named `*_at` are wall time (unix seconds); `*_s` are simulated seconds. Lines are tagged by
`kind`, so readers decode with `msgspec.json.Decoder(Record)`.
"""

import msgspec


class PodRecord(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod", omit_defaults=True
):
    """One pod at its end; written exactly once per pod, however it ended."""

    uid: str
    namespace: str
    name: str
    workflow: str = ""
    task: str = ""
    template: str = ""
    attempt: int = 0
    node: str
    group: str
    seen_at: float
    """When the kubelet first saw the pod bound to its node."""
    started_at: float | None = None
    """When the main container ran; None if it never did."""
    ended_at: float
    reason: str
    """`Completed`, `Error`, `OOMKilled`, `Evicted`, `NodeLost`, `Deleted`, `DeadlineExceeded`,
    `Rejected` (the node had no room for it after all)."""
    exit_code: int = 0
    requested_cpu_m: int = 0
    requested_memory_bytes: int = 0
    limit_memory_bytes: int | None = None
    cpu_s: float = 0.0
    """CPU seconds used (core seconds, not scaled by node speed)."""
    peak_memory_bytes: float = 0.0
    memory_byte_s: float = 0.0
    """Integral of the working set over simulated time."""
    disk_bytes: float = 0.0
    network_bytes: float = 0.0
    gpu_s: float = 0.0


class NodeSample(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="node", omit_defaults=True
):
    """What one node used at an instant; sampled once a wall second while anything runs."""

    at: float
    node: str
    cpu_used: float
    """Cores."""
    cpu_requested: float
    """Cores requested by pods that are bound here and have not ended."""
    memory_used_bytes: float
    memory_requested_bytes: float
    disk_bytes_per_s: float = 0.0
    """Per simulated second, as are the two below."""
    network_bytes_per_s: float = 0.0
    memory_traffic_bytes_per_s: float = 0.0
    gpus_used: float = 0.0
    pods: int = 0


class FaultRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="fault"):
    """A fault that was commanded: what, on which node, when."""

    at: float
    fault: str
    node: str = ""


Record = PodRecord | NodeSample | FaultRecord
