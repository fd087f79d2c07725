"""The equation of progress with all of its terms at once."""

import math

import pytest

from tests.unit.physics.builders import a_node, a_task
from tiphys.models.physics import clusters, engines, noises


def test_one_task_alone_takes_the_sum_of_all_terms() -> None:
    """C m / (s c) + D / d + N / v + P / w + G + R, with affinity, noise and a bus beyond its knee.

    The demand is what it would move unhindered; from the knee of 75 % on latency rises.
    """
    node = a_node(speed=1.5, gpu_roots=(1,), gpu_speed=2.0)
    other = a_node("n1", rack="r1")
    network = clusters.Network(
        rack_uplink_bytes_per_s=10e9, store_bytes_per_s=0.5e9, rtt_between_s=(("r0", "r1", 0.004),)
    )
    engine = engines.Engine(clusters.Cluster(nodes=(node, other), network=network), seed=3)
    engine.start(a_task("sibling", gpu_s=1e9), node="n1", at_s=0.0)
    task = a_task(
        "all",
        cpu_s=300.0,
        parallelism=4.0,
        cpu_limit_cores=2.0,
        memory_traffic_bytes_per_s=5e9,
        memory_sensitivity=0.8,
        written_bytes=2e9,
        store_bytes=3e9,
        sibling_bytes=5e9,
        round_trips=1000,
        siblings=("sibling",),
        gpu_s=10.0,
        gpus=(0,),
    )
    factor = noises.work_factor(3, "all", run="", host="n0", task="all")
    speed = 1.5 * noises.affinity(3, "all", hardware="h")
    cpu_s = 300.0 * factor / (speed * 2.0)
    rest_s = 2e9 / 100e6 + 3e9 / 0.5e9 + 5e9 / 1e9 + 10.0 * factor / 2.0 + 1000 * 0.004
    pressure = 5e9 * 300.0 * factor / (cpu_s + rest_s) / node.memory_bandwidth_bytes_per_s
    assert 0.75 < pressure, "beyond the knee"
    served = 0.75 + 0.25 * (1 - math.exp(-(pressure - 0.75) / 0.25))
    slow = 1 + 0.8 * (pressure / served - 1)
    assert pressure * (cpu_s + rest_s) < cpu_s * slow + rest_s, "all bytes fit into the bandwidth"
    engine.start(task, node="n0", at_s=0.0)
    assert cpu_s * slow + rest_s == pytest.approx(engine.next_s())
