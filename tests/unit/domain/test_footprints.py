"""What a pod counts for."""

import pytest

from tiphys.models.domain import amounts, footprints

GIB = 2**30


def of(*sizes: tuple[int, int]) -> footprints.Footprints:
    """Return footprints against nodes of (cores, GiB)."""
    return footprints.Footprints(amounts.Amounts(cores * 1000, gib * GIB) for cores, gib in sizes)


@pytest.mark.parametrize(
    ("cpu_m", "gib", "expected"),
    [(1000, 0, 32 / 30), (8000, 0, 16.0), (1000, 16, 32 / 6), (5000, 4, 32 / 6)],
)
def test_a_pod_counts_for_what_it_keeps_from_its_like(
    cpu_m: int, gib: int, expected: float
) -> None:
    """Half a node is a whole one with Argo's container beside; memory counts as cores do."""
    assert expected == of((16, 64), (16, 64)).cores(cpu_m, gib * GIB)


def test_what_fits_on_few_nodes_counts_for_more() -> None:
    """Only one of two nodes holds twelve cores: both are given for one such pod."""
    assert 24.0 == of((8, 64), (16, 64)).cores(12_000, 0)


def test_what_fits_nowhere_counts_for_what_it_asks() -> None:
    """Without nodes as well; no CPU request counts as kube-scheduler has it."""
    assert 40.0 == of((16, 64)).cores(40_000, 0)
    assert 0.1 == of().cores(0, 0)


def test_nodes_that_go_are_forgotten() -> None:
    """Adding and taking away gives what was before."""
    found = of((16, 64))
    before = found.cores(4000, GIB)
    found.add(amounts.Amounts(4000, GIB), 3)
    assert before != found.cores(4000, GIB)
    found.add(amounts.Amounts(4000, GIB), -3)
    assert before == found.cores(4000, GIB)
