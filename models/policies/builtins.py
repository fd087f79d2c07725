"""The hand-written policies by the name of their PolicyVersion (docs/policies.md has formulas)."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from tiphys.models.domain import durations, errors, snapshots
from tiphys.models.policies import rankings

FIFO = "builtin-fifo-v1"
SRWF = "builtin-srwf-v1"
SRWF_WAIT = "builtin-srwf-wait-v1"
HEFT = "builtin-heft-v1"
EDF = "builtin-edf-v1"
DEFAULT = SRWF_WAIT

Key = Callable[[snapshots.Waiting], float]
Words = Callable[[snapshots.Waiting, float], str]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A policy made of a key for each pod and the words for it; a `rankings.Scorer`."""

    name: str
    places: bool
    waits: bool
    keys: tuple[Key, ...]
    """Compared one after the other, lower first; ties go to whoever waits longer."""
    words: Words

    def score(self, snapshot: snapshots.Snapshot) -> rankings.Floats:
        """Return [W, K] keys of the waiting pods, in the snapshot's order."""
        waiting = snapshot.waiting
        columns = [np.fromiter(map(key, waiting), np.float64, len(waiting)) for key in self.keys]
        return np.stack(columns, axis=1)

    def word(self, waiting: snapshots.Waiting, at: float) -> str:
        """Return what one pod's score rests on."""
        return self.words(waiting, at)

    def rank(self, snapshot: snapshots.Snapshot) -> tuple[rankings.Ranked, ...]:
        """Return every waiting pod once, the first to go first."""
        scores = self.score(snapshot)
        keyed = [
            (*row, each.waiting_since, each.pod.key, place)
            for place, (row, each) in enumerate(zip(scores.tolist(), snapshot.waiting, strict=True))
        ]
        return tuple(
            rankings.Ranked(
                uid=snapshot.waiting[entry[-1]].pod.uid,
                score=float(entry[0]),
                reason=self.words(snapshot.waiting[entry[-1]], snapshot.at),
            )
            for entry in sorted(keyed)
        )


def named(name: str) -> Rule:
    """Return a built-in policy.  Raises `InputError` with the names that there are."""
    if name not in BUILTINS:
        raise errors.InputError(
            f"policy {name!r}: not built in; there are {', '.join(sorted(BUILTINS))}"
        )
    return BUILTINS[name]


def _since(waiting: snapshots.Waiting) -> float:
    return waiting.waiting_since


def _remaining_work(waiting: snapshots.Waiting) -> float:
    """Return the work that ends with its workflow; of a lock's holder also others wait for it."""
    return waiting.remaining_work / (1 + len(waiting.urgency_of))


def _less_path(waiting: snapshots.Waiting) -> float:
    return -waiting.remaining_path_s


def _due(waiting: snapshots.Waiting) -> float:
    return math.inf if waiting.deadline_at is None else waiting.deadline_at


def _work(waiting: snapshots.Waiting) -> str:
    return f"its workflow still needs {waiting.remaining_work / 3600:.2f} core hours"


def _path(waiting: snapshots.Waiting) -> str:
    return f"{durations.words(waiting.remaining_path_s)} lie ahead on its longest path"


def _deadline(waiting: snapshots.Waiting, at: float) -> str:
    if waiting.deadline_at is None:
        return "its workflow has no deadline"
    left_s = waiting.deadline_at - at
    if left_s < 0:
        return f"its workflow is {durations.words(-left_s)} past its deadline"
    return f"its workflow is due in {durations.words(left_s)}"


def _srwf(name: str, *, waits: bool) -> Rule:
    return Rule(
        name=name,
        places=True,
        waits=waits,
        keys=(_remaining_work, _less_path),
        words=lambda waiting, at: _work(waiting),
    )


BUILTINS: Mapping[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule(
            name=FIFO,
            places=False,
            waits=False,
            keys=(_since,),
            words=lambda waiting, at: (
                f"it has waited {durations.words(at - waiting.waiting_since)}"
            ),
        ),
        _srwf(SRWF, waits=False),
        _srwf(SRWF_WAIT, waits=True),
        Rule(
            name=HEFT,
            places=True,
            waits=True,
            keys=(_less_path,),
            words=lambda waiting, at: _path(waiting),
        ),
        Rule(
            name=EDF,
            places=True,
            waits=True,
            keys=(_due, _remaining_work, _less_path),
            words=_deadline,
        ),
    )
}
