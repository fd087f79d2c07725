"""Drafts from recorded workflows: cut to a size that a lab carries, scaled to lab durations.

The traces of nf-core ran on test profiles (median task 2 s) and those of Pegasus and Makeflow on
other machines: a run in the lab needs tasks that are long against the control plane's own latency.
So each workflow's runtimes are raised to the power 0.4 and scaled by one factor to a drawn mean:
the order of its tasks by length stays, their spread shrinks.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lab import errors
from lab.workloads import authors, drafts, draws, programs, prunings, shapes, traces

SPREAD_POWER = 0.4
"""Runtimes are raised to this, so that a lab run holds short and long tasks (assumption)."""
LONGEST_S = 900.0
WORDS = {
    "blast": "chunk",
    "bwa": "chunk",
    "1000genome": "chromosome",
    "cycles": "field",
    "epigenomics": "lane",
    "seismology": "station",
    "srasearch": "accession",
}
"""What people call the items of a loop in a family; `sample` in all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How large the drafts of a mix are."""

    fewest_tasks: int
    """A trace is cut to no less, unless `most_tasks` is less."""
    most_tasks: int
    task_median_s: float
    """Median over workflows of the mean duration of their tasks."""
    shortest_s: float
    """Floor of a task: staging, and a program that does next to nothing."""
    size_sigma: float = 0.4
    """Log-normal spread of the input size of workflows."""


def drafted(
    candidates: Sequence[traces.Trace],
    count: int,
    *,
    tenants: Sequence[authors.Tenant],
    scale: Scale,
    seed: int,
) -> list[drafts.Draft]:
    """Return `count` drafts: family first, then one of its traces, tenant and size."""
    usable = _by_family(candidates, most_tasks=scale.most_tasks)
    if not candidates:
        raise errors.UsageError(
            "the data has no trace of the kind that this mix is made of: its files are empty, "
            "or all of it is kept for tests (--held-out uses those), "
            "or none of it (leave --held-out away)"
        )
    if not usable:
        raise errors.UsageError(
            f"none of {len(candidates)} traces can be cut to {scale.most_tasks} tasks: "
            "allow more with --most-tasks"
        )
    rng = draws.stream(seed, "recordings")
    names = sorted(usable)
    made = []
    for _ in range(count):
        trace = rng.choice(usable[rng.choice(names)])
        tenant = rng.choices(tenants, weights=[tenant.share for tenant in tenants])[0]
        size = draws.log_normal(rng, 1.0, sigma=scale.size_sigma, least=0.25, most=4.0)
        fewest = min(scale.fewest_tasks, scale.most_tasks)
        cut = _cut(trace, rng.randint(fewest, scale.most_tasks), scale.most_tasks)
        mean_s = scale.task_median_s * size
        made.append(
            draft_of(cut, tenant=tenant, mean_s=mean_s, shortest_s=scale.shortest_s, size=size)
        )
    return made


def draft_of(
    trace: traces.Trace,
    *,
    tenant: authors.Tenant,
    mean_s: float,
    shortest_s: float,
    size: float,
) -> drafts.Draft:
    """Return the draft of one trace whose tasks last `mean_s` in the mean; `size` scales memory."""
    shaped_s = [task.runtime_s**SPREAD_POWER for task in trace.tasks]
    factor = mean_s * len(shaped_s) / sum(shaped_s)
    runtimes_s = [min(LONGEST_S, max(shortest_s, factor * shape_s)) for shape_s in shaped_s]
    middle_s = sorted(runtimes_s)[len(runtimes_s) // 2]
    seen: defaultdict[str, float] = defaultdict(float)
    longest: defaultdict[str, float] = defaultdict(float)
    for task, runtime_s in zip(trace.tasks, runtimes_s, strict=True):
        seen[task.program] = max(seen[task.program], task.cores_used or 0.0)
        longest[task.program] = max(longest[task.program], runtime_s)
    works = []
    for task, runtime_s in zip(trace.tasks, runtimes_s, strict=True):
        traits = programs.traits_of(
            trace.family,
            shapes.slug(task.program),
            cores_seen=seen[task.program] or None,
            heavy=longest[task.program] > middle_s,
        )
        peak = programs.peak_of(task, traits, small_inputs=trace.small_inputs, size=size)
        works.append(programs.work_of(task, traits, runtime_s=runtime_s, peak_bytes=peak))
    word = WORDS.get(trace.family, "sample")
    return drafts.Draft(
        family=trace.family,
        source=trace.name,
        tenant=tenant,
        word=word,
        tasks=trace.tasks,
        works=tuple(works),
        shape=shapes.shaped(
            trace.tasks,
            word=word,
            lists_items=draws.stream("lists", trace.family).random() < 0.5,
        ),
    )


def _by_family(
    candidates: Sequence[traces.Trace], *, most_tasks: int
) -> dict[str, list[traces.Trace]]:
    usable: defaultdict[str, list[traces.Trace]] = defaultdict(list)
    for trace in candidates:
        if prunings.group_count(trace) <= most_tasks:
            usable[trace.family].append(trace)
    return dict(usable)


def _cut(trace: traces.Trace, wanted: int, most_tasks: int) -> traces.Trace:
    room = min(most_tasks, max(wanted, prunings.group_count(trace)))
    return prunings.pruned(trace, most_tasks=room)
