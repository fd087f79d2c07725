"""The cluster of one snapshot as arrays, and what a tick gives away or books on it.

Shapes: N nodes, R resources.  Amounts are in the units of `amounts` (millicores, bytes, counts) as
float64, which is exact up to 2^53.
"""

import dataclasses
import enum
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import amounts, snapshots

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Row = tuple[float, ...]
"""[R] amounts."""
NEXT_ENDS = 16
"""Next ends on a node that are looked at; later ones are too far off for a wait to pay."""
LATER_NODES = 32
"""Nodes that are asked when they will have room, those with the next end first."""
NEVER = math.inf


def expected(ends_at: float, at: float) -> float:
    """Return when a run ends that should have ended at `ends_at`.

    What is late by some time is expected to need half as long again, so that nobody waits for ever
    for an end that is always near.
    """
    return ends_at if ends_at >= at else at + 0.5 * (at - ends_at)


class Grip(enum.IntEnum):
    """How a change to come holds its room."""

    END = 0
    """The estimated end of something that runs."""
    SOFT = 1
    """A pod is expected to start then: counts where later pods ask what a wait would give."""
    FIRM = 2
    """Room is kept: nobody behind may start in its way (EASY backfilling, Lifka 1995)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What changes on a node at one moment."""

    time: float
    """Unix seconds."""
    amounts: Row
    """Added to what is free."""
    grip: Grip
    holder: str = ""
    """Key of the pod."""


class Resources:
    """Column of each resource; a new name gets the next one."""

    def __init__(self) -> None:
        self.places = {amounts.CPU: 0, amounts.MEMORY: 1, amounts.PODS: 2}

    def meet(self, asked: Iterable[amounts.Amounts]) -> bool:
        """Give every resource in `asked` a column; say whether there were new ones."""
        before = len(self.places)
        for each in asked:
            for name, _ in each.others:
                if name not in self.places:
                    self.places[name] = len(self.places)
        return len(self.places) > before

    def row(self, amount: amounts.Amounts) -> Row:
        """Return [R] amounts; resources without a column are left out."""
        row = [0.0] * len(self.places)
        row[0], row[1] = float(amount.cpu_m), float(amount.memory_bytes)
        for name, value in amount.others:
            place = self.places.get(name)
            if place is not None:
                row[place] = float(value)
        return tuple(row)


class Board:
    """Free room now and to come, less what this tick has given away."""

    def __init__(
        self,
        rooms: Sequence[snapshots.Room],
        free: Floats,
        resources: Resources,
        at: float,
        frees_s: float = snapshots.FREES_S,
    ) -> None:
        self.at = at
        self.frees_s = frees_s
        """From the end of a run until its requests are free."""
        self.rooms = rooms
        self.free = free
        """[N, R]; changed in place."""
        self.changed: list[int] = []
        """Nodes in the order in which something about them changed."""
        self.firm: set[int] = set()
        """Nodes on which room is kept."""
        self._resources = resources
        self._changes: dict[int, list[Change]] = {}

    def take(self, node: int, asked: Row, *, ends_at: float, holder: str) -> None:
        """Count a pod that starts now."""
        self._add(node, Change(ends_at + self.frees_s, asked, Grip.END, holder))
        self.free[node] -= asked
        self.changed.append(node)

    def claim(self, node: int, asked: Row) -> None:
        """Take room away from whoever comes later in this tick, for nobody that starts now."""
        self.free[node] -= asked
        self.changed.append(node)

    def book(
        self, node: int, asked: Row, starts_at: float, *, ends_at: float, grip: Grip, holder: str
    ) -> None:
        """Count a pod that is to start there later."""
        less = tuple(-amount for amount in asked)
        self._add(node, Change(starts_at, less, grip, holder))
        self._add(node, Change(ends_at, asked, grip, holder))
        if grip is Grip.FIRM:
            self.firm.add(node)
            self.changed.append(node)

    def changes(self, node: int) -> list[Change]:
        """Return what will change on a node, by time."""
        known = self._changes.get(node)
        if known is None:
            room = self.rooms[node]
            holders = room.holders or ("",) * len(room.frees_at)
            known = [
                Change(
                    expected(ends_at, self.at) + self.frees_s,
                    self._resources.row(amount),
                    Grip.END,
                    who,
                )
                for (ends_at, amount), who in zip(
                    room.frees_at[:NEXT_ENDS], holders[:NEXT_ENDS], strict=True
                )
            ]
            known.sort(key=lambda change: change.time)
            self._changes[node] = known
        return known

    def fits_on(self, node: int, asked: Row) -> bool:
        """Say whether one node has room now, whatever is booked."""
        return holds(self.free[node].tolist(), asked)

    def keeps_clear(self, node: int, asked: Row, lasts_s: float) -> bool:
        """Say whether a start now leaves alone what is kept there."""
        if node not in self.firm:
            return True
        return self._earliest(node, asked, lasts_s, heeds_soft=False) <= self.at

    def earliest(self, node: int, asked: Row, lasts_s: float, *, before: float = NEVER) -> float:
        """Return when a node has room for so long, all that is booked counted; or NEVER.

        A start at `before` (unix seconds) or later is of no use: NEVER may be said instead.
        """
        return self._earliest(node, asked, lasts_s, heeds_soft=True, before=before)

    def in_the_way(self, node: int, asked: Row) -> tuple[tuple[str, ...], float]:
        """Return who must end on a node before `asked` fits, and when that is expected."""
        free = self.free[node].tolist()
        holders: list[str] = []
        for change in self.changes(node):
            if holds(free, asked):
                break
            if change.grip is Grip.END:
                free = [have + more for have, more in zip(free, change.amounts, strict=True)]
                holders.append(change.holder)
                until = change.time
        if not holds(free, asked):
            return (), NEVER
        return tuple(holders), until if holders else self.at

    def _add(self, node: int, change: Change) -> None:
        changes = self.changes(node)
        place = len(changes)
        while place and changes[place - 1].time > change.time:
            place -= 1
        changes.insert(place, change)

    def _earliest(
        self, node: int, asked: Row, lasts_s: float, *, heeds_soft: bool, before: float = NEVER
    ) -> float:
        """Sweep over the changes once; a start holds if the room lasts as long as the run."""
        needs = [(place, amount) for place, amount in enumerate(asked) if amount > 0]
        free = self.free[node].tolist()
        start = self.at
        for place, amount in needs:
            if free[place] < amount:
                start = NEVER
        last = self.at
        for change in self.changes(node):
            if change.grip is Grip.SOFT and not heeds_soft:
                continue
            if change.time > last:
                # All that happens at `last` is counted: judge the stretch that begins there.
                if any(free[place] < amount for place, amount in needs):
                    start = NEVER
                elif start == NEVER:
                    start = last
                if change.time >= start + lasts_s:
                    return start
                if start == NEVER and change.time >= before:
                    return NEVER
                last = change.time
            for place, more in enumerate(change.amounts):
                free[place] += more
        if any(free[place] < amount for place, amount in needs):
            return NEVER
        return last if start == NEVER else start


def holds(free: Sequence[float], asked: Row) -> bool:
    """Say whether the free amounts are enough; what is not asked for may be over-committed."""
    return all(not amount or amount <= have for have, amount in zip(free, asked, strict=True))
