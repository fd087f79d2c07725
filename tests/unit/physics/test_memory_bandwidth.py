"""The memory bus: latency from the knee on, and never more bytes than it has."""

import math

import numpy as np
import pytest

from tests.unit.physics.builders import GB, a_cluster, a_task, rates_of
from tiphys.models.physics import constants, slowdowns


def streams(count: int, *, gbps: float = 2.0, sensitivity: float = 1.0, **changes: float):
    """Tasks of one core that ask for `gbps` GB/s each on a bus of 10 GB/s."""
    return [
        a_task(
            f"t{i}",
            cpu_s=10.0,
            memory_traffic_bytes_per_s=gbps * GB,
            memory_sensitivity=sensitivity,
            **changes,
        )
        for i in range(count)
    ]


def test_below_the_knee_nobody_is_slowed() -> None:
    """Three of 2 GB/s on 10 GB/s are a pressure of 0.6."""
    found = rates_of(a_cluster(), *streams(3))
    assert [1.0] * 3 == found.slowdown.tolist()
    assert 0.6 == pytest.approx(found.memory_pressure[0])


@pytest.mark.parametrize("sensitivity", [0.0, 0.3, 1.0])
def test_above_the_knee_latency_slows_by_sensitivity(sensitivity: float) -> None:
    """At p = 0.88, served = 0.75 + 0.25 (1 - exp(-0.13 / 0.25)) and m = 1 + S (p / served - 1)."""
    found = rates_of(a_cluster(), *streams(4, gbps=2.2, sensitivity=sensitivity))
    latency = 0.88 / (0.75 + 0.25 * (1 - math.exp(-0.13 / 0.25)))
    assert [1 + sensitivity * (latency - 1)] * 4 == pytest.approx(found.slowdown.tolist())


def test_wholly_bound_tasks_share_the_bus() -> None:
    """Eight of 4 GB/s (3.2 times the bus) are slowed 3.2 times, within what the bend leaves."""
    found = rates_of(a_cluster(), *streams(8, gbps=4.0))
    assert [3.2] * 8 == pytest.approx(found.slowdown.tolist(), rel=1e-3)


def test_insensitive_tasks_cannot_have_more_than_the_bus_either() -> None:
    """Sensitivity 0 and twice the bus: bytes hold them back to half."""
    found = rates_of(a_cluster(), *streams(5, gbps=4.0, sensitivity=0.0))
    assert [2.0] * 5 == pytest.approx(found.slowdown.tolist())


def test_a_task_without_traffic_suffers_latency_but_not_the_queue_for_bytes() -> None:
    """Beside a full bus, a cache-bound task with sensitivity 0 runs on."""
    found = rates_of(a_cluster(), *streams(5, gbps=4.0), a_task("aside", cpu_s=10))
    assert 1.0 == found.slowdown[-1]
    assert found.slowdown[0] > 1.9


def test_the_bytes_of_a_task_are_its_own() -> None:
    """Slow-down stretches time, so the traffic of all tasks stays within the bus."""
    found = rates_of(a_cluster(), *streams(8, gbps=3.0, sensitivity=0.5, written_bytes=1e6))
    assert (found.per_s * 3 * GB * 10).sum() <= 10 * GB * (1 + 1e-9)


def test_latency_is_smooth_and_rises() -> None:
    """No jump at the knee; ever steeper towards demand over bandwidth."""
    pressure = np.linspace(0, 4, 401)
    latency = slowdowns.latency(pressure)
    assert 1.0 == latency[pressure <= constants.MEMORY_KNEE].max()
    assert (np.diff(latency) >= 0).all()
    assert np.abs(np.diff(latency)).max() < 0.011
    assert 4.0 == pytest.approx(latency[-1], rel=1e-3)
