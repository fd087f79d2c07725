"""What is exported about one node, and about one pod, at one instant; values only.

Amounts are those of the simulation (simulated seconds, bytes). The pages divide every counter by
the lab's speed: through Prometheus, as through the API server, tasks look `speed` times shorter
and run at their true rates. A rate over any window is then what the node really does (cores,
bytes/s, busy fraction), and an increase over a pod's life is in proportion to its life there.
"""

from dataclasses import dataclass

from lab.kubelet import computations, meters, nodes, pods, statuses


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod whose object the API server has."""

    pod: pods.Pod
    view: statuses.View
    host_address: str = ""
    usage: computations.Usage
    """Since its containers first started."""
    working_set_bytes: float = 0.0
    cache_bytes: float = 0.0
    """Page cache that is charged to it."""
    oom_kills: int = 0
    """Since its containers first started."""
    running: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One node."""

    place: nodes.Place
    conditions: tuple[nodes.Condition, ...]
    reachable: bool
    usage: computations.Usage
    """Of all that ever computed on it."""
    meter: meters.Meter
    working_set_bytes: float
    cache_bytes: float
    up_s: float
    """Simulated seconds since the lab began."""
    booted_at: float
    """Wall time."""
