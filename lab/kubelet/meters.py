"""Counters of one node that the physics has no integral of: they grow by what is read each second.

Everything here is derived from readings under assumptions that stand with it; it exists because
what watches a real cluster reads these counters.
"""

import math
from collections.abc import Sequence

import msgspec

from tiphys.models.physics import engines

SERVICE_S = {"nvme": 0.0001, "ssd": 0.0005, "network": 0.001, "hdd": 0.008}
"""Seconds of one IO operation on a disk at rest, by kind; assumption (data sheets, order of
magnitude). Unknown kinds count as `ssd`."""
LONGEST_QUEUE = 20.0
"""Most that queueing stretches an operation: service / (1 - busy), as for one server with random
arrivals, is cut off here. Assumption."""
LOAD_PERIODS_S = (60.0, 300.0, 900.0)
"""Of load1, load5 and load15; simulated seconds."""


class Meter(msgspec.Struct, kw_only=True):
    """Counters in simulated seconds, and the load averages."""

    io_time_s: float = 0.0
    read_time_s: float = 0.0
    write_time_s: float = 0.0
    iowait_core_s: float = 0.0
    cpu_waiting_s: float = 0.0
    """Time in which some task waited for a core (PSI cpu some)."""
    io_waiting_s: float = 0.0
    """Time in which some task waited for the disk (PSI io some)."""
    io_stalled_s: float = 0.0
    """Time in which all tasks did (PSI io full)."""
    oom_kills: int = 0
    loads: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def advance(
        self,
        dt_s: float,
        node: engines.NodeReading,
        tasks: Sequence[engines.Reading],
        *,
        cores: float,
        kind: str,
        read_share: float,
    ) -> None:
        """Go on by some simulated seconds in which the readings held.

        `read_share` is the part of the disk's bytes that is read. Tasks are in their phases
        independently of one another, so that some task waits with 1 - prod(1 - share).
        """
        stretch = min(LONGEST_QUEUE, 1 / max(1e-9, 1 - node.disk_busy))
        in_io_s = node.disk_ops_per_s * SERVICE_S.get(kind, SERVICE_S["ssd"]) * stretch * dt_s
        self.io_time_s += min(1.0, node.disk_busy) * dt_s
        self.read_time_s += in_io_s * read_share
        self.write_time_s += in_io_s * (1 - read_share)
        waiting = sum(task.disk_share for task in tasks)
        self.iowait_core_s += min(max(0.0, cores - node.cpu_cores), waiting) * dt_s
        self.cpu_waiting_s += (1 - math.prod(1 - task.cpu_wait_share for task in tasks)) * dt_s
        self.io_waiting_s += (1 - math.prod(1 - task.disk_share for task in tasks)) * dt_s
        if tasks:
            self.io_stalled_s += math.prod(task.disk_share for task in tasks) * dt_s
        runnable = node.cpu_cores + sum(task.cpu_wait_share + task.disk_share for task in tasks)
        one, five, fifteen = (
            runnable + (load - runnable) * math.exp(-dt_s / period)
            for load, period in zip(self.loads, LOAD_PERIODS_S, strict=True)
        )
        self.loads = (one, five, fifteen)
