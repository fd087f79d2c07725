"""The label "contention": an oracle against rules that are blind for neighbours."""

import pytest

from tests.unit.physics.builders import GB, a_cluster, a_node, a_task
from tiphys.models.physics import clusters, contentions, errors

Job = contentions.Job


def two_nodes() -> clusters.Cluster:
    """Equal nodes of 8 cores with a memory bus of 10 GB/s."""
    return a_cluster(a_node("n0"), a_node("n1"))


def a_job(key: str, **changes: object) -> Job:
    """A job of 200 core-seconds on four cores that it asks for."""
    facts = {"cpu_s": 200.0, "parallelism": 4.0, "cpu_request_cores": 4.0, **changes}
    return Job(task=a_task(key, **facts))


def hungry(key: str) -> Job:
    """A job that could use the memory bus of a node alone."""
    return a_job(key, memory_traffic_bytes_per_s=2.5 * GB, memory_sensitivity=1.0)


def test_pairs_that_fight_are_kept_apart_by_the_oracle_only() -> None:
    """Hungry and frugal jobs in turn: the blind rules put like to like, half run at half speed."""
    jobs = [hungry("a"), a_job("b"), hungry("c"), a_job("d")]
    verdict = contentions.judge(two_nodes(), jobs, seed=1)
    assert verdict.contention
    assert verdict.gain > 0.15
    assert verdict.oracle_s == pytest.approx(50 + 3, rel=0.2)


def test_equal_jobs_on_equal_nodes_are_no_contention() -> None:
    """There is nothing to choose."""
    jobs = [a_job(f"t{i}") for i in range(4)]
    verdict = contentions.judge(two_nodes(), jobs, seed=1)
    assert not verdict.contention
    assert 0.0 == pytest.approx(verdict.gain, abs=0.05)


def test_workflows_complete_in_order_of_their_edges() -> None:
    """A chain of two jobs of 50 s takes both, and two starts."""
    jobs = [
        Job(task=a_job("first").task, workflow="w"),
        Job(task=a_job("second").task, after=("first",), workflow="w"),
    ]
    verdict = contentions.judge(two_nodes(), jobs, seed=1)
    assert ["w"] == list(verdict.least_lost.completion_s)
    assert 106.0 == pytest.approx(verdict.oracle_s, rel=0.25)


def test_a_killed_job_is_tried_again_with_twice_the_memory() -> None:
    """A limit of 1 GB for a peak of 3 GB: killed twice."""
    job = a_job(
        "leaks",
        memory_curve=((0.0, 0.0), (1.0, 3 * GB)),
        memory_request_bytes=1 * GB,
        memory_limit_bytes=1 * GB,
    )
    assert 2 == contentions.judge(two_nodes(), [job], seed=1).least_lost.oom_kills


def test_gpus_are_given_with_the_node() -> None:
    """Two jobs of two GPUs on one node of two: one after the other."""
    cluster = a_cluster(a_node(gpu_roots=(2,)))
    jobs = [Job(task=a_task(f"g{i}", gpu_s=100), gpu_count=2) for i in range(2)]
    outcome = contentions.judge(cluster, jobs, seed=1).least_lost
    assert outcome.makespan_s > 200


def test_a_job_that_can_never_run_is_named() -> None:
    """Too many cores; more memory than there is."""
    with pytest.raises(errors.PhysicsError, match="job 'wide' never runs"):
        contentions.judge(two_nodes(), [a_job("wide", cpu_request_cores=64)])
    big = a_job(
        "big",
        memory_curve=((0.0, 0.0), (1.0, 100 * GB)),
        memory_request_bytes=60 * GB,
        memory_limit_bytes=60 * GB,
    )
    with pytest.raises(errors.PhysicsError, match="job 'big' needs more memory than any node has"):
        contentions.judge(two_nodes(), [big])
