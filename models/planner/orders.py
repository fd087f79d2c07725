"""Who goes before whom: priorities, overdue pods, shares of tenants, then the policy's order.

A tier is a pair (PriorityClass value, Workflow priority); a higher one goes first, always.  A pod
whose workflow holds a lock that others wait for takes the tier, lateness and key of the most urgent
of them (priority inheritance, Sha 1990).
"""

import dataclasses
import heapq
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tiphys.models.domain import settings, snapshots
from tiphys.models.planner import overdues
from tiphys.models.policies import rankings

Tier = tuple[int, int]
FLOOR = 0.5
"""Part of its weighted share below which a tenant with waiting pods goes before the policy's
order.  1 would be weighted dominant-resource fairness at each pick (Ghodsi 2011), 0 no sharing."""


@dataclasses.dataclass(slots=True)
class Line:
    """The waiting pods of one tier, by place in the snapshot."""

    tier: Tier
    overdue: list[int]
    """The longest waiting first."""
    by_tenant: dict[str, list[int]]
    """In the policy's order."""

    def __contains__(self, index: int) -> bool:
        return index in self.overdue or any(index in queue for queue in self.by_tenant.values())


@dataclasses.dataclass(slots=True)
class Order:
    """All lines, the highest tier first, and each pod's place in the policy's order."""

    lines: list[Line]
    place: npt.NDArray[np.int64]
    """[W] place in the policy's order over all tiers, for comparison between tenants."""
    sequence: npt.NDArray[np.int64]
    """[W] places in the snapshot by tier, lateness and the policy's order, without shares."""
    overdue_after_s: float
    reasons: Mapping[int, str]
    """Reasons of a policy that is no `Scorer`."""


def of(
    snapshot: snapshots.Snapshot,
    policy: rankings.Policy,
    choices: settings.PolicySettings,
    *,
    cores: float,
) -> Order:
    """Return the order of the waiting pods; `cores` as in `overdues.backlog_s`."""
    waiting = snapshot.waiting
    after_s = overdues.after_s(snapshot, choices, cores=cores)
    if not waiting:
        nothing = np.zeros(0, dtype=np.int64)
        return Order([], nothing, nothing, after_s, {})
    keys, reasons = _keys(snapshot, policy)
    count = len(waiting)
    if count == 1:
        return _alone(waiting[0], snapshot.at, after_s, reasons)
    tiers = np.empty((count, 2), dtype=np.int64)
    tiers[:, 0] = np.fromiter((each.pod.priority for each in waiting), np.int64, count)
    tiers[:, 1] = np.fromiter(
        (max(each.workflow_priority, each.urgency_priority) for each in waiting), np.int64, count
    )
    since = np.fromiter((each.waiting_since for each in waiting), np.float64, count)
    late = snapshot.at - since > after_s
    _inherit(waiting, tiers, keys, late)
    # The snapshot is sorted by (waiting_since, key); lexsort is stable, so ties keep that order.
    sequence = np.lexsort((*reversed(keys.T), ~late, -tiers[:, 1], -tiers[:, 0]))
    place = np.empty(count, dtype=np.int64)
    place[np.lexsort(tuple(reversed(keys.T)))] = np.arange(count)
    lines: list[Line] = []
    ordered = tiers[sequence]
    starts = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1)) + 1
    for part in np.split(sequence, starts):
        first = part[0]
        line = Line((int(tiers[first, 0]), int(tiers[first, 1])), part[late[part]].tolist(), {})
        line.overdue.sort()
        for index in part[~late[part]].tolist():
            line.by_tenant.setdefault(waiting[index].tenant, []).append(index)
        lines.append(line)
    return Order(lines, place, sequence, after_s, reasons)


def _alone(only: snapshots.Waiting, at: float, after_s: float, reasons: Mapping[int, str]) -> Order:
    """Return the order of one pod: most admissions ask for no other."""
    tier = (only.pod.priority, max(only.workflow_priority, only.urgency_priority))
    late = at - only.waiting_since > after_s
    line = Line(tier, [0], {}) if late else Line(tier, [], {only.tenant: [0]})
    first = np.zeros(1, dtype=np.int64)
    return Order([line], first, first, after_s, reasons)


def _keys(
    snapshot: snapshots.Snapshot, policy: rankings.Policy
) -> tuple[rankings.Floats, dict[int, str]]:
    score = getattr(policy, "score", None)
    if score is not None:
        return np.asarray(score(snapshot), dtype=np.float64), {}
    places = {waiting.pod.uid: place for place, waiting in enumerate(snapshot.waiting)}
    keys = np.full((len(places), 1), float(len(places)))
    reasons = {}
    for number, ranked in enumerate(policy.rank(snapshot)):
        keys[places[ranked.uid], 0] = number
        reasons[places[ranked.uid]] = ranked.reason
    return keys, reasons


def _inherit(
    waiting: Sequence[snapshots.Waiting],
    tiers: npt.NDArray[np.int64],
    keys: rankings.Floats,
    late: npt.NDArray[np.bool_],
) -> None:
    """Give holders of locks the urgency of the pods that are seen to wait for them."""
    holders = [index for index, each in enumerate(waiting) if each.urgency_of]
    if not holders:
        return
    of_workflow: dict[str, list[int]] = {}
    for index, each in enumerate(waiting):
        of_workflow.setdefault(each.workflow, []).append(index)
    for index in holders:
        for workflow in waiting[index].urgency_of:
            for other in of_workflow.get(workflow, ()):
                tiers[index] = max(tiers[index].tolist(), tiers[other].tolist())
                keys[index] = min(keys[index].tolist(), keys[other].tolist())
                late[index] |= late[other]


class Shares:
    """Dominant shares of the tenants as a tick goes on (Ghodsi 2011)."""

    def __init__(
        self,
        snapshot: snapshots.Snapshot,
        choices: settings.PolicySettings,
        capacity: Sequence[float],
    ) -> None:
        known = {name: (weight, share) for name, weight, share in snapshot.tenants}
        weights = dict(choices.tenant_weights)
        active = {each.tenant for each in snapshot.waiting}
        active |= {name for name, (_, share) in known.items() if share > 0}
        weight = {
            name: weights.get(name, known[name][0] if name in known else 1.0) for name in active
        }
        total = sum(weight.values()) or 1.0
        self._entitled = {name: each / total for name, each in weight.items()}
        self._used = {name: known[name][1] if name in known else 0.0 for name in active}
        self._capacity = capacity

    def used(self, tenant: str) -> float:
        """Return used share over entitled share; below FLOOR a tenant goes first."""
        return self._used[tenant] / self._entitled[tenant]

    def add(self, tenant: str, asked: Sequence[float]) -> None:
        """Count a pod of a tenant."""
        self._used[tenant] += max(
            (amount / have for amount, have in zip(asked, self._capacity, strict=True) if have),
            default=0.0,
        )


def walk(line: Line, order: Order, shares: Shares) -> Iterator[tuple[int, bool, bool]]:
    """Yield (place in the snapshot, overdue, ahead by share) of a line, in turn.

    The caller adds to `shares` what it places before it asks for the next.
    """
    for index in line.overdue:
        yield index, True, False
    if len(line.by_tenant) == 1:
        for index in next(iter(line.by_tenant.values())):
            yield index, False, False
        return
    # Two heaps over the heads of the queues. Only the tenant that was picked can have changed, so
    # an entry is stale only if its head has gone: a step costs log(tenants), not tenants.
    queues = {
        tenant: iter(zip(order.place[queue].tolist(), queue, strict=True))
        for tenant, queue in line.by_tenant.items()
    }
    heads = [(*next(queue), tenant) for tenant, queue in queues.items()]
    poor = [(shares.used(tenant), place, index, tenant) for place, index, tenant in heads]
    heapq.heapify(heads)
    heapq.heapify(poor)
    gone: set[int] = set()
    while True:
        while heads and heads[0][1] in gone:
            gone.remove(heapq.heappop(heads)[1])
        if not heads:
            return
        while poor[0][2] in gone:
            gone.remove(heapq.heappop(poor)[2])
        used, _, index, tenant = poor[0]
        by_share = used < FLOOR and index != heads[0][1]
        if by_share:
            heapq.heappop(poor)
        else:
            _, index, tenant = heapq.heappop(heads)
        gone.add(index)
        yield index, False, by_share
        following = next(queues[tenant], None)
        if following is not None:
            heapq.heappush(heads, (*following, tenant))
            heapq.heappush(poor, (shares.used(tenant), *following, tenant))
