"""From the caches to the one frozen picture that policies see, made anew only where it changed.

A picture of 5,000 nodes and 20,000 waiting pods costs milliseconds from nothing; decisions come 200
times a second. So rooms and waiting pods are kept and each change marks what has to be made again.

Over 400 lines because what is kept, and what each change makes old of it, is one state.
"""

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from typing import Protocol

import structlog

from tiphys.argo import identities
from tiphys.models.domain import (
    amounts,
    clusters,
    constraints,
    footprints,
    outlooks,
    pods,
    settings,
    snapshots,
    workflows,
)
from tiphys.models.estimators import books
from tiphys.models.planner import groups
from tiphys.operator import assumptions, caches, deadlines, lines, objects, overheads, slacks

MOST_SIBLINGS = 200
STALE_OUTLOOK_S = 5.0
"""After that a running workflow's outlook is made again although nothing was heard of it."""
REFRESHED_PER_S = 400.0
"""Waiting pods, and rooms, that are made anew for their age alone, spread over the calls: a call
seldom makes more than one or two, and with thousands of pods some are older than the rest."""
REFRESHED = 100
"""Most of them in one call, however long ago the last one was."""

log = structlog.get_logger()


class Estimates(Protocol):
    """What history says; `estimates` has it on every replica."""

    @property
    def version(self) -> int:
        """Rises when estimates change."""

    @property
    def book(self) -> books.Book:
        """All that is known; an empty one answers with defaults."""


@dataclasses.dataclass(slots=True)
class NoEstimates:
    """Nothing is known: every task takes the default."""

    version: int = 0
    book: books.Book = dataclasses.field(default_factory=books.Book)


class Snapshots:
    """The current picture; subscribe it once and ask `current()` as often as needed."""

    def __init__(
        self,
        cached: caches.Caches,
        assumed: assumptions.Assumptions,
        *,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        estimates: Estimates | None = None,
        choices: settings.PolicySettings | None = None,
    ) -> None:
        self._caches = cached
        self._assumed = assumed
        self._clock = clock
        self._monotonic = monotonic
        self.estimates: Estimates = estimates or NoEstimates()
        self.held_s: Callable[[str], float] = lambda key: 0.0
        """For how long a pod was held although it would have fitted; the dispatcher counts it."""
        self._choices = choices or settings.PolicySettings()
        self.overheads = overheads.Overheads(cached, monotonic)
        self.deadlines = deadlines.Deadlines(cached, lambda namespace: self._choices.slo)
        self._rooms: lines.Line[snapshots.Room] = lines.Line()
        self._waiting: lines.Line[snapshots.Waiting] = lines.Line()
        self._made_at: dict[str, float] = {}
        """Monotonic second at which each waiting pod was last made, the oldest first."""
        self._outlooks: dict[str, _Outlook] = {}
        self._used: dict[str, amounts.Amounts] = {}
        self.groups, self.group_of = groups.of((), self._choices.placement.topology_keys)
        self._aged_nodes: dict[str, None] = {}
        """Rooms whose estimated ends are of older estimates."""
        self._stale_nodes: set[str] = set()
        self._stale_pods: set[str] = set()
        self._regroup = True
        self._last: snapshots.Snapshot | None = None
        self._last_s = float("-inf")
        """Monotonic second at which it was made."""
        self._waiters: dict[str, dict[str, workflows.Workflow]] = {}
        """Workflows that wait for a lock, by lock and key."""
        self._estimated = -1
        self._factors: dict[str, float] = {}
        """Of groups, as the estimates in use have them."""
        self._refreshed_at = monotonic()
        self._tight: tuple[str, ...] | None = None
        """Namespaces of tight quotas; None = to be looked at."""
        self._cpu_m = sum(node.allocatable.cpu_m for node in cached.nodes.values())
        self._memory_bytes = sum(node.allocatable.memory_bytes for node in cached.nodes.values())
        self._footprints = footprints.Footprints(node.allocatable for node in cached.nodes.values())
        for key, seen in cached.pods.items():
            self._pod_changed(key, None, seen)
        for run in cached.workflows.values():
            self._waits_changed(None, run)
        cached.subscribe(self._changed)

    def configure(self, choices: settings.PolicySettings) -> None:
        """Take new settings of the policy; new topology keys make all groups anew."""
        if choices != self._choices:
            keys = self._choices.placement.topology_keys
            self._regroup = self._regroup or choices.placement.topology_keys != keys
            self._choices, self._last = choices, None
            self._made_at = dict.fromkeys(self._made_at, float("-inf"))

    def current(self) -> snapshots.Snapshot:
        """Return the picture of this moment; the same object while nothing changed."""
        now, now_s = self._clock(), self._monotonic()
        self._assumed.expire()
        self._stale_nodes |= self._assumed.touched()
        if self._estimated != self.estimates.version:
            self._estimated = self.estimates.version
            self._outlooks.clear()
            self._factors = dict(self.estimates.book.group_factors)
            self._made_at = dict.fromkeys(self._made_at, float("-inf"))
            self._aged_nodes = dict.fromkeys(self._caches.nodes)
        self._refresh(now_s)
        last = self._last
        if (
            last is not None
            and last.version == self._caches.version
            and not (self._stale_nodes or self._stale_pods or self._regroup)
            and now_s - self._last_s < self._choices.schedule_interval_s / 10
        ):
            return last
        if self._regroup:
            keys = self._choices.placement.topology_keys
            self.groups, self.group_of = groups.of(tuple(self._caches.nodes.values()), keys)
            self._stale_nodes.update(self._caches.nodes)
            self._regroup = False
        self._remake_rooms(now)
        self._remake_waiting(now_s)
        self._last_s = now_s
        self._last = snapshots.Snapshot(
            at=now,
            version=self._caches.version,
            age_s=self._caches.age_s(now_s),
            groups=self.groups,
            rooms=self._rooms.values(),
            waiting=self._waiting.values(),
            tenants=self._tenants(),
            group_factors=self.estimates.book.group_factors,
            interval_s=self._choices.schedule_interval_s,
            start_s=self.overheads.start_s,
            frees_s=self.overheads.frees_s,
            tight_namespaces=self._tight_namespaces(),
        )
        return self._last

    def waiting(self, seen: objects.Seen) -> snapshots.Waiting:
        """Return one pod with what is known of its workflow; also for one just at admission."""
        run = self._caches.workflows.of_uid(seen.pod.workflow_uid)
        return self._alone(seen) if run is None else self._known(seen, run)

    def _alone(self, seen: objects.Seen) -> snapshots.Waiting:
        pod, now = seen.pod, self._clock()
        return snapshots.Waiting(
            pod=pod,
            workflow=f"{pod.namespace}/{pod.workflow}",
            tenant=pod.namespace,
            waiting_since=pod.created_at or now,
            must_open_by=slacks.must_open_by(seen, None, now=now),
            labels=constraints.labels(pod),
        )

    def _known(self, seen: objects.Seen, run: objects.Run) -> snapshots.Waiting:
        pod, now, workflow = seen.pod, self._clock(), run.workflow
        outlook = self._outlook(workflow, now)
        task = outlook.tasks.get(pod.node_id)
        identity = identities.of(pod, workflow) if task is None else task.identity
        duration = self.estimates.book.estimate(
            identity,
            attempt=pod.attempt,
            input_bytes=task.input_bytes if task is not None else None,
        )
        urgency_of = self._urgency(workflow)
        path_s = outlook.paths_s.get(pod.node_id)
        # Argo starts the node once; a pod that is created again has waited since then.
        since = (task.started_at if task is not None else None) or now
        return snapshots.Waiting(
            pod=pod,
            workflow=workflow.key,
            workflow_priority=workflow.priority,
            workflow_created_at=workflow.created_at,
            duration=duration,
            group_factors=self.estimates.book.factors(identity),
            remaining_work=outlook.work,
            remaining_path_s=max(outlook.path_s, duration.centre_s) if path_s is None else path_s,
            deadline_at=self.deadlines.of(run, self.estimates.book),
            waiting_since=min(pod.created_at or now, since),
            must_open_by=slacks.must_open_by(
                seen,
                run,
                cron=self._caches.cron_workflows.get(run.cron_workflow),
                since=since,
                run_s=duration.centre_s,
                now=now,
            ),
            tenant=pod.namespace,
            urgency_of=tuple(waiter.key for waiter in urgency_of),
            urgency_priority=max((waiter.priority for waiter in urgency_of), default=0),
            held_s=self.held_s(pod.key),
            near=self._near(pod),
            labels=constraints.labels(pod, source=workflow.source),
        )

    def _changed(self, change: caches.Change) -> None:
        """Note what a change makes old."""
        if change.kind is caches.Kind.PODS:
            self._pod_changed(change.key, change.before, change.after)
        elif change.kind is caches.Kind.NODES:
            self._stale_nodes.add(change.key)
            before, after = change.before, change.after
            for node, sign in ((before, -1), (after, 1)):
                if isinstance(node, clusters.Node):
                    self._cpu_m += sign * node.allocatable.cpu_m
                    self._memory_bytes += sign * node.allocatable.memory_bytes
                    self._footprints.add(node.allocatable, sign)
            if not (
                isinstance(before, clusters.Node)
                and isinstance(after, clusters.Node)
                and before.labels == after.labels
            ):
                self._regroup = True
        elif change.kind is caches.Kind.QUOTAS:
            self._tight = None
        elif change.kind is caches.Kind.NAMESPACES and change.after is None:
            if self._used.get(change.key) == amounts.NOTHING:
                del self._used[change.key]
        elif change.kind is caches.Kind.WORKFLOWS:
            self._waits_changed(change.before, change.after)
            for run in (change.before, change.after):
                if isinstance(run, objects.Run):
                    self._outlooks.pop(run.workflow.uid, None)
                    self._stale_pods.update(
                        seen.pod.key
                        for seen in self._caches.pods.of_workflow(run.workflow.uid)
                        if seen.pod.gated
                    )

    def _pod_changed(self, key: str, before: object, after: object) -> None:
        for seen, sign in ((before, -1), (after, 1)):
            if not isinstance(seen, objects.Seen):
                continue
            pod = seen.pod
            if pod.node:
                self._stale_nodes.add(pod.node)
            if pod.gated:
                self._stale_pods.add(key)
            if pod.workflow_uid and pod.node and pod.active:
                used = self._used.get(pod.namespace, amounts.NOTHING)
                self._used[pod.namespace] = used + pod.requests if sign > 0 else used - pod.requests
        if not isinstance(after, objects.Seen) or after.pod.node or not after.pod.active:
            self._assumed.forget(key)

    def _waits_changed(self, before: object, after: object) -> None:
        if isinstance(before, objects.Run):
            for lock in set(before.workflow.waits_for):
                waiters = self._waiters[lock]
                waiters.pop(before.workflow.key, None)
                if not waiters:
                    del self._waiters[lock]
        if isinstance(after, objects.Run):
            for lock in after.workflow.waits_for:
                self._waiters.setdefault(lock, {})[after.workflow.key] = after.workflow

    def _refresh(self, now_s: float) -> None:
        """Mark what is old by time or estimates alone, a few at a time: no call may take long."""
        most = min(REFRESHED, int((now_s - self._refreshed_at) * REFRESHED_PER_S))
        if most == 0:
            return
        self._refreshed_at = now_s
        for name in list(itertools.islice(self._aged_nodes, most)):
            del self._aged_nodes[name]
            self._stale_nodes.add(name)
        for key in itertools.islice(self._made_at, most):
            if now_s - self._made_at[key] < STALE_OUTLOOK_S:
                return
            self._stale_pods.add(key)

    def _remake_rooms(self, now: float) -> None:
        for name in self._stale_nodes:
            node = self._caches.nodes.get(name)
            if node is None:
                self._rooms.drop(name)
            else:
                self._rooms.put(name, (name,), self._room(node, now))
        self._stale_nodes.clear()

    def _room(self, node: clusters.Node, now: float) -> snapshots.Room:
        free = node.allocatable
        ends: list[tuple[float, str, amounts.Amounts]] = []
        lowest: int | None = None
        for seen in self._caches.pods.on_node(node.name):
            if seen.pod.active:
                free = free - seen.pod.requests
                priority = seen.pod.priority
                lowest = priority if lowest is None else min(lowest, priority)
                ends.append((self._ends_at(seen.pod, now), seen.pod.key, seen.pod.requests))
        for assumed in self._assumed.on_node(node.name):
            free = free - assumed.requests
            ends.append((assumed.ends_at or float("inf"), assumed.pod, assumed.requests))
        ends.sort(key=lambda end: end[:2])
        return snapshots.Room(
            node=node,
            group=self.group_of.get(node.name, clusters.OTHER),
            free=free,
            frees_at=tuple((ends_at, requests) for ends_at, _, requests in ends),
            holders=tuple(key for _, key, _ in ends),
            lowest_priority=lowest,
        )

    def _remake_waiting(self, now_s: float) -> None:
        for key in self._stale_pods:
            self._made_at.pop(key, None)
            seen = self._caches.pods.get(key)
            if seen is None or not seen.waits:
                self._waiting.drop(key)
            else:
                waiting = self._guarded(seen)
                self._waiting.put(key, (waiting.waiting_since, key), waiting)
                self._made_at[key] = now_s
        self._stale_pods.clear()

    def _guarded(self, seen: objects.Seen) -> snapshots.Waiting:
        """Return a gated pod, without its workflow where that is more than we can take."""
        try:
            return self.waiting(seen)
        except Exception as error:
            # Also for what only a mistake of ours explains: one pod must not stop all replicas.
            log.warning("workflow of a pod left out", pod=seen.pod.key, error=repr(error))
            return self._alone(seen)

    def _outlook(self, workflow: workflows.Workflow, now: float) -> "_Outlook":
        known, now_s = self._outlooks.get(workflow.uid), self._monotonic()
        if known is None or now_s - known.made_s > STALE_OUTLOOK_S:
            book = self.estimates.book
            outlook = outlooks.of(
                workflow,
                lambda task: book.estimate(task.identity, input_bytes=task.input_bytes).centre_s,
                at=now,
                widths=lambda task: book.width(task.identity),
                sizes=lambda task: self._footprints.cores(task.cpu_m, task.memory_bytes),
            )
            known = self._outlooks[workflow.uid] = _Outlook(
                made_s=now_s,
                work=outlook.work,
                path_s=outlook.path_s,
                paths_s=dict(outlook.paths_s),
                tasks={task.id: task for task in workflow.tasks},
            )
        return known

    def _ends_at(self, pod: pods.Pod, now: float) -> float:
        """Return when a bound pod is expected to end; one without a workflow stays for good."""
        run = self._caches.workflows.of_uid(pod.workflow_uid) if pod.workflow_uid else None
        if run is None:
            return float("inf")
        # A changed workflow has no outlook: an old one has its tasks all the same.
        known = self._outlooks.get(run.workflow.uid) or self._outlook(run.workflow, now)
        task = known.tasks.get(pod.node_id)
        if task is not None and task.daemon:
            return float("inf")
        identity = task.identity if task is not None else None
        group = self.group_of.get(pod.node, clusters.OTHER)
        factor = self._factors.get(group, 1.0)
        for name, own in self.estimates.book.factors(identity):
            if name == group:
                factor = own
        expected_s = self.estimates.book.estimate(identity, attempt=pod.attempt).centre_s * factor
        return (pod.started_at or pod.bound_at or now) + expected_s

    def _urgency(self, workflow: workflows.Workflow) -> list[workflows.Workflow]:
        """Return the workflows, sorted by key, that wait for a lock which this one holds."""
        found: dict[str, workflows.Workflow] = {}
        for lock in workflow.locks:
            found |= self._waiters.get(lock, {})
        return [found[key] for key in sorted(found)]

    def _near(self, pod: pods.Pod) -> tuple[str, ...]:
        """Return the nodes of the pods of the same workflow; of a very large one none."""
        known, uid = self._caches.pods, pod.workflow_uid
        if known.count_of_workflow(uid) > MOST_SIBLINGS:
            return ()
        return tuple(sorted({seen.pod.node for seen in known.of_workflow(uid)} - {""}))

    def _tenants(self) -> tuple[tuple[str, float, float], ...]:
        """Return weight and dominant share of each namespace that runs or ran workflows.

        What was promised counts as well: a burst is released long before its first pod is bound.
        """
        taken = dict(self._used)
        for promised in self._assumed:
            name = promised.pod.partition("/")[0]
            taken[name] = taken.get(name, amounts.NOTHING) + promised.requests
        return tuple(
            (name, self._choices.weight(name), self._dominant(used))
            for name, used in sorted(taken.items())
        )

    def _dominant(self, taken: amounts.Amounts) -> float:
        """Return the dominant share (DRF, Ghodsi 2011) of CPU and memory, 0 to 1."""
        return max(
            taken.cpu_m / self._cpu_m if self._cpu_m else 0.0,
            taken.memory_bytes / self._memory_bytes if self._memory_bytes else 0.0,
        )

    def _tight_namespaces(self) -> tuple[str, ...]:
        if self._tight is None:
            tight = {quota.namespace for quota in self._caches.quotas.values() if quota.tight}
            self._tight = tuple(sorted(tight))
        return self._tight


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Outlook:
    """An outlook with what it is looked up by."""

    made_s: float
    """Monotonic second."""
    work: float
    path_s: float
    paths_s: Mapping[str, float]
    tasks: Mapping[str, workflows.Task]
