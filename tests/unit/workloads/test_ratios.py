"""The measured over-requests: pinned by hash, and what a fit makes of task rows."""

from pathlib import Path

import pytest

from lab import errors
from lab.workloads import draws, ratios
from lab.workloads.readers import cws


def a_usage(task: int, *, cores: float, memory: float, runtime_s: float = 10.0) -> cws.Usage:
    """Return a row of a task that asks for 4 cores and 32 GB."""
    return cws.Usage(
        workflow="w",
        task=task,
        runtime_s=runtime_s,
        cores_requested=4.0,
        cores_used=cores,
        memory_requested_bytes=32e9,
        memory_used_bytes=memory,
    )


def test_the_file_is_the_pinned_one() -> None:
    """And says what was measured: CPU 2.55, memory 34.5."""
    loaded = ratios.load()
    assert (2.55074, 34.5277) == (loaded.pooled_cpu, loaded.pooled_memory)
    assert ratios.POINTS == len(loaded.cpu) == len(loaded.memory)


def test_another_file_is_refused(tmp_path: Path) -> None:
    """A changed ratio changes every figure, so it is pinned on purpose or not at all."""
    path = tmp_path / "ratios.json"
    path.write_bytes(ratios.FILE.read_bytes() + b" ")
    with pytest.raises(errors.UsageError, match=r"pinned in lab/workloads/ratios\.py"):
        ratios.load(path)


def test_heavy_tasks_weigh_more() -> None:
    """A task that uses nine times the memory has nine tenths of the quantiles."""
    fitted = ratios.fit([a_usage(1, cores=1.0, memory=9e9), a_usage(2, cores=2.0, memory=1e9)])
    assert pytest.approx(32 / 9, rel=1e-4) == fitted.memory[50]
    assert pytest.approx(32.0, rel=1e-4) == fitted.memory[95]


def test_the_pooled_ratio_is_requested_over_used() -> None:
    """Sums over sums, not a mean of ratios."""
    fitted = ratios.fit([a_usage(1, cores=1.0, memory=1e9), a_usage(2, cores=3.0, memory=1e9)])
    assert 2.0 == fitted.pooled_cpu


def test_each_task_counts_once_by_its_medians() -> None:
    """A task that ran thrice is not three tasks."""
    rows = [a_usage(1, cores=cores, memory=1e9) for cores in (1.0, 2.0, 100.0)]
    assert 2.0 == ratios.fit(rows).pooled_cpu


def test_draws_lie_between_quantiles() -> None:
    """Linear between two points."""
    assert 1.5 == draws.quantile((0.0, 1.0, 2.0), 0.75)
    assert (0.0, 2.0) == (draws.quantile((0.0, 1.0, 2.0), 0.0), draws.quantile((0.0, 2.0), 1.0))
