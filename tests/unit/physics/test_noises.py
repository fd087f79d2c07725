"""Noise: stable, independent of order, and of the measured size."""

import math
import statistics
import subprocess
import sys

import pytest

from tests.unit.physics.builders import GB, an_engine, end_s
from tiphys.models.physics import constants, noises, starts


def logs(draw, count: int = 4000) -> list[float]:
    """Logarithms of many draws."""
    return [math.log(draw(i)) for i in range(count)]


def test_the_same_names_give_the_same_number_in_another_process() -> None:
    """Python's own hash is salted per process; ours must not be."""
    code = "from tiphys.models.physics import noises; print(repr(noises.uniform(7, 'a', 3)))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(other.stdout) == noises.uniform(7, "a", 3)


def test_names_are_not_run_together() -> None:
    """('ab', 'c') and ('a', 'bc') are different."""
    assert noises.uniform(1, "ab", "c") != noises.uniform(1, "a", "bc")


def test_uniform_is_uniform() -> None:
    """Deciles of 20,000 draws hold a tenth each, within four standard errors."""
    draws = [noises.uniform(3, "u", i) for i in range(20_000)]
    assert 0 < min(draws) and max(draws) < 1
    counts = [sum(i / 10 <= draw < (i + 1) / 10 for draw in draws) for i in range(10)]
    assert all(abs(count - 2000) < 4 * 43 for count in counts)


def test_affinity_belongs_to_template_and_hardware() -> None:
    """Its spread is 0.2 over templates; nodes of one hardware are equal."""
    found = logs(lambda i: noises.affinity(1, f"template {i}", hardware="m5"))
    assert constants.AFFINITY_SIGMA == pytest.approx(statistics.stdev(found), rel=0.05)
    assert 0.0 == pytest.approx(statistics.fmean(found), abs=0.015)
    assert noises.affinity(1, "t", hardware="m5") == noises.affinity(1, "t", hardware="m5")
    assert noises.affinity(1, "t", hardware="m5") != noises.affinity(2, "t", hardware="m5")


def test_attempts_vary_by_three_to_seven_per_cent() -> None:
    """Each template has its own sigma between the bounds."""
    sigmas = [noises.attempt_sigma(1, f"t{i}") for i in range(500)]
    assert constants.ATTEMPT_SIGMA_LEAST <= min(sigmas) < 0.031
    assert 0.069 < max(sigmas) <= constants.ATTEMPT_SIGMA_MOST


def test_attempt_run_and_host_vary_on_their_own() -> None:
    """With the other two held, the spread of one is its own sigma."""

    def factor(*, attempt: int = 0, run: str = "r", host: str = "h") -> float:
        return noises.work_factor(1, "t", run=run, host=host, task="w/t", attempt=attempt)

    attempts = statistics.stdev(logs(lambda i: factor(attempt=i)))
    assert noises.attempt_sigma(1, "t") == pytest.approx(attempts, rel=0.05)
    hosts = statistics.stdev(logs(lambda i: factor(host=f"h{i}")))
    assert constants.HOST_TEMPLATE_SIGMA == pytest.approx(hosts, rel=0.05)
    runs = statistics.stdev(logs(lambda i: factor(run=f"r{i}")))
    both = (noises.attempt_sigma(1, "t") ** 2 + constants.RUN_SIGMA**2) ** 0.5
    assert both == pytest.approx(runs, rel=0.05)


def test_starts_are_served_one_after_the_other() -> None:
    """Three pods asked for at 0, 0 and 20 s, service of 3 s: ready at 3, 6 and 23 s."""
    free, ready = 0.0, []
    for asked in (0.0, 0.0, 20.0):
        free = starts.ready_s(asked, free_s=free, service_s=3.0)
        ready.append(free)
    assert [3.0, 6.0, 23.0] == ready


def test_start_and_release_times_have_their_medians() -> None:
    """Over 4,000 pods, within 3 %; each pod has its own, always the same."""
    service = [starts.service_s(1, f"pod-{i}", node="n0") for i in range(4000)]
    assert constants.START_MEDIAN_S == pytest.approx(statistics.median(service), rel=0.03)
    assert service[5] == starts.service_s(1, "pod-5", node="n0")
    slower = starts.service_s(1, "pod-5", node="n0", median_s=6.0)
    assert 2 * service[5] == pytest.approx(slower)
    release = [starts.release_s(1, f"pod-{i}") for i in range(4000)]
    assert constants.RELEASE_MEDIAN_S == pytest.approx(statistics.median(release), rel=0.03)


def test_a_pull_is_bytes_from_the_store_to_the_disk() -> None:
    """1 GB over a NIC of 1 GB/s (1 s), then onto a disk of 100 MB/s (10 s)."""
    assert [11.0] == pytest.approx(end_s(an_engine(), starts.pull(GB, key="pull")))
