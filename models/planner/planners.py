"""`plan` for all waiting pods, `admit` for one that is being created."""

import dataclasses
import heapq

from tiphys.models.domain import decisions, settings, snapshots
from tiphys.models.planner import boards, orders, pictures, plans, reasons, ticks
from tiphys.models.policies import rankings

ADMIT_SCAN = 256
"""With more pods waiting than this a new one joins them without a look at each: the dispatcher sees
to it in its next tick, and an admission keeps within a few milliseconds."""


def plan(
    snapshot: snapshots.Snapshot, policy: rankings.Policy, choices: settings.PolicySettings
) -> plans.Plan:
    """Return which pods are released now, in order, and why the others are held."""
    return Planner().plan(snapshot, policy, choices)


def admit(
    snapshot: snapshots.Snapshot,
    waiting: snapshots.Waiting,
    policy: rankings.Policy,
    choices: settings.PolicySettings,
) -> plans.Release | plans.Hold:
    """Return what happens to a pod that is being created.

    `Planner.admit` is the quick way for many pods on nearly the same snapshot.
    """
    return Planner().admit(snapshot, waiting, policy, choices)


class Planner:
    """Plans tick after tick; keeps arrays of what did not change between snapshots.

    It gives the same answers as a new one would (a test holds it to that).
    """

    def __init__(self) -> None:
        self._picture = pictures.Picture()

    def plan(
        self,
        snapshot: snapshots.Snapshot,
        policy: rankings.Policy,
        choices: settings.PolicySettings,
        *,
        most_releases: int | None = None,
    ) -> plans.Plan:
        """Return which pods are released now, in order, and why the others are held.

        After `most_releases` the rest is held: a caller that opens some gates at a time asks again.
        """
        self._picture.see(snapshot, choices, snapshot.waiting)
        return ticks.Tick(self._picture, snapshot, policy, choices=choices).run(most_releases)

    def admit(
        self,
        snapshot: snapshots.Snapshot,
        waiting: snapshots.Waiting,
        policy: rankings.Policy,
        choices: settings.PolicySettings,
    ) -> plans.Release | plans.Hold:
        """Return what happens to a pod that is being created; it has no uid yet.

        A Release says that it never sees a gate; a Hold of kind NEVER or QUOTA that it must pass
        without one all the same; any other Hold that it is gated.
        """
        when = choices.placement.when
        crowded = len(snapshot.waiting) > ADMIT_SCAN
        crowd = () if crowded else snapshot.waiting
        scene = dataclasses.replace(snapshot, waiting=(*crowd, waiting))
        self._picture.see(snapshot, choices, scene.waiting)
        tick = ticks.Tick(self._picture, scene, policy, choices=choices)
        order = orders.of(scene, policy, choices, cores=self._picture.cores)
        words = reasons.Words(tick, order)
        index, rank = len(crowd), 1 + len(snapshot.waiting)
        placed = tick.settle(index, rank)
        if placed is None:
            hold = words.hold(tick.held[0], 0)
            if hold.kind is plans.HoldKind.NEVER:
                return hold
            if when is settings.When.ADMISSION:
                return plans.Release(
                    uid=waiting.pod.uid,
                    placement=decisions.Placement(),
                    rank=rank,
                    reason=f"placement.when is admission, so it goes although: {hold.reason}",
                    masked=words.masked(tick.held[0].shape),
                )
            return self._gated(hold, scene, waiting)
        why = ""
        if when is settings.When.RELEASE:
            why = "placement.when is release: it takes its turn."
        elif when is settings.When.AUTO and crowded:
            why = f"{len(snapshot.waiting)} pods wait already: it takes its turn."
        elif when is settings.When.AUTO and placed.node >= 0:
            rival = _rival(tick, order, index, node=placed.node)
            why = f"{rival} goes first and may use the same room." if rival else ""
        if why:
            held = plans.Hold(
                uid=waiting.pod.uid, kind=plans.HoldKind.ORDER, reason=why, rank=rank, fits=True
            )
            return self._gated(held, scene, waiting)
        placed.rank = 1
        return words.release(placed)

    def _gated(
        self, hold: plans.Hold, snapshot: snapshots.Snapshot, waiting: snapshots.Waiting
    ) -> plans.Hold:
        if waiting.tenant not in snapshot.tight_namespaces:
            return hold
        return dataclasses.replace(
            hold,
            kind=plans.HoldKind.QUOTA,
            reason=(
                f"The quota of {waiting.tenant} is nearly used and it cannot start at once, so a "
                f"gate would keep others from existing: {hold.reason}"
            ),
        )


def _rival(tick: ticks.Tick, order: orders.Order, index: int, *, node: int) -> str:
    """Return the key of a pod that goes first and may use the node; empty if there is none.

    One without room counts as well where room may be kept for it: the dispatcher decides.
    """
    tier = max(line.tier for line in order.lines if index in line)
    free = tick.picture.free[node].tolist()
    for line in order.lines:
        if line.tier < tier:
            break
        for other in line.overdue:
            if other != index and tick.shapes.of(tick.snapshot.waiting[other]).may[node]:
                return tick.snapshot.waiting[other].pod.key
        before = [
            other
            for queue in line.by_tenant.values()
            for other in queue
            if other != index and (line.tier > tier or order.place[other] < order.place[index])
        ]
        heads = set(heapq.nsmallest(ticks.HEADS_KEPT, before, key=order.place.__getitem__))
        for other in before:
            shape = tick.shapes.of(tick.snapshot.waiting[other])
            kept = line.tier > tier or other in heads
            if shape.may[node] and (kept or boards.holds(free, shape.asked)):
                return tick.snapshot.waiting[other].pod.key
    return ""
