"""How nodes are grouped, and where pods may run at all."""

import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.planner import scenes
from tiphys.models.domain import clusters, constraints, pods, settings
from tiphys.models.planner import groups, masks

KEYS = settings.Placement().topology_keys


def test_nodes_of_one_type_and_rack_are_a_group() -> None:
    """The name joins the values, the selector is what a pod gets."""
    nodes = [
        scenes.a_node(name, rack=rack) for name, rack in (("b", "r1"), ("a", "r1"), ("c", "r2"))
    ]
    found, group_of = groups.of(nodes, KEYS)
    assert ["m5/r1", "m5/r2"] == [group.name for group in found]
    assert ("a", "b") == found[0].nodes
    assert ((settings.INSTANCE_TYPE, "m5"), (settings.RACK, "r1")) == found[0].selector
    assert "m5/r2" == group_of["c"]


def test_a_node_without_a_label_is_other() -> None:
    """Its pods get no placement, so the group has no selector."""
    bare = clusters.Node(name="x")
    found, group_of = groups.of([bare, scenes.a_node("a")], KEYS)
    assert clusters.OTHER == group_of["x"]
    assert () == next(group for group in found if group.name == clusters.OTHER).selector


def test_too_many_groups_drop_the_last_key() -> None:
    """40 racks of two types are two groups."""
    nodes = [scenes.a_node(f"n{n}", kind=f"k{n % 2}", rack=f"r{n}") for n in range(40)]
    assert ["k0", "k1"] == [group.name for group in groups.of(nodes, KEYS)[0]]


def test_with_one_key_left_the_smallest_merge() -> None:
    """There are 32 at most, `other` among them, and the largest keep their names."""
    nodes = [
        scenes.a_node(f"n{kind}-{n}", kind=f"k{kind:02d}", rack=f"r{n}")
        for kind in range(40)
        for n in range(1 + kind)
    ]
    found, _ = groups.of(nodes, KEYS)
    assert groups.MOST == len(found)
    assert sum(len(group.nodes) for group in found) == len(nodes)
    other = next(group for group in found if group.name == clusters.OTHER)
    assert sum(range(1, 10)) == len(other.nodes)


SPOT = clusters.Taint(key="spot", value="yes")


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (pods.Constraints(), "taint spot=yes:NoSchedule"),
        (pods.Constraints(tolerations=(pods.Toleration(operator="Exists"),)), ""),
        (pods.Constraints(tolerations=(pods.Toleration(key="spot", value="no"),)), "taint"),
        (pods.Constraints(tolerations=(pods.Toleration(key="spot", value="yes"),)), ""),
        (
            pods.Constraints(
                tolerations=(pods.Toleration(key="spot", operator="Exists", effect="NoExecute"),)
            ),
            "taint",
        ),
    ],
)
def test_taints_are_matched_as_kubernetes_does(asked: pods.Constraints, why: str) -> None:
    """Key, value, effect, and the toleration of everything."""
    found = masks.refusal(asked, (), scenes.a_node("n", taints=(SPOT,)))
    assert found.startswith(why)
    assert bool(found) == bool(why)


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ("4", "8"), True),
        ("NotIn", ("8",), False),
        ("Exists", (), True),
        ("DoesNotExist", (), False),
        ("Gt", ("7",), True),
        ("Lt", ("8",), False),
        ("Gt", ("x",), False),
    ],
)
def test_expressions_of_required_affinity(
    operator: str, values: tuple[str, ...], fits: bool
) -> None:
    """Every operator; a value that is no number never compares."""
    node = scenes.a_node("n", labels=(("cores", "8"),))
    term = (pods.Expression(key="cores", operator=operator, values=values),)
    assert fits == (not masks.refusal(pods.Constraints(required=(term,)), (), node))


def test_one_term_is_enough_and_an_empty_one_is_none() -> None:
    """Terms are alternatives, expressions within one are not."""
    node = scenes.a_node("n")
    bad = pods.Expression(key="x", operator="Exists")
    good = pods.Expression(key="metadata.name", operator="In", values=("n",), on_field=True)
    assert not masks.refusal(pods.Constraints(required=((bad,), (good,))), (), node)
    assert masks.refusal(pods.Constraints(required=((bad, good),)), (), node)
    assert masks.refusal(pods.Constraints(required=((),)), (), node)


@hypothesis_settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_arrays_say_what_the_rule_for_one_node_says(seed: int) -> None:
    """Masks over kinds of nodes equal the word for each single node."""
    snapshot = scenes.drawn(seed)
    rng = random.Random(seed)
    rules = constraints.read(
        [
            {"name": "a", "use": [{"what": "rack", "mustNot": [rng.choice(("r1", "r2"))]}]},
            {"name": "b", "when": {"role": ["x"]}, "use": [{"what": "node", "must": ["n0*"]}]},
        ]
    )
    nodes = [room.node for room in snapshot.rooms]
    known = masks.Masks(nodes, rules)
    for waiting in snapshot.waiting:
        signature = known.signature(waiting)
        expected = [
            not masks.refusal(waiting.pod.constraints, known.rules_of(signature), node)
            for node in nodes
        ]
        assert expected == known.allowed(signature).tolist()
