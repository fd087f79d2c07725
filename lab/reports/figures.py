"""The headline numbers of a run, and the whole measurement put together from its records."""

import os
from collections.abc import Mapping, Sequence

import numpy as np

from lab.reports import accounts, curves, measurements, results, sources, verdicts
from lab.workloads import mixes, runs

GIB = 2.0**30


def measure(known: sources.Sources, *, arm: str = "default") -> measurements.Measurement:
    """Join, judge and count the records of one run."""
    record = known.record
    account = accounts.account(known)
    workflows = [_workflow(known, item, account.tasks) for item in record.workflows]
    return measurements.Measurement(
        format=measurements.FORMAT,
        run=record.run,
        arm=arm,
        command=record.command,
        lab=record.lab,
        cluster=record.cluster,
        mix=record.mix,
        seed=record.seed,
        arrivals=record.arrivals,
        overload=record.overload,
        requested_load=record.requested_load,
        sample=record.sample,
        plans_sha256=record.plans_sha256,
        outcome=record.outcome,
        speed=record.speed,
        started_at=record.started_at,
        git=results.git(),
        machine_cores=len(os.sched_getaffinity(0)),
        figures=count(known, account, workflows=workflows),
        validity=verdicts.judge(known, account.tasks),
        problems=account.problems,
        nodes=curves.nodes(known.cluster),
        workflows=workflows,
        tasks=account.tasks,
        curves=curves.draw(known, account.tasks),
        faults=[
            measurements.Fault(at_s=known.sim_s(item.at), fault=item.fault, node=item.node)
            for item in known.faults
        ],
    )


def count(
    known: sources.Sources,
    account: accounts.Account,
    *,
    workflows: Sequence[measurements.Workflow],
) -> measurements.Figures:
    """Return the headline numbers; docs/results.md defines each."""
    tasks = account.tasks
    completions = [item.completion_s for item in workflows if item.completion_s is not None]
    waits = [task.wait_s for task in tasks if task.wait_s is not None]
    ended = [item.ended_s for item in workflows if item.ended_s is not None]
    makespan_s = max(ended) - min(item.submitted_s for item in workflows) if ended else None
    cores = sum(group.cores for _, group in known.cluster.nodes)
    busy_s = _busy_s(tasks)
    requested_core_s = sum(
        task.requested_cpu_m / 1000 * (task.ended_s - task.bound_s)
        for task in tasks
        if task.bound_s is not None and task.ended_s is not None
    )
    requested = sum(task.requested_memory_byte_s for task in tasks) / GIB
    used = sum(task.used_memory_byte_s for task in tasks) / GIB
    return measurements.Figures(
        workflows=len(workflows),
        succeeded=sum(item.phase == "Succeeded" for item in workflows),
        failed=sum(item.ended_s is not None and item.phase != "Succeeded" for item in workflows),
        pods_created=account.pods_created,
        pods_ended=account.pods_ended,
        pods_decided=account.pods_decided,
        mean_completion_s=_mean(completions),
        p95_completion_s=_percentile(completions, 95),
        mean_wait_s=_mean(waits),
        p95_wait_s=_percentile(waits, 95),
        makespan_s=makespan_s,
        utilisation=sum(task.cpu_core_s for task in tasks) / (cores * busy_s) if busy_s else None,
        requested_cpu_share=requested_core_s / (cores * busy_s) if busy_s else None,
        requested_memory_gib_s=requested,
        used_memory_gib_s=used,
        requested_over_used_memory=requested / used if used else None,
        oom_kills=sum(task.reason == "OOMKilled" for task in tasks),
        deadlines_missed=sum(
            item.completion_s is None or item.completion_s > item.deadline_s for item in workflows
        ),
        wall_s=None if makespan_s is None else makespan_s / known.record.speed,
    )


def data(arm: measurements.Measurement) -> str | None:
    """Return what a run's workflows were made from: `pack`, `sample`, None for mixes of our own."""
    if arm.sample:
        return "sample"
    mix = mixes.MIXES.get(arm.mix)
    return None if mix is not None and mix.own else "pack"


def of_arms(arms: Sequence[measurements.Measurement]) -> dict[str, results.Figure]:
    """Return the figures of several arms under dotted keys, as results carry them."""
    figures: dict[str, results.Figure] = {}
    for arm in arms:
        found: Mapping[str, results.Scalar] = {
            name: getattr(arm.figures, name) for name in arm.figures.__struct_fields__
        }
        figures.update({f"{arm.arm}.{name}": _short(value) for name, value in found.items()})
        figures[f"{arm.arm}.valid"] = arm.validity.valid
        figures[f"{arm.arm}.invalid_because"] = list(arm.validity.reasons)
        figures[f"{arm.arm}.control_plane_p99_s"] = _short(arm.validity.control_plane_p99_s)
        figures[f"{arm.arm}.median_task_s"] = _short(arm.validity.median_task_s)
        figures[f"{arm.arm}.problems"] = len(arm.problems)
        figures[f"{arm.arm}.overload"] = _short(arm.overload)
        figures[f"{arm.arm}.cluster"] = arm.cluster
    return figures


def _workflow(
    known: sources.Sources, item: runs.WorkflowRun, tasks: Sequence[measurements.Task]
) -> measurements.Workflow:
    mine = [
        task for task in tasks if (task.namespace, task.workflow) == (item.namespace, item.name)
    ]
    received = [
        call.at
        for call in known.calls
        if call.accepted
        and (call.verb, call.resource) == ("create", "workflows")
        and (call.namespace, call.name) == (item.namespace, item.name)
    ]
    submitted_at = received[0] if received else item.submitted_at
    submitted_s = item.arrival_s if submitted_at is None else known.sim_s(submitted_at)
    ended_s = None if item.ended_at is None else known.sim_s(item.ended_at)
    return measurements.Workflow(
        namespace=item.namespace,
        name=item.name,
        family=item.family,
        phase=item.phase,
        message=item.message,
        submitted_s=submitted_s,
        ended_s=ended_s,
        completion_s=None if ended_s is None else ended_s - submitted_s,
        deadline_s=item.deadline_s,
        critical_path_s=item.critical_path_s,
        tasks=item.tasks,
        pods=len(mine),
        oom_kills=sum(task.reason == "OOMKilled" for task in mine),
        cpu_core_s=sum(task.cpu_core_s for task in mine),
        requested_memory_byte_s=sum(task.requested_memory_byte_s for task in mine),
        used_memory_byte_s=sum(task.used_memory_byte_s for task in mine),
    )


def _busy_s(tasks: Sequence[measurements.Task]) -> float:
    """Return the length of the busy window: from the first start of a pod to the last end."""
    starts = [task.started_s for task in tasks if task.started_s is not None]
    ends = [task.ended_s for task in tasks if task.ended_s is not None]
    return max(ends) - min(starts) if starts and ends else 0.0


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _percentile(values: Sequence[float], percent: float) -> float | None:
    return float(np.percentile(values, percent)) if values else None


def _short(value: results.Scalar) -> results.Scalar:
    """Round to four decimals: more than any figure holds between two runs."""
    return round(value, 4) if isinstance(value, float) else value
