"""Gates that are being opened: who is under way, who has to pause, whom kube-scheduler must place.

What a plan picked becomes an order here: it counts as used at once, and its pod is away, that is
out of the next plans, until the cache shows it open.  Callers take orders, several at a time.
"""

import asyncio
import dataclasses
from collections.abc import Callable

import structlog

from tiphys.models.domain import decisions, errors, pods, snapshots
from tiphys.models.planner import plans
from tiphys.operator import (
    adoptions,
    assumptions,
    caches,
    clocks,
    events,
    holds,
    objects,
    plannings,
    releases,
    tallies,
)

EXPIRES_S = 60.0
LOOSE_S = 10.0
"""For how long an opened pod counts against `gate.openBurst` at most: one that can never be bound
(docs/dispatcher.md) may not keep the others shut."""
REFUSED_S = 15.0
"""Pause before a gate that could not be opened is tried again."""
LATER_S = 0.5
"""The same where the API server did not answer."""
OLDEST_S = 86_400.0
"""What a decision says of the age of caches that were never read."""
FOREIGN = (
    "Its gate tiphys.dev/steer was not set by Tiphys, which opens only gates of pods that it "
    "steered when they were created. Take it out of what the pod is made from; `tiphys release` "
    "with the pod's name opens it now."
)

log = structlog.get_logger()


class Departures:
    """Orders of one term."""

    def __init__(
        self,
        writer: releases.Writer,
        cached: caches.Caches,
        assumed: assumptions.Assumptions,
        held: holds.Holds,
        words: adoptions.Words,
        *,
        assume_s: float,
        clock: clocks.Clock,
        counted: tallies.Tallies,
        recorder: events.Recorder,
        woken: Callable[[], None],
    ) -> None:
        """`woken` is called when a plan may have something to do that no change tells of."""
        self._writer = writer
        self._caches = cached
        self._assumed = assumed
        self._holds = held
        self._words = words
        self._assume_s = assume_s
        self._clock = clock
        self._counted = counted
        self._events = recorder
        self._woken = woken
        self._orders: asyncio.Queue[releases.Order] = asyncio.Queue()
        self._busy: dict[str, str] = {}
        """Uid of each pod whose gate is being opened, by key."""
        self._paused: dict[str, float] = {}
        """Monotonic second until which a gate that could not be opened is left alone, by uid."""
        self._loose: dict[str, float] = {}
        """Pods that were opened without room and are not bound yet, with the monotonic second until
        which they count."""
        self.fenced = False
        """Whether a call was stopped because this replica leads no more."""

    def begin(self) -> None:
        """Forget what an earlier term left, and find what is loose in the cluster."""
        self._orders = asyncio.Queue()
        for key, uid in self._busy.items():
            seen = self._caches.pods.get(key)
            if seen is not None and seen.pod.uid == uid and seen.pod.gated:
                self._assumed.forget(key)  # its order was never carried out
        self._busy.clear()
        self._paused.clear()
        self.fenced = False
        now, now_s = self._clock.now(), self._clock.monotonic()
        self._loose = {}
        for seen in self._caches.pods.values():
            left_s = self._loose_for_s(seen, now)
            if left_s > 0:
                self._loose[seen.pod.key] = now_s + left_s

    @property
    def loose(self) -> int:
        """How many pods were opened without room in the last `LOOSE_S` and are not bound yet."""
        now_s = self._clock.monotonic()
        self._loose = {key: until for key, until in self._loose.items() if until > now_s}
        return len(self._loose)

    def away(self, pod: pods.Pod) -> bool:
        """Say whether a pod is out of the plans for now."""
        return pod.key in self._busy or pod.uid in self._paused

    def refresh(self) -> float:
        """Forget what is over; return in how many seconds the next pause ends."""
        now_s = self._clock.monotonic()
        self._paused = {uid: until for uid, until in self._paused.items() if until > now_s}
        for key, uid in list(self._busy.items()):
            seen = self._caches.pods.get(key)
            if seen is None or seen.pod.uid != uid or not seen.pod.gated:
                del self._busy[key]
        return min(self._paused.values(), default=float("inf")) - now_s

    def settled(self, key: str, seen: objects.Seen | None) -> bool:
        """Take what the cache shows of a pod now; say whether a loose one is off the street."""
        if seen is None or not seen.pod.gated:
            self._busy.pop(key, None)
        over = seen is None or bool(seen.pod.node) or not seen.pod.active
        return over and self._loose.pop(key, None) is not None

    def give_back(self, seen: objects.Seen, *, burst: int) -> bool:
        """Free what is assumed of a pod that kube-scheduler turned down; say whether it was.

        What is given back counts as loose: room that is seen again and again by pods that cannot
        use it brings no more than `burst` of them onto the street in `LOOSE_S`.
        """
        key = seen.pod.key
        if not adoptions.turned_down(seen) or self._assumed.get(key) is None:
            return False
        if self.loose >= burst:
            return False
        self._assumed.forget(key)
        self._loose[key] = self._clock.monotonic() + LOOSE_S
        return True

    def disown(self, pod: pods.Pod) -> None:
        """Tell people of a gate that somebody wrote into a pod: it is in no plan, nor opened."""
        self._events.note(events.of_pod(pod), "GateNotOurs", FOREIGN, warns=True)

    def release(
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
                    expires_at=self._clock.monotonic() + self._assume_s,
                    ends_at=release.ends_at,
                    uid=seen.pod.uid,
                )
            )
        else:
            self._loose[seen.pod.key] = self._clock.monotonic() + LOOSE_S
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

    def open(
        self,
        waiting: snapshots.Waiting,
        why: str,
        how: tallies.How,
        picture: snapshots.Snapshot,
        *,
        due_at: float,
    ) -> None:
        """Order an opening that is nobody's turn; a pod that is gone is dropped."""
        seen = self._still(waiting.pod)
        if seen is None:
            return
        self._loose[seen.pod.key] = self._clock.monotonic() + LOOSE_S
        decision = dataclasses.replace(
            self._decision(waiting, picture),
            reason=f"Opened: {why}",
            default="the same: kube-scheduler places it alone",
        )
        self._order(seen, decision, how, due_at=due_at)

    async def call(self) -> None:
        """Open gates one after another until cancelled or fenced."""
        while True:
            order = await self._orders.get()
            try:
                outcome = await self._writer.open(order)
            except errors.UnavailableError as error:
                log.warning("gate stays shut for now", pod=order.seen.pod.key, error=str(error))
                outcome = tallies.Outcome.LATER
            except errors.StaleError:
                self.fenced = True
                self._woken()
                return
            self._done(order, outcome)

    def _done(self, order: releases.Order, outcome: tallies.Outcome) -> None:
        pod, now_s = order.seen.pod, self._clock.monotonic()
        self._counted.attempts.labels(outcome).inc()
        if outcome in (tallies.Outcome.OPENED, tallies.Outcome.UNPLACED):
            self._opened(order, outcome, now_s)
            return
        if outcome is tallies.Outcome.OVERTAKEN:
            # It is on its way: what is assumed of it holds until it is seen bound.
            self._loose.pop(pod.key, None)
            return
        self._busy.pop(pod.key, None)
        self._assumed.forget(pod.key)
        self._loose.pop(pod.key, None)
        self._paused[pod.uid] = now_s + (LATER_S if outcome is tallies.Outcome.LATER else REFUSED_S)
        if outcome is tallies.Outcome.REFUSED:
            text = "Its gate could not be opened; it is tried again. The operator's log says why."
            self._events.note(events.of_pod(pod), "GateStaysShut", text, warns=True)
        # The next in order may have what it was to take.
        self._woken()

    def _opened(self, order: releases.Order, outcome: tallies.Outcome, now_s: float) -> None:
        decision = order.decision
        if order.seen.pod.key in self._loose:
            self._loose[order.seen.pod.key] = now_s + LOOSE_S
        self._counted.opened.labels(order.how).inc()
        self._counted.release_seconds.observe(now_s - order.due_at)
        self._holds.let_go(decision)
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
        self._events.note(events.of_pod(order.seen.pod), "Released", decision.reason)

    def _order(
        self,
        seen: objects.Seen,
        decision: decisions.Decision,
        how: tallies.How,
        *,
        due_at: float,
    ) -> None:
        self._busy[seen.pod.key] = seen.pod.uid
        order = releases.Order(seen=seen, decision=decision, how=how, due_at=due_at)
        self._orders.put_nowait(order)

    def _still(self, pod: pods.Pod) -> objects.Seen | None:
        """Return the pod as the cache holds it now, if its gate is still to be opened by us."""
        seen = self._caches.pods.get(pod.key)
        if seen is None or seen.pod.uid != pod.uid or not seen.pod.gated or seen.pod.deleting:
            self._counted.attempts.labels(tallies.Outcome.VANISHED).inc()
            return None
        return seen

    def _loose_for_s(self, seen: objects.Seen, now: float) -> float:
        """Return for how long a pod counts that we opened without a place; 0 = it does not."""
        if not adoptions.on_its_way(seen.pod) or not seen.annotation(decisions.RELEASE_ANNOTATION):
            return 0.0
        if adoptions.word(seen)[1] + LOOSE_S <= now:
            return 0.0  # the cheap question first: signatures are judged for what is new alone
        stamp = self._words.of(seen)
        if stamp is None or stamp.verdict is not decisions.Verdict.RELEASE:
            return 0.0
        return 0.0 if stamp.placement.selector else min(stamp.issued_at, now) + LOOSE_S - now

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
            snapshot_age_s=min(picture.age_s, OLDEST_S),
            issued_at=now,
            expires_at=now + EXPIRES_S,
        )
