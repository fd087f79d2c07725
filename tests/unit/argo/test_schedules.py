"""Runs of CronWorkflows: against Argo's library (`schedules.json`, by `schedules.go`)."""

import datetime
import json
from pathlib import Path

import pytest

from tiphys.argo import schedules
from tiphys.models.domain import errors

ROWS = json.loads(Path(__file__).with_name("schedules.json").read_text())


def unix(text: str) -> float:
    """Return unix seconds."""
    return datetime.datetime.fromisoformat(text).timestamp()


@pytest.mark.parametrize(("written", "after", "runs"), [row for row in ROWS if row[2] is not None])
def test_follows_as_argo(written: str, after: str, runs: list[str]) -> None:
    """The next five runs are the same, also over summer time and leap years."""
    schedule, at, found = schedules.read(written), unix(after), []
    for _ in range(5):
        following = schedules.following(schedule, at)
        if following is None:
            break
        at = following
        found.append(at)
    assert [unix(run) for run in runs] == found


@pytest.mark.parametrize("written", sorted({row[0] for row in ROWS if row[2] is None}))
def test_refuses_what_argo_refuses(written: str) -> None:
    """A schedule that Argo would not take is a named error."""
    with pytest.raises(errors.InputError):
        schedules.read(written)


def test_a_beat_beyond_every_number_is_refused() -> None:
    """`@every` takes whatever somebody wrote; it is a named error, never an overflow."""
    with pytest.raises(errors.InputError, match="expected a time"):
        schedules.read(f"@every {'9' * 380}s")


def test_the_earliest_of_several_schedules_counts() -> None:
    """A CronWorkflow runs by all of its schedules, in its own time zone."""
    cron = {"spec": {"timezone": "Asia/Tokyo", "schedules": ["0 12 * * *", "30 9 * * *"]}}
    assert unix("2026-12-01T00:30:00Z") == schedules.next_run(cron, unix("2026-11-30T08:00:00Z"))


def test_every_counts_from_the_last_run() -> None:
    """`@every` keeps the beat of the runs before."""
    cron = {
        "spec": {"schedules": ["@every 1h"]},
        "status": {"lastScheduledTime": "2026-11-30T05:20:00Z"},
    }
    assert unix("2026-11-30T08:20:00Z") == schedules.next_run(cron, unix("2026-11-30T08:00:00Z"))


@pytest.mark.parametrize(
    "cron",
    [
        {"spec": {"suspend": True, "schedules": ["* * * * *"]}},
        {"spec": {"schedules": ["* * * * *"]}, "status": {"phase": "Stopped"}},
        {"spec": {"schedules": ["0 0 30 2 *"]}},
        {"spec": {}},
    ],
)
def test_some_never_run(cron: dict[str, object]) -> None:
    """Suspended, stopped, impossible or empty: no next run."""
    assert None is schedules.next_run(cron, unix("2026-11-30T08:00:00Z"))
