"""Snapshots: what is kept between two pictures never differs from one that is made from nothing."""

import dataclasses
import random

import pytest

from tests.fakes import clocks
from tests.unit.operator import builders
from tiphys.argo import clocks as argo_clocks
from tiphys.models.domain import amounts, pods, settings, snapshots, workflows
from tiphys.models.estimators import books, histories
from tiphys.operator import assumptions, caches, estimates, limits, objects, slacks
from tiphys.operator import snapshots as pictures

AT = builders.AT


def a_picture(
    cached: caches.Caches, kept: estimates.Estimates | None = None
) -> tuple[pictures.Snapshots, assumptions.Assumptions, clocks.Clock]:
    """Return snapshots of some caches, with their assumptions and clock."""
    clock = clocks.Clock(AT + 100)
    assumed = assumptions.Assumptions(clock.monotonic)
    made = pictures.Snapshots(
        cached, assumed, clock=clock.now, monotonic=clock.monotonic, estimates=kept
    )
    return made, assumed, clock


def put(cached: caches.Caches, seen: objects.Seen) -> None:
    """Put a pod by its key."""
    cached.pods.put(seen.pod.key, seen)


def test_rooms_are_allocatable_less_bound_and_assumed() -> None:
    """Ended pods take nothing; what frees when stands beside it."""
    cached = builders.filled(builders.a_node("n"))
    made, assumed, _ = a_picture(cached)
    put(cached, builders.a_seen("a", node="n", phase=pods.Phase.RUNNING, started_at=AT))
    put(cached, builders.a_seen("b", node="n", phase=pods.Phase.SUCCEEDED))
    assumed.assume(
        assumptions.Assumed(
            pod="genomics/c",
            node="n",
            requests=builders.a_seen("c").pod.requests,
            expires_at=AT + 200,
            ends_at=AT + 150,
        )
    )
    (room,) = made.current().rooms
    assert (6000, "m5/a") == (room.free.cpu_m, room.group)
    assert {"genomics/a", "genomics/c"} == set(room.holders)


def test_a_tenant_has_what_was_promised_to_it_before_it_shows() -> None:
    """A share that grew with the binding only would let a burst of one namespace by."""
    cached = builders.filled(builders.a_node("n"))
    made, assumed, _ = a_picture(cached)
    seen = builders.a_seen("a", cpu_m=2000)
    put(cached, seen)
    promise = assumptions.Assumed(
        pod=seen.pod.key, node="n", requests=seen.pod.requests, expires_at=AT + 200
    )
    assumed.assume(promise)
    assert (("genomics", 1.0, 0.25),) == made.current().tenants
    put(cached, dataclasses.replace(seen, pod=dataclasses.replace(seen.pod, node="n")))
    assert (("genomics", 1.0, 0.25),) == made.current().tenants
    cached.pods.drop("genomics/a")
    assert (("genomics", 1.0, 0.0),) == made.current().tenants
    cached.namespaces.drop("genomics")
    assert () == made.current().tenants


@pytest.mark.parametrize(
    ("resource", "tight"),
    [
        ("requests.cpu", True),
        ("pods", True),
        ("requests.nvidia.com/gpu", True),
        ("requests.storage", False),
        ("count/pods", True),
        ("count/jobs.batch", False),
    ],
)
def test_a_quota_is_tight_by_what_pods_are_charged_for(resource: str, tight: bool) -> None:
    """Claims that fill a quota of storage keep no pod from existing."""
    spent = {"hard": {resource: "10"}, "used": {resource: "9"}}
    obj = {"metadata": {"namespace": "genomics", "name": "q"}, "spec": {}, "status": spent}
    assert tight is limits.quota(obj).tight


def test_a_holder_of_locks_knows_who_waits_for_them_as_they_come_and_go() -> None:
    """Also where one waits for two of them, or was there before the pictures."""
    cached = builders.filled(builders.a_node("n"))
    holder = builders.a_run("a")
    held = dataclasses.replace(holder.workflow, locks=("genomics/x", "genomics/y"))
    cached.workflows.put("genomics/exome", dataclasses.replace(holder, workflow=held))

    def waits(name: str, *locks: str) -> None:
        run = builders.a_run("a", uid=f"uid-{name}")
        waiter = dataclasses.replace(run.workflow, name=name, waits_for=locks, priority=len(name))
        cached.workflows.put(f"genomics/{name}", dataclasses.replace(run, workflow=waiter))

    waits("before", "genomics/x")
    made, _, _ = a_picture(cached)
    put(cached, builders.a_seen("a", gated=True))
    seen = cached.pods.get("genomics/a")
    assert seen is not None

    def urgent() -> tuple[tuple[str, ...], int]:
        waiting = made.waiting(seen)
        return waiting.urgency_of, waiting.urgency_priority

    assert (("genomics/before",), 6) == urgent()
    waits("both", "genomics/y", "genomics/x")
    waits("other", "genomics/z")
    assert (("genomics/before", "genomics/both"), 6) == urgent()
    waits("before")
    assert (("genomics/both",), 4) == urgent()
    waits("both", "genomics/y", "genomics/y")
    assert (("genomics/both",), 4) == urgent()
    cached.workflows.drop("genomics/both")
    assert ((), 0) == urgent()
    cached.workflows.drop("genomics/other")
    assert not made._waiters


def test_a_date_that_is_set_back_makes_no_picture_last() -> None:
    """Also what only grows old is made again: an hour back is no hour of standing still."""
    cached, at, passed_s = builders.filled(builders.a_node("n")), [AT + 7200.0], [0.0]
    cached.workflows.put("genomics/exome", builders.a_run("a", "b"))
    made = pictures.Snapshots(
        cached,
        assumptions.Assumptions(lambda: passed_s[0]),
        clock=lambda: at[0],
        monotonic=lambda: passed_s[0],
    )
    put(cached, builders.a_seen("b", gated=True))
    first = made.current().waiting[0]
    at[0], passed_s[0] = AT + 3600.0, 10.0
    assert at[0] == made.current().at
    assert first is not made.current().waiting[0]


def test_of_several_rules_of_a_limit_range_the_strictest_counts() -> None:
    """In any order, resource by resource; what a rule does not name it does not limit."""
    rules = [
        {"type": "Container", "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "2"}},
        {"type": "Container", "max": {"cpu": "4", "memory": "1Gi"}, "min": {"cpu": "100m"}},
        {"type": "Container", "min": {"cpu": "50m"}, "maxLimitRequestRatio": {"cpu": "3"}},
        {"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}},
    ]
    for order in (rules, rules[::-1]):
        obj = {"metadata": {"namespace": "genomics", "name": "l"}, "spec": {"limits": order}}
        found = limits.limit_range(obj)
        assert amounts.Amounts(2000, 2**30) == found.container_most
        assert amounts.Amounts(100) == found.container_least
        assert (("cpu", 2.0),) == found.container_ratio
        assert None is found.pod_most


def test_a_waiting_pod_knows_what_is_left_of_its_workflow() -> None:
    """Three tasks of 60 s on one core in a row, none has ended; seven such fit on a node of 8."""
    cached = builders.filled(builders.a_node("n"))
    cached.workflows.put("genomics/exome", builders.a_run("1", "2", "3"))
    made, _, _ = a_picture(cached)
    put(cached, builders.a_seen("1", gated=True))
    put(cached, builders.a_seen("3", gated=True))
    first, last = made.current().waiting
    assert (pytest.approx(180.0 * 8 / 7), 180.0) == (first.remaining_work, first.remaining_path_s)
    assert (pytest.approx(180.0 * 8 / 7), 60.0) == (last.remaining_work, last.remaining_path_s)
    assert AT + 4 * 180.0 == first.deadline_at


def test_a_default_deadline_stays_while_the_workflow_gets_on() -> None:
    """Also for a process that first sees it then; what was skipped is no part of the path."""
    cached = builders.filled(builders.a_node("n"))
    run = builders.a_run("1", "2", "3")
    cached.workflows.put("genomics/exome", run)
    put(cached, builders.a_seen("3", gated=True))
    made, _, _ = a_picture(cached)
    assert AT + 4 * 180.0 == made.current().waiting[0].deadline_at
    for state, expected_s in (
        (workflows.TaskState.SUCCEEDED, 180.0),
        (workflows.TaskState.SKIPPED, 120.0),
    ):
        first, *rest = run.workflow.tasks
        tasks = (dataclasses.replace(first, state=state), *rest)
        later = dataclasses.replace(run, workflow=dataclasses.replace(run.workflow, tasks=tasks))
        cached.workflows.put("genomics/exome", later)
        fresh, _, _ = a_picture(cached)
        assert AT + 4 * expected_s == fresh.current().waiting[0].deadline_at
        assert AT + 4 * 180.0 == made.current().waiting[0].deadline_at


def test_the_policy_of_a_namespace_says_what_is_late_there() -> None:
    """Not that for everybody; null is no deadline."""
    cached = builders.filled(builders.a_node("n"))
    cached.workflows.put("genomics/exome", builders.a_run("1"))
    put(cached, builders.a_seen("1", gated=True))
    for factor, expected in ((2.0, AT + 120.0), (None, None)):
        made, _, _ = a_picture(cached)
        slos = {"genomics": settings.Slo(default_factor=factor)}
        made.deadlines.slo = slos.__getitem__
        assert expected == made.current().waiting[0].deadline_at


def test_a_deadline_nearby_wins_over_the_factor() -> None:
    """`tiphys.dev/deadline` on the Workflow, from its creation."""
    cached = builders.filled(builders.a_node("n"))
    run = builders.a_run("1", annotations=(("tiphys.dev/deadline", "90s"),))
    cached.workflows.put("genomics/exome", run)
    made, _, _ = a_picture(cached)
    put(cached, builders.a_seen("1", gated=True))
    assert AT + 90 == made.current().waiting[0].deadline_at


def test_a_pod_that_was_created_again_has_waited_since_its_node_began() -> None:
    """Argo's node keeps its start; its timeout counts from there as well."""
    cached = builders.filled(builders.a_node("n"))
    run = builders.a_run("1")
    task = dataclasses.replace(
        run.workflow.tasks[0], started_at=AT, state=workflows.TaskState.PENDING
    )
    run = dataclasses.replace(run, workflow=dataclasses.replace(run.workflow, tasks=(task,)))
    cached.workflows.put("genomics/exome", run)
    made, _, _ = a_picture(cached)
    timeout = argo_clocks.Clock(name="timeout", at=AT + 50 + 300, to_end=False)
    seen = builders.a_seen("1", gated=True, created_at=AT + 50)
    put(cached, dataclasses.replace(seen, clocks=(timeout,)))
    (waiting,) = made.current().waiting
    assert AT == waiting.waiting_since
    assert AT + 300 - slacks.START_S == waiting.must_open_by


def test_a_holder_of_a_lock_inherits_the_priority_of_who_waits() -> None:
    """By the names of the locks."""
    cached = builders.filled(builders.a_node("n"))
    holder = builders.a_run("1")
    holder = dataclasses.replace(
        holder, workflow=dataclasses.replace(holder.workflow, locks=("genomics/Mutex/m",))
    )
    waiter = dataclasses.replace(
        builders.a_run("1", uid="other"),
    )
    waiter = dataclasses.replace(
        waiter,
        workflow=dataclasses.replace(
            waiter.workflow, name="urgent", priority=9, waits_for=("genomics/Mutex/m",)
        ),
    )
    cached.workflows.put("genomics/exome", holder)
    cached.workflows.put("genomics/urgent", waiter)
    made, _, _ = a_picture(cached)
    put(cached, builders.a_seen("1", gated=True))
    (waiting,) = made.current().waiting
    assert (("genomics/urgent",), 9) == (waiting.urgency_of, waiting.urgency_priority)


def test_new_estimates_reach_every_waiting_pod_within_some_pictures() -> None:
    """A hundred a picture at most and 400 in a second, so that no call takes long."""
    cached, kept = builders.filled(builders.a_node("n")), estimates.Estimates()
    cached.workflows.put("genomics/exome", builders.a_run(*map(str, range(250))))
    made, _, clock = a_picture(cached, kept)
    for place in range(250):
        put(cached, builders.a_seen(str(place), gated=True))
    assert {60.0} == {each.duration.centre_s for each in made.current().waiting}
    row = histories.Row(identity=builders.an_identity(), duration_s=7.0, run="w", group="m5/a")
    kept.learn(books.learn([row]), at=AT)
    for _ in range(2):
        clock.jump(0.25)
        made.current()
    clock.jump(0.25)
    found = {round(each.duration.centre_s, 6) for each in made.current().waiting}
    assert {7.0} == found


def test_the_same_picture_is_given_while_nothing_changes() -> None:
    """Until a tenth of the interval has passed; a change makes a new one at once."""
    cached = builders.filled(builders.a_node("n"))
    made, _, clock = a_picture(cached)
    first = made.current()
    assert first is made.current()
    put(cached, builders.a_seen("a", node="n"))
    second = made.current()
    assert second is not first
    assert second.version > first.version
    clock.jump(0.6)
    assert made.current() is not second


def test_tight_quotas_and_shares_are_told() -> None:
    """Namespaces by name; the dominant share of what runs."""
    cached = builders.filled(builders.a_node("n"))
    quota = limits.Quota(namespace="genomics", name="q", hard=(("pods", 10),), used=(("pods", 8),))
    cached.quotas.put("genomics/q", quota)
    made, _, _ = a_picture(cached)
    made.configure(settings.PolicySettings(tenant_weights=(("genomics", 3.0),)))
    put(cached, builders.a_seen("a", node="n", cpu_m=4000))
    picture = made.current()
    assert ("genomics",) == picture.tight_namespaces
    assert (("genomics", 3.0, 0.5),) == picture.tenants
    cached.pods.drop("genomics/a")
    assert (("genomics", 3.0, 0.0),) == made.current().tenants


@pytest.mark.parametrize("seed", range(6))
def test_kept_pictures_equal_new_ones(seed: int) -> None:
    """300 random changes; after each the kept picture is what a new one would be."""
    rng = random.Random(seed)
    cached = builders.filled(*(builders.a_node(f"n{i}", rack=str(i % 3)) for i in range(5)))
    names = [str(i) for i in range(12)]
    cached.workflows.put("genomics/exome", builders.a_run(*names))
    made, _, _ = a_picture(cached)
    for _ in range(300):
        change(rng, cached, names)
        if rng.random() < 0.3:
            fresh, _, _ = a_picture(cached)
            # What was seen over time is in no cache.
            fresh.overheads = made.overheads
            assert bare(fresh.current()) == bare(made.current())


def change(rng: random.Random, cached: caches.Caches, names: list[str]) -> None:
    """Change something."""
    what, name = rng.random(), rng.choice(names)
    if what < 0.5:
        bound = rng.random() < 0.5
        phase = rng.choice([pods.Phase.PENDING, pods.Phase.RUNNING, pods.Phase.SUCCEEDED])
        put(
            cached,
            builders.a_seen(
                name,
                gated=not bound,
                node=f"n{rng.randrange(6)}" if bound else "",
                phase=phase if bound else pods.Phase.PENDING,
                cpu_m=rng.choice([500, 1000, 4000]),
                created_at=AT + rng.randrange(50),
            ),
        )
    elif what < 0.7:
        cached.pods.drop(f"genomics/{name}")
    elif what < 0.85:
        node = f"n{rng.randrange(6)}"
        if rng.random() < 0.3:
            cached.nodes.drop(node)
        else:
            cached.nodes.put(node, builders.a_node(node, rack=str(rng.randrange(3))))
    else:
        cached.workflows.put("genomics/exome", builders.a_run(*rng.sample(names, 6)))


def bare(picture: snapshots.Snapshot) -> snapshots.Snapshot:
    """Return a picture without what rests on when it was made.

    Tenants that are idle now, a workflow's path by older estimates, and nearby nodes, which are
    looked at again within `STALE_OUTLOOK_S`.
    """
    busy = tuple(tenant for tenant in picture.tenants if tenant[2] > 0)
    waiting = tuple(
        dataclasses.replace(each, deadline_at=None, near=()) for each in picture.waiting
    )
    return dataclasses.replace(picture, tenants=busy, waiting=waiting)


@pytest.mark.parametrize(
    "spec",
    [
        {"concurrencyPolicy": "Forbid", "schedules": ["every day"]},
        {"concurrencyPolicy": "Replace", "schedule": "0 3 * * *", "timezone": "Mars/Olympus"},
        {"concurrencyPolicy": 5},
    ],
)
def test_a_cron_workflow_that_cannot_be_read_starts_no_clock(spec: dict[str, object]) -> None:
    """Anybody may write one; its runs are planned all the same, and everybody else's."""
    cached = builders.filled(builders.a_node("n"))
    run = builders.a_run("a", cron_workflow="genomics/nightly")
    cached.workflows.put("genomics/exome", run)
    layer = objects.Layer(name="nightly", uid="u")
    cached.cron_workflows.put("genomics/nightly", objects.Cron(layer=layer, written={"spec": spec}))
    made, _, _ = a_picture(cached)
    put(cached, builders.a_seen("a", gated=True))
    (waiting,) = made.current().waiting
    assert ("genomics/exome", None) == (waiting.workflow, waiting.must_open_by)
    assert waiting.remaining_work > 0


def test_a_pod_that_cannot_be_pictured_with_its_workflow_waits_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mistake of ours about one pod stops no replica, and the pod is still in the plans."""
    cached = builders.filled(builders.a_node("n"))
    cached.workflows.put("genomics/exome", builders.a_run("a", "b"))
    made, _, _ = a_picture(cached)
    whole = made.waiting

    def waiting(seen: objects.Seen) -> snapshots.Waiting:
        return whole(seen) if seen.pod.name == "b" else 1 // 0

    monkeypatch.setattr(made, "waiting", waiting)
    put(cached, builders.a_seen("a", gated=True))
    put(cached, builders.a_seen("b", gated=True))
    first, second = made.current().waiting
    assert (0.0, "a") == (first.remaining_work, first.pod.name)
    assert second.remaining_work > 0
