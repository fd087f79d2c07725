"""The mix `ml`: training on several GPU pods that exchange gradients, and sweeps of single ones.

CPU, memory and GPUs that a training pod asks for are those of a pod of the openb trace; what it
uses of CPU and memory is that divided by a measured ratio. It loads its data with as many threads
as it has cores requested, so the share of its time that this takes follows from the ratio. Compute,
model size and the share of time that the all-reduce takes are assumptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lab import errors
from lab.workloads import authors, drafts, draws, plans, programs, ratios, shapes, traces
from lab.workloads.readers import openb

GIB = 2**30
TENANTS = (
    authors.Tenant(namespace="vision", share=0.5, deadline_factor=6.0),
    authors.Tenant(namespace="speech", share=0.3, deadline_factor=4.0, limits_cpu=True),
    authors.Tenant(namespace="ranking", share=0.2, deadline_factor=3.0, priority=10),
)
MULTI_GPU = 0.2
"""Share of training jobs whose pods have several GPUs (openb: 1 %, by pods; assumption by work)."""
MOST_CPU_M = 16_000
MOST_MEMORY_BYTES = 96 * GIB
REDUCE_SHARE = 0.2
"""Of the time on the reference network that a worker spends on gradients."""
MOST_LOADING = 0.5
"""Of the time that a GPU task spends on its CPUs, at most: a GPU that waits longer is let go."""
READING_SHARE = 0.05
"""Of the time that it waits for its disk."""
MOST_RATIO = 8.0
"""GPU pods hold their data in memory: larger ratios of the CPU runs are cut to this."""
SHARDS = 3
STEP_S = 0.5
"""One step of training; each costs a few round trips."""


def drafted(count: int, *, pods: Sequence[openb.GpuPod], seed: int) -> list[drafts.Draft]:
    """Return `count` workflows: prepare, train (together) or try (each alone), judge, export."""
    rng = draws.stream(seed, "trainings")
    models = {
        tenant.namespace: [_model(tenant, letter, pods=pods, seed=seed) for letter in "abc"]
        for tenant in TENANTS
    }
    made = []
    for number in range(count):
        tenant = rng.choices(TENANTS, weights=[tenant.share for tenant in TENANTS])[0]
        model = rng.choice(models[tenant.namespace])
        size = draws.log_normal(rng, 1.0, sigma=0.4, least=0.3, most=3.0)
        made.append(_draft(model, source=f"openb/{number:03d}", tenant=tenant, size=size))
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a team trains again and again: one pipeline definition."""

    family: str
    pod: openb.GpuPod
    together: bool
    """Its workers exchange gradients; else each is a trial of its own."""
    workers: int
    lasts_s: float
    loading_share: float
    """Of the time that a GPU task spends on its CPUs: used over requested cores."""
    memory_used_bytes: float

    @property
    def threads(self) -> int:
        """Threads that load data: one for each core requested."""
        return max(1, self.pod.cpu_m // 1000)


def _model(
    tenant: authors.Tenant, letter: str, *, pods: Sequence[openb.GpuPod], seed: int
) -> Model:
    rng = draws.stream(seed, "model", tenant.namespace, letter)
    measured = ratios.load()
    fitting = [
        pod
        for pod in pods
        if pod.cpu_m <= MOST_CPU_M * pod.gpus and pod.memory_bytes <= MOST_MEMORY_BYTES * pod.gpus
    ]
    single = [pod for pod in fitting if pod.gpus == 1]
    several = [pod for pod in fitting if 1 < pod.gpus <= 4] or single
    if not single:
        raise errors.UsageError("the openb list has no pod with one GPU that fits a node")
    pod = rng.choice(several if rng.random() < MULTI_GPU else single)
    together = rng.random() < 0.6
    return Model(
        family=f"{tenant.namespace}-{letter}",
        pod=pod,
        together=together,
        workers=rng.choice((2, 2, 4)) if together else rng.choice((3, 4, 6)),
        lasts_s=draws.log_normal(rng, 500.0, sigma=0.4, least=120.0, most=1200.0),
        loading_share=min(MOST_LOADING, 1 / measured.draw_cpu(rng)),
        memory_used_bytes=pod.memory_bytes / min(MOST_RATIO, measured.draw_memory(rng)),
    )


def _draft(model: Model, *, source: str, tenant: authors.Tenant, size: float) -> drafts.Draft:
    program = "train" if model.together else "trial"
    word = "worker" if model.together else "trial"
    lasts_s = model.lasts_s * size
    first = SHARDS + 1
    places = tuple(range(first, first + model.workers))
    evaluate = first + model.workers
    tasks = (
        traces.TraceTask(program="fetch", runtime_s=40.0),
        *(
            traces.TraceTask(program="shard", parents=(0,), runtime_s=90.0 * size)
            for _ in range(SHARDS)
        ),
        *(
            traces.TraceTask(program=program, parents=tuple(range(1, first)), runtime_s=lasts_s)
            for _ in places
        ),
        traces.TraceTask(program="evaluate", parents=places, runtime_s=lasts_s / 8),
        traces.TraceTask(program="export", parents=(evaluate,), runtime_s=30.0),
    )
    works = [_plain(model.family, task) for task in tasks]
    for place in (*places, evaluate):
        siblings = tuple(other for other in places if other != place) if model.together else ()
        works[place] = _on_gpu(model, tasks[place], siblings=siblings if place != evaluate else ())
    return drafts.Draft(
        family=model.family,
        source=source,
        tenant=tenant,
        word=word,
        tasks=tasks,
        works=tuple(works),
        shape=shapes.shaped(tasks, word=word, lists_items=False),
        given=_given(model.pod, program, tenant=tenant),
    )


def _plain(family: str, task: traces.TraceTask) -> programs.Work:
    traits = programs.traits_of(family, task.program, cores_seen=None, heavy=True)
    peak = programs.peak_of(task, traits, small_inputs=False, size=1.0)
    return programs.work_of(task, traits, runtime_s=task.runtime_s, peak_bytes=peak)


def _on_gpu(model: Model, task: traces.TraceTask, *, siblings: tuple[int, ...]) -> programs.Work:
    """Return a task whose time is GPU, data loading, and gradients to its siblings."""
    traits = programs.traits_of(model.family, task.program, cores_seen=None, heavy=False)
    reduce_s = task.runtime_s * REDUCE_SHARE if siblings else 0.0
    return programs.Work(
        program=task.program,
        runtime_s=draws.rounded(task.runtime_s),
        cpu_s=draws.rounded(model.loading_share * task.runtime_s * model.threads),
        threads=model.threads,
        peak_bytes=draws.rounded(model.memory_used_bytes),
        read_bytes=draws.rounded(READING_SHARE * task.runtime_s * programs.REFERENCE_DISK),
        written_bytes=0.0,
        store_bytes=0.0,
        gpu_s=draws.rounded(task.runtime_s * (1 - model.loading_share - READING_SHARE) - reduce_s),
        sibling_bytes=draws.rounded(reduce_s * programs.REFERENCE_NETWORK),
        round_trips=draws.rounded(task.runtime_s / STEP_S) if siblings else 0.0,
        siblings=siblings,
        traits=replace(traits, curve="plateau"),
    )


def _given(
    pod: openb.GpuPod, program: str, *, tenant: authors.Tenant
) -> Mapping[str, authors.Written]:
    """Return what the GPU templates ask for: the requests of a pod of the trace."""
    train = plans.Requests(
        cpu_m=pod.cpu_m,
        memory_bytes=pod.memory_bytes,
        cpu_limit_m=pod.cpu_m if tenant.limits_cpu else None,
        memory_limit_bytes=pod.memory_bytes,
        gpus=pod.gpus,
    )
    return {
        program: authors.Written(requests=train, retries=1, grows_on_retry=False),
        "evaluate": authors.Written(
            requests=replace(train, gpus=1), retries=0, grows_on_retry=False
        ),
    }
