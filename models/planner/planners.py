"""`plan` for all waiting pods and `admit` for one that is being created."""

from tiphys.models.domain import amounts, decisions, settings, snapshots
from tiphys.models.planner import plans
from tiphys.models.policies import rankings


def plan(
    snapshot: snapshots.Snapshot, policy: rankings.Policy, choices: settings.PolicySettings
) -> plans.Plan:
    """Return which pods are released now, in order, and why the others are held."""
    return Planner().plan(snapshot, policy, choices)


def admit(
    snapshot: snapshots.Snapshot,
    waiting: snapshots.Waiting,
    policy: rankings.Policy,
    choices: settings.PolicySettings,
) -> plans.Release | plans.Hold:
    """Return what happens to a pod that is being created.

    `Planner.admit` is the quick way for many pods on one snapshot.
    """
    return Planner().admit(snapshot, waiting, policy, choices)


class Planner:
    """Plans tick after tick; keeps what does not change between snapshots."""

    def plan(
        self,
        snapshot: snapshots.Snapshot,
        policy: rankings.Policy,
        choices: settings.PolicySettings,
    ) -> plans.Plan:
        """Return which pods are released now, in order, and why the others are held."""
        free = {room.node.name: room.free for room in snapshot.rooms}
        by_uid = {waiting.pod.uid: waiting for waiting in snapshot.waiting}
        releases: list[plans.Release] = []
        holds: list[plans.Hold] = []
        for place, ranked in enumerate(policy.rank(snapshot), start=1):
            requests = by_uid[ranked.uid].pod.requests
            node = _first_fit(free, requests)
            if node:
                free[node] = free[node] - requests
                releases.append(
                    plans.Release(
                        uid=ranked.uid,
                        placement=decisions.Placement(),
                        node=node,
                        rank=place,
                        reason=ranked.reason,
                    )
                )
            else:
                holds.append(
                    plans.Hold(
                        uid=ranked.uid,
                        kind=plans.HoldKind.ROOM,
                        reason="no node has room for it",
                        rank=place,
                    )
                )
        return plans.Plan(releases=tuple(releases), holds=tuple(holds))

    def admit(
        self,
        snapshot: snapshots.Snapshot,
        waiting: snapshots.Waiting,
        policy: rankings.Policy,
        choices: settings.PolicySettings,
    ) -> plans.Release | plans.Hold:
        """Return what happens to a pod that is being created."""
        if not snapshot.waiting:
            node = _first_fit({r.node.name: r.free for r in snapshot.rooms}, waiting.pod.requests)
            if node:
                return plans.Release(
                    uid=waiting.pod.uid,
                    placement=decisions.Placement(),
                    node=node,
                    rank=1,
                    reason="there is room and nothing waits",
                )
        return plans.Hold(
            uid=waiting.pod.uid, kind=plans.HoldKind.ORDER, reason="others wait before it"
        )


def _first_fit(free: dict[str, amounts.Amounts], requests: amounts.Amounts) -> str:
    return next((name for name, each in sorted(free.items()) if requests.fits(each)), "")
