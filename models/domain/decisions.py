"""A decision: one frozen value that logs, Events, annotations, stores and the command line print.

Two forms travel. The whole one (`Decision`) goes into the audit log and to `explain`; the compact
one (`Stamp`, at most `LONGEST_STAMP` bytes of canonical JSON) is signed and stands on the pod.
"""

import dataclasses
import enum

LONGEST_STAMP = 1024
ANNOTATION = "tiphys.dev/decision"
SIGNATURE = "tiphys.dev/signature"
RELEASE_ANNOTATION = "tiphys.dev/release"
RELEASE_SIGNATURE = "tiphys.dev/release-signature"
LABEL = "tiphys.dev/steered"
"""Stamped by the admission policy on pods that the webhook is sent; the releaser finds them so."""
GATED_LABEL = "tiphys.dev/gated"
WRITTEN = (ANNOTATION, SIGNATURE, RELEASE_ANNOTATION, RELEASE_SIGNATURE)
"""Annotations that only Tiphys writes."""
SPOKEN = "Tiphys: "
"""How reasons begin that the dispatcher writes into the condition PodScheduled."""


class Verdict(enum.StrEnum):
    """What happens to the pod."""

    PASS = "pass"
    """Untouched: not opted in, switched off, or something did not answer."""
    PLACE = "place"
    """Starts now, with its placement written."""
    GATE = "gate"
    """Waits behind our gate."""
    RELEASE = "release"
    """The gate opens."""
    SHADOW = "shadow"
    """What would have been done, recorded only."""


class Arm(enum.StrEnum):
    """Which version decided."""

    STABLE = "stable"
    CANARY = "canary"
    SHADOW = "shadow"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One group that could take the pod."""

    group: str
    score: float
    """Estimated end, seconds from now: lower is better."""
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Masked:
    """One group that could not, and why."""

    group: str
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """A container's requests as decided, with the originals beside them."""

    container: str
    cpu_m: int
    memory_bytes: int
    original_cpu_m: int
    original_memory_bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a pod should go; empty = anywhere."""

    group: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    """Labels of the group, sorted."""
    bind: str = "prefer"
    """`require`: nodeSelector; `prefer`: node affinity of weight 100."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gist:
    """What a decision says in each of its forms."""

    id: str
    """`d-` and 20 letters of base 32, unique."""
    verdict: Verdict
    pod: str
    """`namespace/name`."""
    admission_uid: str = ""
    pod_uid: str = ""
    workflow: str = ""
    workflow_uid: str = ""
    """Binds the decision to this run: a workflow of the same name made later has another."""
    snapshot_version: int = 0
    snapshot_age_s: float = 0.0
    policy: str = ""
    """Name of the PolicyVersion."""
    arm: Arm = Arm.STABLE
    bundle: str = ""
    """sha256 of the bundle; empty for built-in policies."""
    sizings: tuple[Sizing, ...] = ()
    placement: Placement = Placement()
    rank: int = 0
    """Place in the order of release at that moment, 1 is next."""
    reason: str = ""
    """One sentence in words."""
    issued_at: float = 0.0
    expires_at: float = 0.0
    nonce: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Gist):
    """One decision with everything that it rested on."""

    template: str = ""
    task: str = ""
    blocker: str = ""
    """Key of the pod or name of the node that it waits for, when there is one."""
    candidates: tuple[Candidate, ...] = ()
    masked: tuple[Masked, ...] = ()
    default: str = ""
    """What kube-scheduler alone would have done, in words."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stamp(Gist):
    """The compact form that stands on the pod: times in whole milliseconds, and the reason cut with
    an ellipsis where the whole would not keep to `LONGEST_STAMP`."""
