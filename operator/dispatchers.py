"""The dispatcher: opens gates in the order of the plan, on the leader alone.

Whatever may make room or bring a pod wakes it; ticks are only a floor. One tick: what the caches
hold → `planner.plan` → orders, which callers turn into signed patches, several at a time. What was
picked counts as used at once and its pod is out of the next plans until the cache shows it open.
Nothing but assumed capacity and the time that pods were held is kept in memory, so a new leader
begins with what the cluster shows (docs/dispatcher.md).
"""

import asyncio
import collections
import dataclasses
import time

import structlog

from tiphys.models.domain import decisions, errors, pods, snapshots
from tiphys.models.planner import plans
from tiphys.operator import (
    adoptions,
    apis,
    assumptions,
    caches,
    clocks,
    conditions,
    elections,
    events,
    holds,
    objects,
    plannings,
    policies,
    recoveries,
    releases,
    settings,
    tallies,
    trusts,
    ways,
)
from tiphys.operator import snapshots as pictures

GATHER_S = 0.004
"""Changes that come together are one tick."""
INLINE = 200
"""With more waiting pods than this a plan is made beside the loop, which answers the webhook."""
EXPIRES_S = 60.0
REFUSED_S = 15.0
"""Pause before a gate that could not be opened is tried again."""
ELASTIC_S = 30.0
"""Seconds between two looks whether an autoscaler is at work."""
LATER_S = 0.5
"""The same where the API server did not answer."""

log = structlog.get_logger()


class Dispatcher:
    """Opens gates; `run` is the leader's, the rest may be asked at any time."""

    def __init__(
        self,
        api: apis.Api,
        cached: caches.Caches,
        pictured: pictures.Snapshots,
        assumed: assumptions.Assumptions,
        known: policies.Policies,
        *,
        election: elections.Election,
        trust: trusts.Follower,
        chosen: settings.Dispatch,
        clock: clocks.Clock,
        counted: tallies.Tallies,
        disabled: bool = False,
    ) -> None:
        self._caches = cached
        self._pictured = pictured
        self._assumed = assumed
        self._policies = known
        self._election = election
        self._chosen = chosen
        self._clock = clock
        self._counted = counted
        self._writer = releases.Writer(
            api, ring=lambda: trust.ring, fence=election.fence, clock=clock
        )
        self._ways = ways.Ways(cached, known, now=clock.now, disabled=disabled)
        self._planning = plannings.Planning(chosen.most_per_tick)
        self._adopter = adoptions.Adopter(cached, assumed, assume_s=chosen.assume_s, now=clock.now)
        self.events = events.Recorder(
            api, clock=clock, counted=counted, per_second=chosen.events_per_second
        )
        self._conditions = conditions.Writer(
            api,
            cached,
            fence=election.fence,
            clock=clock,
            counted=counted,
            recorder=self.events,
            per_second=chosen.explanations_per_second,
        )
        self._recovery = recoveries.Recovery(
            api,
            cached,
            pictured,
            known,
            fence=election.fence,
            chosen=chosen,
            clock=clock,
            counted=counted,
            recorder=self.events,
        )
        self.holds = holds.Holds(clock=clock)
        self._orders: asyncio.Queue[releases.Order] = asyncio.Queue()
        self._busy: dict[str, str] = {}
        """Uid of each pod whose gate is being opened, by key, until the cache shows it open."""
        self._paused: dict[str, float] = {}
        """Monotonic second until which a gate that could not be opened is left alone, by uid."""
        self._loose: dict[str, None] = {}
        """Pods that were opened without room and are not bound yet."""
        self._woken = asyncio.Event()
        self._due_at = float("inf")
        """Monotonic second of the first change since the last tick that may open a gate."""
        self._elastic = (False, float("-inf"))
        """Whether an autoscaler is at work, and the monotonic second at which that was seen."""
        self._fenced = False
        pictured.held_s = self.holds.held_s

    async def run(self) -> None:
        """Open gates until cancelled, or until this replica may not act any more."""
        self._begin()
        stop = self._caches.subscribe(self._changed)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._chosen.callers):
                    group.create_task(self._call())
                group.create_task(self.events.run())
                group.create_task(self._conditions.run())
                group.create_task(self._recovery.run())
                await self._loop()
                # The fence is closed: whoever leads now finds all of it in the cluster.
                raise _FencedError
        except* _FencedError:
            log.warning("dispatch ends, this replica leads no more")
        finally:
            stop()

    def _begin(self) -> None:
        """Take over: forget what an earlier term left, adopt what the cluster shows."""
        self._orders = asyncio.Queue()
        self._busy.clear()
        self._paused.clear()
        self._loose.clear()
        self._fenced = False
        self.holds.clear()
        for seen in self._caches.pods.values():
            self._adopter.meet(seen)
            if _loose(seen):
                self._loose[seen.pod.key] = None
        self._due_at = self._clock.monotonic()
        log.info("dispatch begins", gated=len(self._caches.pods.gated()))

    async def _loop(self) -> None:
        while not self._fenced:
            self._woken.clear()
            spent_s, pause_s = 0.0, 1.0
            if self._election.leading:
                began = time.perf_counter()
                pause_s = await self._tick()
                spent_s = time.perf_counter() - began
            # Never more than half of the time: the same loop answers the webhook.
            await self._clock.sleep(max(GATHER_S, spent_s))
            if not self._woken.is_set():
                waiting = asyncio.ensure_future(self._woken.wait())
                sleeping = asyncio.ensure_future(self._clock.sleep(max(0.0, pause_s - spent_s)))
                try:
                    await asyncio.wait((waiting, sleeping), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                    sleeping.cancel()

    async def _tick(self) -> float:
        """Plan once and order what goes; return after how many seconds to look again."""
        interval_s = self._policies.general.schedule_interval_s
        now_s = self._clock.monotonic()
        due_at, self._due_at = min(self._due_at, now_s), float("inf")
        if not self._caches.synced or self._caches.age_s(now_s) > self._chosen.stale_after_s:
            return 1.0
        self._drop_unseen()
        picture = self._pictured.current()
        if self._adopter.adopt(lambda: self._pictured.current().rooms):
            picture = self._pictured.current()
        self._paused = {uid: until for uid, until in self._paused.items() if until > now_s}
        turn: list[tuple[snapshots.Waiting, policies.Chosen]] = []
        leaving: list[tuple[snapshots.Waiting, str]] = []
        for waiting in picture.waiting:
            if waiting.pod.key in self._busy or waiting.pod.uid in self._paused:
                continue
            way = self._ways.of(waiting.pod)
            if way.chosen is not None:
                turn.append((waiting, way.chosen))
            elif way.opens:
                leaving.append((waiting, way.opens))
        began = time.perf_counter()
        planned = await self._plan(picture, turn)
        if turn:
            self._counted.tick_seconds.observe(time.perf_counter() - began)
        ordered = 0
        for each in planned:
            if isinstance(each.answer, plans.Release):
                ordered += self._release(each, each.answer, picture, due_at=due_at)
            elif each.answer.kind is plans.HoldKind.NEVER:
                leaving.append((each.waiting, each.answer.reason))
        left = self._open(leaving, picture, due_at=due_at)
        held = [each for each in planned if isinstance(each.answer, plans.Hold)]
        soon_s = self.holds.take(held, picture)
        self._told(held, picture)
        if ordered >= self._chosen.most_per_tick:
            self.wake()
        again_s = min(self._paused.values(), default=float("inf")) - self._clock.monotonic()
        return min([interval_s, *([0.25] if left else []), max(min(soon_s, again_s), 0.05)])

    async def _plan(
        self,
        picture: snapshots.Snapshot,
        turn: list[tuple[snapshots.Waiting, policies.Chosen]],
    ) -> list[plannings.Planned]:
        if not turn:
            return []
        parts = plannings.parts(turn)
        if len(turn) <= INLINE:
            return self._planning.plan(picture, parts)
        return await asyncio.to_thread(self._planning.plan, picture, parts)

    def _release(
        self,
        planned: plannings.Planned,
        release: plans.Release,
        picture: snapshots.Snapshot,
        *,
        due_at: float,
    ) -> bool:
        """Order one release; a pod that is gone meanwhile is dropped and the tick goes on."""
        seen = self._still(planned.waiting.pod)
        if seen is None:
            return False
        if release.node:
            self._assumed.assume(
                assumptions.Assumed(
                    pod=seen.pod.key,
                    node=release.node,
                    requests=seen.pod.requests,
                    expires_at=self._clock.now() + self._chosen.assume_s,
                    ends_at=release.ends_at,
                    uid=seen.pod.uid,
                )
            )
        else:
            self._loose[seen.pod.key] = None
        decision = dataclasses.replace(
            self._decision(planned.waiting, picture),
            policy=planned.chosen.ranker.name,
            placement=release.placement,
            rank=release.rank,
            reason=release.reason,
            candidates=release.candidates,
            masked=release.masked,
            default=(
                "kube-scheduler would have tried it from its creation on, in the order of creation"
            ),
        )
        how = tallies.How.CLOCK if release.forced else tallies.How.TURN
        self._order(seen, decision, how, due_at=due_at)
        return True

    def _open(
        self,
        leaving: list[tuple[snapshots.Waiting, str]],
        picture: snapshots.Snapshot,
        *,
        due_at: float,
    ) -> int:
        """Order planned openings in order, as many as `gate.openBurst` leaves; return the rest."""
        burst = self._policies.general.gate.open_burst
        leaving.sort(key=lambda each: (-each[0].pod.priority, each[0].waiting_since))
        for place, (waiting, why) in enumerate(leaving):
            if len(self._loose) >= burst:
                return len(leaving) - place
            seen = self._still(waiting.pod)
            if seen is None:
                continue
            self._loose[seen.pod.key] = None
            decision = dataclasses.replace(
                self._decision(waiting, picture),
                reason=f"Opened: {why}",
                default="the same: kube-scheduler places it alone",
            )
            never = self._ways.of(waiting.pod).chosen is not None
            how = tallies.How.NEVER if never else tallies.How.PLANNED
            self._order(seen, decision, how, due_at=due_at)
        return 0

    def _order(
        self,
        seen: objects.Seen,
        decision: decisions.Decision,
        how: tallies.How,
        *,
        due_at: float,
    ) -> None:
        self._busy[seen.pod.key] = seen.pod.uid
        self._orders.put_nowait(
            releases.Order(seen=seen, decision=decision, how=how, due_at=due_at)
        )

    def _still(self, pod: pods.Pod) -> objects.Seen | None:
        """Return the pod as the cache holds it now, if its gate is still to be opened by us."""
        seen = self._caches.pods.get(pod.key)
        if seen is None or seen.pod.uid != pod.uid or not seen.pod.gated or seen.pod.deleting:
            self._counted.attempts.labels(tallies.Outcome.VANISHED).inc()
            return None
        return seen

    def _decision(
        self, waiting: snapshots.Waiting, picture: snapshots.Snapshot
    ) -> decisions.Decision:
        now, pod = self._clock.now(), waiting.pod
        return decisions.Decision(
            id=releases.new_id(),
            verdict=decisions.Verdict.RELEASE,
            pod=pod.key,
            pod_uid=pod.uid,
            workflow=waiting.workflow,
            workflow_uid=pod.workflow_uid,
            template=pod.template,
            task=pod.task,
            snapshot_version=picture.version,
            snapshot_age_s=picture.age_s,
            issued_at=now,
            expires_at=now + EXPIRES_S,
        )

    async def _call(self) -> None:
        """Open gates one after another; several of these run side by side."""
        while True:
            order = await self._orders.get()
            try:
                outcome = await self._writer.open(order)
            except errors.UnavailableError as error:
                log.warning("gate stays shut for now", pod=order.seen.pod.key, error=str(error))
                outcome = tallies.Outcome.LATER
            except errors.StaleError:
                self._fenced = True
                self.wake()
                return
            self._done(order, outcome)

    def _done(self, order: releases.Order, outcome: tallies.Outcome) -> None:
        pod, now_s = order.seen.pod, self._clock.monotonic()
        self._counted.attempts.labels(outcome).inc()
        opened = outcome in (tallies.Outcome.OPENED, tallies.Outcome.UNPLACED)
        if not opened:
            self._busy.pop(pod.key, None)
            self._assumed.forget(pod.key)
            self._loose.pop(pod.key, None)
        if outcome is tallies.Outcome.VANISHED:
            # The next in order may have what it was to take; the cache will follow.
            self._paused[pod.uid] = now_s + REFUSED_S
            self.wake()
        elif outcome is tallies.Outcome.REFUSED:
            self._paused[pod.uid] = now_s + REFUSED_S
            text = "Its gate could not be opened; it is tried again. The operator's log says why."
            self.events.note(_about(pod), "GateStaysShut", text, warns=True)
        elif outcome is tallies.Outcome.LATER:
            self._paused[pod.uid] = now_s + LATER_S
            self._woken.set()
        if not opened:
            return
        self._counted.opened.labels(order.how).inc()
        self._counted.release_seconds.observe(now_s - order.due_at)
        self.holds.let_go(order.decision)
        decision = order.decision
        log.info(
            "released",
            decision=decision.id,
            pod=decision.pod,
            how=order.how,
            outcome=outcome,
            policy=decision.policy,
            group=decision.placement.group,
            rank=decision.rank,
            reason=decision.reason,
        )
        self.events.note(_about(pod), "Released", decision.reason)

    def _told(self, held: list[plannings.Planned], picture: snapshots.Snapshot) -> None:
        """Offer the reasons of pods that wait long, and the sum of each workflow."""
        kinds: collections.Counter[str] = collections.Counter()
        long: list[tuple[snapshots.Waiting, plans.Hold]] = []
        patience_s = self._chosen.explain_after_s
        for each in held:
            hold = each.answer
            assert isinstance(hold, plans.Hold)
            kinds[hold.kind.value] += 1
            if picture.at - each.waiting.waiting_since >= patience_s:
                long.append((each.waiting, hold))
        for kind in plans.HoldKind:
            self._counted.held.labels(kind.value).set(kinds[kind.value])
        now_s = self._clock.monotonic()
        if now_s - self._elastic[1] > ELASTIC_S:
            self._elastic = (conditions.elastic(self._policies, self._caches), now_s)
        self._conditions.offer(long, elastic=self._elastic[0])

    def _drop_unseen(self) -> None:
        """Forget pods under way that the cache shows open, gone or replaced."""
        for key, uid in list(self._busy.items()):
            seen = self._caches.pods.get(key)
            if seen is None or seen.pod.uid != uid or not seen.pod.gated:
                del self._busy[key]

    def _changed(self, change: caches.Change) -> None:
        """Wake where a change may open a gate; runs inside the cache's write."""
        if change.kind is caches.Kind.PODS:
            if self._pod_changed(change.key, change.before, change.after):
                self.wake()
        elif change.kind in (caches.Kind.NODES, caches.Kind.QUOTAS) or self._ways.changed(change):
            self.wake()

    def _pod_changed(self, key: str, before: object, after: object) -> bool:
        old = before.pod if isinstance(before, objects.Seen) else None
        if not isinstance(after, objects.Seen):
            self._busy.pop(key, None)
            self._loose.pop(key, None)
            return old is not None and old.active
        pod = after.pod
        if not pod.gated:
            self._busy.pop(key, None)
            self._adopter.meet(after)
        freed = bool(pod.node) and not pod.active and (old is None or old.active)
        left = (pod.node or not pod.active) and self._loose.pop(key, "") is None
        came = pod.gated and (old is None or old.uid != pod.uid or not old.gated)
        return freed or left or came

    def wake(self) -> None:
        """Plan soon."""
        self._due_at = min(self._due_at, self._clock.monotonic())
        self._woken.set()


class _FencedError(Exception):
    """This replica leads no more."""


def _about(pod: pods.Pod) -> events.About:
    return events.About(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)


def _loose(seen: objects.Seen) -> bool:
    """Say whether a pod was opened by us without a place and is not bound yet."""
    pod = seen.pod
    if pod.node or pod.gates or not pod.active or pod.deleting:
        return False
    return bool(seen.annotation(decisions.RELEASE_ANNOTATION)) and (
        not adoptions.word(seen)[0].selector
    )
