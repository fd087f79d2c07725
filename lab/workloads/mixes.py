"""The named workloads: what is in each, and how one is generated.

Everything follows from (mix, seed, parameters): the same input gives the same plans and truths,
byte for byte. Times are simulated seconds.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from lab import catalogs, errors, invocations
from lab.truths import Truth
from lab.workloads import (
    arrivals,
    authors,
    drafts,
    draws,
    exomes,
    families,
    packs,
    plans,
    programs,
    ratios,
    recordings,
    shapes,
    summaries,
    traces,
    trainings,
    uniforms,
)
from lab.workloads.readers import alibaba, cws, openb, pegasus, tpch, wfinstances, wta

GIB = 2**30
TAG = re.compile(r"[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?")
MOST_FAMILY = 28
"""Characters of the family in a workflow's name, which must stay within a label's 63: the tag has
30 at most, the number three, and a `-` stands between."""
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
ANALYSTS = (
    authors.Tenant(namespace="analytics", share=0.5, deadline_factor=6.0),
    authors.Tenant(namespace="finance", share=0.2, deadline_factor=3.0, priority=10),
    authors.Tenant(namespace="marketing", share=0.3, deadline_factor=10.0, uses_depends=True),
)
BATCH = (
    authors.Tenant(namespace="etl", share=0.6, deadline_factor=6.0),
    authors.Tenant(namespace="reports", share=0.25, deadline_factor=4.0, uses_depends=True),
    authors.Tenant(namespace="indexing", share=0.15, deadline_factor=10.0),
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

    def refuse_size(self, mix: str) -> None:
        """Raise `UsageError` where a size is asked of a mix whose workflows have their own."""
        if self.most_tasks is not None:
            raise errors.UsageError(
                f"workflows of the mix {mix} have the size of their case: leave --most-tasks away"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """One named workload."""

    name: str
    about: str
    draft: Callable[[Wish], list[drafts.Draft]]
    arrivals: str = "poisson"
    cluster: str = "mixed"
    """The shipped cluster that it is meant for."""
    may_fail: bool = False
    """Whether workflows that fail are part of the case."""
    own: bool = False
    """Whether it is wholly of our own making, the same with any data pack and without one."""


def genomics(wish: Wish) -> list[drafts.Draft]:
    """Draft nf-core, Pegasus and Makeflow pipelines."""
    recorded = _allowed(wfinstances.read(wish.pack), wish)
    if wish.held_out:
        recorded += _allowed(pegasus.read(wish.pack), wish) + _allowed(cws.read(wish.pack), wish)
    scale = recordings.Scale(
        fewest_tasks=6, most_tasks=wish.most_tasks or 28, task_median_s=76.0, shortest_s=55.0
    )
    return recordings.drafted(
        recorded, wish.workflows, tenants=RESEARCH, scale=scale, seed=wish.seed
    )


def spark(wish: Wish) -> list[drafts.Draft]:
    """Draft TPC-H queries, their stages as tasks."""
    recorded = _allowed(tpch.read(wish.pack), wish)
    scale = recordings.Scale(
        fewest_tasks=6, most_tasks=wish.most_tasks or 40, task_median_s=60.0, shortest_s=20.0
    )
    return recordings.drafted(
        recorded, wish.workflows, tenants=ANALYSTS, scale=scale, seed=wish.seed
    )


def burst(wish: Wish) -> list[drafts.Draft]:
    """Draft short batch jobs."""
    recorded = _allowed(alibaba.read(wish.pack), wish)
    scale = recordings.Scale(
        fewest_tasks=1, most_tasks=wish.most_tasks or 12, task_median_s=30.0, shortest_s=8.0
    )
    return recordings.drafted(recorded, wish.workflows, tenants=BATCH, scale=scale, seed=wish.seed)


def ml(wish: Wish) -> list[drafts.Draft]:
    """Draft trainings on GPUs."""
    wish.refuse_size("ml")
    return trainings.drafted(wish.workflows, pods=list(openb.read(wish.pack)), seed=wish.seed)


def exome(wish: Wish) -> list[drafts.Draft]:
    """Draft the four-stage case."""
    wish.refuse_size("exome")
    return exomes.drafted(wish.workflows, seed=wish.seed)


def uniform(wish: Wish) -> list[drafts.Draft]:
    """Draft equal workflows of equal tasks."""
    return uniforms.drafted(wish.workflows, pods=wish.most_tasks)


def mixed(wish: Wish) -> list[drafts.Draft]:
    """Draft half genomics, a quarter each of spark and burst, in random order."""
    quarter = wish.workflows // 4
    parts = {genomics: wish.workflows - 2 * quarter, spark: quarter, burst: quarter}
    drafted = [
        draft
        for part, count in parts.items()
        if count
        for draft in part(replace(wish, workflows=count))
    ]
    draws.stream(wish.seed, "mixed").shuffle(drafted)
    return drafted


def _allowed(recorded: Iterable[traces.Trace], wish: Wish) -> list[traces.Trace]:
    """Return the traces that may be used: those kept for tests only where asked for, and alone."""
    return [trace for trace in recorded if families.is_held_out(trace.family) == wish.held_out]


MIXES = {
    mix.name: mix
    for mix in (
        Mix(
            name="genomics",
            about="nf-core, Pegasus and Makeflow pipelines of 6 to 28 tasks (WfInstances)",
            draft=genomics,
        ),
        Mix(
            name="spark",
            about="TPC-H queries, each stage a few tasks (Decima's profiles)",
            draft=spark,
        ),
        Mix(
            name="burst",
            about="short batch jobs that come in batches, 17 times as dense as the mean (Alibaba)",
            draft=burst,
            arrivals="burst",
        ),
        Mix(
            name="ml",
            about="training on GPUs with all-reduce between siblings, and sweeps (openb requests)",
            draft=ml,
            cluster="gpu",
        ),
        Mix(
            name="mixed",
            about="half genomics, a quarter spark, a quarter burst",
            draft=mixed,
        ),
        Mix(
            name="exome",
            about="FastQC, BWA, GATK, VEP: GATK outgrows its request on nodes that look idle",
            draft=exome,
            cluster="genomics",
            may_fail=True,
            own=True,
        ),
        Mix(
            name="uniform",
            about="22 equal tasks a workflow, for throughput and counting",
            draft=uniform,
            arrivals="at-once",
            cluster="uniform",
            own=True,
        ),
    )
}


def find(name: str) -> Mix:
    """Return a mix by name; raises `UsageError` naming those that exist."""
    if name not in MIXES:
        raise errors.UsageError(
            f"no mix {name!r}: choose one of {', '.join(sorted(MIXES))} "
            f"(`{invocations.lab()} workload list` says what they are)"
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

    Without `window_s` the window is as long as the cluster needs for the work at full use (CPU or
    GPU, what takes longer), divided by `overload`. Raises `UsageError` where a family that is kept
    for tests would enter without the wish for it, whatever the mix did, and for a tag that no name
    can begin with.
    """
    if not TAG.fullmatch(tag):
        raise errors.UsageError(
            f"names of workflows cannot begin with {tag!r}: give --tag 1 to 30 of a-z, 0-9 and "
            "'-', the first and the last no '-'"
        )
    kind = kind or mix.arrivals
    recorded = wta.arrivals_s(wish.pack) if kind == "replay" else ()
    drafted = mix.draft(wish)
    families.check((draft.family for draft in drafted), held_out=wish.held_out)
    written = _written(drafted, seed=wish.seed)
    if window_s is None:
        window_s = draws.rounded(_busy_s(drafted, written, cluster=cluster) / overload)
    times = arrivals.times(kind, len(drafted), window_s=window_s, seed=wish.seed, recorded=recorded)
    made, truths = [], []
    for number, (draft, arrival_s) in enumerate(zip(drafted, times, strict=True)):
        key = (draft.tenant.namespace, draft.family)
        plan = drafts.planned(
            draft,
            name=f"{tag}-{shapes.slug(draft.family)[:MOST_FAMILY].strip('-')}-{number:03d}",
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
        sample=wish.pack.sample and not mix.own,
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


def _busy_s(
    drafted: Sequence[drafts.Draft],
    written: Mapping[tuple[str, str, str], authors.Written],
    *,
    cluster: catalogs.Cluster,
) -> float:
    """Return how long the cluster needs for all the work, always busy."""
    gpu_s = sum(
        work.gpu_s * written[draft.tenant.namespace, draft.family, template].requests.gpus
        for draft in drafted
        for work, template in zip(draft.works, draft.shape.templates, strict=True)
    )
    core_s = sum(draft.work_core_s for draft in drafted)
    return summaries.busy_s(summaries.Summary(used_core_s=core_s, gpu_s=gpu_s), cluster)


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
