"""The orders that the built-in policies give."""

import pytest

from tests.unit.planner import scenes
from tiphys.models.domain import errors, snapshots
from tiphys.models.policies import builtins

A = scenes.a_waiting("a", work=900, path_s=10, waited_s=50, deadline_at=scenes.AT + 900)
B = scenes.a_waiting("b", work=100, path_s=300, waited_s=10)
C = scenes.a_waiting("c", work=500, path_s=80, waited_s=90, deadline_at=scenes.AT + 100)
SNAPSHOT = scenes.a_snapshot([scenes.a_node("n1")], [A, B, C])


def order(name: str, snapshot: snapshots.Snapshot = SNAPSHOT) -> str:
    """Return the names of the pods in the order of a policy."""
    ranked = builtins.named(name).rank(snapshot)
    names = {each.pod.uid: each.pod.name for each in snapshot.waiting}
    return "".join(names[each.uid] for each in ranked)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (builtins.FIFO, "cab"),
        (builtins.SRWF, "bca"),
        (builtins.SRWF_WAIT, "bca"),
        (builtins.HEFT, "bca"),
        (builtins.EDF, "cab"),
    ],
)
def test_each_policy_orders_by_its_key(name: str, expected: str) -> None:
    """Longest wait, least remaining work, longest path, earliest deadline."""
    assert expected == order(name)


def test_tasks_of_one_workflow_go_by_their_path() -> None:
    """With the same remaining work the task with more behind it goes first."""
    tasks = [
        scenes.a_waiting(name, work=100, path_s=path_s, workflow="w")
        for name, path_s in (("a", 10), ("b", 30), ("c", 20))
    ]
    assert order(builtins.SRWF, scenes.a_snapshot([], tasks)) == "bca"


def test_a_lock_holder_counts_for_those_that_wait_for_it() -> None:
    """Its work is shared among all workflows that it lets go on."""
    holder = scenes.a_waiting("h", work=300, urgency_of=("ns/x", "ns/y"))
    other = scenes.a_waiting("o", work=200)
    assert order(builtins.SRWF, scenes.a_snapshot([], [holder, other])) == "ho"


def test_reasons_are_words() -> None:
    """Each place says what it rests on."""
    reasons = {name: builtins.named(name).rank(SNAPSHOT)[0].reason for name in builtins.BUILTINS}
    assert reasons[builtins.FIFO] == "it has waited 1 min 30 s"
    assert reasons[builtins.SRWF] == "its workflow still needs 0.03 core hours"
    assert reasons[builtins.HEFT] == "5 min lie ahead on its longest path"
    assert reasons[builtins.EDF] == "its workflow is due in 1 min 40 s"


def test_an_unknown_name_lists_those_that_there_are() -> None:
    """A pinned version that is not built in is refused with the choice."""
    with pytest.raises(errors.InputError, match="builtin-srwf-wait-v1"):
        builtins.named("builtin-best-v1")
