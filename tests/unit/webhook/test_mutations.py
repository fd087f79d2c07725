"""What a pod gets at CREATE, over real TLS with a decider that is good, slow or a liar."""

import asyncio
import dataclasses
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fakes import deciders, pods, webhooks
from tiphys.models.domain import decisions
from tiphys.models.wire import stamps
from tiphys.webhook import admissions, reviews, settings

FAST = decisions.Placement(group="fast", selector=(("node.kubernetes.io/instance-type", "f1"),))


async def test_a_gated_pod_is_patched_once(world: webhooks.World) -> None:
    """The second call, as after a reinvocation, asks nobody and gives no patch."""
    async with world.session() as session:
        pod = pods.a_pod()
        first = await webhooks.called(session, "/mutate", pods.a_body(pod))
        changed = webhooks.patched(pod, first)
        second = await webhooks.called(session, "/mutate", pods.a_body(changed))
        held = await webhooks.called(session, "/validate", pods.a_body(changed))
    assert [{"name": "tiphys.dev/steer"}] == changed["spec"]["schedulingGates"]
    stamp = stamps.decode(changed["metadata"]["annotations"]["tiphys.dev/decision"])
    assert (pods.WORKFLOW_UID, "genomics/exome-align-1") == (stamp.workflow_uid, stamp.pod)
    assert [] == webhooks.patch_of(second)
    assert second["auditAnnotations"]["outcome"] == "reinvoked"
    assert (True, stamp.id) == (held["allowed"], held["auditAnnotations"]["decision"])
    assert 1 == len(world.decider.asked) == len(world.decider.signed_by)
    assert 1 == world.metric("tiphys_webhook_mutations_total", outcome="gated")


async def test_a_placed_pod_keeps_what_another_webhook_added(world: webhooks.World) -> None:
    """A sidecar between two calls changes nothing about the decision."""
    world.decider.verdict, world.decider.placement = decisions.Verdict.PLACE, FAST
    async with world.session() as session:
        pod = pods.a_pod()
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
        changed = webhooks.patched(pod, answer)
        changed["spec"]["containers"].append({"name": "proxy", "image": "mesh:1"})
        again = await webhooks.called(session, "/mutate", pods.a_body(changed))
        held = await webhooks.called(session, "/validate", pods.a_body(changed))
    assert "schedulingGates" not in changed["spec"]
    assert 1 == len(
        changed["spec"]["affinity"]["nodeAffinity"][
            "preferredDuringSchedulingIgnoredDuringExecution"
        ]
    )
    assert [] == webhooks.patch_of(again)
    assert held["allowed"]


async def test_a_decision_that_another_webhook_overwrote_is_taken_off(
    world: webhooks.World,
) -> None:
    """Not written anew, which the other one would overwrite anew; so nothing is left to refuse."""
    world.decider.verdict, world.decider.placement = decisions.Verdict.PLACE, FAST
    async with world.session() as session:
        pod = pods.a_pod()
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
        theirs = webhooks.patched(pod, answer)
        theirs["spec"]["affinity"] = {"podAffinity": {}}
        again = await webhooks.called(session, "/mutate", pods.a_body(theirs))
        left = webhooks.patched(theirs, again)
        held = await webhooks.called(session, "/validate", pods.a_body(left))
    assert "overwritten: " in again["auditAnnotations"]["reason"]
    assert {"podAffinity": {}} == left["spec"]["affinity"]
    assert not [name for name in left["metadata"]["annotations"] if name.startswith("tiphys.dev/")]
    assert (True, "none") == (held["allowed"], held["auditAnnotations"]["outcome"])
    assert 1 == len(world.decider.asked)
    assert 1 == world.metric("tiphys_webhook_decision_failures_total", kind="overwritten")


async def test_a_decision_that_was_taken_before_is_no_reason_to_let_a_changed_pod_go(
    world: webhooks.World,
) -> None:
    """Whoever copies one and leaves the gate out is asked for anew, and gated."""
    async with world.session() as session:
        pod = pods.a_pod()
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
        made = webhooks.patched(pod, answer)
        assert (await webhooks.called(session, "/validate", pods.a_body(made)))["allowed"]
        copied = {**made, "spec": pod["spec"]}
        again = await webhooks.called(session, "/mutate", pods.a_body(copied))
    assert "gated" == again["auditAnnotations"]["outcome"]
    assert 2 == len(world.decider.asked)


@pytest.mark.parametrize("verdict", ["pass", "shadow"])
async def test_a_pod_that_is_only_looked_at_has_no_patch(
    world: webhooks.World, verdict: str
) -> None:
    """The audit log has the reason."""
    world.decider.verdict = decisions.Verdict(verdict)
    async with world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body())
    assert [] == webhooks.patch_of(answer)
    assert "waits for a fast node" == answer["auditAnnotations"]["reason"]


FAILURES = {
    "closes": "unreachable",
    "garbage": "unreadable",
    "refuses": "mismatch",
    "fails": "status",
    "foreign-key": "signature",
    "foreign-stamp": "signature",
    "unsigned": "signature",
    "altered": "signature",
    "replayed": "nonce",
    "uid": "uid",
    "expired": "expired",
    "other-pod": "mismatch",
    "no-workflow-uid": "mismatch",
    "other-stamp": "unreadable",
}


@pytest.mark.parametrize(("behaviour", "kind"), FAILURES.items())
async def test_an_answer_that_does_not_hold_leaves_the_pod_alone(
    world: webhooks.World, behaviour: str, kind: str
) -> None:
    """It is counted, and the audit log says why."""
    async with world.session() as session:
        if behaviour == "replayed":
            await webhooks.called(session, "/mutate", pods.a_body())
        world.decider.behaviour = behaviour
        answer = await webhooks.called(session, "/mutate", pods.a_body())
    assert answer["allowed"]
    assert [] == webhooks.patch_of(answer)
    assert answer["auditAnnotations"]["reason"].startswith(f"{kind}: ")
    assert 1 == world.metric("tiphys_webhook_decision_failures_total", kind=kind)
    assert 1 == world.metric("tiphys_webhook_mutations_total", outcome="failed")


def test_every_lie_is_tried() -> None:
    """The list of lies and the tests of them go together."""
    assert set(deciders.LIES) == {*FAILURES, "good", "slow", "hung"}


async def test_a_hung_decider_costs_its_deadline_and_then_nothing(tmp_path: Path) -> None:
    """The breaker opens after five, lets one through a while later, and closes when it is well."""
    breaker = settings.Breaker(failures=5, open_s=0.5)
    async with webhooks.running(tmp_path, deadline_s=0.15, breaker=breaker) as world:
        world.decider.behaviour = "hung"
        async with world.session() as session:
            took, reasons = [], []
            for _ in range(8):
                began = time.monotonic()
                answer = await webhooks.called(session, "/mutate", pods.a_body())
                took.append(time.monotonic() - began)
                reasons.append(answer["auditAnnotations"]["reason"].partition(":")[0])
            assert ["deadline"] * 5 == reasons[:5]
            assert "breaker" in reasons[5:]
            assert min(took[:5]) >= 0.15
            assert min(took[5:]) < 0.15
            assert 1 == world.metric("tiphys_webhook_breaker_open")
            assert "failing-open" == world.process.health.state()["decisions"]
            world.decider.behaviour = "good"
            outcomes: set[str] = set()
            async with asyncio.timeout(20):
                while "gated" not in outcomes:
                    answer = await webhooks.called(session, "/mutate", pods.a_body())
                    outcomes.add(answer["auditAnnotations"]["outcome"])
                    await asyncio.sleep(0.05)
            assert 0 == world.metric("tiphys_webhook_breaker_open")


async def test_a_decider_that_is_not_there_fails_at_once(tmp_path: Path) -> None:
    """And the webhook is ready, since it knows that it fails open."""
    nowhere = settings.Decisions(address="127.0.0.1:1", probe_s=0.1)
    async with webhooks.running(tmp_path, decisions=nowhere) as world, world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body())
        assert answer["auditAnnotations"]["reason"].startswith("unreachable")
        assert world.process.health.state()["ready"]


async def test_an_operator_by_another_name_is_not_asked(tmp_path: Path) -> None:
    """Its certificate has to hold the name of the Service, wherever it listens."""
    name = "somebody-else.default.svc"
    async with webhooks.running(tmp_path, server_name=name) as world:
        async with world.session() as session:
            answer = await webhooks.called(session, "/mutate", pods.a_body())
        assert answer["auditAnnotations"]["reason"].startswith("unreachable")
    assert [] == world.decider.asked


FOREIGN: dict[str, Mapping[str, object]] = {
    "another operation": {"operation": "UPDATE"},
    "a subresource": {"subResource": "status"},
    "another kind": {"kind": {"group": "apps", "kind": "Deployment"}},
    "a pod of another group": {"kind": {"group": "x", "kind": "Pod"}},
}


@pytest.mark.parametrize("changes", FOREIGN.values(), ids=FOREIGN)
async def test_what_is_no_new_pod_is_let_in(
    world: webhooks.World, changes: Mapping[str, object]
) -> None:
    """Nobody is asked about it."""
    async with world.session() as session:
        for path in ("/mutate", "/validate"):
            answer = await webhooks.called(session, path, pods.a_body(None, **changes))
            assert answer["allowed"]
            assert [] == webhooks.patch_of(answer)
    assert [] == world.decider.asked


@pytest.mark.parametrize(
    "changes",
    [{"metadata__ownerReferences": []}, {"metadata__name": ""}, {"metadata__name": None}],
)
async def test_a_pod_of_no_workflow_is_only_stripped(
    world: webhooks.World, changes: dict[str, object]
) -> None:
    """A label can be set by anybody, the owner decides; a name yet to come binds nothing."""
    pod = pods.a_pod(**changes)
    pod["metadata"]["annotations"]["tiphys.dev/decision"] = "forged"
    async with world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
    changed = webhooks.patched(pod, answer)
    assert "tiphys.dev/decision" not in changed["metadata"]["annotations"]
    assert [] == world.decider.asked
    assert 1 == world.metric("tiphys_webhook_stripped_total")


async def test_a_pod_whose_author_chose_the_node_is_only_stripped(world: webhooks.World) -> None:
    """Kubernetes refuses a gate on it, and a placement could only contradict it."""
    async with world.session() as session:
        pod = pods.a_pod(
            spec__nodeName="fast-1", spec__schedulingGates=[{"name": "tiphys.dev/steer"}]
        )
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
    assert "its author chose the node" == answer["auditAnnotations"]["reason"]
    assert [] == webhooks.patched(pod, answer)["spec"]["schedulingGates"]
    assert [] == world.decider.asked


@pytest.mark.parametrize(("spare_bytes", "outcome"), [(0, "gated"), (-1, "failed")])
async def test_a_pod_with_no_room_for_annotations_passes(
    world: webhooks.World, spare_bytes: int, outcome: str
) -> None:
    """Ours at its creation and at its release have to fit below what Kubernetes takes."""
    pod = pods.a_pod()
    pod["metadata"]["annotations"] = {}
    room_bytes = reviews.MOST_ANNOTATION_BYTES - admissions.ANNOTATION_BYTES - spare_bytes
    pod["metadata"]["annotations"]["large"] = "x" * (room_bytes - len("large"))
    async with world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
        decided = webhooks.patched(pod, answer)
    assert outcome == answer["auditAnnotations"]["outcome"]
    assert reviews.annotation_bytes(decided) <= reviews.MOST_ANNOTATION_BYTES


async def test_a_pod_that_could_not_be_asked_for_spends_no_trial(tmp_path: Path) -> None:
    """Whoever makes such pods all the time would keep the breaker open for everybody."""
    breaker = settings.Breaker(failures=1, open_s=0.3)
    full = pods.a_pod(metadata__annotations__large="x" * reviews.MOST_ANNOTATION_BYTES)
    async with webhooks.running(tmp_path, breaker=breaker) as world, world.session() as session:
        world.decider.behaviour = "fails"
        await webhooks.called(session, "/mutate", pods.a_body())
        assert 1 == world.metric("tiphys_webhook_breaker_open")
        world.decider.behaviour = "good"
        await asyncio.sleep(0.35)
        answer = await webhooks.called(session, "/mutate", pods.a_body(full))
        assert answer["auditAnnotations"]["reason"].startswith("mismatch")
        answer = await webhooks.called(session, "/mutate", pods.a_body())
        assert "gated" == answer["auditAnnotations"]["outcome"]


async def test_a_forged_decision_is_stripped_also_when_nobody_decides(
    world: webhooks.World,
) -> None:
    """Else the validating webhook would refuse a pod because the operator is down."""
    world.decider.behaviour = "fails"
    pod = pods.a_pod()
    pod["metadata"]["annotations"]["tiphys.dev/decision"] = "forged"
    async with world.session() as session:
        changed = webhooks.patched(pod, await webhooks.called(session, "/mutate", pods.a_body(pod)))
        held = await webhooks.called(session, "/validate", pods.a_body(changed))
    assert pods.a_pod() == changed
    assert held["allowed"]


async def test_switched_off_it_lets_everything_in(tmp_path: Path) -> None:
    """`TIPHYS_DISABLED=1`: nobody is asked, nothing is changed, nothing is refused."""
    pod = pods.a_pod()
    pod["metadata"]["annotations"]["tiphys.dev/decision"] = "forged"
    async with (
        webhooks.running(tmp_path, environ={"TIPHYS_DISABLED": "1"}) as world,
        world.session() as session,
    ):
        for path in ("/mutate", "/validate"):
            answer = await webhooks.called(session, path, pods.a_body(pod))
            assert answer["allowed"]
            assert [] == webhooks.patch_of(answer)
            assert answer["auditAnnotations"]["outcome"] == "disabled"
    assert [] == world.decider.asked


async def test_a_dry_run_says_so_and_leaves_no_trace(world: webhooks.World) -> None:
    """The operator is told, and the decision is not remembered as taken."""
    async with world.session() as session:
        pod = pods.a_pod()
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod, dryRun=True))
        changed = webhooks.patched(pod, answer)
        for _ in range(2):
            body = pods.a_body(changed, dryRun=True)
            assert (await webhooks.called(session, "/validate", body))["allowed"]
    assert world.decider.asked[0].dry_run


async def test_a_pod_of_which_only_the_review_knows_the_namespace_is_asked_for_whole(
    world: webhooks.World,
) -> None:
    """The operator sees the pod as it will be stored."""
    pod = pods.a_pod()
    del pod["metadata"]["namespace"]
    async with world.session() as session:
        await webhooks.called(session, "/mutate", pods.a_body(pod))
    asked = world.decider.asked[0]
    assert dataclasses.replace(asked, pod=pods.a_pod()) == asked
