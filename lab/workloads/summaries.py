"""What a workload amounts to: tasks, work, load, and requests over use; all of it before any run.

A task's nominal duration is what it takes at speed 1 with nothing in its way. Used memory is the
mean of its curve over that time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from lab import catalogs, errors
from lab.truths import Truth
from lab.workloads import plans, programs


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Sums over pods; `_core_s` and `_byte_s` are integrals over nominal durations."""

    pods: int = 0
    nominal_s: float = 0.0
    used_core_s: float = 0.0
    requested_core_s: float = 0.0
    used_byte_s: float = 0.0
    requested_byte_s: float = 0.0
    gpu_s: float = 0.0
    """GPU seconds, each GPU of a pod counted."""
    too_small: int = 0
    """Pods whose peak exceeds their memory limit at the first attempt."""

    def __add__(self, other: "Summary") -> "Summary":
        return Summary(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__slots__}
        )

    @property
    def requested_over_used_cpu(self) -> float:
        """Core seconds requested for each one used."""
        return self.requested_core_s / self.used_core_s if self.used_core_s else 0.0

    @property
    def requested_over_used_memory(self) -> float:
        """Byte seconds requested for each one used."""
        return self.requested_byte_s / self.used_byte_s if self.used_byte_s else 0.0


def nominal_s(truth: Truth) -> float:
    """Return how long the task takes at speed 1 with nothing in its way."""
    disk_bytes = sum(read.bytes for read in truth.reads) + truth.written_bytes
    return (
        truth.cpu_s / truth.parallelism
        + disk_bytes / programs.REFERENCE_DISK
        + truth.store_bytes / programs.REFERENCE_STORE
        + truth.sibling_bytes / programs.REFERENCE_NETWORK
        + truth.gpu_s
    )


def mean_memory_bytes(truth: Truth) -> float:
    """Return the mean of the memory curve over progress."""
    return sum(
        (later_x - x) * (level + later) / 2
        for (x, level), (later_x, later) in pairwise(truth.memory_curve)
    )


def of_workflow(plan: plans.WorkflowPlan, truths: dict[str, Truth]) -> Summary:
    """Return the sums of one workflow; `truths` by task."""
    whole = Summary()
    requests = {program.name: program.requests for program in plan.programs}
    for pod in plan.pods:
        truth, asked = truths[pod.task], requests[pod.template]
        lasts_s = nominal_s(truth)
        peak = max(level for _, level in truth.memory_curve)
        limit = asked.memory_limit_bytes
        whole += Summary(
            pods=1,
            nominal_s=lasts_s,
            used_core_s=truth.cpu_s,
            requested_core_s=asked.cpu_m / 1000 * lasts_s,
            used_byte_s=mean_memory_bytes(truth) * lasts_s,
            requested_byte_s=asked.memory_bytes * lasts_s,
            gpu_s=truth.gpu_s * asked.gpus,
            too_small=int(limit is not None and peak > limit),
        )
    return whole


def by_workflow(workload: plans.Workload) -> Iterator[tuple[plans.WorkflowPlan, Summary]]:
    """Yield each workflow with its sums, by arrival."""
    truths: dict[str, dict[str, Truth]] = {}
    for truth in workload.truths:
        truths.setdefault(truth.workflow, {})[truth.task] = truth
    for plan in workload.workflows:
        yield plan, of_workflow(plan, truths[plan.name])


def offered_load(workload: plans.Workload, cluster: catalogs.Cluster) -> float:
    """Return the work over what the cluster can do within the window: CPU or GPU, the larger.

    Cores and GPUs count by their speed.
    """
    whole = sum((part for _, part in by_workflow(workload)), start=Summary())
    window_s = max(1.0, workload.window_s)
    return busy_s(whole, cluster) / window_s


def busy_s(whole: Summary, cluster: catalogs.Cluster) -> float:
    """Return how long the cluster needs for the work when every core or GPU is always busy."""
    cores = sum(group.cores * group.speed for _, group in cluster.nodes)
    gpus = sum(sum(group.gpus.roots) * group.gpus.speed for _, group in cluster.nodes if group.gpus)
    if whole.gpu_s and not gpus:
        raise errors.UsageError(
            f"the workload needs GPUs and cluster {cluster.name} has none: use a lab of "
            "the cluster gpu (`lab down`, then `lab up --cluster gpu`)"
        )
    return max(whole.used_core_s / cores, whole.gpu_s / gpus if gpus else 0.0)


def requested_load(workload: plans.Workload, cluster: catalogs.Cluster) -> float:
    """Return the load that requests make within the window: the larger of CPU and memory."""
    whole = sum((part for _, part in by_workflow(workload)), start=Summary())
    cores = sum(group.cores for _, group in cluster.nodes)
    memory = sum(group.memory for _, group in cluster.nodes)
    window_s = max(1.0, workload.window_s)
    return max(
        whole.requested_core_s / cores / window_s, whole.requested_byte_s / memory / window_s
    )
