"""The case `exome`: FastQC, BWA, GATK and VEP, whose GATK outgrows what its author asked for.

FastQC keeps 92 % of a core busy in 1.2 GB. GATK uses 45 % of its two threads, waits for its disk
the rest of the time and grows to 28 GB; it asks for 16 GiB and may use 32, as Java services often
do. By requests four of them fit on a node of 64 GiB, by use two: the node looks 60 % idle, and the
third is what the kernel kills. Figures but those named in the case are assumptions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from lab.workloads import authors, drafts, draws, plans, programs, shapes, traces

GIB = 2**30
FAMILY = "exome"
LABS = (
    authors.Tenant(namespace="genetics", share=0.6, deadline_factor=4.0),
    authors.Tenant(namespace="oncology", share=0.4, deadline_factor=3.0, priority=10),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One program of the case; times and bytes are those of a median sample."""

    program: str
    runtime_s: float
    share: float
    """Of the time that its threads compute."""
    threads: int
    peak_bytes: float
    curve: str
    op_bytes: int
    requests: plans.Requests


def _asks(cpu: int, memory_gib: int, *, limit_gib: int | None = None) -> plans.Requests:
    return plans.Requests(
        cpu_m=1000 * cpu,
        memory_bytes=memory_gib * GIB,
        memory_limit_bytes=(limit_gib or memory_gib) * GIB,
    )


STAGES = (
    Stage(
        program="fastqc",
        runtime_s=240.0,
        share=0.92,
        threads=1,
        peak_bytes=1.2e9,
        curve="plateau",
        op_bytes=programs.SEQUENTIAL_OP_BYTES,
        requests=_asks(1, 2),
    ),
    Stage(
        program="bwa",
        runtime_s=480.0,
        share=0.95,
        threads=4,
        peak_bytes=7e9,
        curve="plateau",
        op_bytes=programs.SEQUENTIAL_OP_BYTES,
        requests=_asks(4, 8),
    ),
    Stage(
        program="gatk",
        runtime_s=900.0,
        share=0.45,
        threads=2,
        peak_bytes=28e9,
        curve="plateau",
        op_bytes=programs.RANDOM_OP_BYTES,
        requests=_asks(2, 16, limit_gib=32),
    ),
    Stage(
        program="vep",
        runtime_s=300.0,
        share=0.8,
        threads=2,
        peak_bytes=4e9,
        curve="ramp",
        op_bytes=programs.SEQUENTIAL_OP_BYTES,
        requests=_asks(2, 8),
    ),
)
GIVEN: Mapping[str, authors.Written] = MappingProxyType(
    {
        stage.program: authors.Written(requests=stage.requests, retries=2, grows_on_retry=False)
        for stage in STAGES
    }
)
MOST_SAMPLES = 3


def drafted(count: int, *, seed: int) -> list[drafts.Draft]:
    """Return `count` workflows of one to three samples, each a chain of the four programs."""
    rng = draws.stream(seed, "exomes")
    made = []
    for number in range(count):
        samples = rng.randint(1, MOST_SAMPLES)
        tenant = rng.choices(LABS, weights=[lab.share for lab in LABS])[0]
        tasks: list[traces.TraceTask] = []
        works: list[programs.Work] = []
        for _ in range(samples):
            size = draws.log_normal(rng, 1.0, sigma=0.1, least=0.8, most=1.25)
            for position, stage in enumerate(STAGES):
                parents = (len(tasks) - 1,) if position else ()
                tasks.append(
                    traces.TraceTask(
                        program=stage.program,
                        parents=parents,
                        runtime_s=stage.runtime_s * size,
                        cores_used=stage.share * stage.threads,
                    )
                )
                works.append(_work(stage, tasks[-1]))
        made.append(
            drafts.Draft(
                family=FAMILY,
                source=f"case/exome-{number:03d}",
                tenant=tenant,
                word="sample",
                tasks=tuple(tasks),
                works=tuple(works),
                shape=shapes.shaped(tasks, word="sample", lists_items=False),
                given=GIVEN,
            )
        )
    return made


def _work(stage: Stage, task: traces.TraceTask) -> programs.Work:
    """Return what one task of a stage does: the waiting is all for the disk."""
    traits = replace(
        programs.traits_of(FAMILY, stage.program, cores_seen=None, heavy=False),
        threads=stage.threads,
        curve=stage.curve,
        op_bytes=stage.op_bytes,
    )
    disk_bytes = task.runtime_s * (1 - stage.share) * programs.REFERENCE_DISK
    return programs.Work(
        program=stage.program,
        runtime_s=draws.rounded(task.runtime_s),
        cpu_s=draws.rounded(task.runtime_s * stage.share * stage.threads),
        threads=stage.threads,
        peak_bytes=stage.peak_bytes,
        read_bytes=draws.rounded(0.8 * disk_bytes),
        written_bytes=draws.rounded(0.2 * disk_bytes),
        store_bytes=0.0,
        traits=traits,
    )
