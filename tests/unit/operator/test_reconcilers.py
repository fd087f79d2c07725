"""The audit of what kopf follows: ghosts, lags, and kinds of which it never hears."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import kopf
import pytest

from tests.fakes import clocks, clusters
from tiphys.operator import caches, metrics, objects, reconcilers

AT = 1_796_000_000.0
PATH = "/apis/argoproj.io/v1alpha1/namespaces/genomics/workflowtemplates"
Audited = tuple[clusters.Cluster, reconcilers.Reconciler, clocks.Clock, caches.Caches]


@pytest.fixture
async def audited() -> AsyncIterator[Audited]:
    """Return a reconciler whose kopf does not run, with its cluster, clock and caches."""
    clock, cached = clocks.Clock(AT), caches.Caches()
    nothing: Any = None
    async with clusters.serving() as (cluster, api):
        made = reconcilers.Reconciler(
            api,
            nothing,
            cached,
            clock=clock,
            measured=metrics.Metrics(),
            stop=lambda: None,
        )
        for followed in made.followed:
            await made._list(followed)
        yield cluster, made, clock, cached


def test_kopf_copies_and_keeps_nothing_of_what_it_shows() -> None:
    """An event handler needs no difference to what was before."""
    body = kopf.Body({"metadata": {"name": "a"}, "spec": {"templates": [{}] * 100}})
    storage = reconcilers.NoDiffs()
    assert {} == storage.build(body=body, extra_fields=None)
    assert storage.fetch(body=body) is None


async def test_what_kopf_forgot_is_dropped(audited: Audited) -> None:
    """A deletion while it was cut off."""
    cluster, reconciler, _, cached = audited
    templates = reconciler.followed[0]
    templates.put(cluster.put(f"{PATH}/old", {"spec": {}}))
    assert ["genomics/old"] == list(cached.templates)
    cluster.drop(f"{PATH}/old")
    await reconciler.audit(templates)
    assert [] == list(cached.templates)


@pytest.mark.parametrize("told", [True, False])
async def test_what_never_came_is_listed_and_a_deaf_kopf_started_again(
    audited: Audited, told: bool
) -> None:
    """Ten seconds behind: listed anew; again from the start only where it says nothing at all."""
    cluster, reconciler, clock, cached = audited
    templates = reconciler.followed[0]
    templates.told = told
    cluster.put(f"{PATH}/late", {"spec": {}})
    await reconciler.audit(templates)
    assert [] == list(cached.templates), "it may be under way"
    await clock.advance(reconcilers.LAG_S + 1)
    await reconciler.audit(templates)
    assert ["genomics/late"] == list(cached.templates)
    assert not cached.templates.current
    assert told is not reconciler._unheard.is_set()


@pytest.mark.parametrize("look", ["audit", "_list"])
async def test_what_comes_while_a_list_is_read_is_newer_than_the_list(
    audited: Audited, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    """It is no ghost, and what the list says of it changes nothing."""
    cluster, reconciler, _, cached = audited
    templates = reconciler.followed[0]
    templates.put(cluster.put(f"{PATH}/old", {"spec": {"entrypoint": "a"}}))
    cluster.put(f"{PATH}/gone", {"spec": {}})
    await reconciler._list(templates)
    cluster.drop(f"{PATH}/gone")
    pages = reconciler._api.pages

    async def meanwhile(*given: Any, **named: Any) -> AsyncIterator[Any]:
        async for page in pages(*given, **named):
            templates.put(cluster.put(f"{PATH}/new", {"spec": {}}))
            templates.put(cluster.put(f"{PATH}/old", {"spec": {"entrypoint": "b"}}))
            cached.templates.put("genomics/read", objects.template(cluster.objects[f"{PATH}/old"]))
            yield page

    monkeypatch.setattr(reconciler._api, "pages", meanwhile)
    await getattr(reconciler, look)(templates)
    assert {"genomics/old", "genomics/new", "genomics/read"} == set(cached.templates)
    old = cached.templates.get("genomics/old")
    assert old is not None
    assert {"entrypoint": "b"} == old.written["spec"]
    monkeypatch.setattr(reconciler._api, "pages", pages)
    await reconciler.audit(templates)
    assert {"genomics/old", "genomics/new"} == set(cached.templates), "kopf never told of the third"


async def test_an_event_that_comes_late_changes_nothing(audited: Audited) -> None:
    """kopf tells of what a list has overtaken; a deletion too, where a namesake is there now."""
    cluster, reconciler, _, cached = audited
    templates = reconciler.followed[0]
    first = cluster.put(f"{PATH}/a", {"spec": {"entrypoint": "a"}})
    second = cluster.put(f"{PATH}/a", {"spec": {"entrypoint": "b"}})
    await reconciler._list(templates)
    told = reconciler._handler(templates)
    for kind, item, left in (
        ("MODIFIED", first, ["genomics/a"]),
        ("DELETED", first, ["genomics/a"]),
        ("DELETED", second, []),
    ):
        await told(event={"type": kind, "object": item})
        assert left == list(cached.templates)
        found = cached.templates.get("genomics/a")
        assert found is None or {"entrypoint": "b"} == found.written["spec"]


@pytest.mark.parametrize("ended", [False, True])
async def test_a_signal_ends_the_process_whether_kopf_runs_or_not(
    audited: Audited, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """kopf takes signals over and never gives them back; between two runs nobody would hear one."""
    _, reconciler, _, _ = audited
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    spawned = asyncio.Event()

    async def spawn(**_: Any) -> list[asyncio.Task[None]]:
        kopfs: asyncio.Future[int] = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, kopfs.set_result, signal.SIGTERM)
        spawned.set()
        return [asyncio.create_task(asyncio.sleep(0 if ended else 60))]

    monkeypatch.setattr(kopf, "spawn_tasks", spawn)
    monkeypatch.setattr(reconciler, "_stop", stopped.set)
    task = asyncio.ensure_future(reconciler._operate())
    try:
        await asyncio.wait_for(spawned.wait(), 5.0)
        if ended:
            await task
        await asyncio.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(stopped.wait(), 5.0)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(name)
