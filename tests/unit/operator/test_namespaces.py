"""The lists of namespaces that pods are stamped in: what is written, when, and how seldom."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest

from tests.fakes import clocks, clusters
from tests.unit.operator import builders
from tiphys.models.domain import errors
from tiphys.operator import apis, caches, namespaces, settings

LISTED = "/apis/tiphys.dev/v1alpha1/namespaces/tiphys-system/steerednamespaces/tiphys"
WEBHOOKS = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tiphys",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tiphys",
)
OPTED_IN = (("tiphys.dev/enabled", "true"),)
EXPRESSION = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [""]}
Listing = tuple[clusters.Cluster, namespaces.Lister, caches.Caches]


class Election:
    """One that leads until it does not."""

    leads = True

    def fence(self) -> None:
        """Raise where it does not."""
        if not self.leads:
            raise errors.StaleError("leads no more")


@pytest.fixture
async def listing() -> AsyncIterator[Listing]:
    """Return a lister of a cluster whose namespace genomics opted in, with the chart's objects."""
    cached = builders.filled()
    async with clusters.serving() as (cluster, api):
        cluster.put(LISTED, {"data": {}})
        for path in WEBHOOKS:
            hook = {"name": "w", "namespaceSelector": {"matchExpressions": [EXPRESSION]}}
            cluster.put(path, {"webhooks": [hook]})
        yield cluster, a_lister(api, cached), cached


def a_lister(api: apis.Api, cached: caches.Caches) -> namespaces.Lister:
    """Return what writes the lists."""
    return namespaces.Lister(
        api,
        Election(),  # type: ignore[arg-type]
        cached,
        chosen=settings.OperatorSettings(namespace="tiphys-system"),
        clock=clocks.Clock(),
    )


def selected(cluster: clusters.Cluster, path: str) -> list[str]:
    """Return the names that a webhook's selector has."""
    (hook,) = cluster.objects[path]["webhooks"]
    values: list[str] = hook["namespaceSelector"]["matchExpressions"][0]["values"]
    return values


async def test_who_opted_in_otherwise_is_listed_and_all_are_selected(listing: Listing) -> None:
    """An annotated namespace stands for itself; a second look writes nothing."""
    cluster, lister, cached = listing
    run = builders.a_run("a", annotations=OPTED_IN)
    other = dataclasses.replace(run.workflow, namespace="physics")
    cached.workflows.put("physics/exome", dataclasses.replace(run, workflow=other))
    await lister.once()
    assert {"physics": "true"} == cluster.objects[LISTED]["data"]
    for path in WEBHOOKS:
        assert ["genomics", "physics"] == selected(cluster, path)
    version = cluster.version
    await lister.once()
    assert version == cluster.version
    cached.workflows.drop("physics/exome")
    cached.namespaces.drop("genomics")
    await lister.once()
    assert {} == cluster.objects[LISTED]["data"]
    assert [""] == selected(cluster, WEBHOOKS[0]), "no namespace has the empty name"


async def test_a_change_is_written_at_once_and_a_busy_cluster_costs_no_walk_a_change(
    listing: Listing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each walk looks at all Workflows, so that thousands of changes must not bring one each."""
    cluster, lister, cached = listing
    clock = lister._clock
    assert isinstance(clock, clocks.Clock)
    walks, wanted = 0, lister.wanted

    def counted() -> tuple[tuple[str, ...], tuple[str, ...]]:
        nonlocal walks
        walks += 1
        return wanted()

    monkeypatch.setattr(lister, "wanted", counted)
    task = asyncio.ensure_future(lister.run())
    await clock.advance(1.0)
    walks = 0
    run = builders.a_run("a")
    for number in range(500):
        cached.workflows.put("genomics/exome", dataclasses.replace(run, version=str(number)))
    await clock.advance(1.0)
    assert walks <= 2
    cached.workflows.put("genomics/exome", dataclasses.replace(run, annotations=OPTED_IN))
    await clock.advance(1.0)
    assert {"genomics": "true"} == cluster.objects[LISTED]["data"]
    cluster.failing = 503
    monkeypatch.setattr(lister._api, "_attempts", 1)
    cached.workflows.drop("genomics/exome")
    await clock.advance(0.5)
    asked = len(cluster.calls)
    for number in range(50):
        cached.workflows.put(f"genomics/{number}", dataclasses.replace(run, annotations=OPTED_IN))
        await clock.advance(0.02)
    assert asked == len(cluster.calls), "it pauses before it tries again"
    cluster.failing = None
    cached.workflows.retain(())
    await clock.advance(3.0)
    assert {} == cluster.objects[LISTED]["data"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_lister_that_leads_no_more_writes_nothing(listing: Listing) -> None:
    """The fence is asked before each write."""
    cluster, lister, cached = listing
    lister._election.leads = False  # type: ignore[attr-defined]
    cached.workflows.put("genomics/exome", builders.a_run("a", annotations=OPTED_IN))
    version = cluster.version
    with pytest.raises(errors.StaleError, match="leads no more"):
        await lister.once()
    assert version == cluster.version
