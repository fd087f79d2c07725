"""Gives a badly placed pod back to Argo: deleted, it is created again and decided anew.

Only a pod that our own nodeSelector keeps unbound while another group has room, by a word that a
key of ours signed for this very pod, and only where nothing is lost: it never ran, has no
finalizer, no gate, and its Workflow lives and shows it Pending. Its uid and resourceVersion are
preconditions, so a pod that was bound a moment ago stays.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping

import structlog

from tiphys.models.domain import (
    amounts,
    clusters,
    constraints,
    decisions,
    errors,
    pods,
    snapshots,
    workflows,
)
from tiphys.models.planner import masks
from tiphys.operator import (
    adoptions,
    apis,
    caches,
    clocks,
    events,
    objects,
    policies,
    settings,
    tallies,
)
from tiphys.operator import snapshots as pictures

LOOK_S = 5.0
MOST_AT_ONCE = 5
"""Pods that are given back in one look: what they are created for needs room that is counted."""
MOST_KNOWN = 10_000

log = structlog.get_logger()


class Recovery:
    """Looks now and then; runs on the leader."""

    def __init__(
        self,
        api: apis.Api,
        cached: caches.Caches,
        pictured: pictures.Snapshots,
        known: policies.Policies,
        words: adoptions.Words,
        *,
        fence: Callable[[], None],
        chosen: settings.Dispatch,
        clock: clocks.Clock,
        counted: tallies.Tallies,
        recorder: events.Recorder,
    ) -> None:
        self._api = api
        self._caches = cached
        self._pictured = pictured
        self._policies = known
        self._words = words
        self._fence = fence
        self._chosen = chosen
        self._clock = clock
        self._counted = counted
        self._events = recorder
        self.times: collections.OrderedDict[str, int] = collections.OrderedDict()
        """How often each `task` was given back, the latest last; earlier leaders' times too."""

    def begin(self, times: Mapping[str, int]) -> None:
        """Begin a term with what the last leader counted."""
        self.times = collections.OrderedDict(times)

    async def run(self) -> None:
        """Look until cancelled or fenced."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                await self.once()
            except errors.StaleError:
                return
            except errors.TiphysError as error:
                self._counted.recoveries.labels("failed").inc()
                log.info("pod was not given back", error=str(error))

    async def once(self) -> int:
        """Give back what has to be; return how many."""
        if not self._caches.synced or self._caches.age_s(self._clock.monotonic()) > (
            self._chosen.stale_after_s
        ):
            return 0
        count = 0
        now = self._clock.now()
        taken: dict[str, amounts.Amounts] = {}
        for seen in list(self._caches.pods.values()):
            if count >= MOST_AT_ONCE:
                break
            if not unbound(seen):
                continue
            stamp = self._words.of(seen)
            if stamp is None or not stuck(seen, stamp, now - self._chosen.recover_after_s):
                continue
            elsewhere = self._elsewhere(seen, stamp.placement, taken)
            run = self._caches.workflows.of_uid(seen.pod.workflow_uid)
            if not elsewhere or run is None or not lives(run.workflow, seen.pod):
                continue
            if await self._give_back(seen, elsewhere):
                taken[elsewhere] = taken.get(elsewhere, amounts.NOTHING) + seen.pod.requests
                count += 1
        return count

    def _elsewhere(
        self,
        seen: objects.Seen,
        placement: decisions.Placement,
        taken: Mapping[str, amounts.Amounts],
    ) -> str:
        """Return a node outside of what we wrote that would take the pod now; empty if none.

        `taken` is what this look counted on already, by node.
        """
        selector = dict(placement.selector)
        labels = dict(self._pictured.waiting(seen).labels)
        choices = self._policies.of_namespace(seen.pod.namespace)
        rules = tuple(rule for rule in choices.rules if rule.selects(labels))
        rooms = tuple(
            dataclasses.replace(room, free=room.free - taken[room.node.name])
            if room.node.name in taken
            else room
            for room in self._pictured.current().rooms
        )
        return _elsewhere(seen.pod, selector, rules, rooms)

    async def _give_back(self, seen: objects.Seen, elsewhere: str) -> bool:
        pod, key = seen.pod, task(seen.pod)
        if self.times.get(key, 0) >= self._chosen.recover_most:
            self._counted.recoveries.labels("bounded").inc()
            return False
        preconditions = {"uid": pod.uid, "resourceVersion": seen.version}
        self._fence()
        try:
            await self._api.delete(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}",
                body={"preconditions": preconditions, "gracePeriodSeconds": 0},
            )
        except (apis.NotFoundError, apis.ConflictError):
            self._counted.recoveries.labels("vanished").inc()
            return False
        except (apis.ForbiddenError, apis.InvalidError) as error:
            # Somebody's policy is against it: that concerns this pod, not those behind it.
            self._counted.recoveries.labels("refused").inc()
            log.info("pod may not be given back", pod=pod.key, error=str(error))
            return False
        self.times[key] = self.times.pop(key, 0) + 1
        while len(self.times) > MOST_KNOWN:
            self.times.popitem(last=False)
        self._counted.recoveries.labels("given_back").inc()
        log.info("gave a pod back to Argo", pod=pod.key, node=elsewhere)
        self._events.note(
            events.About(
                kind="Workflow", namespace=pod.namespace, name=pod.workflow, uid=pod.workflow_uid
            ),
            "GivenBack",
            f"{pod.name} found no room where it was sent, {elsewhere} has some: made anew.",
        )
        return True


def task(pod: pods.Pod) -> str:
    """Return what stays when Argo makes a pod again: its Workflow's uid and Argo's node."""
    return f"{pod.workflow_uid}/{pod.node_id}"


def unbound(seen: objects.Seen) -> bool:
    """Say whether a pod that claims to be let go by us cannot be bound, and nothing of it ran."""
    pod = seen.pod
    if pod.node or pod.gates or pod.deleting or pod.phase is not pods.Phase.PENDING:
        return False
    if seen.ran or seen.finalizers or seen.unscheduled_reason != "Unschedulable":
        return False
    return bool(pod.workflow_uid) and adoptions.let_go(seen)


def stuck(seen: objects.Seen, stamp: decisions.Stamp, before: float) -> bool:
    """Say whether our nodeSelector kept a pod unbound since `before` (unix seconds), or longer.

    `stamp` is the proven decision that sent it on its way.
    """
    placement = stamp.placement
    wrote = set(placement.selector) <= set(seen.pod.constraints.node_selector)
    required = placement.bind == "require" and bool(placement.selector)
    return unbound(seen) and required and wrote and stamp.issued_at < before


def lives(workflow: workflows.Workflow, pod: pods.Pod) -> bool:
    """Say whether Argo would create the pod again: its Workflow goes on and shows it Pending."""
    if workflow.ended or workflow.suspended or workflow.shutting_down:
        return False
    return any(
        task.id == pod.node_id and task.state is workflows.TaskState.PENDING
        for task in workflow.tasks
    )


def _elsewhere(
    pod: pods.Pod,
    selector: dict[str, str],
    rules: tuple[constraints.Rule, ...],
    rooms: tuple[snapshots.Room, ...],
) -> str:
    kept = tuple(pair for pair in pod.constraints.node_selector if pair[0] not in selector)
    asked = pods.Constraints(
        node_selector=kept,
        required=pod.constraints.required,
        tolerations=pod.constraints.tolerations,
        unmodelled=pod.constraints.unmodelled,
    )
    if pod.constraints.unmodelled:
        return ""
    for room in rooms:
        if _inside(room.node, selector) or not room.node.schedulable:
            continue
        if pod.requests.fits(room.free) and not masks.refusal(asked, rules, room.node):
            return room.node.name
    return ""


def _inside(node: clusters.Node, selector: dict[str, str]) -> bool:
    labels = dict(node.labels)
    return all(labels.get(key) == value for key, value in selector.items())
