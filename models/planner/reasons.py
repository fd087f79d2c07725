"""The words of a plan: why a pod goes where, why it stays, and who is in its way.

Over 400 lines because every sentence about a decision is written here, so that logs, Events, status
and `explain` say the same thing in the same words.
"""

from __future__ import annotations

import bisect
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import decisions, durations, moments, settings, snapshots
from tiphys.models.planner import boards, masks, orders, pictures, plans

if TYPE_CHECKING:
    from tiphys.models.planner import ticks

MOST_AHEAD = 64
"""A hold names all who are in its way while its rank is not higher than this."""
MOST_LACKS = 64
"""Shapes, by rank, for which the next room is looked up; behind them the sentence is shorter."""


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """A bound on a wait that has come."""

    words: str
    fits_only: bool
    """It opens the gate only where there is room."""


def clock(waiting: snapshots.Waiting, choices: settings.PolicySettings, at: float) -> Clock | None:
    """Return the clock of a pod that has run out, if any."""
    if waiting.must_open_by is not None and at >= waiting.must_open_by:
        return Clock("its Argo clocks leave no more slack", fits_only=False)
    gate = choices.gate
    if gate.max_total_s is not None and at - waiting.waiting_since >= gate.max_total_s:
        return Clock(f"gate.maxTotal ({durations.words(gate.max_total_s)}) is used", False)
    if waiting.held_s >= gate.max_hold_s:
        return Clock(f"gate.maxHold ({durations.words(gate.max_hold_s)}) is used", True)
    return None


@dataclasses.dataclass(frozen=True, slots=True)
class Lack:
    """Why a shape has no room, and what would make some."""

    sentence: str
    holders: tuple[str, ...] = ()
    """Keys of pods (or the name of the node) that must end before it fits."""
    until: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What all pods of a mould hear that were not looked at one by one."""

    kind: plans.HoldKind
    sentence: str
    blocker: str = ""
    fits: bool = False
    until: float | None = None
    taken: pictures.Shape | None = None
    """The blocker is the last before the pod that was placed where this shape could be."""


class Words:
    """Writes the releases and holds of one tick."""

    def __init__(self, tick: ticks.Tick, order: orders.Order) -> None:
        self._tick = tick
        self._order = order
        self._masked: dict[int, tuple[decisions.Masked, ...]] = {}
        self._lacks: dict[int, Lack] = {}
        self._nevers: dict[int, str] = {}
        self._takers: dict[int, tuple[list[int], list[int]]] = {}
        """By shape: ranks and places in the snapshot of those placed where it could be too."""
        self._meets: dict[tuple[int, int], bool] = {}
        self._told: dict[tuple[int, ticks.Claim | None], Told] = {}
        """By mould and whose claim is in the way: what those hear that were not looked at."""
        self._met = 0
        self._last: dict[int, tuple[pictures.Shape, int]] = {}
        """By reach: the last of the first `_met` held, the latest at the end."""
        self._by_end: npt.NDArray[np.int64] | None = None
        self._groups: dict[str, npt.NDArray[np.int64]] = {}

    def release(self, placed: ticks.Placed) -> plans.Release:
        """Return the release of a pod with its sentence."""
        tick = self._tick
        waiting = tick.snapshot.waiting[placed.index]
        why = placed.clock or self._why(placed)
        if placed.node < 0:
            return plans.Release(
                uid=waiting.pod.uid,
                placement=decisions.Placement(),
                rank=placed.rank,
                reason=f"Opened although no node has room: {why}.",
                masked=self.masked(placed.shape),
                forced=True,
            )
        room = tick.picture.rooms[placed.node]
        placement = self._placement(waiting, placed.node, placed.shape)
        return plans.Release(
            uid=waiting.pod.uid,
            placement=placement,
            node=room.node.name,
            rank=placed.rank,
            reason=f"Sent to {placement.group or 'any node'}: {why}.",
            candidates=_candidates(
                placed, room.group, waiting.duration.centre_s, start_s=tick.snapshot.start_s
            ),
            masked=self.masked(placed.shape),
            ends_at=placed.ends_at,
            forced=bool(placed.clock),
        )

    def masked(self, shape: pictures.Shape) -> tuple[decisions.Masked, ...]:
        """Return the groups without any node that could take such a pod, each with a reason."""
        known = self._masked.get(id(shape))
        if known is None:
            known = self._masked[id(shape)] = tuple(
                decisions.Masked(group=name, why=self._refused(shape, nodes))
                for name, nodes in self._nodes_of_groups().items()
                if not shape.may[nodes].any()
            )
        return known

    def hold(self, held: ticks.Held, place: int) -> plans.Hold:
        """Return a hold with its sentence; `place` is its place among the held."""
        tick, kinds = self._tick, plans.HoldKind
        uid = tick.snapshot.waiting[held.index].pod.uid
        if held.kind is kinds.NEVER:
            return plans.Hold(
                uid=uid, kind=kinds.NEVER, reason=self._never(held.shape), rank=held.rank
            )
        if held.kind is kinds.WAIT:
            return self._wait(held, place, uid)
        before = self._before(held, place)
        if held.kept_for >= 0:
            keeper, sentence = self._kept_for(held.node, held.kept_for)
            return plans.Hold(
                uid=uid,
                kind=kinds.ORDER,
                reason=sentence,
                blocker=keeper,
                blockers=before,
                rank=held.rank,
                fits=True,
            )
        if held.kind is kinds.ORDER:
            return self._behind(held, uid, before)
        lack = self._lack(held.shape)
        nearest = self._nearest(place)
        sentence = lack.sentence
        if nearest:
            many = f"{held.rank - 1} go before it, the last of them"
            sentence += f" {'1 goes before it:' if held.rank == 2 else many} {nearest}."
        return plans.Hold(
            uid=uid,
            kind=kinds.ROOM,
            reason=sentence,
            blocker=nearest or next(iter(lack.holders), ""),
            blockers=(*before, *lack.holders) if held.rank <= MOST_AHEAD else (),
            rank=held.rank,
            until=lack.until,
        )

    def later(self) -> list[plans.Hold]:
        """Return the holds of pods that were not looked at one by one."""
        tick = self._tick
        waiting = tick.snapshot.waiting
        moulds = tick.mould_of or [tick.picture.mould(each) for each in waiting]
        holds = []
        for index, rank, claim in zip(
            tick.unasked, tick.unasked_ranks, tick.unasked_claims, strict=True
        ):
            told = self._told_of(moulds[index], claim)
            blocker = told.blocker
            if told.taken is not None:
                took = self._took(told.taken, rank)
                blocker = waiting[took].pod.key if took >= 0 else blocker
            holds.append(
                plans.Hold(
                    uid=waiting[index].pod.uid,
                    kind=told.kind,
                    reason=told.sentence,
                    blocker=blocker,
                    rank=rank,
                    fits=told.fits,
                    until=told.until,
                )
            )
        return holds

    def _told_of(self, mould: pictures.Mould, claim: ticks.Claim | None) -> Told:
        key = (id(mould), claim)
        known = self._told.get(key)
        if known is None:
            known = self._told[key] = self._tell(mould, claim)
        return known

    def _tell(self, mould: pictures.Mould, claim: ticks.Claim | None) -> Told:
        tick, kinds = self._tick, plans.HoldKind
        if not mould.ever:
            return Told(kinds.NEVER, self._never(tick.shapes.cast(mould)))
        if claim is not None:
            keeper, sentence = self._kept_for(*claim)
            return Told(kinds.ORDER, sentence, keeper, fits=True)
        last = tick.snapshot.waiting[tick.placed[-1].index].pod.key if tick.placed else ""
        shape = tick.shapes.known(mould)
        if shape is None or not shape.full:
            return Told(kinds.ORDER, "Its turn comes after those that are opened now.", last)
        if shape.fitted:
            return Told(kinds.ORDER, "Those that go first took the room.", last, taken=shape)
        lack = self._lack(shape)
        return Told(kinds.ROOM, lack.sentence, next(iter(lack.holders), ""), until=lack.until)

    def _kept_for(self, node: int, index: int) -> tuple[str, str]:
        """Return the key of the pod for which room is kept, and the sentence."""
        keeper = self._tick.snapshot.waiting[index].pod.key
        there = self._tick.picture.rooms[node].node.name
        return keeper, f"Room on {there} is kept for {keeper}, which goes first."

    def _why(self, placed: ticks.Placed) -> str:
        tick, index = self._tick, placed.index
        waiting = tick.snapshot.waiting[index]
        if placed.overdue:
            waited_s = tick.snapshot.at - waiting.waiting_since
            return f"it has waited {durations.words(waited_s)} and is overdue"
        if placed.by_share:
            return f"namespace {waiting.tenant} has much less than its share"
        if index in self._order.reasons:
            return self._order.reasons[index]
        word = getattr(tick.policy, "word", None)
        return "" if word is None else str(word(waiting, tick.snapshot.at))

    def _placement(
        self, waiting: snapshots.Waiting, node: int, shape: pictures.Shape
    ) -> decisions.Placement:
        """Return what is written: a group, or a host where the rules or the grain ask for one."""
        tick = self._tick
        room = tick.picture.rooms[node]
        group = tick.picture.selectors.get(room.group)
        ruled = bool(shape.mould.signature[1])
        if waiting.pod.constraints.unmodelled or not (tick.places or ruled):
            return decisions.Placement()
        choices = tick.choices.placement
        must = choices.bind is settings.Bind.REQUIRE or (
            choices.bind is settings.Bind.AUTO and ruled
        )
        bind = "require" if must else "prefer"
        whole = group is not None and bool(group.selector)
        if ruled and whole:
            whole = bool(
                tick.picture.masks.allowed(shape.mould.signature)[
                    self._nodes_of_groups()[room.group]
                ].all()
            )
        host = room.node.label(settings.HOSTNAME)
        narrow = choices.grain is settings.Grain.NODE or (ruled and not whole)
        if narrow and host is not None:
            places = np.array([node])
            placement = decisions.Placement(
                group=room.group, selector=((settings.HOSTNAME, host),), bind=bind
            )
        elif group is not None and group.selector:
            places = self._nodes_of_groups()[room.group]
            placement = decisions.Placement(group=group.name, selector=group.selector, bind=bind)
        else:
            return decisions.Placement()
        if must and not ruled and self._might_preempt(waiting, shape, places):
            return dataclasses.replace(placement, bind="prefer")
        return placement

    def _might_preempt(
        self, waiting: snapshots.Waiting, shape: pictures.Shape, places: npt.NDArray[np.int64]
    ) -> bool:
        """Say whether a nodeSelector for these nodes might end pods there for nothing.

        Where others have taken the room meanwhile kube-scheduler preempts on the nodes that it is
        left with, although the pod could run elsewhere.
        """
        if not waiting.pod.preempts or np.count_nonzero(shape.may) == shape.may[places].sum():
            return False
        rooms = self._tick.picture.rooms
        lowest = (rooms[place].lowest_priority for place in places.tolist())
        return any(each is not None and each < waiting.pod.priority for each in lowest)

    def _nodes_of_groups(self) -> dict[str, npt.NDArray[np.int64]]:
        if not self._groups:
            members: dict[str, list[int]] = {}
            for place, room in enumerate(self._tick.picture.rooms):
                members.setdefault(room.group, []).append(place)
            self._groups = {name: np.array(members[name]) for name in sorted(members)}
        return self._groups

    def _refused(self, shape: pictures.Shape, nodes: npt.NDArray[np.int64]) -> str:
        """Return why no node of a group will do: what its first node says."""
        picture = self._tick.picture
        node = picture.rooms[int(nodes[0])].node
        rules = picture.masks.rules_of(shape.mould.signature)
        why = masks.refusal(shape.mould.signature[0], rules, node)
        if why:
            return why
        lacking = shape.mould.requests.lacking(node.allocatable)
        if lacking:
            return f"its nodes are too small: {', '.join(lacking)}"
        return "cordoned or not ready"

    def _never(self, shape: pictures.Shape) -> str:
        known = self._nevers.get(id(shape))
        if known is None:
            whys = [f"{each.group}: {each.why}" for each in self.masked(shape)[:4]]
            known = self._nevers[id(shape)] = "No node could ever take it" + (
                f" ({'; '.join(whys)})." if whys else ": the cluster has none."
            )
        return known

    def _wait(self, held: ticks.Held, place: int, uid: str) -> plans.Hold:
        tick = self._tick
        at = tick.snapshot.at
        waiting = tick.snapshot.waiting[held.index]
        there = tick.picture.rooms[held.node].node.name
        free = tick.picture.rooms[held.instead].node.name
        slow = tick.picture.speeds.of(waiting)
        now_s = tick.snapshot.start_s + waiting.duration.centre_s * float(slow[held.instead])
        later_s = held.until - at + held.lasts_s
        holders = self._holders(held.node, held.shape)
        blocker = next(iter(holders), there)
        return plans.Hold(
            uid=uid,
            kind=plans.HoldKind.WAIT,
            reason=(
                f"Waits for {there}, free about {moments.words(held.until, at)} (busy with "
                f"{blocker}): it would end there {durations.words(now_s - later_s)} sooner than on "
                f"{free}, which has room now."
            ),
            blocker=blocker,
            blockers=(*self._before(held, place), *holders),
            rank=held.rank,
            fits=True,
            until=held.until,
        )

    def _behind(self, held: ticks.Held, uid: str, before: tuple[str, ...]) -> plans.Hold:
        """Return the hold of a pod whose room went to others in this very tick."""
        tick = self._tick
        waiting = tick.snapshot.waiting
        mine = waiting[held.index]
        took = self._took(held.shape, held.rank)
        if took < 0:
            return plans.Hold(
                uid=uid,
                kind=plans.HoldKind.ORDER,
                reason="Its turn comes after those that are opened now.",
                blockers=before,
                rank=held.rank,
            )
        theirs = waiting[took]
        share = (
            theirs.tenant != mine.tenant
            and self._order.place[took] > self._order.place[held.index]
            and theirs.pod.priority == mine.pod.priority
            and theirs.workflow_priority == mine.workflow_priority
        )
        key = theirs.pod.key
        return plans.Hold(
            uid=uid,
            kind=plans.HoldKind.SHARE if share else plans.HoldKind.ORDER,
            reason=(
                f"{key} took the room: it is the turn of namespace {theirs.tenant}, which uses "
                f"less of its share than {mine.tenant} does."
                if share
                else f"{key} goes first and took the room."
            ),
            blocker=key,
            blockers=before,
            rank=held.rank,
        )

    def _took(self, shape: pictures.Shape, rank: int) -> int:
        """Return the last that was placed before a rank where a shape could be; -1 if none was."""
        placed = self._tick.placed
        known = self._takers.get(id(shape))
        if known is None:
            there = [each for each in placed if each.node >= 0 and shape.may[each.node]]
            known = ([each.rank for each in there], [each.index for each in there])
            self._takers[id(shape)] = known
        before = bisect.bisect_left(known[0], rank)
        return known[1][before - 1] if before else -1

    def _before(self, held: ticks.Held, place: int) -> tuple[str, ...]:
        """Return who goes before a pod and could use the same nodes; empty beyond MOST_AHEAD."""
        if held.rank > MOST_AHEAD:
            return ()
        tick = self._tick
        waiting = tick.snapshot.waiting
        released = [
            waiting[placed.index].pod.key
            for placed in tick.placed
            if placed.rank < held.rank and self._meet(placed.shape, held.shape)
        ]
        ahead = [
            waiting[other.index].pod.key
            for other in tick.held[:place]
            if self._meet(other.shape, held.shape)
        ]
        return (*released, *ahead)

    def _nearest(self, place: int) -> str:
        """Return the last one before a pod that could use the same nodes."""
        tick = self._tick
        for number in range(self._met, place):
            shape = tick.held[number].shape
            reach = shape.mould.reach
            self._last.pop(reach, None)
            self._last[reach] = (shape, number)
        self._met = max(self._met, place)
        mine = tick.held[place].shape
        for shape, number in reversed(self._last.values()):
            if self._meet(shape, mine):
                return tick.snapshot.waiting[tick.held[number].index].pod.key
        return ""

    def _meet(self, one: pictures.Shape, other: pictures.Shape) -> bool:
        """Say whether some node may take both shapes."""
        pair = (one.mould.reach, other.mould.reach)
        if pair[0] == pair[1]:
            return True
        known = self._meets.get(pair)
        if known is None:
            known = self._meets[pair] = bool((one.may & other.may).any())
        return known

    def _lack(self, shape: pictures.Shape) -> Lack:
        """Return why a shape has no room and which node is expected to have some first."""
        known = self._lacks.get(id(shape))
        if known is None:
            told = len(self._lacks) < MOST_LACKS
            known = self._lack_of(shape) if told else Lack("No node that it may use has room.")
            self._lacks[id(shape)] = known
        return known

    def _lack_of(self, shape: pictures.Shape) -> Lack:
        tick = self._tick
        picture, at = tick.picture, tick.snapshot.at
        places = np.flatnonzero(shape.may)
        if not len(places):
            could = np.flatnonzero(picture.could(shape.mould.signature, shape.asked))
            return Lack(
                "Every node that it may use is cordoned or not ready.",
                (picture.rooms[int(could[0])].node.name,),
            )
        if self._by_end is None:
            self._by_end = np.argsort(tick.first_end, kind="stable")
        soonest = self._by_end[shape.may[self._by_end]][: boards.LATER_NODES]
        found: tuple[float, int, tuple[str, ...]] = (boards.NEVER, int(soonest[0]), ())
        for node in soonest.tolist():
            first_end = boards.expected(float(tick.first_end[node]), at) + tick.snapshot.frees_s
            if first_end >= found[0]:
                continue
            holders, until = tick.board.in_the_way(node, shape.asked)
            if holders and until < found[0]:
                found = (until, node, holders)
        until, node, holders = found
        room = picture.rooms[node]
        lacking = shape.mould.requests.lacking(room.free) or ("room",)
        sentence = f"No node that it may use has room ({', '.join(lacking)} on {room.node.name})"
        if until == boards.NEVER:
            return Lack(f"{sentence}.", (room.node.name,))
        named = tuple(holder or room.node.name for holder in holders)
        return Lack(
            f"{sentence}; the next is expected about {moments.words(until, at)}, when "
            f"{named[-1]} has ended.",
            named,
            until,
        )

    def _holders(self, node: int, shape: pictures.Shape) -> tuple[str, ...]:
        holders, _ = self._tick.board.in_the_way(node, shape.asked)
        name = self._tick.picture.rooms[node].node.name
        return tuple(holder or name for holder in holders)


def _candidates(
    placed: ticks.Placed, home: str, length_s: float, *, start_s: float
) -> tuple[decisions.Candidate, ...]:
    """Return each group's best node that had room, best first, the chosen one before its equals."""
    found = [
        decisions.Candidate(
            group=name,
            score=round(start_s + length_s * time, 3),
            why=f"runs {time:.2f} times as long as usual",
        )
        for name, time in placed.fitting
    ]
    return tuple(sorted(found, key=lambda each: (each.score, each.group != home, each.group)))
