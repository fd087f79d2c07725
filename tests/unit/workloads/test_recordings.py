"""Recorded workflows brought to the size of a lab run."""

import dataclasses

import pytest

from lab import errors
from lab.workloads import authors, drafts, plans, ratios, recordings, summaries, traces

TENANT = authors.Tenant(namespace="research", share=1.0, deadline_factor=4.0)
SCALE = recordings.Scale(
    fewest_tasks=1, most_tasks=10, task_median_s=100.0, shortest_s=20.0, size_sigma=0.0
)


def a_trace(*tasks: traces.TraceTask, family: str = "blast") -> traces.Trace:
    """Return a trace of a family whose splits list their items."""
    return traces.Trace(name="made", family=family, tasks=tasks)


def a_draft(trace: traces.Trace, *, mean_s: float = 100.0) -> drafts.Draft:
    """Return its draft."""
    return recordings.draft_of(trace, tenant=TENANT, mean_s=mean_s, shortest_s=20.0, size=1.0)


def a_plan(draft: drafts.Draft) -> plans.WorkflowPlan:
    """Return its plan, with requests that authors draw."""
    written = {
        template: authors.written(TENANT, draft.works, stream=(1, template), measured=ratios.load())
        for template in draft.shape.templates
    }
    return drafts.planned(draft, name="w", arrival_s=0.0, written=written)


def a_task(program: str, *parents: int, runtime_s: float = 10.0) -> traces.TraceTask:
    """Return a task without figures but its runtime."""
    return traces.TraceTask(program=program, parents=parents, runtime_s=runtime_s)


def test_durations_have_the_mean_asked_for() -> None:
    """Equal tasks last exactly that; the truth takes as long on an idle node at speed 1."""
    draft = a_draft(a_trace(a_task("a"), a_task("b", 0), a_task("c", 1)))
    assert [100.0] * 3 == [work.runtime_s for work in draft.works]
    lasting = [summaries.nominal_s(truth) for truth in drafts.truths_of(draft, a_plan(draft))]
    assert [pytest.approx(100.0, rel=1e-4)] * 3 == lasting


def test_the_order_of_durations_stays() -> None:
    """What ran longer in the trace runs longer in the lab, within the bounds of a lab run."""
    runtimes_s = [0.1, 5.0, 60.0, 3000.0]
    draft = a_draft(a_trace(*(a_task("a", runtime_s=seconds) for seconds in runtimes_s)))
    lasting = [work.runtime_s for work in draft.works]
    assert sorted(lasting) == lasting
    assert 20.0 == lasting[0]
    assert lasting[-1] <= recordings.LONGEST_S


def test_every_pod_of_a_listing_template_reports_its_output() -> None:
    """Argo fails a pod whose output parameter is missing, also where nobody reads it."""
    trace = a_trace(
        a_task("split"), a_task("split"), a_task("work", 0), a_task("work", 0), a_task("end", 1)
    )
    draft = a_draft(trace)
    plan = a_plan(draft)
    listing = {program.name for program in plan.programs if program.output_parameters}
    assert {"split"} == listing
    outputs = {truth.task: truth.outputs for truth in drafts.truths_of(draft, plan)}
    assert {"items": '["chunk-00", "chunk-01"]'} == outputs["split"]
    assert {"items": "[]"} == outputs["split-2"]
    assert {} == outputs["end"]


def test_fewer_tasks_than_usual_can_be_asked_for() -> None:
    """`--most-tasks` below what the mix usually cuts to is a bound like any other."""
    scale = dataclasses.replace(SCALE, fewest_tasks=6, most_tasks=3)
    trace = a_trace(a_task("split"), *(a_task("work", 0) for _ in range(20)), a_task("end", 1))
    drafted = recordings.drafted([trace], 4, tenants=[TENANT], scale=scale, seed=1)
    assert [3] * 4 == [len(draft.tasks) for draft in drafted]


def test_traces_that_cannot_be_cut_are_named() -> None:
    """Twelve programs do not fit into ten tasks."""
    trace = a_trace(*(a_task(f"program-{number}") for number in range(12)))
    with pytest.raises(errors.UsageError, match=r"none of 1 traces.*--most-tasks"):
        recordings.drafted([trace], 1, tenants=[TENANT], scale=SCALE, seed=1)
