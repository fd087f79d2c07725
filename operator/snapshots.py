"""From the caches to the one frozen picture that policies see, made anew only where it changed.

A picture of 5,000 nodes and 20,000 waiting pods costs milliseconds from nothing; decisions come 200
times a second. So rooms and waiting pods are kept and each change marks what has to be made again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from tiphys.models.domain import amounts, clusters, outlooks, pods, snapshots, workflows
from tiphys.operator import assumptions, caches, groups, objects

STALE_OUTLOOK_S = 5.0
"""After that a running workflow's outlook is made again although nothing was heard of it."""


class Estimates(Protocol):
    """What history says; `histories` and followers' copies are."""

    @property
    def version(self) -> int:
        """Rises when estimates change."""

    def duration(self, identity: workflows.Identity | None, source: str) -> snapshots.Estimate:
        """Return the run time of a task at speed 1; `source` is its workflow's."""

    def factors(self, identity: workflows.Identity | None) -> tuple[tuple[str, float], ...]:
        """Return the learned ratios of one template by group; for None over all."""


class NoEstimates:
    """Nothing is known: every task takes the default."""

    version = 0

    def duration(self, identity: workflows.Identity | None, source: str) -> snapshots.Estimate:
        """Return the default."""
        return snapshots.Estimate(centre_s=60.0)

    def factors(self, identity: workflows.Identity | None) -> tuple[tuple[str, float], ...]:
        """Return none."""
        return ()


class Clocks(Protocol):
    """The latest moment at which a gate may open; `conditions`/`releases` know Argo's clocks."""

    def must_open_by(self, seen: objects.Seen, run: objects.Run | None) -> float | None:
        """Return unix seconds, or None when no clock runs."""


class NoClocks:
    """No clock runs."""

    def must_open_by(self, seen: objects.Seen, run: objects.Run | None) -> float | None:
        """Return None."""
        return None


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
        clocks: Clocks | None = None,
        topology_keys: tuple[str, ...] = groups.DEFAULT_KEYS,
        weights: Mapping[str, float] | None = None,
        interval_s: float = 5.0,
    ) -> None:
        self._caches = cached
        self._assumed = assumed
        self._clock = clock
        self._monotonic = monotonic
        self.estimates: Estimates = estimates or NoEstimates()
        self._clocks: Clocks = clocks or NoClocks()
        self._topology_keys = topology_keys
        self._weights = dict(weights or {})
        self._interval_s = interval_s
        self._rooms: dict[str, snapshots.Room] = {}
        self._waiting: dict[str, snapshots.Waiting] = {}
        self._outlooks: dict[str, tuple[float, outlooks.Outlook]] = {}
        self._grouping = groups.of((), topology_keys)
        self._stale_nodes: set[str] = set()
        self._stale_pods: set[str] = set()
        self._regroup = True
        self._last: snapshots.Snapshot | None = None
        self._estimated = -1
        cached.subscribe(self._changed)

    def configure(
        self, *, topology_keys: tuple[str, ...], weights: Mapping[str, float], interval_s: float
    ) -> None:
        """Take new settings of the policy; the next picture is made from nothing."""
        if (topology_keys, dict(weights), interval_s) != (
            self._topology_keys,
            self._weights,
            self._interval_s,
        ):
            self._topology_keys, self._interval_s = topology_keys, interval_s
            self._weights = dict(weights)
            self._regroup, self._last = True, None

    def current(self) -> snapshots.Snapshot:
        """Return the picture of this moment; the same object while nothing changed."""
        now = self._clock()
        self._assumed.expire()
        self._stale_nodes |= self._assumed.touched()
        if self._estimated != self.estimates.version:
            self._estimated = self.estimates.version
            self._outlooks.clear()
            self._stale_pods.update(self._waiting)
            self._stale_nodes.update(self._caches.nodes)
        if self._last is not None and not (self._stale_nodes or self._stale_pods or self._regroup):
            if now - self._last.at < self._interval_s / 10:
                return self._last
            self._stale_pods.update(self._waiting)
        if self._regroup:
            self._grouping = groups.of(self._caches.nodes.values(), self._topology_keys)
            self._rooms.clear()
            self._stale_nodes.update(self._caches.nodes)
            self._regroup = False
        self._remake_rooms(now)
        self._remake_waiting(now)
        self._last = snapshots.Snapshot(
            at=now,
            version=self._caches.version,
            age_s=self._caches.age_s(self._monotonic()),
            groups=self._grouping.groups,
            rooms=tuple(self._rooms[name] for name in sorted(self._rooms)),
            waiting=tuple(
                sorted(self._waiting.values(), key=lambda one: (one.waiting_since, one.pod.key))
            ),
            tenants=self._tenants(),
            group_factors=self.estimates.factors(None),
            interval_s=self._interval_s,
        )
        return self._last

    def waiting(self, seen: objects.Seen) -> snapshots.Waiting:
        """Return one pod with what is known of its workflow; also for one just at admission."""
        pod = seen.pod
        run = self._caches.workflows.of_uid(pod.workflow_uid)
        now = self._clock()
        if run is None:
            return snapshots.Waiting(
                pod=pod,
                workflow=f"{pod.namespace}/{pod.workflow}",
                tenant=pod.namespace,
                waiting_since=pod.created_at or now,
                must_open_by=self._clocks.must_open_by(seen, None),
            )
        workflow = run.workflow
        task = next((one for one in workflow.tasks if one.id == pod.node_id), None)
        identity = task.identity if task is not None else None
        outlook = self._outlook(workflow, now)
        duration = self.estimates.duration(identity, workflow.source)
        path_s = dict(outlook.paths_s).get(pod.node_id, max(outlook.path_s, duration.centre_s))
        return snapshots.Waiting(
            pod=pod,
            workflow=workflow.key,
            workflow_priority=workflow.priority,
            workflow_created_at=workflow.created_at,
            duration=duration,
            group_factors=self.estimates.factors(identity),
            remaining_work=outlook.work,
            remaining_path_s=path_s,
            deadline_at=workflow.deadline_at,
            # Argo starts the node once; a pod that is created again has waited since then.
            waiting_since=min(
                pod.created_at or now, (task.started_at if task is not None else None) or now
            ),
            must_open_by=self._clocks.must_open_by(seen, run),
            tenant=pod.namespace,
            urgency_of=self._urgency(workflow),
            labels=tuple(sorted(_labels(pod, workflow).items())),
        )

    def _changed(self, change: caches.Change) -> None:
        """Note what a change makes old."""
        if change.kind is caches.Kind.PODS:
            for side in (change.before, change.after):
                if isinstance(side, objects.Seen):
                    self._stale_nodes.add(side.pod.node)
                    if side.pod.gated:
                        self._stale_pods.add(change.key)
            after = change.after
            if not isinstance(after, objects.Seen) or after.pod.node or not after.pod.active:
                self._assumed.forget(change.key)
        elif change.kind is caches.Kind.NODES:
            self._stale_nodes.add(change.key)
            before, after = change.before, change.after
            if not (
                isinstance(before, clusters.Node)
                and isinstance(after, clusters.Node)
                and before.labels == after.labels
            ):
                self._regroup = True
        elif change.kind is caches.Kind.WORKFLOWS:
            for run in (change.before, change.after):
                if isinstance(run, objects.Run):
                    self._outlooks.pop(run.workflow.uid, None)
                    self._stale_pods.update(
                        seen.pod.key
                        for seen in self._caches.pods.of_workflow(run.workflow.uid)
                        if seen.pod.gated
                    )

    def _remake_rooms(self, now: float) -> None:
        for name in self._stale_nodes:
            node = self._caches.nodes.get(name)
            if node is None:
                self._rooms.pop(name, None)
                continue
            ends: list[tuple[float, amounts.Amounts]] = []
            free = node.allocatable
            for seen in self._caches.pods.on_node(name):
                if seen.pod.active:
                    free = free - seen.pod.requests
                    ends.append((self._ends_at(seen.pod, now), seen.pod.requests))
            for assumed in self._assumed.on_node(name):
                free = free - assumed.requests
                if assumed.ends_at is not None:
                    ends.append((assumed.ends_at, assumed.requests))
            self._rooms[name] = snapshots.Room(
                node=node,
                group=self._grouping.of_node.get(name, clusters.OTHER),
                free=free,
                frees_at=tuple(sorted(ends, key=lambda end: end[0])),
            )
        self._stale_nodes.clear()

    def _remake_waiting(self, now: float) -> None:
        for key in self._stale_pods:
            seen = self._caches.pods.get(key)
            if seen is None or not (seen.pod.gated and seen.pod.active) or seen.pod.deleting:
                self._waiting.pop(key, None)
            else:
                self._waiting[key] = self.waiting(seen)
        self._stale_pods.clear()

    def _outlook(self, workflow: workflows.Workflow, now: float) -> outlooks.Outlook:
        made_at, outlook = self._outlooks.get(workflow.uid, (float("-inf"), outlooks.Outlook()))
        if now - made_at > STALE_OUTLOOK_S:
            outlook = outlooks.of(
                workflow,
                lambda task: self.estimates.duration(task.identity, workflow.source).centre_s,
                at=now,
            )
            self._outlooks[workflow.uid] = (now, outlook)
        return outlook

    def _ends_at(self, pod: pods.Pod, now: float) -> float:
        """Return when a bound pod is expected to end; one without a workflow stays for good."""
        run = self._caches.workflows.of_uid(pod.workflow_uid) if pod.workflow_uid else None
        if run is None:
            return float("inf")
        task = next((one for one in run.workflow.tasks if one.id == pod.node_id), None)
        if task is not None and task.daemon:
            return float("inf")
        identity = task.identity if task is not None else None
        began = pod.started_at or pod.bound_at or now
        group = self._grouping.of_node.get(pod.node, clusters.OTHER)
        factor = dict(self.estimates.factors(None)).get(group, 1.0)
        factor = dict(self.estimates.factors(identity)).get(group, factor)
        expected_s = self.estimates.duration(identity, run.workflow.source).centre_s * factor
        return began + expected_s

    def _urgency(self, workflow: workflows.Workflow) -> tuple[str, ...]:
        """Return the workflows that wait for a lock which this one holds."""
        if not workflow.locks:
            return ()
        held = set(workflow.locks)
        return tuple(
            run.workflow.key
            for run in self._caches.workflows.values()
            if held.intersection(run.workflow.waits_for)
        )

    def _tenants(self) -> tuple[tuple[str, float, float], ...]:
        """Return weight and dominant share of each namespace with pods of workflows."""
        total = _sum(room.node.allocatable for room in self._rooms.values())
        used: dict[str, amounts.Amounts] = {}
        for seen in self._caches.pods.values():
            pod = seen.pod
            if pod.workflow_uid:
                taken = pod.requests if pod.node and pod.active else amounts.NOTHING
                used[pod.namespace] = used.get(pod.namespace, amounts.NOTHING) + taken
        return tuple(
            (name, self._weights.get(name, 1.0), _dominant(taken, total))
            for name, taken in sorted(used.items())
        )


def _dominant(taken: amounts.Amounts, total: amounts.Amounts) -> float:
    """Return the dominant share (DRF, Ghodsi 2011) of CPU and memory, 0 to 1."""
    return max(
        taken.cpu_m / total.cpu_m if total.cpu_m else 0.0,
        taken.memory_bytes / total.memory_bytes if total.memory_bytes else 0.0,
    )


def _sum(all_of: Iterable[amounts.Amounts]) -> amounts.Amounts:
    """Return the sum."""
    total = amounts.NOTHING
    for one in all_of:
        total = total + one
    return total


def _labels(pod: pods.Pod, workflow: workflows.Workflow) -> dict[str, str]:
    """Return what the rule table may select on."""
    return {
        "role": pod.role.value,
        "template": pod.template,
        "workflow": pod.workflow,
        "source": workflow.source,
        "image": next((c.image for c in pod.containers if c.role is pods.ContainerRole.MAIN), ""),
        "namespace": pod.namespace,
    }
