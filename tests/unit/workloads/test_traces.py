"""Orders, levels, longest paths and cycles of task graphs."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from lab.workloads import traces


@st.composite
def acyclic(draw: st.DrawFn) -> list[list[int]]:
    """Draw parents of up to 20 tasks, numbered at random."""
    count = draw(st.integers(1, 20))
    names = draw(st.permutations(range(count)))
    parents: list[list[int]] = [[] for _ in range(count)]
    for index in range(1, count):
        above = draw(st.sets(st.integers(0, index - 1), max_size=4))
        parents[names[index]] = sorted(names[parent] for parent in above)
    return parents


@given(parents=acyclic())
def test_parents_come_first(parents: list[list[int]]) -> None:
    """The order holds every task once, after all its parents, and there is no cycle."""
    order = traces.order_of(parents)
    assert list(range(len(parents))) == sorted(order)
    places = {index: place for place, index in enumerate(order)}
    assert all(places[above] < places[index] for index in order for above in parents[index])
    assert [] == traces.cycle_of(parents)


@given(parents=acyclic())
def test_the_longest_path_of_equal_tasks_is_the_depth(parents: list[list[int]]) -> None:
    """With weight 1 each the path counts the levels."""
    depth = 1 + max(traces.levels_of(parents))
    assert depth == traces.longest_path(parents, [1.0] * len(parents))


def test_a_cycle_is_found_behind_what_is_sound() -> None:
    """Tasks before and after it do not belong to it; an edge in it leads from parent to child."""
    parents = [[], [0, 3], [1], [2], [3]]
    cycle = traces.cycle_of(parents)
    assert {1, 2, 3} == set(cycle)
    assert all(parent in parents[child] for parent, child in itertools.pairwise(cycle))


def test_the_heavier_branch_is_the_longest_path() -> None:
    """Weights count, not the number of tasks."""
    assert 12.0 == traces.longest_path([[], [0], [1], [0], [2, 3]], [1.0, 1.0, 1.0, 9.0, 2.0])
