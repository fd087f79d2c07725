"""What the people of a tenant write: images, commands, requests, retries, deadlines.

They know their programs roughly: requests are rounded, and too large by a ratio drawn from what
was measured on real runs (`ratios`). A few are too small; those people have seen the OOM killer
and let every retry ask for more. Choices belong to (seed, tenant, family, program), as one pipeline
definition serves all its runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.workloads import draws, plans, programs, ratios, shapes

MIB = 2**20
GIB = 2**30
CORES = (1, 2, 4, 8)
SIZES = tuple(size * MIB for size in (256, 512, 1024, 2048, 4096, 8192, 16384, 32768))
DEADLINES_S = tuple(
    minutes * 60 for minutes in (10, 15, 20, 30, 45, 60, 90, 120, 180, 240, 360, 480, 720, 1440)
)
TOO_SMALL = 0.05
"""Share of programs whose memory request their largest input exceeds (assumption)."""
RETRIED = 0.25
"""Share of the other programs with a retry strategy (assumption)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A namespace with its habits."""

    namespace: str
    share: float
    """Of the workflows."""
    deadline_factor: float
    """Deadline over the longest path."""
    priority: int = 0
    uses_depends: bool = False
    pod_gc: str = "OnPodCompletion"
    limits_cpu: bool = False
    """Whether it sets CPU limits, equal to the requests."""
    most_memory_bytes: int = 16 * GIB
    """What it cuts its requests to, as nf-core's `max_memory` does, unless more is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What stands in the template of one program."""

    requests: plans.Requests
    retries: int
    grows_on_retry: bool


def written(
    tenant: Tenant,
    works: Sequence[programs.Work],
    *,
    stream: tuple[object, ...],
    measured: ratios.Ratios,
) -> Written:
    """Return the requests for a program, given all that its tasks will do.

    `stream` names the author's random stream: seed, tenant, family, program.
    """
    rng = draws.stream("author", *stream)
    cores = sorted(work.cores_used for work in works)[len(works) // 2]
    cpu = _next(cores * measured.draw_cpu(rng), CORES)
    peak = max(work.peak_bytes for work in works)
    typical = sorted(work.peak_bytes for work in works)[len(works) // 2]
    memory = min(_next(typical * measured.draw_memory(rng), SIZES), tenant.most_memory_bytes)
    below = [size for size in SIZES if size < 0.9 * peak]
    retries, grows = (2 if rng.random() < RETRIED else 0), False
    if rng.random() < TOO_SMALL and below:
        memory, retries, grows = below[-1], 4, True
    elif memory < 1.1 * peak:
        memory = _next(1.1 * peak, SIZES)
    return Written(
        requests=plans.Requests(
            cpu_m=1000 * cpu,
            memory_bytes=memory,
            cpu_limit_m=1000 * cpu if tenant.limits_cpu else None,
            memory_limit_bytes=memory,
        ),
        retries=retries,
        grows_on_retry=grows,
    )


def deadline_s(tenant: Tenant, critical_path_s: float) -> float:
    """Return the promise that the tenant makes: a multiple of the longest path, rounded up."""
    wanted = tenant.deadline_factor * critical_path_s
    return float(next((limit for limit in DEADLINES_S if limit >= wanted), DEADLINES_S[-1]))


def program(
    name: str,
    *,
    family: str,
    word: str,
    author: Written,
    lists_items: bool = False,
) -> plans.Program:
    """Return the container template of a program as its author writes it."""
    version = draws.stream("version", family, name).randint(1, 9)
    return plans.Program(
        name=name,
        image=f"registry.example/{shapes.slug(family)}/{name}:{version}.0",
        command=(name,),
        args=(f"--{word}", f"{{{{inputs.parameters.{word}}}}}", "--outdir", "/data/out"),
        parameters=(word,),
        output_parameters=("items",) if lists_items else (),
        requests=author.requests,
        retries=author.retries,
        grows_on_retry=author.grows_on_retry,
    )


def _next(wanted: float, sizes: Sequence[int]) -> int:
    """Return the smallest size that is enough, or the largest there is."""
    return next((size for size in sizes if size >= wanted), sizes[-1])
