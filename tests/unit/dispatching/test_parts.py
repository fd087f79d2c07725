"""Conditions, Events, recoveries, several policies at once, and whom nobody steers any more.

Over 400 lines, since the parts share the fakes that surround them.
"""

import asyncio
import dataclasses
from typing import Any

import prometheus_client
import pytest

from tests.fakes import clocks
from tests.unit.dispatching import builders, words
from tests.unit.operator import builders as built
from tiphys.models.domain import (
    amounts,
    clusters,
    decisions,
    errors,
    pods,
    settings,
    snapshots,
    workflows,
)
from tiphys.models.planner import plans
from tiphys.models.policies import builtins
from tiphys.models.wire import keys, stamps
from tiphys.operator import (
    adoptions,
    apis,
    assumptions,
    caches,
    conditions,
    events,
    objects,
    plannings,
    policies,
    recoveries,
    strays,
    tallies,
    ways,
)
from tiphys.operator import settings as operator_settings
from tiphys.operator import snapshots as pictures


def counted() -> tallies.Tallies:
    """Counters of one test."""
    return tallies.Tallies(prometheus_client.CollectorRegistry())


class Notes:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.noted: list[tuple[str, str, str]] = []

    def note(self, about: events.About, reason: str, message: str, *, warns: bool = False) -> None:
        """Keep it."""
        self.noted.append((about.kind, reason, message))


def a_wait(name: str, hold: plans.Hold) -> tuple[snapshots.Waiting, plans.Hold]:
    """A pod that waits, with why."""
    seen = built.a_seen(name, gated=True)
    return snapshots.Waiting(pod=seen.pod, workflow="genomics/exome"), hold


def a_hold(name: str, **changes: Any) -> plans.Hold:
    """A pod for which no node has room."""
    given = {"kind": plans.HoldKind.ROOM, "reason": "No node has room.", "rank": 1, **changes}
    return plans.Hold(uid=f"uid-{name}", **given)


def a_conditions(api: builders.Api, clock: builders.Clock, *names: str) -> conditions.Writer:
    """A writer of reasons that may write three a second."""
    cached = built.filled(built.a_node("n"))
    for name in names:
        seen = built.a_seen(name, gated=True)
        cached.pods.put(seen.pod.key, seen)
    return conditions.Writer(
        api,  # type: ignore[arg-type]
        cached,
        fence=lambda: None,
        clock=clock,
        counted=counted(),
        recorder=Notes(),  # type: ignore[arg-type]
        per_second=3,
    )


async def test_a_reason_is_written_once_until_it_changes() -> None:
    """New numbers in the same reason are no change; another blocker is one, after a while."""
    api, clock = builders.Api({}), builders.Clock()
    writer = a_conditions(api, clock, "a")
    for reason, blocker, writes in (
        ("in 9 s", "x", 1),
        ("in 8 s", "x", 1),
        ("in 8 s", "y", 1),
        ("in 7 s", "y", 2),
    ):
        writer.offer([a_wait("a", a_hold("a", reason=reason, blocker=blocker))], elastic=False)
        await writer._once()
        assert writes == len(api.calls)
        clock.at += 4.0
    method, path, body = api.calls[-1]
    assert ("PATCH", "/api/v1/namespaces/genomics/pods/a/status") == (method, path)
    assert "Tiphys: in 7 s" == body["status"]["conditions"][0]["message"]
    assert "uid-a" == body["metadata"]["uid"]


async def test_a_second_brings_so_many_reasons_and_no_more() -> None:
    """Five wait, three are written, then two."""
    api, clock = builders.Api({}), builders.Clock()
    names = ["a", "b", "c", "d", "e"]
    writer = a_conditions(api, clock, *names)
    writer.offer([a_wait(name, a_hold(name)) for name in names], elastic=False)
    await writer._once()
    assert 3 == len(api.calls)
    await writer._once()
    assert 5 == len(api.calls)


async def test_an_autoscaler_is_not_asked_for_nodes_by_pods_that_wait_for_their_turn() -> None:
    """On an elastic cluster only what has room nowhere is marked."""
    api, clock = builders.Api({}), builders.Clock()
    writer = a_conditions(api, clock, "a", "b")
    waits = [a_wait("a", a_hold("a", kind=plans.HoldKind.ORDER)), a_wait("b", a_hold("b"))]
    writer.offer(waits, elastic=True)
    await writer._once()
    assert ["/api/v1/namespaces/genomics/pods/b/status"] == [path for _, path, _ in api.calls]


def test_autoscalers_are_noticed() -> None:
    """By Karpenter's label on a node, by the pod's name, or because the policy says so."""
    cached = built.filled(built.a_node("n"))
    known = policies.Policies(cached)
    assert not conditions.elastic(known, cached)
    pod = pods.Pod(namespace="kube-system", name="cluster-autoscaler-0", uid="u")
    cached.pods.put(pod.key, objects.Seen(pod=pod, version="1"))
    assert conditions.elastic(known, cached)


async def test_events_about_one_thing_are_gathered() -> None:
    """A second note within half a minute is one patch later, with the latest words."""
    api, clock = builders.Api({}), builders.Clock()
    recorder = events.Recorder(api, clock=clock, counted=counted(), per_second=10)  # type: ignore[arg-type]
    about = events.About(kind="Pod", namespace="genomics", name="a", uid="uid-a")
    recorder.note(about, "Waiting", "first")
    await _runs(recorder, clock, 1.0)
    recorder.note(about, "Waiting", "second")
    recorder.note(about, "Waiting", "third")
    await _runs(recorder, clock, 5.0)
    assert ["POST"] == [method for method, _, _ in api.calls]
    await _runs(recorder, clock, 40.0)
    assert ["POST", "PATCH"] == [method for method, _, _ in api.calls]
    assert ("third", 2) == (api.calls[1][2]["message"], api.calls[1][2]["count"])


async def _runs(recorder: events.Recorder, clock: builders.Clock, length_s: float) -> None:
    """Let a recorder write for so long."""
    task = asyncio.ensure_future(recorder.run())
    end = clock.at + length_s
    for _ in range(10_000):
        await asyncio.sleep(0)
        if clock.at >= end:
            break
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


MISPLACED = decisions.Stamp(
    id="d-aaaaaaaaaaaaaaaaaaaa",
    verdict=decisions.Verdict.RELEASE,
    pod="genomics/a",
    placement=decisions.Placement(group="fast", selector=(("pool", "fast"),), bind="require"),
    issued_at=built.AT,
)


def a_stuck(**changes: Any) -> objects.Seen:
    """A released pod that its nodeSelector keeps unbound for a minute."""
    stamp = stamps.encode(MISPLACED).decode()
    seen = built.a_seen(
        "a",
        constraints=pods.Constraints(node_selector=(("pool", "fast"),)),
        **changes.pop("pod", {}),
    )
    given = {
        "annotations": ((decisions.RELEASE_ANNOTATION, stamp),),
        "unscheduled_reason": "Unschedulable",
        **changes,
    }
    return dataclasses.replace(seen, **given)


@pytest.mark.parametrize(
    ("changes", "stuck"),
    [
        ({}, True),
        ({"finalizers": ("argo/status",)}, False),
        ({"ran": True}, False),
        ({"unscheduled_reason": ""}, False),
        ({"annotations": ()}, False),
        ({"pod": {"node": "n"}}, False),
        ({"pod": {"gates": ("other/gate",)}}, False),
        ({"pod": {"deleting": True}}, False),
        ({"pod": {"phase": pods.Phase.RUNNING}}, False),
        ({"pod": {"workflow_uid": ""}}, False),
    ],
)
def test_only_a_pod_that_never_ran_and_that_we_misplaced_is_given_back(
    changes: dict[str, Any], stuck: bool
) -> None:
    """Each condition of the rule by itself."""
    assert stuck is recoveries.stuck(a_stuck(**changes), MISPLACED, built.AT + 60)


def test_a_pod_gets_its_time_to_be_bound() -> None:
    """One that was released a moment ago is not stuck."""
    assert not recoveries.stuck(a_stuck(), MISPLACED, built.AT - 1)


class _Deleting:
    """An API that notes what it is told to delete."""

    def __init__(self) -> None:
        self.deleted: list[str] = []

    async def delete(self, path: str, *, body: object | None = None) -> None:
        """Note a deletion."""
        self.deleted.append(path.rpartition("/")[2])


def a_recovery(
    cached: caches.Caches, api: _Deleting, ring: keys.Ring, *, at: float
) -> recoveries.Recovery:
    """Return what gives pods back, at a moment."""
    clock = builders.Clock(at)
    assumed = assumptions.Assumptions(clock.monotonic)
    pictured = pictures.Snapshots(cached, assumed, clock=clock.now, monotonic=clock.monotonic)
    counted = tallies.Tallies(prometheus_client.CollectorRegistry())
    return recoveries.Recovery(
        api,  # type: ignore[arg-type]
        cached,
        pictured,
        policies.Policies(cached),
        adoptions.Words(cached, ring=lambda: ring),
        fence=lambda: None,
        chosen=operator_settings.Dispatch(),
        clock=clock,
        counted=counted,
        recorder=events.Recorder(
            api,  # type: ignore[arg-type]
            clock=clock,
            counted=counted,
            per_second=10,
        ),
    )


@pytest.mark.parametrize("ours", [True, False])
async def test_only_a_word_that_our_key_signed_gives_a_pod_back(ours: bool) -> None:
    """Whoever else writes our annotations; and twice over all leaders, then it is left alone."""
    ring, strangers = (
        keys.Ring(keys=(keys.generate(not_before=built.AT - 60, not_after=built.AT + 3600),))
        for _ in range(2)
    )
    cached = built.filled(built.a_node("other"))
    run = built.a_run("a")
    tasks = tuple(
        dataclasses.replace(each, state=workflows.TaskState.PENDING) for each in run.workflow.tasks
    )
    workflow = dataclasses.replace(run.workflow, tasks=tasks)
    cached.workflows.put("genomics/exome", dataclasses.replace(run, workflow=workflow))
    signer = ring if ours else strangers
    pod = words.signed(a_stuck(), signer, issued_at=built.AT, placement=MISPLACED.placement)
    cached.pods.put("genomics/a", pod)
    api = _Deleting()
    first = a_recovery(cached, api, ring, at=built.AT + 60)
    assert ours is bool(await first.once())
    second = a_recovery(cached, api, ring, at=built.AT + 70)
    second.begin(first.times)
    assert [ours, False] == [bool(await second.once()), bool(await second.once())]
    assert (["a", "a"] if ours else []) == api.deleted


def two_stuck(node: clusters.Node) -> tuple[caches.Caches, keys.Ring]:
    """Return two pods that our words keep off a node, and the ring that signed these."""
    ring = keys.Ring(keys=(keys.generate(not_before=built.AT - 60, not_after=built.AT + 3600),))
    cached = built.filled(node)
    run = built.a_run("a", "b")
    tasks = tuple(
        dataclasses.replace(each, state=workflows.TaskState.PENDING) for each in run.workflow.tasks
    )
    workflow = dataclasses.replace(run.workflow, tasks=tasks)
    cached.workflows.put("genomics/exome", dataclasses.replace(run, workflow=workflow))
    for name in ("a", "b"):
        stuck = a_stuck()
        pod = dataclasses.replace(stuck.pod, name=name, uid=f"uid-{name}", node_id=f"exome-{name}")
        named = dataclasses.replace(stuck, pod=pod)
        named = words.signed(named, ring, issued_at=built.AT, placement=MISPLACED.placement)
        cached.pods.put(f"genomics/{name}", named)
    return cached, ring


async def test_a_pod_that_may_not_be_deleted_keeps_no_other_from_being_given_back() -> None:
    """Somebody's admission policy refuses it, in every look anew."""
    cached, ring = two_stuck(built.a_node("other"))

    class Refusing(_Deleting):
        async def delete(self, path: str, *, body: object | None = None) -> None:
            if path.endswith("/a"):
                raise apis.ForbiddenError("a policy denies it", status=403)
            await super().delete(path, body=body)

    api = Refusing()
    assert 1 == await a_recovery(cached, api, ring, at=built.AT + 60).once()
    assert ["b"] == api.deleted


@pytest.mark.parametrize(("cores", "given_back"), [(1, ["a"]), (2, ["a", "b"])])
async def test_no_more_pods_are_given_back_than_the_other_node_takes(
    cores: int, given_back: list[str]
) -> None:
    """Each costs one of the few times that a task is given back at all."""
    cached, ring = two_stuck(built.a_node("other", cpu_m=cores * 1000))
    api = _Deleting()
    assert len(given_back) == await a_recovery(cached, api, ring, at=built.AT + 60).once()
    assert given_back == api.deleted


@pytest.mark.parametrize(
    ("changes", "lives"),
    [
        ({}, True),
        ({"suspended": True}, False),
        ({"shutting_down": True}, False),
        ({"ended": True}, False),
    ],
)
def test_argo_creates_a_pod_again_only_in_a_workflow_that_lives(
    changes: dict[str, Any], lives: bool
) -> None:
    """And only for a node that it shows as Pending."""
    workflow = dataclasses.replace(built.a_run("a").workflow, **changes)
    pending = tuple(
        dataclasses.replace(task, state=workflows.TaskState.PENDING) for task in workflow.tasks
    )
    assert lives is recoveries.lives(dataclasses.replace(workflow, tasks=pending), a_stuck().pod)
    assert not recoveries.lives(workflow, a_stuck().pod)


def a_chosen(name: str, ranker: str) -> policies.Chosen:
    """What one policy decides by."""
    return policies.Chosen(
        choices=settings.PolicySettings(name=name),
        ranker=builtins.named(ranker),
        mode=settings.Mode.ENFORCE,
    )


def a_waiting(name: str, *, priority: int, cpu_m: int, since: float) -> snapshots.Waiting:
    """A pod of its own workflow that waits."""
    pod = dataclasses.replace(
        built.a_seen(name, cpu_m=cpu_m, gated=True, priority=priority).pod, workflow_uid=name
    )
    return snapshots.Waiting(
        pod=pod, workflow=f"genomics/{name}", tenant="genomics", waiting_since=since
    )


@pytest.mark.parametrize("important", ["first", "second"])
def test_a_policy_never_gives_away_the_room_of_somebody_more_important_under_another(
    important: str,
) -> None:
    """The important pod does not fit yet; the lesser one would, and has to leave it the room."""
    node = built.a_node("n", cpu_m=8000)
    room = snapshots.Room(
        node=node,
        group="m5/a",
        free=node.allocatable - amounts.Amounts(4000),
        frees_at=((built.AT + 5, amounts.Amounts(4000)),),
        holders=("genomics/busy",),
    )
    other = "second" if important == "first" else "first"
    high = a_waiting("high", priority=100, cpu_m=8000, since=built.AT)
    low = a_waiting("low", priority=0, cpu_m=4000, since=built.AT - 50)
    scene = snapshots.Snapshot(
        at=built.AT,
        groups=(clusters.Group(name="m5/a", nodes=("n",)),),
        rooms=(room,),
        waiting=(low, high),
    )
    parts = plannings.parts(
        [
            (high, a_chosen(important, builtins.SRWF_WAIT)),
            (low, a_chosen(other, builtins.FIFO)),
        ]
    )
    planned = plannings.Planning(100).plan(scene, parts)
    assert ["high", "low"] == sorted(each.waiting.pod.name for each in planned)
    assert all(isinstance(each.answer, plans.Hold) for each in planned)


def test_two_policies_of_one_tier_do_not_block_one_another() -> None:
    """Each pod that fits goes, whoever ranks it."""
    node = built.a_node("n", cpu_m=8000)
    room = snapshots.Room(node=node, group="m5/a", free=node.allocatable)
    pods_ = [a_waiting(name, priority=0, cpu_m=4000, since=built.AT) for name in ("a", "b", "c")]
    scene = snapshots.Snapshot(at=built.AT, rooms=(room,), waiting=tuple(pods_))
    parts = plannings.parts(
        [
            (pods_[0], a_chosen("x", builtins.SRWF)),
            (pods_[1], a_chosen("y", builtins.FIFO)),
            (pods_[2], a_chosen("y", builtins.FIFO)),
        ]
    )
    planned = plannings.Planning(100).plan(scene, parts)
    assert 2 == sum(isinstance(each.answer, plans.Release) for each in planned)


def test_whom_nobody_steers_any_more_is_opened_with_the_reason() -> None:
    """Opted out, policy Off, mode by annotation, no policy for the namespace, switched off."""
    cached = built.filled(built.a_node("n"))
    known = policies.Policies(cached)
    found = ways.Ways(cached, known, now=lambda: built.AT + 60)
    cached.subscribe(lambda change: found.changed(change) and None)
    pod = built.a_seen("a", gated=True).pod
    cached.workflows.put("genomics/exome", built.a_run("a"))
    assert found.of(pod).chosen is not None
    cached.workflows.put(
        "genomics/exome", built.a_run("a", annotations=(("tiphys.dev/mode", "off"),))
    )
    assert "says Off" in found.of(pod).opens
    cached.workflows.put("genomics/exome", built.a_run("a"))
    spec = {"selector": {"namespaceLabels": {"team": "x"}}}
    cached.policies.put("p", objects.Policy(name="p", uid="u", generation=1, spec=spec, status={}))
    assert "no policy" in found.of(pod).opens
    cached.policies.drop("p")
    cached.namespaces.put("genomics", objects.Layer(name="genomics", uid="ns"))
    assert "not opted in" == found.of(pod).opens
    switched = ways.Ways(cached, known, now=lambda: built.AT, disabled=True)
    assert "TIPHYS_DISABLED" in switched.of(pod).opens


def test_a_pod_that_is_seen_before_its_workflow_is_not_judged_at_once() -> None:
    """Ten seconds later it is; at once where our clock is an hour behind."""
    cached = built.filled(built.a_node("n"), opted_in=False)
    at = [built.AT + 1]
    found = ways.Ways(cached, policies.Policies(cached), now=lambda: at[0])
    pod = built.a_seen("a", gated=True).pod
    assert ways.EARLY == found.of(pod)
    at[0] += 20
    assert "not opted in" == found.of(pod).opens
    behind = ways.Ways(cached, policies.Policies(cached), now=lambda: built.AT - 3600)
    assert "not opted in" == behind.of(pod).opens


class Listing(builders.Api):
    """One gated pod, as metadata in the list and whole by itself."""

    async def pages(self, path: str, **options: Any) -> Any:
        """Yield one page."""
        assert self.pod is not None
        yield {"items": [{"metadata": self.pod["metadata"]}]}

    async def get(self, path: str) -> dict[str, Any]:
        """Read it."""
        return await self.call("GET", path)

    async def patch(self, path: str, body: object, **options: Any) -> dict[str, Any]:
        """Change it."""
        return await self.call("PATCH", path, body=body, **options)


async def test_a_gated_pod_that_the_caches_do_not_hold_is_opened_at_the_second_look() -> None:
    """One that they hold is left to the plan."""
    api, cached = Listing(builders.a_raw_pod()), built.filled(built.a_node("n"))
    found = strays.Strays(
        api,  # type: ignore[arg-type]
        cached,
        fence=lambda: None,
        clock=builders.Clock(),
        counted=counted(),
    )
    assert [0, 1] == [await found.once(), await found.once()]
    assert api.pod is not None
    assert [] == api.pod["spec"]["schedulingGates"]
    known = builders.a_seen()
    cached.pods.put(known.pod.key, known)
    assert [0, 0] == [await found.once(), await found.once()]


async def test_a_stray_gate_that_is_not_ours_to_open_stays_and_keeps_no_other_shut() -> None:
    """Set by hand, or kept by somebody's policy; and pages that expired do not end the looks."""
    fresh = builders.a_raw_pod

    class Several(Listing):
        async def pages(self, path: str, **options: Any) -> Any:
            yield {"items": [{"metadata": each["metadata"]} for each in made.values()]}

        async def get(self, path: str) -> dict[str, Any]:
            return made[path.rpartition("/")[2]]

        async def patch(self, path: str, body: object, **options: Any) -> dict[str, Any]:
            name = path.rpartition("/")[2]
            tried.append(name)
            if name == "denied":
                raise apis.ForbiddenError("a policy denies it", status=403)
            return made[name]

    tried: list[str] = []
    made = {
        name: fresh(metadata__name=name, metadata__uid=f"{place}")
        for place, name in enumerate(("denied", "by-hand", "ours"))
    }
    for mark in ("annotations", "labels"):
        made["by-hand"]["metadata"][mark] = {}
    api, clock = Several(None), clocks.Clock(built.AT)
    found = strays.Strays(
        api,  # type: ignore[arg-type]
        built.filled(built.a_node("n")),
        fence=lambda: None,
        clock=clock,
        counted=counted(),
    )
    assert [0, 1] == [await found.once(), await found.once()]
    assert ["denied", "ours"] == tried
    said: list[Exception] = [apis.GoneError("expired", status=410), errors.StaleError("over")]

    async def failing() -> int:
        raise said.pop(0)

    found.once = failing  # type: ignore[method-assign]
    task = asyncio.ensure_future(found.run())
    await clock.advance(strays.LOOK_S)
    assert not task.done()
    await clock.advance(strays.LOOK_S)
    assert task.done()
