"""What one run did, as one JSON: `Measurement` and its parts; docs/results.md explains each field.

Times `*_s` are simulated seconds since the start of the run, durations `*_s` are simulated seconds;
`*_at` is wall time in unix seconds, and `wall` or `_ms` in a name says wall time too. None means
that it never happened (a pod that was never bound has no `bound_s`), never that it is not known.
"""

from pathlib import Path

import msgspec

from lab import invocations, records

FORMAT = 1


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulated node and what it can hold."""

    name: str
    group: str
    instance_type: str
    rack: str
    cores: float
    memory_bytes: float
    speed: float
    gpus: int = 0


class Workflow(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One workflow of the run."""

    namespace: str
    name: str
    family: str
    phase: str
    message: str = ""
    submitted_s: float
    """When the API server received it."""
    ended_s: float | None
    """When the watch saw it completed."""
    completion_s: float | None
    """`ended_s - submitted_s`."""
    deadline_s: float
    """Completion that was promised."""
    critical_path_s: float
    """Its longest path at node speed 1 with nothing in the way; a bound for `completion_s`."""
    tasks: int
    """Pods that it needs when nothing is retried."""
    pods: int
    """Pods that were created for it."""
    oom_kills: int
    cpu_core_s: float
    """CPU used by its pods (core seconds)."""
    requested_memory_byte_s: float
    used_memory_byte_s: float


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One attempt of one task: one pod. A task that was retried has one entry per attempt."""

    namespace: str
    workflow: str
    task: str
    template: str
    attempt: int
    pod: str
    node: str
    """Empty where it was never bound."""
    created_s: float
    """When the API server received the pod; Argo creates it once all it depends on has ended."""
    bound_s: float | None
    started_s: float | None
    """When its main container ran."""
    ended_s: float | None
    wait_s: float | None
    """`started_s - created_s`: queueing, binding and start-up, all that it did not work."""
    reason: str
    """The kubelet's word (`lab.journals.PodRecord.reason`); `Unaccounted` where no record says how
    it ended (then `problems` names it)."""
    exit_code: int
    requested_cpu_m: int
    requested_memory_bytes: int
    limit_memory_bytes: int | None
    cpu_core_s: float
    peak_memory_bytes: float
    requested_memory_byte_s: float
    """Request times the time from bound to ended: what nobody else could have."""
    used_memory_byte_s: float
    """Integral of the working set."""
    disk_bytes: float
    network_bytes: float
    gpu_s: float


class Curve(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one node, or the whole cluster, used over time; each list is as long as `times_s`."""

    node: str
    """Empty for the cluster."""
    cpu_used: list[float]
    """Cores, as are the requested ones: pods that are bound and have not ended."""
    cpu_requested: list[float]
    memory_used_bytes: list[float]
    memory_requested_bytes: list[float]
    disk_bytes_per_s: list[float]
    network_bytes_per_s: list[float]
    gpus_used: list[float]


class Curves(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Utilisation over time, on one time axis: means over the intervals that begin at `times_s`."""

    times_s: list[float]
    interval_s: float
    cluster: Curve
    nodes: list[Curve]
    pods_waiting: list[float]
    """Pods that were created and are not bound."""
    pods_bound: list[float]
    """Pods that are bound and have not ended."""


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault that was commanded during the run."""

    at_s: float
    fault: str
    node: str


class Latency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long the control plane itself took for one kind of thing, in wall milliseconds."""

    what: str
    count: int
    p50_ms: float
    p99_ms: float
    judged: bool
    """Whether it decides about the validity of the run."""


class Validity(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether the control plane was quick enough for the speed at which time ran."""

    valid: bool
    reasons: list[str]
    """Why not, in words; empty for a valid run."""
    latencies: list[Latency]
    control_plane_p99_s: float | None
    """The worst judged p99 times speed; None where nothing was judged."""
    median_task_s: float | None
    """Median of ended - started over all pods that ran."""
    share: float | None
    """The first over the second; above 0.1 the run is invalid."""


class Figures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The headline numbers; None where there is nothing to take the figure of."""

    workflows: int
    succeeded: int
    failed: int
    """Ended, but not `Succeeded`."""
    pods_created: int
    pods_ended: int
    pods_decided: int
    """Pods about which Tiphys decided; the others came in as without it."""
    mean_completion_s: float | None
    p95_completion_s: float | None
    mean_wait_s: float | None
    p95_wait_s: float | None
    makespan_s: float | None
    """From the first submission to the last end."""
    utilisation: float | None
    """Cores used over cores there are, from the first start of a pod to the last end."""
    requested_cpu_share: float | None
    """The same for the cores requested."""
    requested_memory_gib_s: float
    used_memory_gib_s: float
    requested_over_used_memory: float | None
    oom_kills: int
    deadlines_missed: int
    wall_s: float | None
    """Wall seconds from the first submission to the last end."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run, whole."""

    format: int
    run: str
    arm: str
    """Which scheduling it ran under: `default` is kube-scheduler alone."""
    command: str
    lab: str
    cluster: str
    mix: str
    seed: int
    arrivals: str
    overload: float
    requested_load: float
    sample: bool
    """Whether the repository's small sample stood in for the data pack."""
    plans_sha256: str
    """Digest of what was submitted, whatever it was called: equal workloads have equal ones."""
    outcome: str
    speed: float
    started_at: float
    git: str
    machine_cores: int
    figures: Figures
    validity: Validity
    problems: list[str]
    """Records that are missing or contradict one another; each names the pod. Empty if sound."""
    nodes: list[Node]
    workflows: list[Workflow]
    tasks: list[Task]
    curves: Curves
    faults: list[Fault]


def write(path: Path, measurement: Measurement) -> None:
    """Write a measurement; the file appears whole or not at all."""
    records.write_whole(path, msgspec.json.encode(measurement) + b"\n")


def read(path: Path) -> Measurement:
    """Read a measurement; raises `UsageError` where the file is missing or is none."""
    remedy = f"make one with `{invocations.lab()} measure`"
    return records.read(path, Measurement, name="measurement", remedy=remedy)
