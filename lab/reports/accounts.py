"""Every pod of a run accounted for: the API server's records joined with the kubelet's.

The audit log knows a pod by namespace and name (a creation has no uid yet); a name may come again
after its pod was deleted. So each creation opens a life that lasts until the next creation of that
name, and every binding, deletion and record of the kubelet belongs to the life that it falls into.
A pod that cannot be told to its end, and records that contradict one another, become a problem
that names the pod. Nothing is dropped.
"""

import collections
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from lab import journals
from lab.reports import audits, measurements, sources

CLOCK_SLACK_WALL_S = 0.002
"""All processes read one clock, but the audit log cuts to microseconds, and threads wait."""


@dataclass(slots=True, kw_only=True)
class Life:
    """One pod: from its creation to whatever is known about its end."""

    created: audits.Call | None
    bindings: list[audits.Call] = field(default_factory=list)
    deletions: list[audits.Call] = field(default_factory=list)
    records: list[journals.PodRecord] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The pods of one run."""

    tasks: list[measurements.Task]
    problems: list[str]
    pods_created: int
    pods_ended: int
    """Pods that ended exactly once."""
    pods_decided: int
    """Pods about which Tiphys decided when they were created."""


def account(known: sources.Sources) -> Account:
    """Join the records of one run into one entry per pod."""
    tasks, problems = [], []
    ended = created = decided = 0
    for (namespace, name), workflow, lives in _lives(known):
        for life in lives:
            said = [f"pod {namespace}/{name} {what}" for what in _contradictions(life)]
            problems += said
            task = _task(known, life, namespace=namespace, name=name, workflow=workflow)
            created += life.created is not None
            decided += life.created is not None and life.created.decided
            ended += task.ended_s is not None and len(life.records) <= 1
            tasks.append(task)
    problems += _against_run_record(known, created=created)
    named = " ".join(problems)
    problems += [
        f"pod {said}"
        for said in known.record.pods_unaccounted
        if said.partition(":")[0] not in named
    ]
    tasks.sort(key=lambda task: (task.created_s, task.namespace, task.pod))
    return Account(
        tasks=tasks,
        problems=problems,
        pods_created=created,
        pods_ended=ended,
        pods_decided=decided,
    )


def _lives(
    known: sources.Sources,
) -> Iterator[tuple[tuple[str, str], str, list[Life]]]:
    """Yield (namespace, pod name), the workflow, and the lives of each pod name of the run."""
    workflows = {(item.namespace, item.name) for item in known.record.workflows}
    calls: dict[tuple[str, str], list[audits.Call]] = collections.defaultdict(list)
    for call in known.calls:
        if call.accepted and call.resource in ("pods", "pods/binding"):
            calls[call.namespace, call.name].append(call)
    records: dict[tuple[str, str], list[journals.PodRecord]] = collections.defaultdict(list)
    owners: dict[tuple[str, str], str] = {}
    for record in known.pods:
        if (record.namespace, record.workflow) in workflows:
            records[record.namespace, record.name].append(record)
            owners[record.namespace, record.name] = record.workflow
    for key in sorted(calls.keys() | records.keys()):
        if workflow := owners.get(key) or audits.workflow_of(key, workflows):
            yield key, workflow, _split(calls.get(key, []), records.get(key, []))


def _split(calls: list[audits.Call], records: list[journals.PodRecord]) -> list[Life]:
    """Sort the calls and records of one pod name into lives, in the order of time."""
    lives = [Life(created=call) for call in calls if _creates(call)]
    if not lives:
        if not records and not any(call.resource == "pods/binding" for call in calls):
            return []
        lives = [Life(created=None)]

    def at(moment: float) -> Life:
        started = [
            life
            for life in lives
            if life.created is None or life.created.at <= moment + CLOCK_SLACK_WALL_S
        ]
        return started[-1] if started else lives[0]

    for call in calls:
        if call.resource == "pods/binding":
            at(call.at).bindings.append(call)
        elif call.verb == "delete":
            at(call.at).deletions.append(call)
    for record in records:
        at(record.seen_at).records.append(record)
    return lives


def _creates(call: audits.Call) -> bool:
    return call.resource == "pods" and call.verb == "create"


def _contradictions(life: Life) -> Iterator[str]:
    """Say what is missing or wrong about one pod."""
    uids = {record.uid for record in life.records}
    if life.created is None:
        yield "has records, but the audit log has no creation of it"
    if len(life.records) > len(uids):
        yield f"has {len(life.records)} ends in the kubelet's journal; it must have one"
    elif len(uids) > 1:
        yield f"was created once, but the kubelet ended {len(uids)} pods of that name"
    if life.records and not life.bindings:
        yield f"ended on node {life.records[0].node}, but the audit log has no binding of it"
    if not life.records and life.bindings:
        yield "was bound to a node, but the kubelet's journal has no end of it"
    if not life.records and not life.bindings and not life.deletions:
        yield "was created, but neither bound nor deleted"
    if life.records:
        record = life.records[0]
        moments = [
            ("created", life.created.at if life.created else None),
            ("bound", life.bindings[0].at if life.bindings else None),
            ("seen by the kubelet", record.seen_at),
            ("started", record.started_at),
            ("ended", record.ended_at),
        ]
        happened = [(what, at) for what, at in moments if at is not None]
        for (before, earlier), (after, later) in itertools.pairwise(happened):
            if later < earlier - CLOCK_SLACK_WALL_S:
                yield f"was {after} {earlier - later:.3f} wall seconds before it was {before}"


def _task(
    known: sources.Sources, life: Life, *, namespace: str, name: str, workflow: str
) -> measurements.Task:
    record = life.records[0] if life.records else None
    moment = life.created or (life.bindings[0] if life.bindings else None)
    created_at = moment.at if moment else record.seen_at if record else known.record.started_at
    bound_at = life.bindings[0].at if life.bindings else record.seen_at if record else None
    if record is None:
        deleted = not life.bindings and bool(life.deletions)
        return measurements.Task(
            namespace=namespace,
            workflow=workflow,
            task="",
            template="",
            attempt=0,
            pod=name,
            node="",
            created_s=known.sim_s(created_at),
            bound_s=None if bound_at is None else known.sim_s(bound_at),
            started_s=None,
            ended_s=known.sim_s(life.deletions[0].at) if deleted else None,
            wait_s=None,
            reason="Deleted" if deleted else "Unaccounted",
            exit_code=0,
            requested_cpu_m=0,
            requested_memory_bytes=0,
            limit_memory_bytes=None,
            cpu_core_s=0.0,
            peak_memory_bytes=0.0,
            requested_memory_byte_s=0.0,
            used_memory_byte_s=0.0,
            disk_bytes=0.0,
            network_bytes=0.0,
            gpu_s=0.0,
        )
    assert bound_at is not None
    started_s = None if record.started_at is None else known.sim_s(record.started_at)
    held_s = (record.ended_at - bound_at) * known.record.speed
    return measurements.Task(
        namespace=namespace,
        workflow=workflow,
        task=record.task,
        template=record.template,
        attempt=record.attempt,
        pod=name,
        node=record.node,
        created_s=known.sim_s(created_at),
        bound_s=known.sim_s(bound_at),
        started_s=started_s,
        ended_s=known.sim_s(record.ended_at),
        wait_s=None if started_s is None else started_s - known.sim_s(created_at),
        reason=record.reason,
        exit_code=record.exit_code,
        requested_cpu_m=record.requested_cpu_m,
        requested_memory_bytes=record.requested_memory_bytes,
        limit_memory_bytes=record.limit_memory_bytes,
        cpu_core_s=record.cpu_s,
        peak_memory_bytes=record.peak_memory_bytes,
        requested_memory_byte_s=record.requested_memory_bytes * held_s,
        used_memory_byte_s=record.memory_byte_s,
        disk_bytes=record.disk_bytes,
        network_bytes=record.network_bytes,
        gpu_s=record.gpu_s,
    )


def _against_run_record(known: sources.Sources, *, created: int) -> Iterator[str]:
    """Hold the account against what `lab run` itself counted and saw."""
    counted = known.record.pods_created
    if counted is not None and counted != created:
        yield f"the run record counts {counted} pods created, the audit log has {created}"
    accepted = {
        (call.namespace, call.name)
        for call in known.calls
        if call.accepted and call.resource == "workflows" and call.verb == "create"
    }
    for item in known.record.workflows:
        name = f"workflow {item.namespace}/{item.name}"
        if item.submitted_at is not None and (item.namespace, item.name) not in accepted:
            yield f"{name} was submitted, but the audit log has no creation of it"
        elif item.submitted_at is None:
            yield f"{name} was planned, but never submitted"
        elif item.ended_at is None:
            yield f"{name} was submitted, but never ended"
