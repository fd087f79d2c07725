"""The named workloads: what is in each, and how one is generated.

Everything follows from (mix, seed, parameters): the same input gives the same plans and truths,
byte for byte. Times are simulated seconds.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from lab import catalogs, errors
from lab.truths import Truth
from lab.workloads import (
    arrivals,
    authors,
    drafts,
    draws,
    families,
    packs,
    plans,
    programs,
    ratios,
    recordings,
    traces,
)
from lab.workloads.readers import wfinstances

GIB = 2**30
RESEARCH = (
    authors.Tenant(namespace="research", share=0.5, deadline_factor=6.0),
    authors.Tenant(
        namespace="clinic",
        share=0.3,
        deadline_factor=3.0,
        priority=10,
        limits_cpu=True,
        most_memory_bytes=8 * GIB,
    ),
    authors.Tenant(
        namespace="facility",
        share=0.2,
        deadline_factor=8.0,
        uses_depends=True,
        pod_gc="OnWorkflowCompletion",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a person may ask of a mix."""

    workflows: int
    seed: int
    pack: packs.Pack
    held_out: bool = False
    most_tasks: int | None = None
    """Most pods of one workflow; None leaves it to the mix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One named workload."""

    name: str
    about: str
    draft: Callable[[Wish], list[drafts.Draft]]
    arrivals: str = "poisson"
    may_fail: bool = False
    """Whether workflows that fail are part of the case."""


def genomics(wish: Wish) -> list[drafts.Draft]:
    """Draft nf-core and WfInstances workflows."""
    recorded = _allowed(wfinstances.read(wish.pack), held_out=wish.held_out)
    scale = recordings.Scale(fewest_tasks=12, most_tasks=wish.most_tasks or 40, task_median_s=110.0)
    return recordings.drafted(
        recorded, wish.workflows, tenants=RESEARCH, scale=scale, seed=wish.seed
    )


def _allowed(recorded: Iterable[traces.Trace], *, held_out: bool) -> list[traces.Trace]:
    """Return what may be used: the families kept for tests only where asked for."""
    return [trace for trace in recorded if families.is_held_out(trace.family) == held_out]


MIXES = {
    mix.name: mix
    for mix in (
        Mix(
            name="genomics",
            about="nf-core, Pegasus and Makeflow pipelines of 12 to 40 tasks from WfInstances",
            draft=genomics,
        ),
    )
}


def find(name: str) -> Mix:
    """Return a mix by name; raises `UsageError` naming those that exist."""
    if name not in MIXES:
        raise errors.UsageError(
            f"no mix {name!r}: choose one of {', '.join(sorted(MIXES))} "
            "(`python -m lab workload list` says what they are)"
        )
    return MIXES[name]


def generate(
    mix: Mix,
    wish: Wish,
    *,
    tag: str,
    cluster: catalogs.Cluster,
    kind: str | None = None,
    overload: float = 1.0,
    window_s: float | None = None,
) -> plans.Workload:
    """Return the workload; workflows are named `TAG-FAMILY-NUMBER`.

    Without `window_s` the window is as long as the cluster needs for the CPU work at full use,
    divided by `overload`.
    """
    drafted = mix.draft(wish)
    if window_s is None:
        work = sum(draft.work_core_s for draft in drafted)
        window_s = draws.rounded(work / capacity_cores(cluster) / overload)
    times = arrivals.times(kind or mix.arrivals, len(drafted), window_s=window_s, seed=wish.seed)
    written = _written(drafted, seed=wish.seed)
    made, truths = [], []
    for number, (draft, arrival_s) in enumerate(zip(drafted, times, strict=True)):
        key = (draft.tenant.namespace, draft.family)
        plan = drafts.planned(
            draft,
            name=f"{tag}-{draft.family}-{number:03d}",
            arrival_s=arrival_s,
            written={template: written[*key, template] for template in draft.shape.templates},
        )
        made.append(plan)
        truths += drafts.truths_of(draft, plan)
    return plans.Workload(
        mix=mix.name,
        seed=wish.seed,
        workflows=tuple(made),
        truths=tuple(truths),
        window_s=window_s,
        held_out=wish.held_out,
        sample=wish.pack.sample,
    )


def _written(
    drafted: Sequence[drafts.Draft], *, seed: int
) -> dict[tuple[str, str, str], authors.Written]:
    """Return what stands in each template, by (namespace, family, template)."""
    works: defaultdict[tuple[str, str, str], list[programs.Work]] = defaultdict(list)
    tenants: dict[str, authors.Tenant] = {}
    given: dict[tuple[str, str, str], authors.Written] = {}
    for draft in drafted:
        tenants[draft.tenant.namespace] = draft.tenant
        for template, work in zip(draft.shape.templates, draft.works, strict=True):
            key = (draft.tenant.namespace, draft.family, template)
            works[key].append(work)
            if template in draft.given:
                given[key] = draft.given[template]
    measured = ratios.load()
    return given | {
        key: authors.written(tenants[key[0]], done, stream=(seed, *key), measured=measured)
        for key, done in works.items()
        if key not in given
    }


def capacity_cores(cluster: catalogs.Cluster) -> float:
    """Return the cores of a cluster, each counted by its speed."""
    return sum(group.cores * group.speed for _, group in cluster.nodes)


def offered_load(workload: plans.Workload, cluster: catalogs.Cluster) -> float:
    """Return the CPU work over what the cluster can do within the arrival window."""
    work = sum(truth.cpu_s for truth in workload.truths)
    return work / capacity_cores(cluster) / max(1.0, workload.window_s)


def plans_sha256(workload: plans.Workload) -> str:
    """Return the digest of DAGs, requests and task work, whatever the workflows are called."""
    digest = hashlib.sha256()
    for plan in workload.workflows:
        digest.update(msgspec.json.encode(replace(plan, name="")))
    by_workflow = [truth_without_name(truth) for truth in workload.truths]
    digest.update(msgspec.json.encode(by_workflow))
    return digest.hexdigest()


def truth_without_name(truth: Truth) -> Truth:
    """Return a truth without the name of its workflow, also in the names of its files."""
    prefix = f"{truth.workflow}/"
    reads = tuple(
        msgspec.structs.replace(read, file=read.file.removeprefix(prefix)) for read in truth.reads
    )
    return msgspec.structs.replace(truth, workflow="", reads=reads)
