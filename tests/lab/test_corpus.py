"""Argo's own examples on the real control plane: the whole corpus, as `python -m lab corpus`."""

import asyncio
from pathlib import Path

import pytest

from lab import homes
from lab.controlplane import states
from lab.corpus import examples, expectations, runs
from lab.kubelet.behaviours import grounds


@pytest.mark.timeout(600)
def test_argos_examples_reach_the_ends_that_argo_documents(lab: homes.Home) -> None:
    """At least 140 of the 190 Workflows; those that cannot run are exactly those of the file."""
    if problem := asyncio.run(grounds.probe()):
        pytest.skip(f"no sandboxes on this machine, so no example's commands run: {problem}")
    known = expectations.load()
    found = examples.load(Path(states.load(lab).binaries.argo_examples))
    expectations.check(found, known)
    report = asyncio.run(runs.run(lab, found, known))
    missing = {name for name in known.workflows if known.missing_programs(name)}
    assert set(known.not_runnable) | missing == set(report.skipped)
    assert 140 <= report.reached
    assert [] == [
        f"{item.name}: {item.end}, not {' or '.join(item.expected)}: {item.message}"
        for item in report.missed
    ]
