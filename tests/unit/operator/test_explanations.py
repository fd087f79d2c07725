"""What the leader adds to an explanation beside the plan's own words."""

import types
from typing import Any

import pytest

from tests.unit.operator import builders
from tiphys.models.domain import snapshots as domain_snapshots
from tiphys.models.estimators import books
from tiphys.models.planner import plans
from tiphys.operator import explanations, policies

KNOWN = books.Entry(estimate=domain_snapshots.Estimate(centre_s=9.0, count=4, basis="history"))


@pytest.mark.parametrize(
    ("blockers", "entries", "basis"),
    [
        (("genomics/first", "genomics/a"), {builders.an_identity(): KNOWN}, "history"),
        (("genomics/first", "genomics/a"), {}, "default"),
        ((), {}, "default"),
        (("n1",), {}, ""),
    ],
)
def test_it_is_told_what_an_expected_end_rests_on(
    blockers: tuple[str, ...], entries: dict[Any, books.Entry], basis: str
) -> None:
    """Of the last that is in the way, or of the only one that is named; a node has no history."""
    cached = builders.filled()
    seen, run = builders.a_seen("a", node="n1"), builders.a_run("a")
    cached.pods.put(seen.pod.key, seen)
    cached.workflows.put(run.workflow.key, run)
    book = books.Book(entries=entries)
    pictured: Any = types.SimpleNamespace(estimates=types.SimpleNamespace(book=book))
    nothing: Any = None
    desk = explanations.Desk(
        cached,
        pictured,
        nothing,
        nothing,
        nothing,
        election=nothing,
        clock=nothing,
    )
    hold = plans.Hold(
        uid="u",
        kind=plans.HoldKind.ROOM,
        reason="No room.",
        blocker="genomics/a",
        blockers=blockers,
        until=builders.AT,
    )
    assert basis == desk._basis(hold)


def test_it_is_told_in_which_group_a_pod_runs() -> None:
    """It may be another than the one that it was sent to."""
    cached = builders.filled(builders.a_node("n1"))
    seen = builders.a_seen("a", node="n1")
    cached.pods.put(seen.pod.key, seen)
    pictured: Any = types.SimpleNamespace(group_of={"n1": "m5/a"})
    nobody: Any = types.SimpleNamespace(
        released=lambda uid: None, standing=lambda uid: None, of=lambda pod: None, leading=True
    )
    known = policies.Policies(cached)
    clock: Any = None
    desk = explanations.Desk(cached, pictured, known, nobody, nobody, election=nobody, clock=clock)
    found = desk.of("uid-a")
    assert found is not None
    assert ("n1", "m5/a") == (found["node"], found["nodeGroup"])
