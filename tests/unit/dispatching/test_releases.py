"""One gate: the patch from the cache is that from the pod itself, and each refusal has its way."""

import dataclasses
from typing import Any

import pytest

from tests.fakes.deciders import a_ring
from tests.fakes.patching import applied
from tests.unit.dispatching import builders
from tiphys.argo import patches
from tiphys.models.domain import decisions, errors, pods
from tiphys.models.wire import stamps
from tiphys.operator import apis, objects, releases, tallies

NODE_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": []}}]


def an_order(placement: decisions.Placement = builders.FAST, **changes: Any) -> releases.Order:
    """An order for the pod as the cache holds it."""
    return releases.Order(
        seen=builders.a_seen(**changes),
        decision=dataclasses.replace(builders.RELEASE, placement=placement),
        how=tallies.How.TURN,
        due_at=0.0,
    )


def a_writer(api: builders.Api) -> releases.Writer:
    """A writer with a key that holds now."""
    ring, clock = a_ring(), builders.Clock()
    clock.at = ring.keys[0].not_before + 700
    return releases.Writer(api, ring=lambda: ring, fence=lambda: None, clock=clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", [builders.FAST, builders.ONLY_FAST, decisions.Placement()])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"spec__nodeSelector": {"disk": "ssd"}},
        {"spec__affinity": {"nodeAffinity": {NODE_AFFINITY: TERMS}}},
        {"spec__affinity": {"nodeAffinity": {patches.PREFERRED: PREFERRED}}},
        {"spec__schedulingGates": [{"name": "other/gate"}, {"name": pods.STEERING_GATE}]},
    ],
)
def test_the_patch_from_the_cache_makes_what_that_from_the_pod_makes(
    changes: dict[str, Any], placement: decisions.Placement
) -> None:
    """The cache keeps enough of a pod: both patches lead to the same object."""
    raw = builders.a_raw_pod(**changes)
    decided = dataclasses.replace(builders.RELEASE, placement=placement)
    expected = applied(raw, patches.release(raw, decided, stamp="s", signature="g"))
    cached = releases.document(objects.pod(raw))
    assert expected == applied(raw, patches.release(cached, decided, stamp="s", signature="g"))


async def test_an_unchanged_pod_takes_one_call() -> None:
    """The gate is gone, the placement there, the decision signed; no read was needed."""
    api = builders.Api(builders.a_raw_pod())
    assert tallies.Outcome.OPENED is await a_writer(api).open(an_order())
    assert ["PATCH"] == [method for method, _, _ in api.calls]
    assert api.pod is not None
    assert [] == api.pod["spec"]["schedulingGates"]
    assert decisions.RELEASE_SIGNATURE in api.pod["metadata"]["annotations"]
    assert "workflows.argoproj.io/node-id" in api.pod["metadata"]["annotations"]


async def test_a_pod_that_somebody_changed_is_read_again_and_keeps_their_change() -> None:
    """A preference that came after the cache's version stays, ours is appended."""
    affinity = {"nodeAffinity": {patches.PREFERRED: PREFERRED}}
    raw = builders.a_raw_pod(metadata__resourceVersion="8", spec__affinity=affinity)
    api = builders.Api(raw)
    assert tallies.Outcome.OPENED is await a_writer(api).open(an_order())
    assert ["PATCH", "GET", "PATCH"] == [method for method, _, _ in api.calls]
    assert api.pod is not None
    assert 2 == len(api.pod["spec"]["affinity"]["nodeAffinity"][patches.PREFERRED])


async def test_a_pod_that_is_gone_replaced_or_leaving_is_dropped() -> None:
    """None of the three is touched."""
    for pod in (
        None,
        builders.a_raw_pod(metadata__uid="uid-2"),
        builders.a_raw_pod(
            metadata__resourceVersion="8", metadata__deletionTimestamp="2026-11-30T09:00:00Z"
        ),
    ):
        api = builders.Api(pod)
        assert tallies.Outcome.VANISHED is await a_writer(api).open(an_order())


async def test_a_gate_that_is_open_already_is_no_failure() -> None:
    """A patch of ours that went through unheard; whom somebody else let go, we did not."""
    api = builders.Api(builders.a_raw_pod())
    assert tallies.Outcome.OPENED is await a_writer(api).open(an_order())
    assert api.pod is not None
    api.pod["metadata"]["resourceVersion"] = "8"
    assert tallies.Outcome.OPENED is await a_writer(api).open(an_order())
    assert ["PATCH", "PATCH", "GET"] == [method for method, _, _ in api.calls]
    for word in ("", stamps.encode(dataclasses.replace(builders.RELEASE, id="d-b")).decode(), "{"):
        opened = builders.a_raw_pod(
            metadata__resourceVersion="8",
            spec__schedulingGates=[],
            **{"metadata__annotations__tiphys.dev/release": word},
        )
        api = builders.Api(opened)
        assert tallies.Outcome.OVERTAKEN is await a_writer(api).open(an_order())


async def test_a_placement_that_the_author_contradicts_is_left_out() -> None:
    """The pod wants another pool: its gate opens all the same."""
    pod = builders.a_raw_pod(spec__nodeSelector={"pool": "slow"})
    api = builders.Api(pod)
    order = an_order(builders.ONLY_FAST, spec__nodeSelector={"pool": "slow"})
    assert tallies.Outcome.UNPLACED is await a_writer(api).open(order)
    assert api.pod is not None
    assert {"pool": "slow"} == api.pod["spec"]["nodeSelector"]


async def test_a_placement_that_the_api_server_refuses_twice_is_left_out() -> None:
    """First the patch was made from the cache, then from the pod; then the gate comes first."""
    refusal = apis.InvalidError("spec.affinity: Forbidden", status=422)
    api = builders.Api(builders.a_raw_pod(), refusal, refusal)
    assert tallies.Outcome.UNPLACED is await a_writer(api).open(an_order())
    assert api.pod is not None
    assert "affinity" not in api.pod["spec"]


async def test_what_is_forbidden_or_unanswered_is_left_to_a_later_tick() -> None:
    """Neither is repeated at once."""
    for refusal, outcome in (
        (apis.ForbiddenError("no", status=403), tallies.Outcome.REFUSED),
        (apis.UnreachableError("busy", status=429), tallies.Outcome.LATER),
    ):
        api = builders.Api(builders.a_raw_pod(), refusal)
        assert outcome is await a_writer(api).open(an_order())
        assert 1 == len(api.calls)


async def test_nothing_is_sent_behind_the_fence() -> None:
    """A replica that leads no more makes no call."""
    api, ring = builders.Api(builders.a_raw_pod()), a_ring()

    def fence() -> None:
        raise errors.StaleError("leads no more")

    clock = builders.Clock(ring.keys[0].not_before + 700)
    writer = releases.Writer(api, ring=lambda: ring, fence=fence, clock=clock)  # type: ignore[arg-type]
    with pytest.raises(errors.StaleError):
        await writer.open(an_order())
    assert [] == api.calls
