"""The mix `uniform`: a split, equal tasks, a merge. For throughput and for counting, not for study.

22 pods a workflow unless told otherwise; every task takes one minute at speed 1 on an idle node.
"""

from lab import errors
from lab.workloads import authors, drafts, plans, programs, shapes, traces

FAMILY = "uniform"
PODS = 22
LEAST_PODS = 3
RUNTIME_S = 60.0
MIB = 2**20
TENANTS = tuple(
    authors.Tenant(namespace=f"load-{letter}", share=1.0, deadline_factor=10.0) for letter in "abc"
)


def drafted(count: int, *, pods: int | None) -> list[drafts.Draft]:
    """Return `count` workflows of `pods` pods, dealt to the tenants in turn.

    Raises `UsageError` for less than 3 pods: a split, a task, a merge.
    """
    pods = PODS if pods is None else pods
    if pods < LEAST_PODS:
        raise errors.UsageError(
            f"a workflow of the mix uniform has {LEAST_PODS} pods at least (split, work, merge), "
            f"not {pods}: ask for more with --most-tasks"
        )
    middle = pods - 2
    tasks = (
        traces.TraceTask(program="split", runtime_s=RUNTIME_S),
        *(
            traces.TraceTask(program="work", parents=(0,), runtime_s=RUNTIME_S)
            for _ in range(middle)
        ),
        traces.TraceTask(program="merge", parents=tuple(range(1, middle + 1)), runtime_s=RUNTIME_S),
    )
    traits = {
        program: programs.Traits(
            threads=1,
            memory_traffic_bytes_per_s=5e8,
            memory_sensitivity=0.0,
            memory_median_bytes=256 * MIB,
            curve="plateau",
            op_bytes=programs.SEQUENTIAL_OP_BYTES,
            image_bytes=100.0 * MIB,
        )
        for program in ("split", "work", "merge")
    }
    works = tuple(
        programs.Work(
            program=task.program,
            runtime_s=RUNTIME_S,
            cpu_s=0.9 * RUNTIME_S,
            threads=1,
            peak_bytes=256.0 * MIB,
            read_bytes=0.0,
            written_bytes=0.0,
            store_bytes=0.1 * RUNTIME_S * programs.REFERENCE_STORE,
            traits=traits[task.program],
        )
        for task in tasks
    )
    asked = authors.Written(
        requests=plans.Requests(cpu_m=1000, memory_bytes=512 * MIB, memory_limit_bytes=512 * MIB),
        retries=0,
        grows_on_retry=False,
    )
    return [
        drafts.Draft(
            family=FAMILY,
            source="case/uniform",
            tenant=TENANTS[number % len(TENANTS)],
            word="chunk",
            tasks=tasks,
            works=works,
            shape=shapes.shaped(tasks, word="chunk", lists_items=False),
            given=dict.fromkeys(traits, asked),
        )
        for number in range(count)
    ]
