"""The dispatcher: opens gates in the order of the plan, on the leader alone.

Whatever may make room or bring a pod wakes it; ticks are only a floor. One tick: what the caches
hold → `planner.plan` → orders, which callers turn into signed patches, several at a time. What was
picked counts as used at once and its pod is out of the next plans until the cache shows it open.
Nothing but assumed capacity is kept in memory alone, so a new leader begins with what the cluster
shows and with what the last one left there (docs/dispatcher.md).
"""

import asyncio
import collections
import time

import structlog

from tiphys.models.domain import snapshots
from tiphys.models.planner import plans
from tiphys.operator import (
    adoptions,
    apis,
    assumptions,
    caches,
    clocks,
    conditions,
    departures,
    elections,
    events,
    holds,
    legacies,
    objects,
    plannings,
    policies,
    recoveries,
    releases,
    settings,
    strays,
    tallies,
    trusts,
    ways,
)
from tiphys.operator import snapshots as pictures

GATHER_S = 0.004
"""Changes that come together are one tick."""
INLINE = 200
"""With more waiting pods than this a plan is made beside the loop, which answers the webhook."""
PLAN_S = 60.0
"""A plan beside the loop that takes longer never ends: then the process does, and another leads."""
BLIND_S = 60.0
"""Caches that are old for longer open all gates: while this replica leads nobody else would."""
ELASTIC_S = 30.0
"""Seconds between two looks whether an autoscaler is at work."""

log = structlog.get_logger()
Leaving = tuple[snapshots.Waiting, str, tallies.How]
"""A pod whose gate opens although it is not its turn, and why."""


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
        namespace: str,
        disabled: bool = False,
    ) -> None:
        """`namespace` is that of the installation."""
        self._caches = cached
        self._pictured = pictured
        self._assumed = assumed
        self._policies = known
        self._election = election
        self._chosen = chosen
        self._disabled = disabled
        self._clock = clock
        self.counted = counted
        self._ways = ways.Ways(cached, known, now=clock.now, disabled=disabled)
        self._planning = plannings.Planning(chosen.most_per_tick)
        words = adoptions.Words(cached, ring=lambda: trust.ring)
        self._adopter = adoptions.Adopter(
            cached,
            assumed,
            words,
            assume_s=chosen.assume_s,
            now=clock.now,
            monotonic=clock.monotonic,
        )
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
            words,
            fence=election.fence,
            chosen=chosen,
            clock=clock,
            counted=counted,
            recorder=self.events,
        )
        self._strays = strays.Strays(
            api, cached, fence=election.fence, clock=clock, counted=counted
        )
        self.holds = holds.Holds(clock=clock)
        self._legacies = legacies.Keeper(
            api, namespace=namespace, fence=election.fence, clock=clock, left=self._left
        )
        self._departures = departures.Departures(
            releases.Writer(api, ring=lambda: trust.ring, fence=election.fence, clock=clock),
            cached,
            assumed,
            self.holds,
            words,
            assume_s=chosen.assume_s,
            clock=clock,
            counted=counted,
            recorder=self.events,
            woken=self.wake,
        )
        self._woken = asyncio.Event()
        self._due_at = float("inf")
        """Monotonic second of the first change since the last tick that may open a gate."""
        self._blind_from_s: float | None = None
        """Monotonic second since which the caches are too old to plan by; None = they are not."""
        self._elastic = (False, float("-inf"))
        """Whether an autoscaler is at work, and the monotonic second at which that was seen."""
        pictured.held_s = self.holds.held_s
        pictured.deadlines.slo = lambda namespace: known.of_namespace(namespace).slo

    async def run(self) -> None:
        """Open gates until cancelled, or until this replica may not act any more."""
        self._begin(await self._legacies.read())
        stop = self._caches.subscribe(self._changed)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._chosen.callers):
                    group.create_task(self._departures.call())
                group.create_task(self.events.run())
                group.create_task(self._conditions.run())
                group.create_task(self._recovery.run())
                group.create_task(self._strays.run())
                if not self._disabled:
                    group.create_task(self._legacies.run())
                await self._loop()
                # The fence is closed: whoever leads now finds all of it in the cluster.
                raise _FencedError
        except* _FencedError:
            log.warning("dispatch ends, this replica leads no more")
        finally:
            stop()
            for kind in plans.HoldKind:
                self.counted.held.labels(kind.value).set(0)

    def _left(self) -> legacies.Legacy:
        return legacies.Legacy(held_s=self.holds.left_s, given_back=self._recovery.times)

    def _begin(self, legacy: legacies.Legacy) -> None:
        """Take over: forget an earlier term of our own, adopt what cluster and last leader show."""
        self._departures.begin()
        self.holds.begin(legacy.held_s)
        self._recovery.begin(legacy.given_back)
        for seen in self._caches.pods.values():
            self._adopter.meet(seen)
            if seen.pod.gated and not seen.steered:
                self._departures.disown(seen.pod)
        self._due_at = self._clock.monotonic()
        log.info("dispatch begins", gated=len(self._caches.pods.gated()))

    async def _loop(self) -> None:
        while not self._departures.fenced:
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
        if not self._caches.synced or self._caches.age_s(now_s) > self._chosen.stale_after_s:
            return self._blind(now_s)
        self._blind_from_s = None
        due_at, self._due_at = min(self._due_at, now_s), float("inf")
        again_s = self._departures.refresh()
        picture = self._pictured.current()
        if self._adopter.adopt(lambda: self._pictured.current().rooms):
            picture = self._pictured.current()
        if self._adopter.rebalance(picture.rooms):
            picture = self._pictured.current()
        turn: list[tuple[snapshots.Waiting, policies.Chosen]] = []
        leaving: list[Leaving] = []
        for waiting in picture.waiting:
            if self._departures.away(waiting.pod):
                continue
            way = self._ways.of(waiting.pod)
            if way.chosen is not None:
                turn.append((waiting, way.chosen))
            elif way.opens:
                leaving.append((waiting, way.opens, tallies.How.PLANNED))
        began = time.perf_counter()
        planned = await self._plan(picture, turn)
        if turn:
            self.counted.tick_seconds.observe(time.perf_counter() - began)
        ordered = 0
        for each in planned:
            if isinstance(each.answer, plans.Release):
                ordered += self._departures.release(each, each.answer, picture, due_at=due_at)
            elif each.answer.kind is plans.HoldKind.NEVER:
                leaving.append((each.waiting, each.answer.reason, tallies.How.NEVER))
        left = self._open(leaving, picture, due_at=due_at)
        held = [each for each in planned if isinstance(each.answer, plans.Hold)]
        soon_s = self.holds.take(held, picture)
        self._told(held, picture)
        if ordered >= self._chosen.most_per_tick:
            self.wake()
        left += self._adopter.pending
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
        try:
            async with asyncio.timeout(PLAN_S):
                return await asyncio.to_thread(self._planning.plan, picture, parts)
        except TimeoutError:
            raise TimeoutError(f"a plan takes longer than {PLAN_S:.0f} s") from None

    def _blind(self, now_s: float) -> float:
        """Open nothing in turn, and all that is known once that lasts; return when to look again.

        What has no room would otherwise wait for as long as one watch is refused.
        """
        if self._blind_from_s is None:
            self._blind_from_s = now_s
        if now_s - self._blind_from_s < BLIND_S:
            return 1.0
        self._departures.refresh()
        picture = self._pictured.current()
        why = "what is known of the cluster is too old to plan by"
        leaving = [
            (waiting, why, tallies.How.CLOCK)
            for waiting in picture.waiting
            if not self._departures.away(waiting.pod)
        ]
        if leaving:
            log.warning("caches stay old, gates are opened", gated=len(leaving))
        self._open(leaving, picture, due_at=now_s)
        return 1.0

    def _open(
        self,
        leaving: list[Leaving],
        picture: snapshots.Snapshot,
        *,
        due_at: float,
    ) -> int:
        """Order planned openings in order, as many as `gate.openBurst` leaves; return the rest."""
        burst = self._policies.general.gate.open_burst
        leaving.sort(key=lambda each: (-each[0].pod.priority, each[0].waiting_since))
        for place, (waiting, why, how) in enumerate(leaving):
            if self._departures.loose >= burst:
                return len(leaving) - place
            self._departures.open(waiting, why, how, picture, due_at=due_at)
        return 0

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
            self.counted.held.labels(kind.value).set(kinds[kind.value])
        now_s = self._clock.monotonic()
        if now_s - self._elastic[1] > ELASTIC_S:
            self._elastic = (conditions.elastic(self._policies, self._caches), now_s)
        self._conditions.offer(long, elastic=self._elastic[0])

    def _changed(self, change: caches.Change) -> None:
        """Wake where a change may open a gate; runs inside the cache's write."""
        if change.kind is caches.Kind.PODS:
            if self._pod_changed(change.key, change.before, change.after):
                self.wake()
        elif change.kind in (caches.Kind.NODES, caches.Kind.QUOTAS) or self._ways.changed(change):
            self.wake()

    def _pod_changed(self, key: str, before: object, after: object) -> bool:
        old = before.pod if isinstance(before, objects.Seen) else None
        seen = after if isinstance(after, objects.Seen) else None
        bound = self._departures.settled(key, seen)
        if seen is None:
            return old is not None and old.active
        pod = seen.pod
        given = False
        if not pod.gated:
            burst = self._policies.general.gate.open_burst
            given = self._departures.give_back(seen, burst=burst)
            self._adopter.meet(seen)
        freed = bool(pod.node) and not pod.active and (old is None or old.active)
        new = pod.gated and (old is None or old.uid != pod.uid or not old.gated)
        if new and not seen.steered:
            self._departures.disown(pod)
        came = new and seen.steered
        return bound or freed or came or given

    def wake(self) -> None:
        """Plan soon."""
        self._due_at = min(self._due_at, self._clock.monotonic())
        self._woken.set()


class _FencedError(Exception):
    """This replica leads no more."""
