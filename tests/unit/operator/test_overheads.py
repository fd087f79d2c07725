"""What pods need beside their work, as a replica sees it."""

from tests.fakes import clocks
from tests.unit.operator import builders
from tests.unit.operator.test_snapshots import a_picture, put
from tiphys.models.domain import pods, snapshots
from tiphys.operator import caches, objects, overheads

AT = builders.AT


def live(
    cached: caches.Caches, clock: clocks.Clock, name: str, *, start_s: float, frees_s: float
) -> None:
    """Let one pod be bound, run for a minute, and go."""
    put(cached, builders.a_seen(name))
    put(cached, builders.a_seen(name, node="n"))
    # Argo's own container runs before the work does.
    put(cached, builders.a_seen(name, node="n", phase=pods.Phase.RUNNING))
    clock.jump(start_s)
    running = {"node": "n", "phase": pods.Phase.RUNNING, "started_at": AT}
    put(cached, builders.a_seen(name, **running))
    clock.jump(60.0)
    worked = builders.a_seen(name, **running)
    end = objects.End(
        container="main", exit_code=0, reason="Completed", started_at=AT, ended_at=AT + 60
    )
    worked = objects.Seen(pod=worked.pod, version="2", labels=worked.labels, ends=(end,))
    put(cached, worked)
    clock.jump(frees_s)
    ended = builders.a_seen(name, **{**running, "phase": pods.Phase.SUCCEEDED})
    put(cached, objects.Seen(pod=ended.pod, version="3", labels=ended.labels, ends=(end,)))


def test_a_picture_has_the_medians_of_what_was_seen() -> None:
    """From the binding to the work, and from the end of the work to the end of the pod."""
    cached = builders.filled(builders.a_node("n"))
    made, _, clock = a_picture(cached)
    for place in range(overheads.LEAST):
        live(cached, clock, str(place), start_s=20.0 + place % 2, frees_s=0.25)
    found = made.current()
    assert (20.5, 0.25) == (found.start_s, found.frees_s)


def test_a_few_pods_change_no_default() -> None:
    """One slow image of one pod is no rule."""
    cached = builders.filled(builders.a_node("n"))
    made, _, clock = a_picture(cached)
    for place in range(overheads.LEAST - 1):
        live(cached, clock, str(place), start_s=90.0, frees_s=9.0)
    found = made.current()
    assert (snapshots.START_S, snapshots.FREES_S) == (found.start_s, found.frees_s)


def test_only_the_latest_pods_count() -> None:
    """A registry that became quick is believed after half of what is kept."""
    cached = builders.filled(builders.a_node("n"))
    made, _, clock = a_picture(cached)
    for place in range(2 * overheads.SEEN):
        slow = place < overheads.SEEN
        live(cached, clock, str(place), start_s=90.0 if slow else 2.0, frees_s=1.0)
    assert 2.0 == made.current().start_s


def test_pods_that_were_bound_before_anybody_looked_tell_nothing() -> None:
    """Their beginning was not seen."""
    cached = builders.filled(builders.a_node("n"))
    made, _, clock = a_picture(cached)
    for place in range(overheads.LEAST):
        put(cached, builders.a_seen(str(place), node="n"))
        clock.jump(50.0)
        running = {"node": "n", "phase": pods.Phase.RUNNING, "started_at": AT}
        put(cached, builders.a_seen(str(place), **running))
    assert snapshots.START_S == made.current().start_s


def test_nothing_is_kept_of_pods_that_have_gone() -> None:
    """Memory does not grow with the pods that ever were."""
    cached = builders.filled(builders.a_node("n"))
    clock = clocks.Clock(AT)
    measured = overheads.Overheads(cached, clock.monotonic)
    live(cached, clock, "ended", start_s=1.0, frees_s=1.0)
    put(cached, builders.a_seen("deleted"))
    cached.pods.drop("genomics/deleted")
    assert {} == measured._lives
