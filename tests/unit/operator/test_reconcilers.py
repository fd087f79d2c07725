"""The audit of what kopf follows: ghosts, lags, and kinds of which it never hears."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes import clocks, clusters
from tiphys.operator import caches, metrics, reconcilers

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
