"""What a policy sees: one frozen picture of groups, room, waiting pods and what runs.

The operator makes it from its caches, the simulator from its state; policies cannot tell which.
"""

import dataclasses

from tiphys.models.domain import amounts, clusters, pods

START_S = 3.0
"""Binding, images and Argo's init container where nothing was seen yet (reference runs)."""
FREES_S = 3.0
"""From the end of the work to free requests, Argo's wait container and the kubelet, where nothing
was seen yet (reference runs: 2 to 4)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """How long something takes, and how sure that is."""

    centre_s: float
    """Median run time at speed 1 of its group, seconds, without start-up."""
    spread_s: float = 0.0
    """Half of the distance between the quartiles, seconds."""
    count: int = 0
    """Observed runs behind it; 0 = a guess."""
    basis: str = "default"
    """`history`, `siblings` (other templates of the same workflow or image) or `default`."""

    @property
    def cold(self) -> bool:
        """Say whether no run of this very task stands behind it."""
        return self.basis != "history"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A node with what is still free on it."""

    node: clusters.Node
    group: str
    free: amounts.Amounts
    """Allocatable less what is bound, what was decided and is not bound yet, and requests that
    are freed only some seconds after an end."""
    frees_at: tuple[tuple[float, amounts.Amounts], ...] = ()
    """Estimated ends of what runs there: (unix seconds, requests), sorted by time."""
    holders: tuple[str, ...] = ()
    """Keys of the pods behind `frees_at`, in the same order; empty = not told."""
    lowest_priority: int | None = None
    """Of the pods that run there or are bound to it; None where there are none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One pod that may be released, with what is known of its workflow."""

    pod: pods.Pod
    workflow: str
    """`namespace/name`."""
    workflow_priority: int = 0
    workflow_created_at: float = 0.0
    duration: Estimate = Estimate(centre_s=60.0)
    """At speed 1."""
    group_factors: tuple[tuple[str, float], ...] = ()
    """Learned ratio of its run time in a group to `duration`; groups that are absent: see
    `Snapshot.group_factors`."""
    remaining_work: float = 0.0
    """Core seconds at speed 1 that its workflow still takes, this task included: of pods that
    large, which is more than they ask for where room is lost beside them (`footprints`)."""
    remaining_path_s: float = 0.0
    """Seconds at speed 1 from its start to the end of its workflow along the longest path
    (upward rank of HEFT, Topcuoglu 2002)."""
    deadline_at: float | None = None
    waiting_since: float = 0.0
    """When it was first gated (also over re-creations): unix seconds."""
    must_open_by: float | None = None
    """The slack of its Argo clocks is used then: it is opened whatever a policy says."""
    tenant: str = ""
    """Its namespace."""
    urgency_of: tuple[str, ...] = ()
    """Keys of workflows that wait for a mutex, semaphore or slot that its workflow holds."""
    urgency_priority: int = 0
    """Highest Workflow priority among those; they may have no pod yet."""
    labels: tuple[tuple[str, str], ...] = ()
    """What the rule table may select on: role, template, image, gpu model, …"""
    held_s: float = 0.0
    """Seconds in which it would have fitted and was held all the same (`Hold.fits`)."""
    near: tuple[str, ...] = ()
    """Nodes, sorted, of its placed siblings and inputs; empty = not told."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything that one decision may depend on."""

    at: float
    """Unix seconds."""
    version: int = 0
    """Rises with each change of the caches; the decision names it."""
    age_s: float = 0.0
    """How old the oldest cache behind it is, at most."""
    groups: tuple[clusters.Group, ...] = ()
    rooms: tuple[Room, ...] = ()
    """Sorted by node name."""
    waiting: tuple[Waiting, ...] = ()
    """Sorted by `waiting_since`, then key."""
    tenants: tuple[tuple[str, float, float], ...] = ()
    """Namespace, weight, dominant share used now (0 to 1)."""
    group_factors: tuple[tuple[str, float], ...] = ()
    """Learned ratio of run times in a group to those at speed 1, over all templates."""
    interval_s: float = 5.0
    """`scheduleInterval`."""
    start_s: float = START_S
    """Seconds from a release to the start of the work, the median of late."""
    frees_s: float = FREES_S
    """Seconds from the end of the work until its requests are free, the median of late."""
    tight_namespaces: tuple[str, ...] = ()
    """Namespaces, sorted, whose ResourceQuota is nearly used: a gated pod there keeps better ones
    from existing, so only what starts at once is let in."""
