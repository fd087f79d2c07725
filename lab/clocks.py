"""Simulated time, of which `speed` seconds pass in each second on the wall; and times as text."""

import datetime
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SimClock:
    """Converts between wall and simulated time; both start at `epoch` (wall, unix seconds)."""

    speed: float
    epoch: float
    wall: Callable[[], float] = field(default=time.time)

    def now_s(self) -> float:
        """Return the simulated seconds since the epoch."""
        return (self.wall() - self.epoch) * self.speed

    def wall_duration(self, sim_s: float) -> float:
        """Return how many wall seconds `sim_s` simulated seconds take."""
        return sim_s / self.speed


def timestamp(at: float) -> str:
    """Return wall time (unix seconds) as Kubernetes writes it: UTC, whole seconds."""
    return _timestamp(int(at))


@functools.lru_cache(4096)
def _timestamp(at: int) -> str:
    # A pod's status repeats the same few times each time it is written.
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(at: float) -> str:
    """Return wall time (unix seconds) as Kubernetes writes it in Leases: with microseconds."""
    moment = datetime.datetime.fromtimestamp(at, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def unix_s(timestamp: str) -> float:
    """Return the wall time (unix seconds) of a time as Kubernetes writes it."""
    return datetime.datetime.fromisoformat(timestamp).timestamp()
