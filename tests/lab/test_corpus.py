"""Argo's own examples on the real control plane: the whole corpus, as `python -m lab corpus`."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import apis, homes
from lab.controlplane import states
from lab.corpus import drivers, examples, expectations, preparations, runs
from lab.kubelet.behaviours import grounds
from tests.lab import polls

GONE_WITHIN_S = 180.0


@pytest.fixture
def tidied(lab: homes.Home) -> Iterator[homes.Home]:
    """Return the shared lab, and leave nothing of the corpus in it for other tests to meet."""
    yield lab
    asyncio.run(tidy(lab))


async def tidy(lab: homes.Home) -> None:
    """Delete what the corpus made: Workflows first, since one has artifacts to be collected."""
    collection = preparations.path("Workflow", drivers.NAMESPACE)
    async with apis.Api(lab.kubeconfig) as api:

        async def gone() -> bool:
            pods = await api.get(f"/api/v1/namespaces/{drivers.NAMESPACE}/pods")
            return not (await api.get(collection))["items"] and not pods["items"]

        await api.delete(collection)
        await polls.until(gone, within_s=GONE_WITHIN_S)
        for name in drivers.NAMESPACES:
            await api.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.timeout(600)
def test_argos_examples_reach_the_ends_that_argo_documents(tidied: homes.Home) -> None:
    """At least 140 of the 190 Workflows; those that cannot run are exactly those of the file."""
    if problem := asyncio.run(grounds.probe()):
        pytest.skip(f"no sandboxes on this machine, so no example's commands run: {problem}")
    known = expectations.load()
    found = examples.load(Path(states.load(tidied).binaries.argo_examples))
    expectations.check(found, known)
    report = asyncio.run(runs.run(tidied, found, known))
    missing = {name for name in known.workflows if known.missing_programs(name)}
    assert set(known.not_runnable) | missing == set(report.skipped)
    assert 140 <= report.reached
    assert [] == [
        f"{item.name}: {item.end}, not {' or '.join(item.expected)}: {item.message}"
        for item in report.missed
    ]
