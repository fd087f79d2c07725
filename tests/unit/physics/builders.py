"""Builders for physics tests: round numbers, so that results can be worked out by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiphys.models.physics import clusters, engines, networks, rates, states, tasks

GB = 1e9
MB = 1e6


def a_node(name: str = "n0", **changes: Any) -> clusters.Node:
    """A node of 8 cores and 64 GB with a disk of 100 MB/s and 1,000 IOPS and a NIC of 1 GB/s."""
    facts: dict[str, Any] = {
        "name": name,
        "hardware": "h",
        "rack": "r0",
        "cores": 8.0,
        "memory_bytes": 64 * GB,
        "memory_bandwidth_bytes_per_s": 10 * GB,
        "disk_bytes_per_s": 100 * MB,
        "disk_iops": 1000.0,
        "nic_bytes_per_s": 1 * GB,
    }
    return clusters.Node(**{**facts, **changes})


def a_cluster(*nodes: clusters.Node, **changes: Any) -> clusters.Cluster:
    """A cluster without affinity; uplinks of 10 GB/s, a store of 20 GB/s."""
    facts: dict[str, Any] = {
        "rack_uplink_bytes_per_s": 10 * GB,
        "store_bytes_per_s": 20 * GB,
        "rtt_s": 0.001,
    }
    return clusters.Cluster(
        nodes=nodes or (a_node(),),
        network=clusters.Network(**{**facts, **changes}),
        affinity_sigma=0.0,
    )


def a_task(key: str = "t0", **changes: Any) -> tasks.Task:
    """A task of its own template that does nothing unless told to."""
    return tasks.Task(**{"key": key, "template": key, **changes})


@dataclass(frozen=True)
class Placed:
    task: tasks.Task
    node: int = 0


def a_state(cluster: clusters.Cluster, *placed: Placed | tasks.Task) -> states.State:
    """Tasks on the nodes of a cluster (the first one unless placed), without noise."""
    put = [item if isinstance(item, Placed) else Placed(item) for item in placed]
    distances = networks.distances(cluster)

    def place(item: Placed) -> networks.Place:
        return networks.Place(node=cluster.nodes[item.node], gpus=item.task.gpus)

    arrivals = []
    for item in put:
        node = cluster.nodes[item.node]
        siblings = [place(o) for o in put if o.task.identity in item.task.siblings]
        path = networks.path(place(item), siblings, distances=distances)
        column = states.column(
            item.task, cores=node.cores, speed=node.speed, gpu_speed=node.gpu_speed, path=path
        )
        arrivals.append(states.Arrival(task=item.task, node=item.node, column=column))
    return states.add(states.of_cluster(cluster), arrivals)


def rates_of(cluster: clusters.Cluster, *placed: Placed | tasks.Task) -> rates.Rates:
    """The rates of tasks on a cluster."""
    return rates.rates(a_state(cluster, *placed))


def an_engine(*nodes: clusters.Node, **changes: Any) -> engines.Engine:
    """An engine without noise and affinity; `changes` are of the network."""
    return engines.Engine(a_cluster(*nodes, **changes), noisy=False)


@dataclass(frozen=True)
class Start:
    at_s: float
    node: str
    task: tasks.Task


def run(
    engine: engines.Engine, starts: Sequence[Start], *, step_s: float | None = None
) -> dict[str, engines.Ended]:
    """Start tasks at their times and let all end; `step_s` calls the engine that often besides."""
    ended: list[engines.Ended] = []
    for start in sorted(starts, key=lambda start: start.at_s):
        while step_s is not None and engine.now_s + step_s < start.at_s:
            ended += engine.advance(engine.now_s + step_s)
        ended += engine.advance(start.at_s)
        engine.start(start.task, node=start.node, at_s=start.at_s)
    while engine.running:
        upcoming = engine.next_s()
        assert upcoming < float("inf"), f"{engine.running} never end"
        ended += engine.advance(
            upcoming if step_s is None else min(upcoming, engine.now_s + step_s)
        )
    ended += engine.advance(engine.now_s)
    keys = [one.key for one in ended]
    assert len(set(keys)) == len(keys), "a task ended twice"
    return {one.key: one for one in ended}


def end_s(engine: engines.Engine, *work: tasks.Task) -> list[float]:
    """When tasks end that start together on the first node."""
    node = engine.cluster.nodes[0].name
    ended = run(engine, [Start(0.0, node, task) for task in work])
    return [ended[task.key].at_s for task in work]
