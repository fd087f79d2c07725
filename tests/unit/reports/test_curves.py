import numpy as np
import pytest

from lab import journals
from lab.reports import accounts, curves
from tests.unit.reports import synthetic_runs as a


def a_sample(at_wall_s, cpu_used, node="node-0"):
    """Return one sample at a wall second of the run."""
    return journals.NodeSample(
        at=a.EPOCH + at_wall_s,
        node=node,
        cpu_used=cpu_used,
        cpu_requested=2 * cpu_used,
        memory_used_bytes=cpu_used * a.GIB,
        memory_requested_bytes=2 * cpu_used * a.GIB,
    )


def drawn(run):
    """Return the curves of a run."""
    return curves.draw(run, accounts.account(run).tasks)


def test_the_cluster_is_the_sum_of_its_nodes():
    """On one time axis, whatever moments each node was sampled at."""
    samples = (a_sample(0.0, 4.0), a_sample(1.0, 4.0), a_sample(0.5, 8.0, node="node-1"))
    found = drawn(a.a_run(samples=samples))
    assert np.add(found.nodes[0].cpu_used, found.nodes[1].cpu_used) == pytest.approx(
        found.cluster.cpu_used
    )
    assert 4.0 == found.nodes[0].cpu_used[0]


def test_the_area_under_a_curve_is_kept():
    """Binning averages; it neither loses nor invents core seconds."""
    run = a.a_busy_run()
    found = drawn(run)
    area = sum(found.cluster.cpu_used) * found.interval_s
    sampled = sum(sample.cpu_used for sample in run.samples) * run.record.speed
    assert sampled == pytest.approx(area, rel=0.02)


def test_silence_of_the_kubelet_means_idle():
    """It writes no samples while nothing runs; the last one is not held for ever."""
    samples = (a_sample(0.0, 8.0), a_sample(50.0, 8.0))
    workflow = a.a_workflow(ended_s=3600.0)
    found = drawn(a.a_run(samples=samples, workflows=[workflow])).nodes[0].cpu_used
    assert (8.0, 0.0, 8.0) == (found[0], found[30], found[51])


def test_a_run_without_samples_has_flat_curves():
    """Also one in which nothing happened at all."""
    found = drawn(a.a_run(pods=[], calls=[], workflows=[]))
    assert [0.0] == found.cluster.cpu_used
    assert [0.0] == found.pods_waiting


def test_pods_wait_between_created_and_bound():
    """The queue is what was created and is not bound."""
    pod = a.a_pod(bound_s=600.0)
    calls = [a.a_call(0, "create", "workflows", "wf-0"), *a.calls_of(pod, created_s=0, bound_s=600)]
    found = drawn(a.a_run(calls=calls, pods=[pod], workflows=[a.a_workflow(ended_s=1200.0)]))
    assert [1.0, 0.0] == [found.pods_waiting[3], found.pods_waiting[15]]
    assert [0.0, 1.0] == [found.pods_bound[3], found.pods_bound[10]]


def test_a_long_run_has_no_more_points_than_a_page_can_show():
    """A measurement of a day stays a file of some megabytes."""
    run = a.a_run(workflows=[a.a_workflow(ended_s=60.0 * 86400)])
    assert curves.MOST_POINTS == len(drawn(run).times_s)
