"""What a program does beyond its trace: the assumptions that fill what no trace records.

Traits belong to (family, program) and do not depend on the run's seed: `bwa` is `bwa` in every run,
so what was learned about it stays true. Each assumption is listed in docs/workloads.md. Units:
seconds at speed 1 with nothing in the way, bytes, cores.
"""

import math
from dataclasses import dataclass

from lab.truths import FileRead
from lab.workloads import draws, traces

REFERENCE_DISK = 400e6
"""Bytes/s; waiting time turns into disk bytes at this rate (the `base` node of `mixed`)."""
REFERENCE_STORE = 250e6
"""Bytes/s that one task gets from the object store when it is alone."""
REFERENCE_NETWORK = 1.25e9
"""Bytes/s between two tasks on different nodes (10 Gbit/s)."""
MOST_TRAFFIC = 8e9
"""Bytes/s of memory traffic of one core, at the most."""
SEQUENTIAL_OP_BYTES = 256 * 1024
RANDOM_OP_BYTES = 32 * 1024
MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Constants of one program."""

    threads: int
    memory_traffic_bytes_per_s: float
    memory_sensitivity: float
    memory_median_bytes: float
    """Peak where the trace has none, before the input is looked at."""
    curve: str
    """`ramp`, `plateau` or `spike`."""
    op_bytes: int
    """Bytes of one disk operation."""
    image_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one task does; a `Truth` without its name."""

    program: str
    runtime_s: float
    cpu_s: float
    threads: int
    peak_bytes: float
    read_bytes: float
    written_bytes: float
    store_bytes: float
    traits: Traits
    gpu_s: float = 0.0
    sibling_bytes: float = 0.0
    round_trips: float = 0.0
    siblings: tuple[int, ...] = ()
    """Places of the tasks that it talks to."""

    @property
    def cores_used(self) -> float:
        """Mean cores over its runtime."""
        return self.cpu_s / self.runtime_s

    @property
    def memory_curve(self) -> tuple[tuple[float, float], ...]:
        """Working set over progress, as (x, bytes)."""
        shapes = {
            "ramp": ((0.0, 0.1), (0.85, 1.0), (1.0, 0.7)),
            "plateau": ((0.0, 0.1), (0.12, 0.95), (0.6, 1.0), (1.0, 0.95)),
            "spike": ((0.0, 0.1), (0.5, 0.4), (0.65, 1.0), (0.75, 0.45), (1.0, 0.3)),
        }
        return tuple(
            (x, draws.rounded(share * self.peak_bytes)) for x, share in shapes[self.traits.curve]
        )


def traits_of(family: str, program: str, *, cores_seen: float | None, heavy: bool) -> Traits:
    """Return the constants of a program.

    `cores_seen` is the most that its traces show; `heavy` that it is among the longer half of its
    workflow, where people ask their tools for threads.
    """
    rng = draws.stream("program", family, program)
    drawn_threads = rng.choice((1, 2, 2, 4, 4))
    threads = math.ceil(cores_seen - 0.1) if cores_seen and cores_seen > 1.1 else 1
    if heavy and threads == 1:
        threads = drawn_threads
    traffic = draws.log_normal(rng, 1.5e9, sigma=0.8, least=1e8, most=MOST_TRAFFIC)
    return Traits(
        threads=threads,
        memory_traffic_bytes_per_s=draws.rounded(traffic),
        memory_sensitivity=draws.rounded(min(1.0, traffic / 6e9 * rng.uniform(0.6, 1.2))),
        memory_median_bytes=draws.log_normal(
            rng, 700 * MIB, sigma=0.9, least=80 * MIB, most=6144 * MIB
        ),
        curve=rng.choice(("ramp", "plateau", "plateau", "spike")),
        op_bytes=RANDOM_OP_BYTES if rng.random() < 0.2 else SEQUENTIAL_OP_BYTES,
        image_bytes=draws.rounded(
            draws.log_normal(rng, 400 * MIB, sigma=0.7, least=30 * MIB, most=4096 * MIB)
        ),
    )


def peak_of(task: traces.TraceTask, traits: Traits, *, small_inputs: bool, size: float) -> float:
    """Return the peak working set in bytes.

    Test profiles are lifted to what a real sample needs (sub-linear, as most tools are); where the
    trace has no figure the program's own median grows with the input, in the power 0.3.
    """
    if task.memory_bytes is None:
        peak = traits.memory_median_bytes * max(0.25, task.input_bytes / 100e6) ** 0.15
    elif small_inputs:
        peak = 1229 * MIB * (max(task.memory_bytes, 3 * MIB) / (128 * MIB)) ** 0.6
    else:
        peak = task.memory_bytes
    return draws.rounded(min(28 * 1024 * MIB, max(48 * MIB, peak * size**0.3)))


def work_of(
    task: traces.TraceTask,
    traits: Traits,
    *,
    runtime_s: float,
    peak_bytes: float,
) -> Work:
    """Return what the task does so that it takes `runtime_s` when nothing is in its way.

    The share of CPU is the trace's. The rest of the time is waiting: for the disk, as far as the
    trace's bytes (scaled with the runtime) explain it at the reference rate or wholly where it has
    none, and beyond that for the object store.
    """
    busy = task.cores_used if task.cores_used is not None else 0.85 * traits.threads
    share = min(0.98, max(0.03, busy / max(1, math.ceil(busy - 0.1))))
    waiting_s = runtime_s * (1 - share)
    traced = _disk_bytes(task)
    possible = waiting_s * REFERENCE_DISK
    disk_bytes = 0.8 * possible
    if traced is not None:
        disk_bytes = min(possible, traced * max(1.0, runtime_s / task.runtime_s))
    read_share = _read_share(task)
    return Work(
        program=task.program,
        runtime_s=draws.rounded(runtime_s),
        cpu_s=draws.rounded(runtime_s * share * traits.threads),
        threads=traits.threads,
        peak_bytes=peak_bytes,
        read_bytes=draws.rounded(disk_bytes * read_share),
        written_bytes=draws.rounded(disk_bytes * (1 - read_share)),
        store_bytes=draws.rounded(
            max(0.0, waiting_s - disk_bytes / REFERENCE_DISK) * REFERENCE_STORE
        ),
        traits=traits,
    )


def _disk_bytes(task: traces.TraceTask) -> float | None:
    if task.read_bytes is not None and task.written_bytes is not None:
        return task.read_bytes + task.written_bytes
    return None


def _read_share(task: traces.TraceTask) -> float:
    read = task.read_bytes if task.read_bytes is not None else task.input_bytes
    written = task.written_bytes if task.written_bytes is not None else task.output_bytes
    return min(0.95, max(0.05, read / (read + written))) if read + written > 0 else 0.7


def files_read(
    work: Work, *, reference: str, inputs: tuple[tuple[str, float], ...]
) -> tuple[FileRead, ...]:
    """Split what a task reads over its parents' outputs and the reference data of its program.

    `inputs` are (file, weight). The reference data (genome, index, database) are the same file in
    every workflow of the family, so that a node's page cache can serve them.
    """
    if work.read_bytes <= 0:
        return ()
    reference_share = 0.4 if inputs else 1.0
    whole = sum(weight for _, weight in inputs)
    shares = [
        (name, (1 - reference_share) * (weight / whole if whole else 1 / len(inputs)))
        for name, weight in inputs
    ]
    return tuple(
        FileRead(file=name, bytes=draws.rounded(work.read_bytes * share))
        for name, share in [(reference, reference_share), *shares]
    )
