"""Simulated time: `speed` seconds of the simulation pass in each second on the wall."""

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

    def wall_at(self, sim_s: float) -> float:
        """Return the wall time (unix seconds) at which the simulation reaches `sim_s`."""
        return self.epoch + sim_s / self.speed

    def wall_duration(self, sim_s: float) -> float:
        """Return how many wall seconds `sim_s` simulated seconds take."""
        return sim_s / self.speed
