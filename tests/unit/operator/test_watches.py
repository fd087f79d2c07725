"""Watches against a server that cuts, forgets and breaks: the cache ends like the cluster."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.fakes import clocks, clusters
from tiphys.operator import apis, caches, metrics, objects, watches

NODES = "/api/v1/nodes"


class Watched:
    """One cluster, its client, and a cache that follows its nodes."""

    def __init__(self, cluster: clusters.Cluster, api: apis.Api) -> None:
        self.cluster = cluster
        self.clock = clocks.Clock()
        self.caches = caches.Caches()
        self.metrics = metrics.Metrics()
        self.watch = watches.Watch(
            api, NODES, self.caches.nodes, objects.node, clock=self.clock, counts=self.metrics
        )

    def put(self, name: str, **labels: str) -> None:
        """Put a node."""
        self.cluster.put(f"{NODES}/{name}", {"metadata": {"labels": labels}, "status": {}})

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds, moving the clock so that pauses end."""
        for _ in range(100):
            if holds():
                return
            await self.clock.advance(1.0)
        raise AssertionError("it never held")

    def count(self, event: str) -> float:
        """Return how often the watch counted an event."""
        found = self.metrics.registry.get_sample_value(
            "tiphys_operator_watch_events_total", {"kind": "nodes", "event": event}
        )
        return found or 0.0


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    """Return a watch that runs."""
    async with clusters.serving() as (cluster, api):
        found = Watched(cluster, api)
        found.put("a")
        task = asyncio.ensure_future(found.watch.run())
        try:
            await found.until(lambda: found.caches.nodes.synced and found.caches.nodes.current)
            yield found
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_it_lists_then_follows(watched: Watched) -> None:
    """What is there at the start, comes, changes and goes is in the cache."""
    watched.put("b", rack="1")
    await watched.until(lambda: len(watched.caches.nodes) == 2)
    watched.put("b", rack="2")
    watched.cluster.drop(f"{NODES}/a")
    await watched.until(lambda: [*watched.caches.nodes] == ["b"])
    node = watched.caches.nodes.get("b")
    assert node is not None
    assert "2" == node.label("rack")
    assert 1.0 == watched.count("listed")


async def test_a_cut_stream_goes_on_from_the_last_version(watched: Watched) -> None:
    """No second list; what happened meanwhile comes."""
    watched.cluster.cut()
    watched.put("b")
    await watched.until(lambda: "b" in watched.caches.nodes)
    assert 1.0 == watched.count("listed")


async def test_after_410_it_lists_again_and_forgets_what_went(watched: Watched) -> None:
    """An object whose deletion was never told is gone after the new list."""
    watched.cluster.failing = 503
    watched.cluster.cut()
    await watched.until(lambda: not watched.caches.nodes.current)
    watched.cluster.drop(f"{NODES}/a")
    watched.put("c")
    watched.cluster.forget()
    watched.cluster.failing = None
    await watched.until(lambda: [*watched.caches.nodes] == ["c"])
    assert 1.0 == watched.count("gone")
    assert 2.0 == watched.count("listed")


@pytest.mark.parametrize(("status", "lists"), [(500, 2.0), (504, 2.0), (503, 1.0), (429, 1.0)])
async def test_a_version_that_the_server_does_not_take_is_given_up(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, status: int, lists: float
) -> None:
    """A store that was brought back from a copy knows it no more; a busy server only says so."""
    stream, refused = watched.watch._api.stream, 0

    async def refusing(*given: Any, **named: Any) -> AsyncIterator[tuple[str, apis.Object]]:
        nonlocal refused
        yield "OPEN", {}
        if watched.count("listed") < lists or (lists == 1.0 and refused <= watches.REFUSALS):
            refused += 1
            raise apis.UnreachableError("no", status=status)
        async for each in stream(*given, **named):
            yield each

    monkeypatch.setattr(watched.watch._api, "stream", refusing)
    watched.cluster.cut()
    await watched.until(lambda: refused >= watches.REFUSALS)
    watched.put("b")
    await watched.until(lambda: "b" in watched.caches.nodes)
    assert lists == watched.count("listed")


async def test_age_grows_while_nothing_answers(watched: Watched) -> None:
    """With its watch open a cache is current; from the cut on it says how old it is."""
    assert 0.0 == watched.caches.nodes.age_s(watched.clock.monotonic())
    watched.cluster.failing = 500
    watched.cluster.cut()
    await watched.until(lambda: not watched.caches.nodes.current)
    before = watched.caches.nodes.age_s(watched.clock.monotonic())
    await watched.clock.advance(60.0)
    assert 60.0 <= watched.caches.nodes.age_s(watched.clock.monotonic()) - before + 1e-6
    watched.cluster.failing = None
    await watched.until(lambda: watched.caches.nodes.current)
    assert 0.0 == watched.caches.nodes.age_s(watched.clock.monotonic())


async def test_pauses_double_up_to_a_limit(watched: Watched) -> None:
    """A server that stays away for 10 minutes is asked some dozens of times, not thousands."""
    watched.cluster.failing = 503
    watched.cluster.cut()
    await watched.until(lambda: not watched.caches.nodes.current)
    before = len(watched.cluster.calls)
    for _ in range(30):
        await watched.clock.advance(20.0)
    assert 20 <= len(watched.cluster.calls) - before <= 90


async def test_one_object_that_cannot_be_read_stops_nothing(watched: Watched) -> None:
    """It is kept out and counted; the next ones come."""
    bad = {"metadata": {}, "status": {"allocatable": {"cpu": "many"}}}
    watched.cluster.put(f"{NODES}/bad", bad)
    watched.put("b")
    await watched.until(lambda: "b" in watched.caches.nodes)
    assert "bad" not in watched.caches.nodes
    assert 1.0 == watched.count("unreadable")


async def test_a_large_collection_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages follow one another by their token."""
    monkeypatch.setattr(apis, "PAGE", 3)
    async with clusters.serving() as (cluster, api):
        found = Watched(cluster, api)
        for place in range(8):
            found.put(f"n{place}")
        task = asyncio.ensure_future(found.watch.run())
        await found.until(lambda: found.caches.nodes.current)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert 8 == len(found.caches.nodes)
        # Three pages and the watch.
        assert 4 == cluster.calls.count(("GET", NODES))
