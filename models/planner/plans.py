"""What the planner answers: pods to release with their place, pods to hold with the reason."""

import dataclasses
import enum

from tiphys.models.domain import decisions


class HoldKind(enum.StrEnum):
    """Why a pod is held."""

    ROOM = "room"
    """No node that it may use has room for it."""
    ORDER = "order"
    """Others go first and take the room, or room is kept for them."""
    WAIT = "wait"
    """A busy faster node would end it clearly sooner than a free one."""
    SHARE = "share"
    """Its namespace already has its share and another one takes the room."""
    QUOTA = "quota"
    """Its namespace's quota is nearly used and it could not start at once."""
    NEVER = "never"
    """It can never be released by us: it must not be gated."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A pod whose gate opens."""

    uid: str
    placement: decisions.Placement
    node: str = ""
    """The host that is counted as used until it is bound; empty = none has room."""
    rank: int = 0
    """Place in the order, 1 is next."""
    reason: str = ""
    """One sentence."""
    candidates: tuple[decisions.Candidate, ...] = ()
    """Best first; scores are seconds from now to its estimated end."""
    masked: tuple[decisions.Masked, ...] = ()
    ends_at: float | None = None
    """Estimated end, unix seconds."""
    forced: bool = False
    """A clock opened it (Argo's, or `gate.maxHold`, `gate.maxTotal`), not its turn."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A pod whose gate stays shut."""

    uid: str
    kind: HoldKind
    reason: str
    """One sentence that names the blocker where there is one."""
    blocker: str = ""
    """Key of a pod or name of a node."""
    blockers: tuple[str, ...] = ()
    """All that would have to go for this pod to be the next one, `blocker` among them."""
    rank: int = 0
    fits: bool = False
    """Some node has room for it: this time counts towards `gate.maxHold`."""
    until: float | None = None
    """When it is expected to go, unix seconds; None = not known."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One tick: every waiting pod is in exactly one of both."""

    releases: tuple[Release, ...] = ()
    """In the order in which the gates open."""
    holds: tuple[Hold, ...] = ()
    """In order of rank."""
