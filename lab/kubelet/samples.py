"""What each node uses at one instant, for the journal."""

from collections.abc import Iterable

from lab import journals
from lab.kubelet import machines
from tiphys.models.physics import engines


def samples(
    readings: Iterable[engines.NodeReading],
    *,
    machine_of: dict[str, machines.Machine],
    at: float,
) -> list[journals.NodeSample]:
    """Return one sample per node, busy or not."""
    return [_sample(reading, machine_of[reading.node], at=at) for reading in readings]


def _sample(
    reading: engines.NodeReading, machine: machines.Machine, *, at: float
) -> journals.NodeSample:
    bound = machine.bound.values()
    return journals.NodeSample(
        at=at,
        node=machine.name,
        cpu_used=reading.cpu_cores,
        cpu_requested=sum(pod.requests.cpu_m for pod in bound) / 1000,
        memory_used_bytes=reading.memory_working_set_bytes,
        memory_requested_bytes=float(sum(pod.requests.memory_bytes for pod in bound)),
        disk_bytes_per_s=reading.disk_bytes_per_s,
        network_bytes_per_s=reading.net_bytes_per_s,
        # What is served follows demand up to the bandwidth, near enough for a curve on a page.
        memory_traffic_bytes_per_s=min(1.0, reading.memory_pressure)
        * machine.place.group.memory_bandwidth,
        gpus_used=float(sum(len(held) for held in machine.gpus.values())),
        pods=len(machine.bound),
    )
