"""A million reviews with something wrong in them: each answered or refused, memory flat."""

import itertools
import logging
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from lab.reports import results
from tests.fakes import hooks, mutations
from tiphys.webhook import failures

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["reviews"]
MANY, BATCH, WARM = 1_000_000, 10_000, 5
"""Reviews, reviews between two looks at the memory, batches before the first look."""
SEED = 7


@pytest.mark.bench
@pytest.mark.timeout(3500)
async def test_a_million_broken_reviews_leave_nothing_behind(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No fault of the webhook itself; resident memory from the fifth batch to the last."""
    monkeypatch.setattr(logging.getLogger("tiphys.webhook.admissions"), "disabled", True)
    reached = hooks.effects()
    bodies = mutations.bodies(SEED, decided=hooks.a_decided_pod(hooks.a_ring()))
    answered, resident = 0, []
    for _ in range(MANY // BATCH):
        more, _ = await hooks.fed(reached, itertools.islice(bodies, BATCH))
        answered += more
        resident.append(hooks.resident_bytes())
    internal = reached.metrics.registry.get_sample_value(
        "tiphys_webhook_decision_failures_total", {"kind": str(failures.Kind.INTERNAL)}
    )
    figures: dict[str, results.Figure] = {
        "reviews": MANY,
        "answered": answered,
        "internal_failures": internal,
        "growth_mib": round((max(resident[WARM:]) - resident[WARM]) / 2**20, 2),
        "resident_mib": round(resident[-1] / 2**20, 1),
    }
    path = results.write("reviews", seed=SEED, speed=None, figures=figures)
    with capsys.disabled():
        for name, value in figures.items():
            Console().print(f"{name:24} {value}")
        Console().print(f"written to {path}")
    assert 0 == internal
    assert RANGES["growth_mib"]["most"] >= figures["growth_mib"]  # type: ignore[operator]
