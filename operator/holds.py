"""What the last plan said of each pod that stays shut, for how long it could have gone, and why.

The leader's memory for `explain`: the holds of the last plan, and the whole decisions of the latest
releases, whose candidates and masks do not fit onto a pod.
"""

import collections
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from tiphys.models.domain import decisions, snapshots
from tiphys.models.planner import plans
from tiphys.operator import clocks, plannings

MOST_RELEASED = 5_000
INHERITED_S = 60.0
"""What an earlier leader counted for a pod that no plan held by then is forgotten."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One pod behind its gate, as the last plan saw it."""

    planned: plannings.Planned
    hold: plans.Hold
    snapshot_version: int
    snapshot_age_s: float
    at: float
    """Unix seconds of that plan."""


@dataclasses.dataclass(slots=True)
class _Fits:
    """For how long a pod could have gone, in seconds of the monotonic clock."""

    uid: str
    spent_s: float = 0.0
    since: float | None = None


class Holds:
    """Kept by the dispatcher, one loop, no locks."""

    def __init__(self, *, clock: clocks.Clock) -> None:
        self._clock = clock
        self._standing: dict[str, Standing] = {}
        self._fits: dict[str, _Fits] = {}
        self._inherited: dict[str, float] = {}
        """Seconds that an earlier leader counted, by uid, of pods that no plan has held yet."""
        self._began_s = clock.monotonic()
        self._released: collections.OrderedDict[str, decisions.Decision] = collections.OrderedDict()

    def take(self, held: Sequence[plannings.Planned], picture: snapshots.Snapshot) -> float:
        """Keep the holds of a plan; return in how many seconds a clock asks for the next."""
        now_s, soon_s = self._clock.monotonic(), float("inf")
        standing: dict[str, Standing] = {}
        fits: dict[str, _Fits] = {}
        for each in held:
            hold, waiting = each.answer, each.waiting
            assert isinstance(hold, plans.Hold)
            standing[hold.uid] = Standing(
                planned=each,
                hold=hold,
                snapshot_version=picture.version,
                snapshot_age_s=picture.age_s,
                at=picture.at,
            )
            known = self._fits.get(waiting.pod.key)
            if known is None or known.uid != hold.uid:
                known = _Fits(hold.uid, spent_s=self._inherited.pop(hold.uid, 0.0))
            if known.since is not None:
                known.spent_s += now_s - known.since
            known.since = now_s if hold.fits else None
            if hold.fits or known.spent_s:
                fits[waiting.pod.key] = known
            gate = each.chosen.choices.gate
            if hold.fits:
                soon_s = min(soon_s, gate.max_hold_s - known.spent_s)
            if gate.max_total_s is not None:
                soon_s = min(soon_s, waiting.waiting_since + gate.max_total_s - picture.at)
            if hold.kind is plans.HoldKind.WAIT and hold.until is not None:
                soon_s = min(soon_s, hold.until - picture.at)
            if waiting.must_open_by is not None:
                soon_s = min(soon_s, waiting.must_open_by - picture.at)
        for key, known in self._out_of_plans(fits, picture):
            if known.since is not None:
                known.spent_s, known.since = known.spent_s + now_s - known.since, None
            fits[key] = known
        self._standing, self._fits = standing, fits
        if now_s - self._began_s > INHERITED_S:
            self._inherited.clear()
        return soon_s

    def _out_of_plans(
        self, fits: Mapping[str, _Fits], picture: snapshots.Snapshot
    ) -> list[tuple[str, _Fits]]:
        """Return what was counted for pods whose gates are being opened, or could not be.

        One that a clock let go, and whose gate did not open, must not be held all over again.
        """
        left = [(key, known) for key, known in self._fits.items() if key not in fits]
        if not left:
            return []
        gated = {each.pod.uid for each in picture.waiting}
        return [(key, known) for key, known in left if known.uid in gated]

    def held_s(self, key: str) -> float:
        """Return for how long a pod would have fitted and was held, seconds; by its key."""
        known = self._fits.get(key)
        if known is None:
            return 0.0
        running_s = self._clock.monotonic() - known.since if known.since is not None else 0.0
        return known.spent_s + running_s

    @property
    def left_s(self) -> dict[str, float]:
        """For how long each pod would have fitted and was held, seconds, by uid."""
        counted = {known.uid: self.held_s(key) for key, known in self._fits.items()}
        return {**self._inherited, **counted}

    def let_go(self, decision: decisions.Decision) -> None:
        """Keep the whole decision of a release."""
        self._standing.pop(decision.pod_uid, None)
        self._released[decision.pod_uid] = decision
        while len(self._released) > MOST_RELEASED:
            self._released.popitem(last=False)

    def begin(self, held_s: Mapping[str, float]) -> None:
        """Forget all at the beginning of a term but what the last leader counted, by uid."""
        self._standing.clear()
        self._fits.clear()
        self._released.clear()
        self._inherited, self._began_s = dict(held_s), self._clock.monotonic()

    def standing(self, uid: str) -> Standing | None:
        """Return what the last plan said of a gated pod."""
        return self._standing.get(uid)

    def released(self, uid: str) -> decisions.Decision | None:
        """Return the decision that let a pod go, if it was among the latest."""
        return self._released.get(uid)

    def of_workflow(self, uid: str) -> Iterable[Standing]:
        """Return what the last plan said of the gated pods of a Workflow, in order of rank."""
        found = [s for s in self._standing.values() if s.planned.waiting.pod.workflow_uid == uid]
        return sorted(found, key=lambda each: each.hold.rank)


def default(kind: plans.HoldKind) -> str:
    """Return in words what kube-scheduler alone would do with a pod that is held for this."""
    if kind is plans.HoldKind.ROOM:
        return "kube-scheduler would try it again and again until a node has room"
    return "kube-scheduler would start it now, before those that go first here"
