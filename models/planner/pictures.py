"""One snapshot as arrays; what did not change since the last one is kept.

Nodes and rooms are frozen values, so an unchanged one is the same object: comparing identities
tells in microseconds what must be read again.
"""

import dataclasses
import itertools
import operator
from collections.abc import Sequence

import numpy as np

from tiphys.models.domain import amounts, clusters, constraints, settings, snapshots
from tiphys.models.planner import boards, masks, speeds

MOST_MOULDS = 4096
"""Moulds that are kept; with more kinds of pods than this they are made anew."""

SPARE_MOULDED = 1_000
"""Pods whose mould is kept beyond twice those that wait: new at admission, or ended."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Mould:
    """What of a shape does not change from tick to tick."""

    signature: masks.Signature
    requests: amounts.Amounts
    asked: boards.Row
    may: boards.Bools
    """[N] nodes that its constraints allow and that take pods at all."""
    ever: bool
    """Some node could hold it, were it empty and not cordoned."""
    reach: int
    """The same number for all that may use the same nodes; one of its own if that is none."""


@dataclasses.dataclass(slots=True, eq=False)
class Shape:
    """What pods have in common that may run on the same nodes and ask for the same."""

    mould: Mould
    fits: boards.Bools
    """[N] nodes of `mould.may` with room now; follows the board (`Shapes.refresh`)."""
    fitted: bool
    """Some node had room when the tick began."""
    seen: int = 0
    """Changes of the board that `fits` knows of."""
    full: bool = False
    """Nothing has room for it any more in this tick."""
    hopeless: bool = False
    """Nor will anything have, as far as ends are known: what a tick does never changes that."""
    claimed: int = 0
    """Claimed nodes that do not have its room even with what is claimed there, in their order."""
    claims_seen: int = -1
    """Changes of the board that `claimed` knows of."""

    @property
    def asked(self) -> boards.Row:
        """[R] what it asks for."""
        return self.mould.asked

    @property
    def may(self) -> boards.Bools:
        """[N] nodes that its constraints allow and that take pods at all."""
        return self.mould.may


class Picture:
    """Nodes and rooms as arrays: N nodes sorted as in the snapshot, R resources."""

    def __init__(self) -> None:
        self.resources = boards.Resources()
        self.rooms: tuple[snapshots.Room, ...] = ()
        self.free: boards.Floats = np.zeros((0, 3))
        """[N, R] as the snapshot says it."""
        self.whole: boards.Floats = np.zeros((0, 3))
        """[N, R] allocatable."""
        self.open: boards.Bools = np.zeros(0, dtype=np.bool_)
        """[N] neither cordoned nor leaving."""
        self.first_end: boards.Floats = np.zeros(0)
        """[N] when the first of what runs there is expected to end, unix seconds."""
        self.masks = masks.Masks((), ())
        self.speeds = speeds.Speeds((), ())
        self.cores = 0.0
        """Cores of all nodes, each counted by the speed of its group."""
        self.selectors: dict[str, clusters.Group] = {}
        self._moulds: dict[tuple[masks.Signature, amounts.Amounts], Mould] = {}
        self._reaches: dict[bytes, int] = {}
        self._pods: dict[str, object] = {}
        self._labels: dict[str, object] = {}
        self._moulded: dict[str, Mould] = {}
        """By uid, as pod and labels were; three plain ones, since 20,000 tuples are work for the
        garbage collector."""
        self._rules: tuple[constraints.Rule, ...] = ()
        self._factors: tuple[tuple[str, float], ...] = ()
        self._groups: tuple[clusters.Group, ...] = ()

    def see(
        self,
        snapshot: snapshots.Snapshot,
        choices: settings.PolicySettings,
        asked: Sequence[snapshots.Waiting],
    ) -> None:
        """Bring the arrays up to a snapshot; `asked` are the pods that will be planned."""
        grown = self.resources.meet(each.pod.requests for each in asked)
        before, self.rooms = self.rooms, snapshot.rooms
        changed = _changed(before, self.rooms)
        same_nodes = changed is not None and all(
            before[place].node is self.rooms[place].node for place in changed
        )
        most = SPARE_MOULDED + 2 * len(snapshot.waiting)
        if grown or len(self._moulds) > MOST_MOULDS or len(self._moulded) > most:
            self._forget()
        if grown or not same_nodes:
            width = len(self.resources.places)
            self.free = np.zeros((len(self.rooms), width))
            self.whole = np.zeros((len(self.rooms), width))
            self.first_end = np.full(len(self.rooms), np.inf)
            for place, room in enumerate(self.rooms):
                self.whole[place] = self.resources.row(room.node.allocatable)
                self._read(place, room)
            self.open = np.array([room.node.schedulable for room in self.rooms], dtype=np.bool_)
        else:
            for place in changed or ():
                self._read(place, self.rooms[place])
        if not same_nodes or self._rules is not choices.rules:
            self._rules = choices.rules
            self.masks = masks.Masks([room.node for room in self.rooms], choices.rules)
            self._forget()
        same_groups = same_nodes and all(
            before[place].group == self.rooms[place].group for place in changed or ()
        )
        if not same_groups or self._factors != snapshot.group_factors:
            self._factors = snapshot.group_factors
            self.speeds = speeds.Speeds(self.rooms, snapshot.group_factors)
            factors = dict(snapshot.group_factors)
            self.cores = sum(
                room.node.allocatable.cpu_m / 1000 / factors.get(room.group, 1.0)
                for room in self.rooms
            )
        self.speeds.bound()
        if self._groups is not snapshot.groups:
            self._groups = snapshot.groups
            self.selectors = {group.name: group for group in snapshot.groups}

    def capacity(self) -> boards.Floats:
        """Return [R] allocatable of all nodes together."""
        return np.asarray(self.whole.sum(axis=0))

    def mould(self, waiting: snapshots.Waiting) -> Mould:
        """Return what stays the same of a pod's shape while the nodes do."""
        uid = waiting.pod.uid
        if self._pods.get(uid) is waiting.pod and self._labels.get(uid) is waiting.labels:
            return self._moulded[uid]
        signature = self.masks.signature(waiting)
        requests = waiting.pod.requests
        mould = self._moulds.get((signature, requests))
        if mould is None:
            asked = self.resources.row(requests)
            could = self.could(signature, asked)
            may = could & self.open
            nodes = may.tobytes() if may.any() else str(len(self._moulds)).encode()
            reach = self._reaches.setdefault(nodes, len(self._reaches))
            mould = Mould(signature, requests, asked, may, bool(could.any()), reach)
            self._moulds[signature, requests] = mould
        self._pods[uid], self._labels[uid], self._moulded[uid] = waiting.pod, waiting.labels, mould
        return mould

    def could(self, signature: masks.Signature, asked: boards.Row) -> boards.Bools:
        """Return [N] whether a node would do, were it empty and not cordoned."""
        could = self.masks.allowed(signature).copy()
        for place, amount in enumerate(asked):
            if amount > 0:
                could &= self.whole[:, place] >= amount
        return could

    def _forget(self) -> None:
        for kept in (self._moulds, self._reaches, self._pods, self._labels, self._moulded):
            kept.clear()
        self.masks.forget()

    def _read(self, place: int, room: snapshots.Room) -> None:
        self.free[place] = self.resources.row(room.free)
        self.first_end[place] = room.frees_at[0][0] if room.frees_at else np.inf


def _changed(
    before: tuple[snapshots.Room, ...], after: tuple[snapshots.Room, ...]
) -> Sequence[int] | None:
    """Return the places of the rooms that are other objects now; None if their number changed."""
    if before is after:
        return ()
    if len(before) != len(after):
        return None
    # 5,000 comparisons in C: this is asked at each admission.
    return tuple(itertools.compress(itertools.count(), map(operator.is_not, before, after)))


class Shapes:
    """The shapes of one tick, and what they know of its board."""

    def __init__(self, picture: Picture, board: boards.Board) -> None:
        self._picture = picture
        self._board = board
        self._known: dict[int, Shape] = {}
        """By identity of the mould."""

    def of(self, waiting: snapshots.Waiting) -> Shape:
        """Return the shape of a pod."""
        return self.cast(self._picture.mould(waiting))

    def cast(self, mould: Mould) -> Shape:
        """Return the shape of a mould."""
        known = self._known.get(id(mould))
        if known is None:
            known = self._known[id(mould)] = self._made(mould)
        return known

    def known(self, mould: Mould) -> Shape | None:
        """Return the shape of a mould if somebody has asked for it."""
        return self._known.get(id(mould))

    def refresh(self, shape: Shape) -> None:
        """Bring `fits` and `full` up to the board."""
        changed = self._board.changed
        if shape.full or shape.seen == len(changed):
            return
        for node in changed[shape.seen :]:
            if shape.fits[node] and not self._board.fits_on(node, shape.asked):
                shape.fits[node] = False
        shape.seen = len(changed)
        shape.full = not shape.fits.any()

    def _made(self, mould: Mould) -> Shape:
        picture, board = self._picture, self._board
        began = mould.may.copy()
        fits = mould.may.copy()
        for place, amount in enumerate(mould.asked):
            if amount > 0:
                began &= picture.free[:, place] >= amount
                fits &= board.free[:, place] >= amount
        return Shape(
            mould=mould,
            fits=fits,
            fitted=bool(began.any()),
            seen=len(board.changed),
            full=not fits.any(),
        )
