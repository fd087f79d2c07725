"""What people write: rounded requests, inflated as measured, sometimes too small."""

import pytest

from lab.workloads import authors, programs, ratios

MIB, GIB = 2**20, 2**30
TENANT = authors.Tenant(namespace="research", share=1.0, deadline_factor=4.0)


def a_work(*, cores: float = 1.0, peak_bytes: float = 500.0 * MIB) -> programs.Work:
    """Return the work of one task of 100 seconds."""
    traits = programs.traits_of("bwa", "bwa", cores_seen=None, heavy=False)
    return programs.Work(
        program="bwa",
        runtime_s=100.0,
        cpu_s=100.0 * cores,
        threads=1,
        peak_bytes=peak_bytes,
        read_bytes=0.0,
        written_bytes=0.0,
        store_bytes=0.0,
        traits=traits,
    )


def written(number: int, *works: programs.Work, tenant: authors.Tenant = TENANT) -> authors.Written:
    """Return what author `number` writes for a program."""
    return authors.written(
        tenant, works or (a_work(),), stream=(number, "bwa"), measured=ratios.load()
    )


def test_the_same_author_writes_the_same_requests() -> None:
    """Nothing is drawn anew."""
    assert written(1) == written(1)


def test_requests_are_inflated_as_measured() -> None:
    """Over many programs, rounded up: CPU some times, memory many times what is used."""
    all_written = [written(number) for number in range(400)]
    cpu = sum(item.requests.cpu_m for item in all_written) / 400 / 1000
    memory = sum(item.requests.memory_bytes for item in all_written) / 400 / (500 * MIB)
    assert 2.5 < cpu < 4.5
    assert 8.0 < memory


def test_some_requests_are_too_small_and_grow_on_retry() -> None:
    """About one in twenty; those authors let every attempt ask for more."""
    all_written = [written(number) for number in range(600)]
    small = [item for item in all_written if item.requests.memory_bytes < 500 * MIB]
    assert 0.02 < len(small) / 600 < 0.09
    assert all(item.grows_on_retry and item.retries for item in small)
    assert not any(item.grows_on_retry for item in all_written if item not in small)


def test_attempts_reach_what_the_task_needs() -> None:
    """The request times the attempts covers the peak, so that the workflow ends."""
    for number in range(600):
        item = written(number, a_work(peak_bytes=3.1 * GIB))
        attempts = item.retries + 1 if item.grows_on_retry else 1
        assert item.requests.memory_bytes * attempts >= 3.1 * GIB


def test_memory_is_cut_to_what_the_tenant_allows() -> None:
    """Unless the task needs more."""
    tenant = authors.Tenant(
        namespace="clinic", share=1.0, deadline_factor=4.0, most_memory_bytes=2 * GIB
    )
    small = [written(number, tenant=tenant).requests.memory_bytes for number in range(100)]
    large = [written(number, a_work(peak_bytes=5.0 * GIB), tenant=tenant) for number in range(100)]
    assert 2 * GIB == max(small)
    assert {8 * GIB} == {item.requests.memory_bytes for item in large if not item.grows_on_retry}


def test_limits_equal_requests() -> None:
    """Memory always; CPU where the tenant limits it."""
    tenant = authors.Tenant(namespace="clinic", share=1.0, deadline_factor=4.0, limits_cpu=True)
    limited, free = written(1, tenant=tenant).requests, written(1).requests
    assert (limited.cpu_m, limited.memory_bytes) == (
        limited.cpu_limit_m,
        limited.memory_limit_bytes,
    )
    assert free.cpu_limit_m is None


@pytest.mark.parametrize(("path_s", "expected_min"), [(100.0, 10), (200.0, 15), (9e9, 1440)])
def test_deadlines_are_round(path_s: float, expected_min: int) -> None:
    """Four times the longest path, rounded up to what people promise."""
    assert expected_min * 60 == authors.deadline_s(TENANT, path_s)
