"""How far nodes are from one another, and that no planner remembers without end."""

import dataclasses
import random

import numpy as np
import pytest

from tests.unit.planner import scenes
from tiphys.models.domain import clusters, pods, settings
from tiphys.models.planner import pictures, planners, speeds
from tiphys.models.policies import builtins

ZONE = "topology.kubernetes.io/zone"


def steps(one: clusters.Node, other: clusters.Node) -> int:
    """Return the steps between two nodes as docs/policies.md has them."""
    if one.name == other.name:
        return 0
    for far, key in ((1, settings.RACK), (2, ZONE)):
        if one.label(key) is not None and one.label(key) == other.label(key):
            return far
    return 3


@pytest.mark.parametrize("seed", range(20))
def test_distance_is_the_mean_of_the_steps_to_who_is_near(seed: int) -> None:
    """Host 0, rack 1, zone 2, else 3; nodes without a label and names that are gone as well."""
    rng = random.Random(seed)
    nodes = [
        clusters.Node(
            name=f"n{number}",
            labels=tuple(
                (key, rng.choice("abc"))
                for key in (settings.RACK, ZONE)
                if rng.random() < rng.choice((0.5, 1.0))
            ),
            allocatable=scenes.amount(8.0, 8.0),
        )
        for number in range(9)
    ]
    rooms = scenes.a_snapshot(nodes).rooms
    near = (*sorted(rng.sample([node.name for node in nodes], 4)), "gone")
    waiting = dataclasses.replace(scenes.a_waiting("a", cores=0.1), near=near)
    known = [node for node in nodes if node.name in near]
    expected = [
        1.0 + speeds.DISTANCE_COST * sum(steps(room.node, other) for other in known) / len(known)
        for room in rooms
    ]
    assert np.allclose(expected, speeds.Speeds(rooms, ()).of(waiting))


def test_who_is_near_and_what_is_asked_for_are_not_remembered_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Siblings move with each pod, a retry avoids a host of its own: each is an array of nodes."""
    monkeypatch.setattr(speeds, "MOST_KEPT", 5)
    monkeypatch.setattr(pictures, "MOST_MOULDS", 5)
    nodes = [scenes.a_node(f"n{number}") for number in range(4)]
    planner = planners.Planner()
    for number in range(40):
        avoids = pods.Expression(key=settings.HOSTNAME, operator="NotIn", values=(f"x{number}",))
        asked = pods.Constraints(required=((avoids,),))
        waiting = scenes.a_waiting(f"p{number}", constraints=asked)
        near = tuple(node.name for place, node in enumerate(nodes) if number >> place & 1)
        snapshot = scenes.a_snapshot(nodes, [dataclasses.replace(waiting, near=near)])
        plan = planner.plan(snapshot, builtins.named(builtins.DEFAULT), scenes.CHOICES)
        assert 1 == len(plan.releases)
    assert len(planner._picture.speeds._kept) <= 6
    assert len(planner._picture.masks._kept) <= 6
