"""Annotations that cannot be read are told once, where people look."""

import asyncio
import dataclasses
from typing import Any

import prometheus_client
import pytest

from tests.unit.dispatching import builders
from tests.unit.operator import builders as built
from tiphys.models.domain import optins
from tiphys.operator import caches, events, misspellings, objects, tallies

YES = (("tiphys.dev/enabled", "yes"),)
GAUGE = "tiphys_operator_unreadable_annotations"


class Scene:
    """Caches, and a recorder whose notes are kept."""

    def __init__(self, cached: caches.Caches) -> None:
        self.cached = cached
        self.noted: list[tuple[events.About, str, bool]] = []
        self.registry = prometheus_client.CollectorRegistry()
        self.teller = misspellings.Teller(
            cached,
            self,  # type: ignore[arg-type]
            excluded=frozenset({"kube-system"}),
            counted=tallies.Tallies(self.registry),
        )

    def note(self, about: events.About, reason: str, message: str, *, warns: bool = False) -> None:
        """Keep a note."""
        assert misspellings.REASON == reason
        self.noted.append((about, message, warns))

    def counted(self, kind: str) -> float | None:
        """Return the metric of a kind."""
        return self.registry.get_sample_value(GAUGE, {"kind": kind})


def namespace(cached: caches.Caches, name: str, annotations: Any) -> None:
    """Put a Namespace."""
    cached.namespaces.put(name, objects.Layer(name=name, uid=f"u-{name}", annotations=annotations))


@pytest.fixture
async def scene() -> Any:
    """Run a teller over a namespace that says yes."""
    cached = built.filled(opted_in=False)
    namespace(cached, "genomics", YES)
    namespace(cached, "kube-system", YES)
    found = Scene(cached)
    running = asyncio.ensure_future(found.teller.run())
    await asyncio.sleep(0)
    yield found
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert 0.0 == found.counted("namespaces"), "only the leader counts"


async def test_a_namespace_that_says_yes_is_told_once(scene: Scene) -> None:
    """In itself, as a warning; neither another change of it nor an excluded one brings a second."""
    ((about, message, warns),) = scene.noted
    assert ("Namespace", "genomics", "genomics", "u-genomics", True) == (
        about.kind,
        about.namespace,
        about.name,
        about.uid,
        warns,
    )
    assert 'annotation tiphys.dev/enabled: write "true" or "false", not \'yes\'' in message
    assert 1.0 == scene.counted("namespaces")
    labelled = dataclasses.replace(
        scene.cached.namespaces.get("genomics"),  # type: ignore[type-var]
        labels=(("team", "g"),),
    )
    scene.cached.namespaces.put("genomics", labelled)
    assert 1 == len(scene.noted)


async def test_another_mistake_is_told_and_none_is_forgotten(scene: Scene) -> None:
    """The metric counts what is wrong now."""
    namespace(scene.cached, "genomics", (("tiphys.dev/enabled", "ja"),))
    assert "not 'ja'" in scene.noted[-1][1]
    namespace(scene.cached, "genomics", (("tiphys.dev/enabled", "true"),))
    assert (2, 0.0) == (len(scene.noted), scene.counted("namespaces"))
    namespace(scene.cached, "genomics", YES)
    scene.cached.namespaces.drop("genomics")
    assert (3, 0.0) == (len(scene.noted), scene.counted("namespaces"))


async def test_a_name_that_nobody_reads_is_told_with_those_that_there_are(scene: Scene) -> None:
    """What Tiphys itself writes onto pods is no mistake of theirs."""
    namespace(scene.cached, "genomics", (("tiphys.dev/enable", "true"),))
    assert "Nobody reads tiphys.dev/enable; there are tiphys.dev/enabled, " in scene.noted[-1][1]
    count = len(scene.noted)
    namespace(scene.cached, "imaging", (("tiphys.dev/decision", "{}"),))
    assert count == len(scene.noted)


async def test_workflows_and_all_kinds_of_templates_are_looked_at(scene: Scene) -> None:
    """A cluster's template has no namespace."""
    layer = objects.Layer(name="t", uid="u-t", annotations=YES)
    template = objects.Template(layer=layer, written={}, version="1")
    scene.cached.workflows.put("genomics/exome", built.a_run("a", annotations=YES))
    scene.cached.templates.put("genomics/t", template)
    scene.cached.cluster_templates.put("t", template)
    scene.cached.cron_workflows.put("genomics/t", objects.Cron(layer=layer, written={}))
    told = [(each.kind, each.namespace, each.name) for each, _, _ in scene.noted[1:]]
    assert [
        ("Workflow", "genomics", "exome"),
        ("WorkflowTemplate", "genomics", "t"),
        ("ClusterWorkflowTemplate", "", "t"),
        ("CronWorkflow", "genomics", "t"),
    ] == told
    assert 5 == len({kind.word for kind in optins.Kind})


async def test_an_event_without_a_namespace_stands_in_default() -> None:
    """The API server takes it nowhere else."""
    clock, api = builders.Clock(), builders.Api({})
    recorder = events.Recorder(
        api,  # type: ignore[arg-type]
        clock=clock,
        counted=tallies.Tallies(prometheus_client.CollectorRegistry()),
        per_second=10,
    )
    about = events.About(kind="ClusterWorkflowTemplate", namespace="", name="t", uid="u")
    recorder.note(about, misspellings.REASON, "said", warns=True)
    running = asyncio.ensure_future(recorder.run())
    for _ in range(20):
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    ((_, path, body),) = api.calls
    assert "/api/v1/namespaces/default/events" == path
    assert ("", "default") == (body["involvedObject"]["namespace"], body["metadata"]["namespace"])
