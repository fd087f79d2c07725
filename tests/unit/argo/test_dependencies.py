"""Laws of what tasks wait for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiphys.argo import dependencies

NAMES = [f"t{n}" for n in range(8)]
GRAPHS = st.lists(
    st.lists(st.sampled_from(NAMES), unique=True), min_size=len(NAMES), max_size=len(NAMES)
).map(lambda rows: {name: tuple(row) for name, row in zip(NAMES, rows, strict=True)})


@given(GRAPHS)
def test_any_graph_becomes_a_dag_in_order(graph: dict[str, tuple[str, ...]]) -> None:
    """Every task once, after what it waits for; no edge is invented."""
    order, _ = dependencies.ordered(graph)
    assert sorted(graph) == sorted(name for name, _ in order)
    done: set[str] = set()
    for name, parents in order:
        assert set(parents) <= done
        assert set(parents) <= set(graph[name])
        done.add(name)


@given(st.permutations(NAMES), st.data())
def test_a_dag_loses_no_edge(order: list[str], data: st.DataObject) -> None:
    """Whatever the order in which it is written."""
    graph = {
        name: tuple(data.draw(st.lists(st.sampled_from(order[:place]), unique=True)))
        if place
        else ()
        for place, name in enumerate(order)
    }
    shuffled = {name: graph[name] for name in sorted(graph)}
    found, cyclic = dependencies.ordered(shuffled)
    assert () == cyclic
    assert {name: set(parents) for name, parents in graph.items()} == {
        name: set(parents) for name, parents in found
    }


@given(GRAPHS)
def test_cycles_are_named_exactly_where_there_are_some(graph: dict[str, tuple[str, ...]]) -> None:
    """Named if and only if an edge had to go."""
    order, cyclic = dependencies.ordered(graph)
    lost = any(set(parents) != set(graph[name]) for name, parents in order)
    assert bool(cyclic) == lost


@pytest.mark.parametrize(
    ("depends", "expected"),
    [
        ("a", (("a",), False)),
        ("a && b", (("a", "b"), False)),
        ("(a.Succeeded) && b.Succeeded && a", (("a", "b"), False)),
        ("a.Succeeded || a.Failed", (("a",), True)),
        ("!task-1.Daemoned", (("task-1",), True)),
        ("a.AnySucceeded", (("a",), True)),
        ("0a && B-2", (("0a", "B-2"), False)),
        ("", ((), False)),
        ("&& (", ((), False)),
    ],
)
def test_depends(depends: str, expected: tuple[tuple[str, ...], bool]) -> None:
    """Names as Argo finds them, and whether the expression chooses."""
    assert expected == dependencies.read(depends)


@given(st.text(max_size=200))
def test_any_text_is_some_depends(text: str) -> None:
    """Nothing that a user writes there raises."""
    names, _ = dependencies.read(text)
    assert len(set(names)) == len(names)
