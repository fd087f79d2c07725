"""What a policy answers: an order of the waiting pods, each place with its reason."""

import dataclasses
from typing import Protocol

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import snapshots

Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One waiting pod in a policy's order."""

    uid: str
    """Uid of the pod."""
    score: float
    """Lower goes first."""
    reason: str
    """What the score rests on, in words."""


class Policy(Protocol):
    """An order of release.  Priorities, shares, overdue pods, room: the planner's."""

    @property
    def name(self) -> str:
        """Name of the PolicyVersion."""

    def rank(self, snapshot: snapshots.Snapshot, /) -> tuple[Ranked, ...]:
        """Return every waiting pod of the snapshot once, the first to go first."""


class Scorer(Policy, Protocol):
    """A policy that also scores as arrays, says how it places, and words its reasons when asked.

    The planner takes this way where there is one: 20,000 reasons a tick are not worth their time.
    """

    places: bool
    """Whether a group is chosen for each pod (earliest finish) or kube-scheduler finds it."""
    waits: bool
    """Whether a pod may be held while a busy faster node would end it clearly sooner."""

    def score(self, snapshot: snapshots.Snapshot, /) -> Floats:
        """Return [W, K] keys of the waiting pods, compared column by column, lower first."""

    def word(self, waiting: snapshots.Waiting, at: float, /) -> str:
        """Return what one pod's score rests on."""
