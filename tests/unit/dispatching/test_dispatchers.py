"""The loop against caches that are filled by hand and an API that only takes notes.

Over 400 lines, since one loop is tried with one set of fakes.
"""

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest

from tests.fakes.deciders import a_ring
from tests.unit.dispatching import words
from tests.unit.operator import builders as built
from tiphys.models.domain import decisions, errors, optins, pods, settings
from tiphys.models.planner import plans
from tiphys.models.wire import stamps
from tiphys.operator import (
    apis,
    assumptions,
    caches,
    clocks,
    departures,
    dispatchers,
    legacies,
    objects,
    plannings,
    policies,
    snapshots,
    tallies,
)
from tiphys.operator import settings as operator_settings

STEP_S = 0.02
LEGACY = "/apis/coordination.k8s.io/v1/namespaces/tiphys-system/leases/tiphys-dispatch"


class Api:
    """Opens every gate that it is asked to, in the caches, as the watch would."""

    def __init__(self, cached: caches.Caches) -> None:
        self.cached = cached
        self.opened: list[str] = []
        self.refusals: dict[str, Exception] = {}
        self.others: list[tuple[str, str]] = []
        self.legacy: dict[str, str] = {}
        self.stamps: dict[str, decisions.Stamp] = {}

    async def call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """Take a call."""
        await asyncio.sleep(0)
        if path == LEGACY:
            if method == "PATCH":
                self.legacy = options["body"]["metadata"]["annotations"]
            return {"metadata": {"annotations": self.legacy}}
        if method != "PATCH" or options.get("content_type") != apis.JSON_PATCH:
            self.others.append((method, path))
            return {}
        _, _, _, _, namespace, _, name = path.split("/")
        key = f"{namespace}/{name}"
        if key in self.refusals:
            raise self.refusals[key]
        seen = self.cached.pods.get(key)
        if seen is None:
            raise apis.NotFoundError("gone", status=404)
        stamp = next(
            step["value"]
            for step in options["body"]
            if step["path"].endswith("tiphys.dev~1release")
        )
        self.stamps[name] = stamps.decode(stamp)
        self.opened.append(name)
        pod = dataclasses.replace(seen.pod, gates=())
        signature = next(
            step["value"]
            for step in options["body"]
            if step["path"].endswith("tiphys.dev~1release-signature")
        )
        annotations = (
            (decisions.RELEASE_ANNOTATION, stamp),
            (decisions.RELEASE_SIGNATURE, signature),
        )
        self.cached.pods.put(key, objects.Seen(pod=pod, version="2", annotations=annotations))
        return {}


class Scene:
    """A dispatcher that runs over some nodes."""

    def __init__(self, *nodes: Any, disabled: bool = False, **changes: Any) -> None:
        self.clock = clocks.Wall()
        self.cached = built.filled(*nodes)
        for cache in self.cached.all:
            cache.heard_at = self.clock.monotonic()
        self.assumed = assumptions.Assumptions(self.clock.monotonic)
        pictured = snapshots.Snapshots(
            self.cached, self.assumed, clock=self.clock.now, monotonic=self.clock.monotonic
        )
        self.api = Api(self.cached)
        self.leads = True
        self.ring = ring = a_ring()
        self.counted = tallies.Tallies(prometheus_client.CollectorRegistry())
        self.dispatcher = dispatchers.Dispatcher(
            self.api,  # type: ignore[arg-type]
            self.cached,
            pictured,
            self.assumed,
            policies.Policies(self.cached),
            election=_Election(self),  # type: ignore[arg-type]
            trust=_Trust(ring),  # type: ignore[arg-type]
            chosen=operator_settings.Dispatch(**changes),
            clock=self.clock,
            counted=self.counted,
            namespace="tiphys-system",
            disabled=disabled,
        )

    def put(self, *names: str, **fields: Any) -> None:
        """Show gated pods."""
        for name in names:
            self.show(built.a_seen(name, gated=True, **{"created_at": self.clock.now(), **fields}))

    def show(self, seen: objects.Seen) -> None:
        """Show a pod as the watch would."""
        self.cached.pods.put(seen.pod.key, seen)

    def bind(self, name: str, node: str) -> None:
        """Show a pod bound."""
        seen = self.cached.pods.get(f"genomics/{name}")
        assert seen is not None
        pod = dataclasses.replace(seen.pod, node=node, bound_at=self.clock.now())
        self.show(dataclasses.replace(seen, pod=pod))

    async def until(self, question: Callable[[], bool], within_s: float = 5.0) -> None:
        """Wait until something holds."""
        for _ in range(round(within_s / STEP_S)):
            if question():
                return
            await asyncio.sleep(STEP_S)
        raise TimeoutError(f"not within {within_s} s")


class _Election:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    @property
    def leading(self) -> bool:
        return self._scene.leads

    def fence(self) -> None:
        if not self._scene.leads:
            raise errors.StaleError("leads no more")


@dataclasses.dataclass
class _Trust:
    ring: Any


@pytest.fixture
async def run() -> Any:
    """Return a function that runs a scene's dispatcher until the test is over."""
    tasks: list[asyncio.Future[None]] = []

    def start(scene: Scene) -> asyncio.Future[None]:
        scene.cached.workflows.put("genomics/exome", built.a_run("a", "b", "c"))
        task = asyncio.ensure_future(scene.dispatcher.run())
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_no_more_is_released_than_fits_and_room_that_appears_is_given_on(run: Any) -> None:
    """Two pods of four cores fit on eight; the third goes when one ends."""
    scene = Scene(built.a_node("n"))
    scene.put("a", "b", "c", cpu_m=4000)
    run(scene)
    await scene.until(lambda: len(scene.api.opened) == 2)
    first = scene.api.opened[0]
    for name in scene.api.opened:
        scene.bind(name, "n")
    await asyncio.sleep(0.1)
    assert 2 == len(scene.api.opened)
    scene.cached.pods.drop(f"genomics/{first}")
    await scene.until(lambda: len(scene.api.opened) == 3, within_s=1.0)


async def test_a_refused_gate_does_not_keep_others_and_gives_its_room_back(run: Any) -> None:
    """The one that is forbidden waits, the next takes its room."""
    scene = Scene(built.a_node("n", cpu_m=4000))
    scene.put("a", cpu_m=4000)
    scene.api.refusals["genomics/a"] = apis.ForbiddenError("no", status=403)
    run(scene)
    await asyncio.sleep(0.1)
    scene.put("b", cpu_m=4000)
    await scene.until(lambda: scene.api.opened == ["b"])


async def test_a_gate_that_was_set_by_hand_is_left_alone_and_told_of_once(run: Any) -> None:
    """The pod was never steered: it keeps no room from others, and no patch is tried."""
    scene = Scene(built.a_node("n", cpu_m=4000), events_per_second=100.0)
    hand = built.a_seen("hand", gated=True, cpu_m=4000, priority=9)
    scene.show(dataclasses.replace(hand, labels=()))
    scene.put("a", cpu_m=4000)
    run(scene)
    await scene.until(lambda: scene.api.opened == ["a"])
    scene.show(dataclasses.replace(built.a_seen("lost", gated=True, workflow_uid="?"), labels=()))
    events = ("POST", "/api/v1/namespaces/genomics/events")
    await scene.until(lambda: scene.api.others.count(events) == 3)
    await asyncio.sleep(0.2)
    assert ["a"] == scene.api.opened
    assert 3 == scene.api.others.count(events), "two gates that are not ours, one release"


async def test_what_the_api_server_does_not_answer_comes_again(run: Any) -> None:
    """Half a second later, without an event."""
    scene = Scene(built.a_node("n"))
    scene.put("a")
    scene.api.refusals["genomics/a"] = apis.UnreachableError("busy", status=503)
    run(scene)
    await asyncio.sleep(0.2)
    scene.api.refusals.clear()
    await scene.until(lambda: scene.api.opened == ["a"], within_s=8.0)


async def test_a_new_leader_counts_what_the_old_one_let_go(run: Any) -> None:
    """A pod that was released and is not bound yet takes room on the node that is left for it."""
    scene = Scene(built.a_node("n", cpu_m=4000))
    issued = scene.clock.now()
    old = built.a_seen("old", cpu_m=4000, created_at=issued)
    scene.show(words.signed(old, scene.ring, issued_at=issued, placement=words.PLACED))
    scene.put("a", cpu_m=4000)
    run(scene)
    await asyncio.sleep(0.2)
    assert [] == scene.api.opened
    scene.cached.pods.drop("genomics/old")
    await scene.until(lambda: scene.api.opened == ["a"])


async def test_planned_openings_keep_to_the_burst(run: Any) -> None:
    """Switched off, openBurst 2: the third opens when one of two is bound."""
    scene = Scene(built.a_node("n"), disabled=True)
    spec = {"gate": {"openBurst": 2}}
    policy = objects.Policy(name="p", uid="u", generation=1, spec=spec, status={})
    scene.cached.policies.put("p", policy)
    scene.put("a", "b", "c")
    run(scene)
    await scene.until(lambda: len(scene.api.opened) == 2)
    await asyncio.sleep(0.4)
    assert 2 == len(scene.api.opened)
    scene.bind(scene.api.opened[0], "n")
    await scene.until(lambda: len(scene.api.opened) == 3)


async def test_a_forged_word_takes_no_room(run: Any) -> None:
    """Anybody may write our annotation onto a pod of theirs, and date it years ahead."""
    scene = Scene(built.a_node("n", cpu_m=4000))
    ahead = scene.clock.now() + 1e8
    for place in range(20):
        pod = built.a_seen(f"idle-{place}", cpu_m=4000, namespace="other", workflow_uid="")
        scene.show(words.signed(pod, a_ring(), issued_at=ahead))
    scene.show(words.signed(built.a_seen("mine", cpu_m=4000), a_ring(), issued_at=ahead))
    scene.put("a", cpu_m=4000)
    run(scene)
    await scene.until(lambda: scene.api.opened == ["a"])


async def test_openings_that_never_bind_end_to_count_after_a_while(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Switched off, openBurst 2: two more open every half second here, ten in the product."""
    monkeypatch.setattr(departures, "LOOSE_S", 0.5)
    scene = Scene(built.a_node("n"), disabled=True)
    spec = {"gate": {"openBurst": 2}}
    policy = objects.Policy(name="p", uid="u", generation=1, spec=spec, status={})
    scene.cached.policies.put("p", policy)
    scene.put("a", "b", "c", "d", "e")
    run(scene)
    await scene.until(lambda: len(scene.api.opened) == 2)
    await asyncio.sleep(0.2)
    assert 2 == len(scene.api.opened)
    await scene.until(lambda: len(scene.api.opened) == 5, within_s=4.0)


async def test_a_new_leader_counts_openings_of_the_last_seconds_only(run: Any) -> None:
    """Of two loose pods of an earlier leader one was opened long ago; a forged one never counts."""
    scene = Scene(built.a_node("n"), disabled=True)
    spec = {"gate": {"openBurst": 1}}
    policy = objects.Policy(name="p", uid="u", generation=1, spec=spec, status={})
    scene.cached.policies.put("p", policy)
    now = scene.clock.now()
    old = built.a_seen("old", created_at=now - 60)
    scene.show(words.signed(old, scene.ring, issued_at=now - 20))
    scene.show(words.signed(built.a_seen("forged", created_at=now), a_ring(), issued_at=now))
    scene.put("a", "b")
    run(scene)
    await scene.until(lambda: len(scene.api.opened) == 1)
    scene.dispatcher._departures.begin()
    assert 1 == scene.dispatcher._departures.loose


async def test_a_pod_that_kube_scheduler_turns_down_gives_its_room_to_the_next(run: Any) -> None:
    """A constraint that we do not model keeps it off every node: the next has its room at once."""
    scene = Scene(built.a_node("n", cpu_m=4000))
    beside = pods.Constraints(unmodelled=("spec.affinity.podAffinity",))
    scene.put("a", cpu_m=4000, constraints=beside)
    run(scene)
    await scene.until(lambda: scene.api.opened == ["a"])
    scene.put("b", cpu_m=4000)
    await asyncio.sleep(0.2)
    assert ["a"] == scene.api.opened
    seen = scene.cached.pods.get("genomics/a")
    assert seen is not None
    told = "Tiphys: No node has room."
    held = dataclasses.replace(seen, unscheduled_reason="Unschedulable", unscheduled=told)
    scene.show(held)
    await asyncio.sleep(0.2)
    assert ["a"] == scene.api.opened
    scene.show(dataclasses.replace(held, unscheduled="0/1 nodes are available"))
    await scene.until(lambda: scene.api.opened == ["a", "b"], within_s=1.0)


async def test_a_pod_that_was_held_too_long_is_opened_and_counted_as_a_time_out(run: Any) -> None:
    """Two policies' words aside: gate.maxTotal opens it although no node has room."""
    scene = Scene(built.a_node("n", cpu_m=4000))
    spec = {"gate": {"maxTotal": "1s", "maxHold": "1s"}}
    policy = objects.Policy(name="p", uid="u", generation=1, spec=spec, status={})
    scene.cached.policies.put("p", policy)
    scene.show(built.a_seen("busy", cpu_m=4000, node="n"))
    scene.put("a", cpu_m=4000)
    run(scene)
    await scene.until(lambda: scene.api.opened == ["a"], within_s=8.0)
    await asyncio.sleep(0.05)
    assert 1 == scene.counted.opened.labels(tallies.How.CLOCK)._value.get()


async def test_a_new_leader_counts_on_for_how_long_a_pod_was_held(run: Any) -> None:
    """With gate.maxHold nearly used when the last leader died it opens when the rest is."""
    scene = Scene(built.a_node("n1", cpu_m=4000))
    held = settings.Gate(max_hold_s=300.0)
    scene.put("a")
    scene.api.legacy = legacies.encode(legacies.Legacy(held_s={"uid-a": 299.8}))
    dispatcher = scene.dispatcher
    dispatcher._begin(await dispatcher._legacies.read())
    picture = dispatcher._pictured.current()
    (waiting,) = picture.waiting
    hold = plans.Hold(uid="uid-a", kind=plans.HoldKind.ORDER, reason="x", rank=2, fits=True)
    chosen = policies.Policies(scene.cached).choose("genomics", optins.OptIn(enabled=True))
    assert held == chosen.choices.gate
    planned = plannings.Planned(waiting=waiting, chosen=chosen, answer=hold)
    assert 0.0 == dispatcher.holds.held_s("genomics/a")
    assert dispatcher.holds.take([planned], picture) < 1.0
    assert dispatcher.holds.held_s("genomics/a") >= 300.0 - 0.5
    assert dispatcher._left().held_s["uid-a"] >= 299.5


async def test_who_dispatches_no_more_shows_no_held_pods(run: Any) -> None:
    """The next leader's metric would stand beside it for ever."""
    scene = Scene(built.a_node("n", cpu_m=1000))
    scene.put("a", cpu_m=4000)
    scene.show(built.a_seen("busy", cpu_m=1000, node="n"))
    scene.cached.nodes.put("m", built.a_node("m", cpu_m=4000))
    scene.show(built.a_seen("other", cpu_m=1000, node="m"))
    task = run(scene)
    room = scene.counted.held.labels(plans.HoldKind.ROOM.value)._value
    await scene.until(lambda: room.get() == 1.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert 0.0 == room.get()


async def test_dispatch_ends_when_the_fence_closes(run: Any) -> None:
    """No call is made any more, and the caller sees the end."""
    scene = Scene(built.a_node("n", cpu_m=1000))
    task = run(scene)
    await asyncio.sleep(0.05)
    scene.leads = False
    scene.put("a")
    await asyncio.sleep(0.1)
    assert [] == scene.api.opened
    scene.leads = True
    await scene.until(lambda: scene.api.opened == ["a"], within_s=3.0)
    assert not task.done()


async def test_old_caches_open_no_gate(run: Any) -> None:
    """Twelve seconds without a word from the API server: nothing is known for sure."""
    scene = Scene(built.a_node("n"))
    for cache in scene.cached.all:
        cache.current, cache.heard_at = False, scene.clock.monotonic() - 12
    scene.put("a")
    run(scene)
    await asyncio.sleep(0.3)
    assert [] == scene.api.opened


async def test_a_leader_whose_caches_stay_old_lets_go_of_what_it_holds(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Lease says that it lives, so nobody else would: after a minute all gates open."""
    monkeypatch.setattr(dispatchers, "BLIND_S", 0.3)
    scene = Scene(built.a_node("n", cpu_m=1000))
    scene.cached.policies.current, scene.cached.policies.synced = False, False
    scene.put("a", "b", cpu_m=4000)
    run(scene)
    await asyncio.sleep(0.2)
    assert [] == scene.api.opened
    await scene.until(lambda: scene.api.opened == ["a", "b"], within_s=4.0)
    await asyncio.sleep(0.05)
    assert 2 == scene.counted.opened.labels(tallies.How.CLOCK)._value.get()


async def test_a_plan_that_never_ends_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that hangs would leave a leader that lives and opens nothing."""
    monkeypatch.setattr(dispatchers, "PLAN_S", 0.05)
    monkeypatch.setattr(dispatchers, "INLINE", 0)
    over = threading.Event()
    scene = Scene(built.a_node("n"))
    scene.cached.workflows.put("genomics/exome", built.a_run("a"))
    monkeypatch.setattr(scene.dispatcher._planning, "plan", lambda *_: over.wait(30.0))
    scene.put("a")
    try:
        with pytest.raises(ExceptionGroup, match="TaskGroup") as ended:
            await asyncio.wait_for(scene.dispatcher.run(), 5.0)
    finally:
        over.set()
    assert ended.group_contains(TimeoutError, match="a plan takes longer than")


async def test_what_a_pod_was_held_stays_counted_while_it_is_in_no_plan() -> None:
    """Its gate was to open and the API server was busy: gate.maxHold does not begin anew."""
    scene = Scene(built.a_node("n1", cpu_m=4000))
    scene.put("a")
    held = scene.dispatcher.holds
    picture = scene.dispatcher._pictured.current()
    hold = plans.Hold(uid="uid-a", kind=plans.HoldKind.ORDER, reason="x", rank=2, fits=True)
    chosen = policies.Policies(scene.cached).choose("genomics", optins.OptIn(enabled=True))
    planned = plannings.Planned(waiting=picture.waiting[0], chosen=chosen, answer=hold)
    held.begin({"uid-a": 7.0})
    held.take([planned], picture)
    held.take([], picture)
    await asyncio.sleep(0.1)
    assert pytest.approx(7.0, abs=0.05) == held.held_s("genomics/a")
    scene.cached.pods.drop("genomics/a")
    held.take([], scene.dispatcher._pictured.current())
    assert 0.0 == held.held_s("genomics/a")


async def test_the_decision_that_goes_onto_the_pod_tells_whose_it_is(run: Any) -> None:
    """Uid of pod and Workflow, policy, rank and reason."""
    scene = Scene(built.a_node("n"))
    scene.put("a")
    run(scene)
    await scene.until(lambda: scene.api.opened == ["a"])
    stamp = scene.api.stamps["a"]
    assert ("uid-a", built.WORKFLOW_UID) == (stamp.pod_uid, stamp.workflow_uid)
    assert settings.PolicySettings().stable == stamp.policy
    assert 1 == stamp.rank
    assert stamp.reason.startswith("Sent to m5/a")


async def test_a_pod_that_was_bound_beside_its_assumed_host_makes_no_room(run: Any) -> None:
    """Two hosts of one slot each: kube-scheduler swaps them, and a third pod still has none."""
    scene = Scene(built.a_node("n1", cpu_m=4000), built.a_node("n2", cpu_m=4000))
    scene.put("a", "b", "c", cpu_m=4000)
    run(scene)
    await scene.until(lambda: len(scene.api.opened) == 2)
    first = scene.api.opened[0]
    assumed = scene.assumed.get(f"genomics/{first}")
    assert assumed is not None
    scene.bind(first, "n2" if assumed.node == "n1" else "n1")
    await asyncio.sleep(0.1)
    scene.dispatcher.wake()
    await asyncio.sleep(0.2)
    assert 2 == len(scene.api.opened)
