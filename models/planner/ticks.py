"""One walk over the order: who is released where, who is held and why.

A pod takes the node that ends it first.  It is held when nothing has room (ROOM), when those
before it took the room or room is kept for somebody (ORDER, SHARE), or when a busy faster node
would end it clearly sooner (WAIT).  What was given away counts for those behind.  Under overload
nearly all wait in vain: past the first `LOOKED_AT` only those are settled one by one for whom
something may still happen in this tick, so that its time does not grow with what cannot go.

Over 400 lines because a walk is one state: what was placed, kept, claimed and passed by.
"""

import dataclasses
import operator
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import settings, snapshots
from tiphys.models.planner import boards, orders, pictures, plans, reasons
from tiphys.models.policies import rankings

CLEARLY = 0.15
"""A wait must bring the end forward by this part of the time until then (docs/policies.md)."""
MOST_KEPT = 16
"""Pods for which room is kept at a time; more would leave nothing to fill in behind."""
MOST_VAIN = 32
"""Shapes for which later room is sought in vain in one tick: each search takes half a millisecond,
and in a cluster where nothing is known to end none would find any."""
HEADS_KEPT = 4
"""Pods at the head of any order for which room is kept, so that large ones are not passed by for
ever by small ones (EASY backfilling keeps it for one, Lifka 1995; docs/policies.md)."""
LOOKED_AT = 256
"""Pods that are looked at one by one although nothing has room; of those behind only such as find
room or are opened by a clock, the others share a sentence by what they ask for."""
MOST_EXPECTED = 64
"""Held pods whose later starts count when one behind asks what a wait would give it."""
MOST_WAITS = 64
"""Pods that wait for a faster node at a time; the rest take what is free."""


@dataclasses.dataclass(slots=True)
class Placed:
    """A pod whose gate opens, before its words are written."""

    index: int
    """Place in the snapshot."""
    rank: int
    node: int
    """-1: a clock opens it although nothing has room."""
    shape: pictures.Shape
    clock: str = ""
    """The clock that opens it, in words."""
    ends_at: float = 0.0
    fitting: tuple[tuple[str, float], ...] = ()
    """Groups with room, and the run time on their best node over that at speed 1."""
    overdue: bool = False
    by_share: bool = False


@dataclasses.dataclass(slots=True)
class Held:
    """A pod that stays behind its gate, before its words are written."""

    index: int
    """Place in the snapshot."""
    rank: int
    kind: plans.HoldKind
    shape: pictures.Shape
    fits: bool = False
    node: int = -1
    """WAIT: the busy node that it waits for.  ORDER: the node where room is kept."""
    instead: int = -1
    """The free node that it did not take."""
    until: float = boards.NEVER
    lasts_s: float = 0.0
    """Run time on `node`."""
    kept_for: int = -1
    """Place in the snapshot of the pod for which room is kept."""


Claim = tuple[int, int]
"""A node, and the place in the snapshot of the held pod for which room there is left alone."""


class Tick:
    """The state of one walk."""

    def __init__(
        self,
        picture: pictures.Picture,
        snapshot: snapshots.Snapshot,
        policy: rankings.Policy,
        *,
        choices: settings.PolicySettings,
    ) -> None:
        self.picture = picture
        self.snapshot = snapshot
        self.choices = choices
        self.policy = policy
        self.places = bool(getattr(policy, "places", True))
        self.waits = bool(getattr(policy, "waits", False))
        self.board = boards.Board(
            picture.rooms,
            picture.free.copy(),
            picture.resources,
            snapshot.at,
            frees_s=snapshot.frees_s,
        )
        self.shapes = pictures.Shapes(picture, self.board)
        self.placed: list[Placed] = []
        self.held: list[Held] = []
        self.unasked: list[int] = []
        """Places in the snapshot of those that were not looked at."""
        self.unasked_ranks: list[int] = []
        self.unasked_claims: list[Claim | None] = []
        """Whose claim is in their way.  Plain lists: 20,000 tuples are work for the collector."""
        self.kept: dict[int, int] = {}
        """Node and the pod for which room is kept there."""
        self.claims: dict[int, tuple[boards.Row, int]] = {}
        """Node, room there that held pods of higher priority could use now, the last of them."""
        self.first_end = picture.first_end.copy()
        """[N] when the first of what runs or was placed there is expected to end, unix seconds."""
        self.mould_of: list[pictures.Mould] = []
        """[W] moulds of all that wait, once somebody had to ask."""
        self.waiters = 0
        self._asking: tuple[list[pictures.Mould], npt.NDArray[np.int64], boards.Bools] | None = None
        self._keepers = 0
        """Pods for which room is kept."""
        self._vain = 0
        """Shapes for which later room was sought in vain."""
        self._claimed: list[int] = []
        """The nodes of `claims`, in order."""
        self._blocked: dict[tuple[int, int], tuple[int, float, int]] = {}
        """By identity of shape and speeds: changes of the board known, run time at speed 1 from
        which on a start would be in the way of what is kept, a node where it is kept."""
        self._expected = 0
        self._short: list[Held] = []
        """Held for room so far, not yet booked as expected."""

    def walk(self, most_releases: int | None = None) -> orders.Order:
        """Decide on every pod, without words: `placed` and `held` are filled."""
        order = orders.of(self.snapshot, self.policy, self.choices, cores=self.picture.cores)
        shares = orders.Shares(self.snapshot, self.choices, self.picture.capacity().tolist())
        rank, next_check = 0, LOOKED_AT
        passed: list[bool] = []
        for number, line in enumerate(order.lines):
            others_behind = number + 1 < len(order.lines)
            start = len(self.held)
            for index, overdue, by_share in orders.walk(line, order, shares):
                if most_releases is not None and len(self.placed) >= most_releases:
                    self._leave(order, rank)
                    return order
                if rank >= next_check:
                    next_check += next_check // 4
                    passed = self._without_room()
                    if all(passed):
                        self._leave(order, rank)
                        return order
                rank += 1
                keeps = overdue or others_behind or self._keepers < HEADS_KEPT
                if passed and passed[index] and not self._books(index, keeps=keeps):
                    self._pass_by([index], rank)
                    continue
                placed = self.settle(index, rank, overdue=overdue, keeps=keeps)
                if placed is not None:
                    placed.overdue, placed.by_share = overdue, by_share
                    self.placed.append(placed)
                    if placed.node >= 0:
                        shares.add(self.snapshot.waiting[index].tenant, placed.shape.asked)
            if others_behind:
                self._claim(start)
        return order

    def _seen(self) -> boards.Bools:
        seen = np.zeros(len(self.snapshot.waiting), dtype=np.bool_)
        for part in (self.placed, self.held):
            seen[[each.index for each in part]] = True
        seen[self.unasked] = True
        return seen

    def _leave(self, order: orders.Order, rank: int) -> None:
        """Note all that were not looked at, in order; shares do not count for them."""
        left = order.sequence[~self._seen()[order.sequence]].tolist()
        self._pass_by(left, rank + 1)

    def _pass_by(self, indices: Sequence[int], rank: int) -> None:
        """Note pods that are not looked at, the first with that rank."""
        self.unasked.extend(indices)
        self.unasked_ranks.extend(range(rank, rank + len(indices)))
        if self.claims:
            self.unasked_claims.extend(self._claim_before(index) for index in indices)
        else:
            self.unasked_claims.extend([None] * len(indices))

    def _books(self, index: int, *, keeps: bool) -> bool:
        """Say whether a pod without room may still be booked, so that others heed it."""
        if self.waits and len(self._short) < MOST_EXPECTED:
            return True
        if not keeps or self._keepers >= MOST_KEPT or self._vain >= MOST_VAIN:
            return False
        return not self.shapes.cast(self.mould_of[index]).hopeless

    def _claim_before(self, index: int) -> Claim | None:
        shape = self.shapes.known(self.picture.mould(self.snapshot.waiting[index]))
        if shape is None or not shape.full:
            return None
        node = self._claimed_from(shape)
        return (node, self.claims[node][1]) if node >= 0 else None

    def _without_room(self) -> list[bool]:
        """Return [W] whether nothing can open a pod any more in this tick; a seen one counts so."""
        if self._asking is None:
            self._asking = self._ask()
        moulds, number_of, clocked = self._asking
        shapes = [self.shapes.cast(mould) for mould in moulds]
        for shape in shapes:
            self.shapes.refresh(shape)
        full = np.array([shape.full for shape in shapes], dtype=np.bool_)
        return ((full[number_of] & ~clocked) | self._seen()).tolist()

    def _ask(self) -> tuple[list[pictures.Mould], npt.NDArray[np.int64], boards.Bools]:
        """Return all moulds, [W] the place of each pod's there, [W] whether a clock opens it."""
        waiting, at = self.snapshot.waiting, self.snapshot.at
        self.mould_of = mould_of = [self.picture.mould(each) for each in waiting]
        moulds = list(dict.fromkeys(mould_of))
        numbers = {mould: number for number, mould in enumerate(moulds)}
        clocks = (reasons.clock(each, self.choices, at) for each in waiting)
        return (
            moulds,
            np.array([numbers[mould] for mould in mould_of], dtype=np.int64),
            np.array([clock is not None and not clock.fits_only for clock in clocks]),
        )

    def run(self, most_releases: int | None = None) -> plans.Plan:
        """Decide on every pod and say why."""
        words = reasons.Words(self, self.walk(most_releases))
        releases = tuple(words.release(placed) for placed in self.placed)
        holds = [words.hold(held, place) for place, held in enumerate(self.held)]
        holds += words.later()
        return plans.Plan(
            releases=releases, holds=tuple(sorted(holds, key=operator.attrgetter("rank")))
        )

    def settle(
        self, index: int, rank: int, *, overdue: bool = False, keeps: bool = False
    ) -> Placed | None:
        """Place or hold one pod; return where it goes, or None if it is held."""
        waiting = self.snapshot.waiting[index]
        shape = self.shapes.of(waiting)
        clock = reasons.clock(waiting, self.choices, self.snapshot.at)
        opens = clock is not None and not clock.fits_only
        if not shape.mould.ever and not opens:
            self.held.append(Held(index, rank, plans.HoldKind.NEVER, shape))
            return None
        self.shapes.refresh(shape)
        if shape.full:
            if clock is not None and opens:
                return Placed(index, rank, -1, shape, clock=clock.words)
            self._hold_for_room(index, rank, shape, keeps=keeps)
            return None
        slow = self.picture.speeds.of(waiting)
        kept = -1 if clock else self._known_blocked(shape, slow, waiting)
        node = -1 if kept >= 0 else self.best(shape, slow, waiting, heeds=not clock)
        if node < 0:
            if kept < 0:
                kept = self._kept_there(shape)
                state = (len(self.board.changed), waiting.duration.centre_s, kept)
                self._blocked[id(shape), id(slow)] = state
            self.held.append(
                Held(
                    index,
                    rank,
                    plans.HoldKind.ORDER,
                    shape,
                    fits=True,
                    node=kept,
                    kept_for=self.kept.get(kept, -1),
                )
            )
            return None
        if self.waits and not overdue and not clock and self.waiters < MOST_WAITS:
            held = self._wait(index, rank, node, shape=shape, slow=slow)
            if held is not None:
                self.held.append(held)
                return None
        fitting = self._fitting(shape, slow)
        ends_at = self.snapshot.at + self.snapshot.start_s
        ends_at += waiting.duration.centre_s * float(slow[node])
        self.board.take(node, shape.asked, ends_at=ends_at, holder=waiting.pod.key)
        self.first_end[node] = min(self.first_end[node], ends_at)
        return Placed(
            index,
            rank,
            node,
            shape,
            clock=clock.words if clock else "",
            ends_at=ends_at,
            fitting=fitting,
        )

    def best(
        self,
        shape: pictures.Shape,
        slow: boards.Floats,
        waiting: snapshots.Waiting,
        *,
        heeds: bool = True,
    ) -> int:
        """Return the node that ends a pod first among those with room; -1 if room is kept on all.

        Equal ones: as kube-scheduler spreads within a group, or, where a host is named, the
        fullest.  `heeds` = leave alone what is kept.
        """
        fits = shape.fits
        if heeds and self.board.firm:
            fits = fits.copy()
            for node in self.board.firm:
                if fits[node]:
                    lasts_s = self.snapshot.start_s + waiting.duration.centre_s * float(slow[node])
                    fits[node] = self.board.keeps_clear(node, shape.asked, lasts_s)
        places = np.flatnonzero(fits)
        if not len(places):
            return -1
        if self.places:
            times = slow[places]
            places = places[times <= times.min() * 1.001]
        if len(places) == 1:
            return int(places[0])
        whole = np.maximum(self.picture.whole[places, :2], 1.0)
        spare = (self.board.free[places, :2] / whole).sum(axis=1)
        packs = self.choices.placement.grain is settings.Grain.NODE
        return int(places[spare.argmin() if packs else spare.argmax()])

    def later(
        self, shape: pictures.Shape, slow: boards.Floats, length_s: float, *, below_s: float
    ) -> tuple[int, float, float]:
        """Return (node, start, end in seconds from now) of the earliest end on a node without room.

        Only ends before `below_s` count; (-1, NEVER, below_s) when there is none.
        """
        at, frees_s = self.snapshot.at, self.snapshot.frees_s
        runs_s = self.snapshot.start_s + length_s * slow
        could = shape.may & ~shape.fits & (runs_s < below_s)
        places = np.flatnonzero(could)
        # No node has room before something has ended there, so the search ends where even that
        # would be too late.
        least = np.maximum(self.first_end[places] - at, 0.0) + frees_s + runs_s[places]
        if len(places) > boards.LATER_NODES:
            first = np.argpartition(least, boards.LATER_NODES)[: boards.LATER_NODES]
            places, least = places[first], least[first]
        order = np.argsort(least, kind="stable")
        found = (-1, boards.NEVER, below_s)
        for node, least_s in zip(places[order].tolist(), least[order].tolist(), strict=True):
            if least_s >= found[2]:
                break
            lasts_s = float(runs_s[node])
            start = self.board.earliest(node, shape.asked, lasts_s, before=at + found[2] - lasts_s)
            end_s = start - at + lasts_s
            if end_s < found[2]:
                found = (node, start, end_s)
        return found

    def _fitting(self, shape: pictures.Shape, slow: boards.Floats) -> tuple[tuple[str, float], ...]:
        places = np.flatnonzero(shape.fits)
        best = self.picture.speeds.by_group(places, slow[places])
        return tuple((name, time) for name, time in best if time < boards.NEVER)

    def _wait(
        self,
        index: int,
        rank: int,
        node: int,
        *,
        shape: pictures.Shape,
        slow: boards.Floats,
    ) -> Held | None:
        waiting = self.snapshot.waiting[index]
        length_s = waiting.duration.centre_s
        now_s = self.snapshot.start_s + length_s * float(slow[node])
        bound_s = (1.0 - CLEARLY) * now_s
        if not (shape.may & (self.snapshot.start_s + length_s * slow < bound_s)).any():
            return None
        self._expect()
        there, start, end_s = self.later(shape, slow, length_s, below_s=bound_s)
        if there < 0:
            return None
        self.waiters += 1
        self.board.book(
            there,
            shape.asked,
            start,
            ends_at=self.snapshot.at + end_s,
            grip=boards.Grip.SOFT,
            holder=waiting.pod.key,
        )
        return Held(
            index,
            rank,
            plans.HoldKind.WAIT,
            shape,
            fits=True,
            node=there,
            instead=node,
            until=start,
            lasts_s=end_s - (start - self.snapshot.at),
        )

    def _expect(self) -> None:
        """Book the later starts of those who go first and have no room now."""
        while self._short and self._expected < MOST_EXPECTED:
            self._expected += 1
            held = self._short.pop(0)
            self._book(held, boards.Grip.SOFT)

    def _book(self, held: Held, grip: boards.Grip) -> bool:
        shape = held.shape
        if shape.hopeless or self._vain >= MOST_VAIN:
            return False
        if not (shape.may & (self.first_end < boards.NEVER)).any():
            shape.hopeless = True
            return False
        waiting = self.snapshot.waiting[held.index]
        slow = self.picture.speeds.of(waiting)
        node, start, end_s = self.later(
            shape, slow, waiting.duration.centre_s, below_s=boards.NEVER
        )
        if node < 0:
            shape.hopeless = True
            self._vain += 1
            return False
        self.board.book(
            node,
            shape.asked,
            start,
            ends_at=self.snapshot.at + end_s,
            grip=grip,
            holder=waiting.pod.key,
        )
        held.node, held.until = node, start
        return True

    def _hold_for_room(self, index: int, rank: int, shape: pictures.Shape, *, keeps: bool) -> None:
        kind = plans.HoldKind.ORDER if shape.fitted else plans.HoldKind.ROOM
        held = Held(index, rank, kind, shape)
        self.held.append(held)
        node = self._claimed_from(shape)
        if node >= 0:
            held.kind, held.fits, held.node = plans.HoldKind.ORDER, True, node
            held.kept_for = self.claims[node][1]
            return
        if keeps and self._keepers < MOST_KEPT and self._book(held, boards.Grip.FIRM):
            self._keepers += 1
            self.kept.setdefault(held.node, index)
        elif self.waits and len(self._short) < MOST_EXPECTED:
            self._short.append(held)

    def _claimed_from(self, shape: pictures.Shape) -> int:
        """Return the first node that would have room but for what is claimed there; -1 for none.

        What is free or claimed on a node only shrinks, so each is passed by once for a shape.
        """
        if shape.claims_seen < len(self.board.changed):
            shape.claims_seen = len(self.board.changed)
            while shape.claimed < len(self._claimed):
                node = self._claimed[shape.claimed]
                free = self.board.free[node].tolist()
                whole = [a + b for a, b in zip(free, self.claims[node][0], strict=True)]
                if shape.may[node] and boards.holds(whole, shape.asked):
                    break
                shape.claimed += 1
        return self._claimed[shape.claimed] if shape.claimed < len(self._claimed) else -1

    def _known_blocked(
        self, shape: pictures.Shape, slow: boards.Floats, waiting: snapshots.Waiting
    ) -> int:
        """Return the node of an equal or shorter pod that was just held for kept room, or -1."""
        changes, from_s, kept = self._blocked.get((id(shape), id(slow)), (-1, 0.0, -1))
        known = changes == len(self.board.changed) and waiting.duration.centre_s >= from_s
        return kept if known else -1

    def _kept_there(self, shape: pictures.Shape) -> int:
        return next((node for node in self.kept if shape.fits[node]), -1)

    def _claim(self, start: int) -> None:
        """Keep those with lower priority from room that a held pod of this tier could use now."""
        for held in self.held[start:]:
            if not held.fits:
                continue
            self.shapes.refresh(held.shape)
            if not held.shape.full:
                places = np.flatnonzero(held.shape.fits)
                node = held.instead if held.instead in places else int(places[0])
                before = (
                    self.claims[node][0] if node in self.claims else (0.0,) * len(held.shape.asked)
                )
                total = tuple(a + b for a, b in zip(before, held.shape.asked, strict=True))
                if node not in self.claims:
                    self._claimed.append(node)
                self.claims[node] = (total, held.index)
                self.board.claim(node, held.shape.asked)
