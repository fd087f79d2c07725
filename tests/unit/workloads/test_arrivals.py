"""When workflows arrive: ascending, within the window, the same for the same seed."""

import bisect

import pytest

from lab import errors
from lab.workloads import arrivals

RECORDED = tuple(float(number * number) for number in range(50))


@pytest.mark.parametrize("kind", arrivals.KINDS)
def test_arrivals_fill_the_window(kind: str) -> None:
    """The first comes at 0, the last at the end; at once all come at 0."""
    times = arrivals.times(kind, 20, window_s=600.0, seed=3, recorded=RECORDED)
    assert list(times) == sorted(times)
    assert (0.0, 0.0 if kind == "at-once" else 600.0) == (times[0], times[-1])
    assert times == arrivals.times(kind, 20, window_s=600.0, seed=3, recorded=RECORDED)


def test_other_seeds_give_other_times() -> None:
    """Poisson arrivals are random."""
    one, two = (arrivals.times("poisson", 20, window_s=60.0, seed=seed) for seed in (1, 2))
    assert one != two


@pytest.mark.parametrize("seed", [*range(1, 8), 24, 33, 46])
def test_batches_are_17_times_as_dense_as_the_mean(seed: int) -> None:
    """The densest half batch holds 17 times its share, and no two batches add up (nor did they
    for the last seeds, whose first draws fall together)."""
    count, width = 20_000, arrivals.BURST_SHARE / arrivals.BURST_RATE / arrivals.BURSTS / 2
    times = arrivals.times("burst", count, window_s=1.0, seed=seed)
    held = [bisect.bisect_left(times, start + width) - place for place, start in enumerate(times)]
    assert pytest.approx(arrivals.BURST_RATE, rel=0.12) == max(held) / count / width


def test_half_of_all_come_in_batches() -> None:
    """The others are spread over the window: three quarters of it see half the mean rate."""
    times = arrivals.times("burst", 20_000, window_s=100.0, seed=1)
    slots = sorted(sum(start <= time < start + 1 for time in times) for start in range(100))
    assert pytest.approx(arrivals.BURST_SHARE * 200, rel=0.1) == sum(slots[:75]) / 75


def test_a_day_has_a_busy_half() -> None:
    """The rate is above its mean in the first half of the window, below in the second."""
    times = arrivals.times("diurnal", 2000, window_s=1.0, seed=1)
    assert 0.7 < sum(time < 0.5 for time in times) / 2000 < 0.8


def test_replay_keeps_the_recorded_gaps() -> None:
    """A stretch of the record, scaled to the window."""
    times = arrivals.times("replay", 50, window_s=49.0**2, seed=1, recorded=RECORDED)
    assert pytest.approx(RECORDED, rel=1e-4) == times


def test_replay_of_more_than_was_recorded_is_refused() -> None:
    """Nothing is repeated silently."""
    with pytest.raises(errors.UsageError, match="50 recorded arrivals, 51 workflows"):
        arrivals.times("replay", 51, window_s=1.0, seed=1, recorded=RECORDED)


def test_an_unknown_kind_names_the_known() -> None:
    """One sentence."""
    with pytest.raises(errors.UsageError, match="no arrivals 'weekly': choose one of poisson"):
        arrivals.times("weekly", 2, window_s=1.0, seed=1)
