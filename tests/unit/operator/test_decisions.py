"""One pod at admission: who is steered, who never is, and what is answered when in doubt."""

import dataclasses
from typing import Any

import pytest

from tests.fakes import clocks, clusters
from tests.fakes import pods as fake_pods
from tests.unit.operator import asking, builders
from tiphys.argo import names
from tiphys.models.domain import decisions, errors
from tiphys.operator import apis, assumptions, caches, limits, objects

Verdict = decisions.Verdict
GC_OWNER = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": names.KIND_ARTIFACT_GC,
    "name": "exome-artgc",
    "uid": "gc",
    "controller": True,
}
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/genomics/workflows"


def a_replica(*, cores: int = 8, opted_in: bool = True, **how: Any) -> asking.Replica:
    """Return a replica that knows one node and the workflow `exome`."""
    cached = builders.filled(builders.a_node("n", cpu_m=cores * 1000), opted_in=opted_in)
    cached.workflows.put("genomics/exome", builders.a_run("1", "2"))
    return asking.Replica(cached, **how)


async def decided(replica: asking.Replica, pod: Any = None, **how: Any) -> decisions.Decision:
    """Return the decision about Argo's pod for a task."""
    return await replica.decider.decide(replica.question(pod or fake_pods.a_pod(), **how))


async def test_with_room_a_pod_starts_now_and_counts_as_there() -> None:
    """PLACE, bound to admission, workflow and nonce, and its cores are taken at once."""
    replica = a_replica()
    decision = await decided(replica)
    assert Verdict.PLACE == decision.verdict, decision.reason
    assert ("genomics/exome-align-1", "adm-1", "n") == (
        decision.pod,
        decision.admission_uid,
        decision.nonce,
    )
    assert builders.WORKFLOW_UID == decision.workflow_uid
    (room,) = replica.pictured.current().rooms
    assert 6000 == room.free.cpu_m


async def test_without_room_a_pod_waits_behind_the_gate() -> None:
    """GATE, and what the default would have done is said."""
    replica = a_replica()
    replica.caches.pods.put("genomics/x", builders.a_seen("x", cpu_m=7000, node="n"))
    decision = await decided(replica)
    assert Verdict.GATE == decision.verdict
    assert "kube-scheduler would try it again and again until a node has room" == decision.default


async def test_assumed_room_is_not_given_twice() -> None:
    """Of five pods of 2 cores four start on 8 cores; the fifth waits."""
    replica = a_replica()
    verdicts = [
        (await decided(replica, fake_pods.a_pod(metadata__name=f"exome-align-{i}"))).verdict
        for i in range(5)
    ]
    assert [Verdict.PLACE] * 4 + [Verdict.GATE] == verdicts


async def test_a_pod_whose_creation_did_not_come_through_is_in_nobodys_way() -> None:
    """A quota refused it after us: the next try finds the room that the first one was promised."""
    replica = a_replica(cores=2)
    assert [Verdict.PLACE] * 3 == [(await decided(replica)).verdict for _ in range(3)]
    assert 1 == len(replica.assumed)


async def test_a_wall_clock_that_jumps_moves_no_room() -> None:
    """What is promised counts for its time, whatever the date becomes meanwhile."""

    class Jumping(clocks.Clock):
        ahead_s = 0.0

        def now(self) -> float:
            return super().now() + self.ahead_s

    clock = Jumping()
    replica = a_replica(clock=clock)
    await decided(replica)
    for ahead_s in (0.0, 3600.0, -3600.0):
        clock.ahead_s = ahead_s
        (room,) = replica.pictured.current().rooms
        assert 6000 == room.free.cpu_m
    await clock.advance(30.5)
    (room,) = replica.pictured.current().rooms
    assert 8000 == room.free.cpu_m


async def test_a_dry_run_takes_no_room() -> None:
    """Nothing is kept of it."""
    replica = a_replica()
    await decided(replica, dry_run=True)
    assert 0 == len(replica.assumed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"metadata__labels": {names.LABEL_COMPONENT: names.COMPONENT_AGENT}},
            "an agent pod serves its whole workflow and is never gated",
        ),
        (
            {"metadata__ownerReferences": [GC_OWNER]},
            "a pod of artifact collection is never gated",
        ),
        (
            {"metadata__labels": {"workflows.argoproj.io/on-exit": "true"}},
            "an exit handler is never gated",
        ),
        ({"metadata__ownerReferences": []}, "no Workflow controls it"),
    ],
)
async def test_who_is_never_gated(changes: dict[str, Any], reason: str) -> None:
    """By role, also when there is no room at all."""
    decision = await decided(a_replica(cores=0), fake_pods.a_pod(**changes))
    assert (Verdict.PASS, reason) == (decision.verdict, decision.reason)


async def test_who_did_not_opt_in_passes() -> None:
    """And the reason says so."""
    decision = await decided(a_replica(opted_in=False))
    assert (Verdict.PASS, "not opted in") == (decision.verdict, decision.reason)


async def test_the_nearest_annotation_opts_out() -> None:
    """The Workflow says false where its namespace says true."""
    replica = a_replica()
    run = builders.a_run("1", annotations=(("tiphys.dev/enabled", "false"),))
    replica.caches.workflows.put("genomics/exome", run)
    decision = await decided(replica)
    assert "not opted in by Workflow genomics/exome" == decision.reason


async def test_switched_off_everything_passes() -> None:
    """TIPHYS_DISABLED=1."""
    decision = await decided(a_replica(cores=0, disabled=True))
    assert "Tiphys is switched off (TIPHYS_DISABLED=1)" == decision.reason


async def test_nothing_is_gated_without_a_living_leader() -> None:
    """Nobody would open it."""
    decision = await decided(a_replica(cores=1, led=False))
    assert Verdict.PASS == decision.verdict


async def test_a_gate_needs_a_leader_and_says_so() -> None:
    """With a node that is full."""
    replica = a_replica(led=False)
    replica.caches.pods.put("genomics/x", builders.a_seen("x", cpu_m=8000, node="n"))
    decision = await decided(replica)
    assert (Verdict.PASS, "no leader lives that would open its gate") == (
        decision.verdict,
        decision.reason,
    )


async def test_old_caches_decide_nothing() -> None:
    """After 10 s without a watch the pod passes, with the age in the decision."""
    replica = a_replica()
    replica.caches.pods.current = False
    replica.caches.pods.heard_at = replica.clock.monotonic()
    await replica.clock.advance(11.0)
    decision = await decided(replica)
    assert (Verdict.PASS, 11.0) == (decision.verdict, decision.snapshot_age_s)


async def test_caches_that_were_never_read_decide_nothing() -> None:
    """The operator has only just started."""
    replica = asking.Replica(caches.Caches())
    assert "the operator has not read the cluster yet" == (await decided(replica)).reason


@pytest.mark.parametrize(
    ("mode", "verdict"),
    [("Off", Verdict.PASS), ("Shadow", Verdict.SHADOW), ("Enforce", Verdict.PLACE)],
)
async def test_the_policys_mode_decides(mode: str, verdict: Verdict) -> None:
    """A shadow decision keeps nothing."""
    replica = a_replica()
    replica.caches.policies.put(
        "p", objects.Policy(name="p", uid="", generation=1, spec={"mode": mode}, status={})
    )
    decision = await decided(replica)
    assert verdict == decision.verdict
    assert (1 if verdict is Verdict.PLACE else 0) == len(replica.assumed)


async def test_a_nearly_used_quota_gates_nobody() -> None:
    """What cannot start at once would keep better ones from existing: it passes."""
    replica = a_replica()
    replica.caches.pods.put("genomics/x", builders.a_seen("x", cpu_m=7000, node="n"))
    quota = limits.Quota(
        namespace="genomics",
        name="q",
        hard=(("requests.cpu", 10_000),),
        used=(("requests.cpu", 9_000),),
    )
    replica.caches.quotas.put("genomics/q", quota)
    decision = await decided(replica)
    assert Verdict.PASS == decision.verdict
    assert "quota" in decision.reason


async def test_what_could_never_be_released_is_not_gated() -> None:
    """No node could ever hold 2 cores."""
    decision = await decided(a_replica(cores=1))
    assert Verdict.PASS == decision.verdict


async def test_a_fresh_workflow_is_read_once_from_the_api_server() -> None:
    """Its pod may come before its event; the uid has to fit."""
    cached = builders.filled(builders.a_node("n"))
    async with clusters.serving() as (cluster, api):
        replica = asking.Replica(cached, api=api)
        spec = {"entrypoint": "a", "templates": [{"name": "a", "container": {"image": "x"}}]}
        meta = {"uid": builders.WORKFLOW_UID, "creationTimestamp": "2026-11-30T09:00:00Z"}
        cluster.put(f"{WORKFLOWS}/exome", {"metadata": meta, "spec": spec})
        assert Verdict.PLACE == (await decided(replica)).verdict
        await decided(replica, fake_pods.a_pod(metadata__name="exome-align-2"))
        assert 1 == cluster.calls.count(("GET", f"{WORKFLOWS}/exome"))


async def test_a_stranger_that_names_a_workflow_is_not_steered() -> None:
    """The name exists with another uid; or nothing answers in time."""
    cached = builders.filled(builders.a_node("n"))
    async with clusters.serving() as (cluster, api):
        replica = asking.Replica(cached, api=api)
        cluster.put(f"{WORKFLOWS}/exome", {"metadata": {"uid": "other"}, "spec": {}})
        reason = "no Workflow with the uid of its controller is known"
        assert reason == (await decided(replica)).reason
        cluster.failing = 503
        assert reason == (await decided(replica)).reason


async def test_a_pod_of_another_namespace_is_refused() -> None:
    """The request's namespace is what the API server vouches for."""
    with pytest.raises(errors.InputError, match="not the namespace of the request"):
        await decided(a_replica(), fake_pods.a_pod(metadata__namespace="other"))


async def test_an_assumption_ends_when_the_pod_is_seen_or_never_came() -> None:
    """Bound: the pod itself counts. Never seen: the room is free again after a while."""
    replica = a_replica()
    await decided(replica)
    replica.caches.pods.put(
        "genomics/exome-align-1", builders.a_seen("exome-align-1", cpu_m=2000, node="n")
    )
    (room,) = replica.pictured.current().rooms
    assert (6000, 0) == (room.free.cpu_m, len(replica.assumed))
    await decided(replica, fake_pods.a_pod(metadata__name="exome-align-9"))
    await replica.clock.advance(31.0)
    (room,) = replica.pictured.current().rooms
    assert 6000 == room.free.cpu_m


def test_assumptions_of_one_pod_replace_one_another() -> None:
    """Sums stay right whatever the order."""
    kept = assumptions.Assumptions(lambda: 0.0)
    seen = builders.a_seen("a")
    one = assumptions.Assumed(
        pod="genomics/a", node="n", requests=seen.pod.requests, expires_at=10.0
    )
    kept.assume(one)
    kept.assume(dataclasses.replace(one, node="m"))
    assert ((), 1) == (kept.on_node("n"), len(kept.on_node("m")))
    assert {"n", "m"} == kept.touched()
    kept.forget("genomics/a")
    kept.forget("genomics/a")
    assert 0 == len(kept)


def test_errors_of_the_client_say_what_to_do() -> None:
    """Each refusal of the API server is one of the core's kinds."""
    for kind, parent in (
        (apis.NotFoundError, errors.StaleError),
        (apis.ConflictError, errors.StaleError),
        (apis.GoneError, errors.StaleError),
        (apis.ForbiddenError, errors.RefusedError),
        (apis.InvalidError, errors.InputError),
        (apis.UnreachableError, errors.UnavailableError),
    ):
        assert issubclass(kind, parent)
