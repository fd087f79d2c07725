"""Leader election: one leader, fenced by its own clock, given back at the end."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import clocks, clusters
from tiphys.models.domain import errors
from tiphys.operator import apis, elections, processes, settings

LEASE = "/apis/coordination.k8s.io/v1/namespaces/tiphys-system/leases/tiphys-operator"


def a_candidate(api: apis.Api) -> tuple[clocks.Clock, elections.Election]:
    """Return an election of replica `a` that has not begun, and its clock."""
    clock = clocks.Clock()
    election = elections.Election(
        api, namespace="tiphys-system", identity="a", chosen=settings.Lease(), clock=clock
    )
    return clock, election


class Candidate:
    """A replica that takes part, with a record of when it worked."""

    def __init__(self, api: apis.Api, name: str, clock: clocks.Clock) -> None:
        self.clock = clock
        self.working = False
        self.begun = 0
        self.election = elections.Election(
            api, namespace="tiphys-system", identity=name, chosen=settings.Lease(), clock=clock
        )
        self.task = asyncio.ensure_future(self.election.run(self._work))

    async def _work(self) -> None:
        self.working = True
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.working = False

    async def stop(self) -> None:
        """End as SIGTERM does."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


@pytest.fixture
async def cluster() -> AsyncIterator[tuple[clusters.Cluster, apis.Api]]:
    """Return a cluster and its client."""
    async with clusters.serving() as found:
        yield found


async def test_one_of_two_leads(cluster: tuple[clusters.Cluster, apis.Api]) -> None:
    """The Lease has one holder, and the other replica knows who it is."""
    clock = clocks.Clock()
    first = Candidate(cluster[1], "a", clock)
    await clock.advance(1.0)
    second = Candidate(cluster[1], "b", clock)
    for _ in range(12):
        await clock.advance(1.0)
        assert [first.working, second.working] == [True, False]
    assert "a" == second.election.holder
    assert "a" == cluster[0].objects[LEASE]["spec"]["holderIdentity"]
    await second.stop()
    await first.stop()


async def test_a_leader_that_ends_gives_the_lease_back(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """The next one leads within its next look, without waiting for the Lease to run out."""
    clock = clocks.Clock()
    first = Candidate(cluster[1], "a", clock)
    await clock.advance(1.0)
    second = Candidate(cluster[1], "b", clock)
    await clock.advance(2.0)
    await first.stop()
    assert "" == cluster[0].objects[LEASE]["spec"]["holderIdentity"]
    await clock.advance(1.5)
    assert second.working
    await second.stop()


async def test_a_leader_that_cannot_renew_stops_before_another_may_start(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """Each has a clock of its own; at no moment do both act."""
    ours, theirs = clocks.Clock(), clocks.Clock()
    first = Candidate(cluster[1], "a", ours)
    await ours.advance(1.0)
    async with clusters.serving() as (other, api):
        other.objects = cluster[0].objects
        second = Candidate(api, "b", theirs)
        await theirs.advance(0.1)
        cluster[0].failing = 503
        changes = []
        for _ in range(60):
            await asyncio.gather(ours.advance(0.25), theirs.advance(0.25))
            changes.append((first.election.leading and first.working, second.working))
        assert (True, True) not in changes
        assert (True, False) == changes[0]
        assert (False, True) == changes[-1]
        cluster[0].failing = None
        await second.stop()
        await first.stop()


async def test_a_paused_leader_is_fenced_when_it_wakes(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """Before anything is renewed the fence is closed: `fence` raises, so no effect is made."""
    clock = clocks.Clock()
    first = Candidate(cluster[1], "a", clock)
    await clock.advance(1.0)
    first.election.fence()
    clock.jump(6.1)
    assert not first.election.leading
    with pytest.raises(errors.StaleError, match="a leads no more"):
        first.election.fence()
    await first.stop()


async def test_after_a_lapse_that_nobody_used_the_work_begins_anew(
    cluster: tuple[clusters.Cluster, apis.Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What met the closed fence has ended; a late renewal alone would lead and do nothing."""
    clock = clocks.Clock()
    first = Candidate(cluster[1], "a", clock)
    await clock.advance(5.0)
    assert 1 == first.begun
    until = first.election._held_from + settings.Lease().fence_s
    cluster[0].failing = 503
    while clock.now() < until - 1.0:
        await clock.advance(0.25)
    cluster[0].failing = None
    read = cluster[1].get

    async def slow(path: str, **options: Any) -> apis.Object:
        monkeypatch.setattr(cluster[1], "get", read)
        clock.jump(1.5)  # begun before the fence closes, answered after it
        assert not first.election.leading
        return await read(path, **options)

    monkeypatch.setattr(cluster[1], "get", slow)
    await clock.advance(2.5)
    assert first.election.leading
    assert [True, 2] == [first.working, first.begun]
    await clock.advance(20.0)
    assert [True, 2] == [first.working, first.begun]
    await first.stop()


async def test_work_that_meets_the_closed_fence_ends_and_begins_anew(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """Parts run in a group, whose error is a group of theirs; the process goes on."""
    clock, election = a_candidate(cluster[1])
    begun = 0

    async def part() -> None:
        nonlocal begun
        begun += 1
        first = begun == 1
        await clock.sleep(1.0)
        clock.jump(7.0 if first else 0.0)
        election.fence()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(election.run(lambda: processes.together((part, part))))
    await clock.advance(20.0)
    assert not task.done()
    assert 4 == begun
    assert election.leading
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_a_part_could_not_handle_goes_up(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """Also where another part met the fence at the same time."""
    clock, election = a_candidate(cluster[1])

    async def work() -> None:
        raise ExceptionGroup("parts", [errors.StaleError("leads no more"), ValueError("ours")])

    with pytest.raises(ExceptionGroup, match="parts") as raised:
        await asyncio.gather(election.run(work), clock.advance(1.0))
    assert raised.group_contains(ValueError, match="ours")


async def test_each_leadership_has_a_term_of_its_own(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """`leaseTransitions` rises with each new leader, not with renewals."""
    clock = clocks.Clock()
    first = Candidate(cluster[1], "a", clock)
    await clock.advance(10.0)
    assert 1 == first.election.term
    await first.stop()
    second = Candidate(cluster[1], "b", clock)
    await clock.advance(2.0)
    assert 2 == second.election.term
    await second.stop()


@pytest.mark.parametrize(("duration_s", "written"), [(0.5, 1), (2.0, 2), (8.4, 9)])
async def test_others_wait_for_no_less_than_the_lease_was_made_for(
    cluster: tuple[clusters.Cluster, apis.Api], duration_s: float, written: int
) -> None:
    """Kubernetes counts whole seconds; rounded down, another would start before the fence."""
    clock = clocks.Clock()
    chosen = settings.Lease(duration_s=duration_s, renew_s=0.1, fence_s=duration_s - 0.1)
    first = elections.Election(
        cluster[1], namespace="tiphys-system", identity="a", chosen=chosen, clock=clock
    )
    assert await first._try()
    assert written == cluster[0].objects[LEASE]["spec"]["leaseDurationSeconds"]


async def test_a_heartbeat_that_is_not_answered_is_given_up_for_the_next(
    cluster: tuple[clusters.Cluster, apis.Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One connection that hangs must not make a replica look dead."""
    clock, asked = clocks.Clock(), list[tuple[str, float | None, int | None]]()
    call = cluster[1].call

    async def watched(method: str, path: str, **options: Any) -> apis.Object:
        asked.append((method, options.get("timeout_s"), options.get("attempts")))
        return await call(method, path, **options)

    monkeypatch.setattr(cluster[1], "call", watched)
    beat = elections.Heartbeat(
        cluster[1],
        namespace="tiphys-system",
        identity="x",
        address="10.0.0.1:9443",
        chosen=settings.Lease(),
        clock=clock,
    )
    task = asyncio.ensure_future(beat.run())
    await clock.advance(1.0)
    assert [("GET", 2.0, 1), ("PATCH", 2.0, 1)] == asked
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_heartbeat_says_where_the_replica_answers_and_goes_with_it(
    cluster: tuple[clusters.Cluster, apis.Api],
) -> None:
    """The Lease of a replica is renewed while it runs and deleted when it ends."""
    clock = clocks.Clock()
    beat = elections.Heartbeat(
        cluster[1],
        namespace="tiphys-system",
        identity="tiphys-operator-x",
        address="10.0.0.1:9443",
        chosen=settings.Lease(),
        clock=clock,
    )
    task = asyncio.ensure_future(beat.run())
    await clock.advance(1.0)
    path = LEASE + "-x"
    first = cluster[0].objects[path]
    assert "10.0.0.1:9443" == first["metadata"]["annotations"][elections.ADDRESS]
    await clock.advance(2.5)
    assert first["spec"]["renewTime"] < cluster[0].objects[path]["spec"]["renewTime"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert path not in cluster[0].objects
