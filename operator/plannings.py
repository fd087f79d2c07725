"""One plan over all gated pods, also where several policies are for them.

With one policy it is one call of the planner. With more, the tiers (PriorityClass, then Workflow
priority) are planned one after another, and within a tier policy after policy; pods of higher tiers
that are still held come along as claims, so that whatever a policy says nobody takes the room of
somebody who is more important.
"""

import dataclasses
from collections.abc import Sequence

from tiphys.models.domain import snapshots
from tiphys.models.planner import planners, plans
from tiphys.operator import policies

Tier = tuple[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """The pods for which one policy decides."""

    chosen: policies.Chosen
    waiting: tuple[snapshots.Waiting, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """What becomes of one pod, and who says so."""

    waiting: snapshots.Waiting
    chosen: policies.Chosen
    answer: plans.Release | plans.Hold


class Planning:
    """Plans again and again; keeps what the planner keeps between snapshots."""

    def __init__(self, most_releases: int) -> None:
        self._most = most_releases
        self._planners: dict[tuple[str, str], planners.Planner] = {}

    def plan(self, snapshot: snapshots.Snapshot, parts: Sequence[Part]) -> list[Planned]:
        """Return the answer for each pod of each part: releases in order first, then holds."""
        if len(parts) == 1:
            part = parts[0]
            scene = dataclasses.replace(snapshot, waiting=part.waiting)
            plan = self._planner(part).plan(
                scene, part.chosen.ranker, part.chosen.choices, most_releases=self._most
            )
            of_uid = {each.pod.uid: each for each in part.waiting}
            answers: list[plans.Release | plans.Hold] = [*plan.releases, *plan.holds]
            return [Planned(of_uid[each.uid], part.chosen, each) for each in answers]
        return self._tiers(snapshot, parts)

    def _planner(self, part: Part) -> planners.Planner:
        key = (part.chosen.choices.name, part.chosen.ranker.name)
        if len(self._planners) > 64:
            self._planners.clear()
        return self._planners.setdefault(key, planners.Planner())

    def _tiers(self, snapshot: snapshots.Snapshot, parts: Sequence[Part]) -> list[Planned]:
        releases: list[Planned] = []
        holds: list[Planned] = []
        rooms = {room.node.name: room for room in snapshot.rooms}
        for tier in sorted({_tier(w) for part in parts for w in part.waiting}, reverse=True):
            claims = tuple(held.waiting for held in holds)
            for part in parts:
                mine = {each.pod.uid: each for each in part.waiting if _tier(each) == tier}
                if not mine:
                    continue
                scene = dataclasses.replace(
                    snapshot,
                    rooms=tuple(rooms.values()),
                    waiting=_sorted([*claims, *mine.values()]),
                )
                plan = self._planner(part).plan(
                    scene,
                    part.chosen.ranker,
                    part.chosen.choices,
                    most_releases=self._most + len(claims),
                )
                for release in plan.releases:
                    if release.uid in mine:
                        releases.append(Planned(mine[release.uid], part.chosen, release))
                        _take(rooms, release.node, mine[release.uid])
                holds.extend(
                    Planned(mine[hold.uid], part.chosen, hold)
                    for hold in plan.holds
                    if hold.uid in mine
                )
        return [*releases, *holds]


def parts(
    waiting: Sequence[tuple[snapshots.Waiting, policies.Chosen]],
) -> list[Part]:
    """Sort pods by who decides for them, policies by name."""
    found: dict[tuple[str, str], tuple[policies.Chosen, list[snapshots.Waiting]]] = {}
    for each, chosen in waiting:
        key = (chosen.choices.name, chosen.ranker.name)
        found.setdefault(key, (chosen, []))[1].append(each)
    return [Part(chosen, tuple(pods)) for _, (chosen, pods) in sorted(found.items())]


def _take(rooms: dict[str, snapshots.Room], node: str, waiting: snapshots.Waiting) -> None:
    room = rooms.get(node)
    if room is not None:
        rooms[node] = dataclasses.replace(room, free=room.free - waiting.pod.requests)


def _tier(waiting: snapshots.Waiting) -> Tier:
    return waiting.pod.priority, max(waiting.workflow_priority, waiting.urgency_priority)


def _sorted(waiting: Sequence[snapshots.Waiting]) -> tuple[snapshots.Waiting, ...]:
    return tuple(sorted(waiting, key=lambda each: (each.waiting_since, each.pod.key)))
