"""Single decisions, one rule each."""

import dataclasses
from typing import Any

import pytest

from tests.unit.planner import scenes
from tiphys.models.domain import clusters, constraints, pods, settings
from tiphys.models.planner import planners, plans, ticks
from tiphys.models.policies import builtins

NODE = scenes.a_node("n1", cores=4)
FAST = scenes.a_node("f1", cores=4, kind="fast")
SPEEDS = (("fast/r1", 0.5), ("m5/r1", 1.0))


def planned(
    snapshot: object, policy: str = builtins.DEFAULT, **choices: object
) -> tuple[dict[str, plans.Release], dict[str, plans.Hold]]:
    """Return releases and holds by the name of the pod."""
    chosen = dataclasses.replace(settings.PolicySettings(), **choices)  # type: ignore[arg-type]
    plan = planners.plan(snapshot, builtins.named(policy), chosen)  # type: ignore[arg-type]
    return (
        {each.uid.removeprefix("uid-"): each for each in plan.releases},
        {each.uid.removeprefix("uid-"): each for each in plan.holds},
    )


def busy(node: str, *cores_until: tuple[float, float]) -> dict[str, list[scenes.Running]]:
    """Return what runs on a node: (cores, seconds until the end)."""
    return {
        node: [
            (f"ns/busy-{number}", seconds, scenes.amount(cores, cores))
            for number, (cores, seconds) in enumerate(cores_until)
        ]
    }


def test_smaller_work_goes_first_and_the_other_names_it() -> None:
    """With room for one, the other one's hold says who took it."""
    waiting = [
        scenes.a_waiting("big", cores=4, work=900),
        scenes.a_waiting("small", cores=4, work=9),
    ]
    releases, holds = planned(scenes.a_snapshot([NODE], waiting))
    assert ["small"] == list(releases)
    assert (plans.HoldKind.ORDER, "ns/small") == (holds["big"].kind, holds["big"].blocker)
    assert holds["big"].reason == "ns/small goes first and took the room."


def test_priority_beats_every_policy() -> None:
    """PriorityClass first, then the Workflow's priority, whatever work they have."""
    waiting = [
        scenes.a_waiting("low", cores=4, work=1),
        scenes.a_waiting("flow", cores=4, work=500, workflow_priority=5),
        scenes.a_waiting("class", cores=4, work=900, priority=10),
    ]
    releases, holds = planned(scenes.a_snapshot([NODE], waiting))
    assert ["class"] == list(releases)
    assert ["flow", "low"] == list(holds)


def test_the_group_that_ends_it_first_is_preferred() -> None:
    """Learned factors decide; candidates carry the estimated seconds, best first."""
    snapshot = scenes.a_snapshot([NODE, FAST], [scenes.a_waiting("a", lasts_s=60)], factors=SPEEDS)
    release = planned(snapshot)[0]["a"]
    assert ("fast/r1", "prefer", "f1") == (
        release.placement.group,
        release.placement.bind,
        release.node,
    )
    assert [("fast/r1", 33.0), ("m5/r1", 63.0)] == [(c.group, c.score) for c in release.candidates]


def test_a_wait_that_pays_holds_a_pod_that_fits() -> None:
    """The fast node is free in 5 s: 38 s there beat 63 s here."""
    snapshot = scenes.a_snapshot(
        [NODE, FAST],
        [scenes.a_waiting("a", lasts_s=60)],
        running=busy("f1", (4, 2.0)),
        factors=SPEEDS,
    )
    hold = planned(snapshot)[1]["a"]
    assert (plans.HoldKind.WAIT, True, "ns/busy-0") == (hold.kind, hold.fits, hold.blocker)
    assert scenes.AT + 5.0 == pytest.approx(hold.until)
    assert hold.reason == (
        "Waits for f1, free about 02:46:45 UTC (busy with ns/busy-0): it would end there 25 s "
        "sooner than on n1, which has room now."
    )
    assert "a" in planned(snapshot, builtins.SRWF)[0]


@pytest.mark.parametrize("reason", ["later", "held", "overdue"])
def test_a_wait_ends_when_it_does_not_pay_or_lasts_too_long(reason: str) -> None:
    """A fast node that is busy for long, a hold that used `gate.maxHold`, an overdue pod."""
    waiting = scenes.a_waiting(
        "a",
        lasts_s=60,
        held_s=301 if reason == "held" else 0,
        waited_s=700 if reason == "overdue" else 0,
    )
    ends_s = 60.0 if reason == "later" else 2.0
    snapshot = scenes.a_snapshot(
        [NODE, FAST], [waiting], running=busy("f1", (4, ends_s)), factors=SPEEDS
    )
    release = planned(snapshot)[0]["a"]
    assert (release.node, release.forced) == ("n1", reason == "held")


def test_an_overdue_pod_goes_first() -> None:
    """After `overdueAfter` even the largest work goes before the smallest."""
    waiting = [
        scenes.a_waiting("old", cores=4, work=500, waited_s=601),
        scenes.a_waiting("new", cores=4, work=1),
    ]
    releases, _ = planned(scenes.a_snapshot([NODE], waiting))
    assert ["old"] == list(releases)
    assert releases["old"].reason.endswith("it has waited 10 min 1 s and is overdue.")


def test_while_the_backlog_is_longer_nobody_is_overdue() -> None:
    """With hours of work waiting ten minutes are no delay, else the order would be FIFO."""
    waiting = [
        scenes.a_waiting("old", cores=4, work=100_000, waited_s=601),
        scenes.a_waiting("new", cores=4, work=1),
    ]
    assert ["new"] == list(planned(scenes.a_snapshot([NODE], waiting))[0])


@pytest.mark.parametrize(("waited_s", "expected"), [(3_900, "new"), (4_100, "old")])
def test_most_of_a_backlog_may_pass_before_a_pod_is_overdue(waited_s: float, expected: str) -> None:
    """1,000 s of work are left on 4 cores: who waits for the last fifth of 5,000 s goes first."""
    waiting = [
        scenes.a_waiting("old", cores=4, work=3_999, waited_s=waited_s),
        scenes.a_waiting("new", cores=4, work=1),
    ]
    assert [expected] == list(planned(scenes.a_snapshot([NODE], waiting))[0])


def test_room_is_kept_for_an_overdue_pod_and_short_ones_fill_in() -> None:
    """4 cores are free in 60 s for the overdue pod: 20 s may run before, 100 s may not."""
    waiting = [
        scenes.a_waiting("old", cores=4, lasts_s=50, waited_s=5_000),
        scenes.a_waiting("short", cores=1, lasts_s=20, work=5),
        scenes.a_waiting("long", cores=1, lasts_s=100, work=1),
    ]
    snapshot = scenes.a_snapshot([NODE], waiting, running=busy("n1", (2, 60.0)))
    releases, holds = planned(snapshot)
    assert ["short"] == list(releases)
    assert plans.HoldKind.ROOM is holds["old"].kind
    assert holds["long"].reason == "Room on n1 is kept for ns/old, which goes first."
    assert "ns/old" in holds["long"].blockers


def test_a_tenant_far_below_its_share_goes_before_the_order() -> None:
    """The poor namespace is served although its work is larger, and the other is told so."""
    waiting = [
        scenes.a_waiting("rich", cores=4, work=1, tenant="a"),
        scenes.a_waiting("poor", cores=4, work=900, tenant="b"),
    ]
    tenants = (("a", 1.0, 0.9), ("b", 1.0, 0.05))
    releases, holds = planned(scenes.a_snapshot([NODE], waiting, tenants=tenants))
    assert ["poor"] == list(releases)
    assert plans.HoldKind.SHARE is holds["rich"].kind
    assert holds["rich"].reason == (
        "b/poor took the room: it is the turn of namespace b, which uses less of its share than a "
        "does."
    )


def test_a_weight_moves_the_share() -> None:
    """A namespace of weight 0.05 has its due with little."""
    waiting = [
        scenes.a_waiting("rich", cores=4, work=1, tenant="a"),
        scenes.a_waiting("poor", cores=4, work=900, tenant="b"),
    ]
    tenants = (("a", 1.0, 0.9), ("b", 1.0, 0.05))
    snapshot = scenes.a_snapshot([NODE], waiting, tenants=tenants)
    assert ["rich"] == list(planned(snapshot, tenant_weights=(("b", 0.05),))[0])


def test_a_lock_holder_inherits_the_tier_of_what_waits_for_it() -> None:
    """It goes before a pod of a priority that those who wait for it outrank."""
    waiting = [
        scenes.a_waiting("holder", cores=4, work=900, urgency_of=("ns/urgent",)),
        scenes.a_waiting("urgent", cores=4, work=950, workflow_priority=9, waited_s=-1),
        scenes.a_waiting("middle", cores=4, work=1, workflow_priority=5),
    ]
    releases, holds = planned(scenes.a_snapshot([NODE], waiting))
    assert "middle" in holds
    assert {"holder"} == set(releases) or {"urgent"} == set(releases)


def test_argos_clocks_open_a_gate_without_room_and_without_a_place() -> None:
    """At `must_open_by` the pod goes to kube-scheduler, whatever is free."""
    waiting = scenes.a_waiting("a", cores=4, must_open_by=scenes.AT)
    snapshot = scenes.a_snapshot([NODE], [waiting], running=busy("n1", (4, 50.0)))
    release = planned(snapshot)[0]["a"]
    assert (True, "", "") == (release.forced, release.node, release.placement.group)


def test_a_hold_for_room_says_what_is_short_and_when_some_comes() -> None:
    """The running pod whose end makes room is the blocker."""
    snapshot = scenes.a_snapshot(
        [NODE], [scenes.a_waiting("a", cores=3)], running=busy("n1", (2, 40.0), (2, 90.0))
    )
    hold = planned(snapshot)[1]["a"]
    assert hold.blockers == ("ns/busy-0", "ns/busy-1")
    assert hold.reason == (
        "No node that it may use has room (cpu on n1); the next is expected about 02:48:13 UTC, "
        "when ns/busy-1 has ended."
    )


def test_what_fits_nowhere_is_never_gated() -> None:
    """Each group says why, and a cordon alone is no reason."""
    cordoned = scenes.a_node("c1", cores=64, schedulable=False)
    never = scenes.a_waiting("never", cores=65)
    later = scenes.a_waiting("later", cores=40)
    _, holds = planned(scenes.a_snapshot([NODE, cordoned], [never, later]))
    assert plans.HoldKind.NEVER is holds["never"].kind
    assert "too small: cpu" in holds["never"].reason
    assert plans.HoldKind.ROOM is holds["later"].kind
    assert holds["later"].blocker == "c1"


def test_a_rule_masks_groups_and_is_written_as_a_requirement() -> None:
    """A pod under a rule gets a nodeSelector; the masked group keeps its reason."""
    rules = constraints.read(
        [{"name": "no m5", "use": [{"what": "instanceType", "mustNot": ["m5"]}]}]
    )
    snapshot = scenes.a_snapshot([NODE, FAST], [scenes.a_waiting("a")])
    release = planned(snapshot, rules=rules)[0]["a"]
    assert ("fast/r1", "require") == (release.placement.group, release.placement.bind)
    assert [("m5/r1", "rule 'no m5': instanceType m5 is ruled out")] == [
        (masked.group, masked.why) for masked in release.masked
    ]


def test_a_rule_about_some_nodes_of_a_group_names_the_host() -> None:
    """Labels of the group would let it onto a node that the rule forbids."""
    tainted = scenes.a_node("n0", cores=8, taints=(clusters.Taint(key="spot"),))
    rules = constraints.read(
        [{"name": "no spot", "use": [{"what": "taint", "key": "spot", "mustNot": ["*"]}]}]
    )
    asked = pods.Constraints(tolerations=(pods.Toleration(operator="Exists"),))
    snapshot = scenes.a_snapshot([NODE, tainted], [scenes.a_waiting("a", constraints=asked)])
    placement = planned(snapshot, rules=rules)[0]["a"].placement
    assert (((settings.HOSTNAME, "n1"),), "require") == (placement.selector, placement.bind)


def test_a_constraint_that_is_not_modelled_gets_an_order_and_no_place() -> None:
    """Pod affinity and the like are kube-scheduler's to solve."""
    asked = pods.Constraints(unmodelled=("spec.affinity.podAffinity",))
    release = planned(scenes.a_snapshot([NODE], [scenes.a_waiting("a", constraints=asked)]))[0]["a"]
    assert ((), "n1") == (release.placement.selector, release.node)


def test_bandwidth_pressure_and_split_gpus_cost() -> None:
    """A heavy task avoids the pressed node, a pair of GPUs the node that has them apart."""
    pressed = scenes.a_node("a1", kind="m6", mbpi=1.0)
    heavy = scenes.a_waiting("heavy", cores=2)
    light = scenes.a_waiting("light", cores=0.5)
    snapshot = scenes.a_snapshot(
        [pressed, scenes.a_node("b1", kind="m7")],
        [heavy, light],
        factors=(("m6/r1", 0.9), ("m7/r1", 1.0)),
    )
    releases, _ = planned(snapshot, builtins.SRWF)
    assert ("b1", "a1") == (releases["heavy"].node, releases["light"].node)
    apart = scenes.a_node("g1", kind="g", gpus=2, gpu_roots=(1, 1))
    paired = scenes.a_node("g2", kind="h", gpus=2, gpu_roots=(2,))
    two = scenes.a_snapshot(
        [apart, paired], [scenes.a_waiting("pair", gpus=2)], factors=(("g/r1", 0.5),)
    )
    assert planned(two, builtins.SRWF)[0]["pair"].node == "g2"


@pytest.mark.parametrize(
    ("bind", "expected"), [(settings.Bind.REQUIRE, "require"), (settings.Bind.PREFER, "prefer")]
)
def test_bind_may_be_forced(bind: settings.Bind, expected: str) -> None:
    """`require` always writes the selector, `prefer` never."""
    snapshot = scenes.a_snapshot([NODE], [scenes.a_waiting("a")])
    release = planned(snapshot, placement=settings.Placement(bind=bind))[0]["a"]
    assert expected == release.placement.bind


@pytest.mark.parametrize(
    ("changes", "lowest", "expected"),
    [
        ({"priority": 100}, 0, "prefer"),
        ({"priority": 100}, 100, "require"),
        ({"priority": 100}, None, "require"),
        ({"priority": 100, "preempts": False}, 0, "require"),
        ({"priority": 100, "constraints": {"node": "m5"}}, 0, "require"),
    ],
)
def test_no_selector_is_written_that_could_end_others_while_the_pod_fits_elsewhere(
    changes: dict[str, Any], lowest: int | None, expected: str
) -> None:
    """Lower priorities run in the group, the pod may preempt, and another group could take it."""
    if "constraints" in changes:
        only = pods.Constraints(node_selector=(("node.kubernetes.io/instance-type", "m5"),))
        changes = {**changes, "constraints": only}
    waiting = scenes.a_waiting("a")
    waiting = dataclasses.replace(waiting, pod=dataclasses.replace(waiting.pod, **changes))
    snapshot = scenes.a_snapshot([NODE, FAST], [waiting], factors=(("m5/r1", 0.5),))
    rooms = tuple(dataclasses.replace(room, lowest_priority=lowest) for room in snapshot.rooms)
    snapshot = dataclasses.replace(snapshot, rooms=rooms)
    placement = settings.Placement(bind=settings.Bind.REQUIRE)
    released = planned(snapshot, placement=placement)[0]["a"].placement
    assert ("m5/r1", expected) == (released.group, released.bind)


def admitted(snapshot: object, waiting: object, **placement: object) -> plans.Release | plans.Hold:
    """Return what happens to a pod that is being created."""
    choices = settings.PolicySettings(placement=settings.Placement(**placement))  # type: ignore[arg-type]
    return planners.admit(snapshot, waiting, builtins.named(builtins.DEFAULT), choices)  # type: ignore[arg-type]


def test_a_pod_that_may_start_never_sees_a_gate() -> None:
    """Room and nobody before it: its place is written at once."""
    answer = admitted(scenes.a_snapshot([NODE]), scenes.a_waiting("new"))
    assert isinstance(answer, plans.Release)
    assert answer.placement.group == "m5/r1"


def test_a_pod_with_a_rival_before_it_is_gated() -> None:
    """The one that waits has less work and could use the room."""
    snapshot = scenes.a_snapshot([NODE], [scenes.a_waiting("first", work=1)])
    answer = admitted(snapshot, scenes.a_waiting("new", work=500))
    assert isinstance(answer, plans.Hold)
    assert answer.reason == "ns/first goes first and may use the same room."


def test_the_settings_force_a_gate_or_forbid_it() -> None:
    """`release` gates what could start, `admission` lets through what could not."""
    gated = admitted(scenes.a_snapshot([NODE]), scenes.a_waiting("new"), when=settings.When.RELEASE)
    assert isinstance(gated, plans.Hold)
    full = scenes.a_snapshot([NODE], running=busy("n1", (4, 50.0)))
    passed = admitted(full, scenes.a_waiting("new"), when=settings.When.ADMISSION)
    assert isinstance(passed, plans.Release)
    assert () == passed.placement.selector


def test_a_tight_quota_is_not_filled_with_gates() -> None:
    """What cannot start at once in such a namespace gets kind QUOTA."""
    full = scenes.a_snapshot([NODE], running=busy("n1", (4, 50.0)), tight=("ns",))
    answer = admitted(full, scenes.a_waiting("new"))
    assert isinstance(answer, plans.Hold)
    assert plans.HoldKind.QUOTA is answer.kind


def test_a_crowd_is_joined_without_a_look_at_each() -> None:
    """Behind many a new pod takes its turn, and the answer costs no walk over them."""
    many = [scenes.a_waiting(f"w{n}", cores=64) for n in range(planners.ADMIT_SCAN + 1)]
    answer = admitted(scenes.a_snapshot([NODE], many), scenes.a_waiting("new"))
    assert isinstance(answer, plans.Hold)
    assert answer.reason == "257 pods wait already: it takes its turn."


def test_a_limit_of_releases_holds_the_rest_in_order() -> None:
    """The caller opens two gates now and asks again."""
    waiting = [scenes.a_waiting(f"w{n}", work=n) for n in range(4)]
    plan = planners.Planner().plan(
        scenes.a_snapshot([NODE], waiting),
        builtins.named(builtins.DEFAULT),
        settings.PolicySettings(),
        most_releases=2,
    )
    assert ["uid-w0", "uid-w1"] == [each.uid for each in plan.releases]
    assert [("uid-w2", 3), ("uid-w3", 4)] == [(each.uid, each.rank) for each in plan.holds]


@pytest.mark.parametrize(("ahead", "gated"), [(1, True), (ticks.HEADS_KEPT, True), (0, False)])
def test_a_new_pod_takes_no_room_at_admission_that_a_plan_keeps(ahead: int, gated: bool) -> None:
    """Small ones that come one after another would pass a large one until it is overdue."""
    large = [
        scenes.a_waiting(f"large{number}", cores=4, work=100 + number) for number in range(ahead)
    ]
    scene = scenes.a_snapshot([NODE], large, running=busy("n1", (2, 20)))
    new = scenes.a_waiting("new", work=500, lasts_s=300)
    both = dataclasses.replace(scene, waiting=(*scene.waiting, new))
    _, holds = planned(both)
    assert gated is ("new" in holds)
    answer = admitted(scene, new)
    assert gated is isinstance(answer, plans.Hold)
    if isinstance(answer, plans.Hold):
        assert plans.HoldKind.ORDER is answer.kind
        assert answer.reason.startswith("ns/large0 goes first")


def test_a_new_pod_that_goes_before_those_for_whom_room_is_kept_starts_at_once() -> None:
    """What it could use is kept for nobody before it."""
    large = scenes.a_waiting("large", cores=4, work=100)
    scene = scenes.a_snapshot([NODE], [large], running=busy("n1", (2, 20)))
    assert isinstance(admitted(scene, scenes.a_waiting("new", work=50)), plans.Release)
