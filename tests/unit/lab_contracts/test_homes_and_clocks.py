"""Homes keep labs apart and outside the repository; the clock converts both ways."""

from pathlib import Path

import pytest

from lab import clocks, errors, homes


def test_a_lab_lives_below_the_chosen_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TIPHYS_LAB_HOME` moves all labs; two names never share a file."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    assert homes.home("a").root == tmp_path / "a"
    assert homes.home("a").kubeconfig != homes.home("b").kubeconfig


def test_folders_that_a_person_sets_are_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor and Go run in folders of their own, where a relative path leads elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIPHYS_LAB_HOME", "labs")
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert tmp_path / "labs" / "a" == homes.home("a").root
    assert tmp_path / "cache" / "tiphys" == homes.cache_root()


@pytest.mark.parametrize("name", ["", "..", "a/b", "-a", "a-", "A", "x" * 33])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    """Nothing outside the labs' folder can be named."""
    with pytest.raises(errors.UsageError, match="cannot name a lab"):
        homes.home(name)


def test_simulated_time_runs_speed_times_faster() -> None:
    """Ten wall seconds at speed 60 are 600 simulated ones, and back."""
    clock = clocks.SimClock(speed=60.0, epoch=1000.0, wall=lambda: 1010.0)
    assert clock.now_s() == 600.0
    assert clock.wall_duration(30.0) == 0.5


def test_times_are_written_and_read_as_kubernetes_does() -> None:
    """Whole seconds of UTC, and microseconds in Leases."""
    assert "2026-11-30T08:00:01Z" == clocks.timestamp(1_796_025_601.9)
    assert "2026-11-30T08:00:01.250000Z" == clocks.micro_timestamp(1_796_025_601.25)
    assert 1_796_025_601.0 == clocks.unix_s("2026-11-30T08:00:01Z")
