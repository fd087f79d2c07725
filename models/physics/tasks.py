"""Tasks as the physics sees them: work, memory over progress, and what was asked for.

Units: CPU in cores and core-seconds, memory and data in bytes, time in simulated seconds.
"""

from dataclasses import dataclass

from . import errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """An input file, read once from start to end as the task goes on."""

    file: str
    bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a task asks for and may take at most; what each means stands with `Task`."""

    cpu_request_cores: float = 0.0
    cpu_limit_cores: float | None = None
    memory_request_bytes: float = 0.0
    memory_limit_bytes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One attempt of one task. Progress `x` goes from 0 to 1; phases do not overlap."""

    key: str
    """Handle, unique among what runs in the cluster at one time (a pod's uid, say)."""
    name: str = ""
    """Identity over attempts: noise belongs to it, and siblings call each other by it. Empty means
    `key`."""
    attempt: int = 0
    run: str = ""
    """The run that it belongs to, which has noise of its own; empty means the engine's."""
    template: str
    """The same program whatever its input: affinity and noise belong to it."""

    cpu_s: float = 0.0
    """CPU seconds at node speed 1 (C)."""
    parallelism: float = 1.0
    """Most cores that it can use at once."""
    memory_traffic_bytes_per_s: float = 0.0
    """Memory bandwidth that one core of speed 1 asks for when it runs unhindered."""
    memory_sensitivity: float = 0.0
    """How much memory latency slows it: 0 not at all, 1 in proportion."""
    reads: tuple[Read, ...] = ()
    """Files from the node's disk or its page cache."""
    written_bytes: float = 0.0
    """Bytes written to the node's disk; they do not enter the page cache."""
    disk_ops: float = 0.0
    """IO operations for all `reads` and `written_bytes` when nothing is cached."""
    store_bytes: float = 0.0
    """Bytes to and from the object store."""
    sibling_bytes: float = 0.0
    """Bytes exchanged with `siblings`; without siblings, among its own `gpus`."""
    round_trips: float = 0.0
    """Messages to siblings that cost one RTT each."""
    siblings: tuple[str, ...] = ()
    """Names of tasks that it talks to; those that run now count."""
    gpu_s: float = 0.0
    """GPU seconds at GPU speed 1."""
    memory_curve: tuple[tuple[float, float], ...] = ((0.0, 0.0), (1.0, 0.0))
    """Working set: (x, bytes) points, linear between them; x from 0 to 1, ascending. Two points
    with one x are a jump."""

    cpu_request_cores: float = 0.0
    cpu_limit_cores: float | None = None
    """None: no limit."""
    memory_request_bytes: float = 0.0
    memory_limit_bytes: float | None = None
    """None: no limit."""
    gpus: tuple[int, ...] = ()
    """The GPUs of the node that it holds, as indexes into all GPUs of the node."""

    def __post_init__(self) -> None:
        amounts = {
            "cpu_s": self.cpu_s,
            "memory_traffic_bytes_per_s": self.memory_traffic_bytes_per_s,
            "memory_sensitivity": self.memory_sensitivity,
            "written_bytes": self.written_bytes,
            "disk_ops": self.disk_ops,
            "store_bytes": self.store_bytes,
            "sibling_bytes": self.sibling_bytes,
            "round_trips": self.round_trips,
            "gpu_s": self.gpu_s,
            "cpu_request_cores": self.cpu_request_cores,
            "memory_request_bytes": self.memory_request_bytes,
            **{f"reads[{read.file!r}]": read.bytes for read in self.reads},
        }
        for field, amount in amounts.items():
            if not 0 <= amount < float("inf"):
                raise errors.PhysicsError(
                    f"task {self.key!r}: `{field}` is {amount}; it must be 0 or a positive number"
                )
        if not self.parallelism > 0:
            raise errors.PhysicsError(
                f"task {self.key!r}: `parallelism` is {self.parallelism}; it must be above 0"
            )
        if self.cpu_limit_cores is not None and not self.cpu_limit_cores > 0:
            raise errors.PhysicsError(
                f"task {self.key!r}: `cpu_limit_cores` is {self.cpu_limit_cores}; "
                "give a positive number, or None for no limit"
            )
        xs = [x for x, _ in self.memory_curve]
        if len(xs) < 2 or xs[0] != 0 or xs[-1] != 1 or xs != sorted(xs):
            raise errors.PhysicsError(
                f"task {self.key!r}: `memory_curve` has x = {xs}; it must ascend from 0 to 1"
            )

    @property
    def identity(self) -> str:
        """What siblings and noise know it by."""
        return self.name or self.key

    @property
    def peak_bytes(self) -> float:
        """The largest working set that it will have."""
        return max(amount for _, amount in self.memory_curve)
