"""Utilisation over time: the kubelet's samples of each node brought onto one time axis."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab import catalogs, journals
from lab.reports import measurements, sources

MOST_POINTS = 600
"""Intervals of the time axis at most; a page is not wider, and a sample is a wall second."""
HELD_WALL_S = 3.0
"""A sample is held this long where the next one is missing: the kubelet is silent when idle."""
FIELDS = (
    "cpu_used",
    "cpu_requested",
    "memory_used_bytes",
    "memory_requested_bytes",
    "disk_bytes_per_s",
    "network_bytes_per_s",
    "gpus_used",
)

Array = NDArray[np.float64]


def draw(known: sources.Sources, tasks: Sequence[measurements.Task]) -> measurements.Curves:
    """Return the curves of one run, from its start to its last record."""
    speed = known.record.speed
    per_node: dict[str, list[journals.NodeSample]] = {name: [] for name, _ in known.cluster.nodes}
    for sample in known.samples:
        if sample.node in per_node:
            per_node[sample.node].append(sample)
    ends = [0.0, *(task.ended_s for task in tasks if task.ended_s is not None)]
    ends += [known.sim_s(item.ended_at) for item in known.record.workflows if item.ended_at]
    end_s = max(ends)
    # An interval is a sample at least: below that the curve would show the grid, not the load.
    count = int(np.clip(np.ceil(end_s / speed), 1, MOST_POINTS))
    edges = np.linspace(0.0, max(end_s, speed), count + 1)
    nodes = [
        _curve(name, _binned(known, per_node[name], edges=edges)) for name, _ in known.cluster.nodes
    ]
    total = {
        field: np.sum([getattr(node, field) for node in nodes], axis=0, dtype=float)
        for field in FIELDS
    }
    created = [task.created_s for task in tasks]
    bound = [task.bound_s for task in tasks if task.bound_s is not None]
    gone = [task.ended_s for task in tasks if task.ended_s is not None and task.bound_s is None]
    ended = [task.ended_s for task in tasks if task.ended_s is not None and task.bound_s]
    return measurements.Curves(
        times_s=_rounded(edges[:-1]),
        interval_s=float(edges[1] - edges[0]),
        cluster=_curve("", total),
        nodes=nodes,
        pods_waiting=_rounded(_mean_count(created, edges) - _mean_count(bound + gone, edges)),
        pods_bound=_rounded(_mean_count(bound, edges) - _mean_count(ended, edges)),
    )


def nodes(cluster: catalogs.Cluster) -> list[measurements.Node]:
    """Return the nodes of a cluster as reports show them."""
    return [
        measurements.Node(
            name=name,
            group=group.name,
            instance_type=group.instance_type,
            rack=group.rack,
            cores=group.cores,
            memory_bytes=group.memory,
            speed=group.speed,
            gpus=sum(group.gpus.roots) if group.gpus else 0,
        )
        for name, group in cluster.nodes
    ]


def _binned(
    known: sources.Sources, samples: list[journals.NodeSample], *, edges: Array
) -> dict[str, Array]:
    """Return the mean of each field in each interval; a sample holds until the next one."""
    if not samples:
        return {field: np.zeros(len(edges) - 1) for field in FIELDS}
    samples = sorted(samples, key=lambda sample: sample.at)
    begins = np.array([known.sim_s(sample.at) for sample in samples])
    held_s = HELD_WALL_S * known.record.speed
    ends = np.minimum(np.append(begins[1:], np.inf), begins + held_s)
    # Breakpoints of the step function: value while held, 0 in the gaps. The integral up to each
    # edge, differenced, gives exact means.
    points = np.stack([begins, ends], axis=1).ravel()
    lengths = np.diff(points, append=points[-1])
    means = {}
    for field in FIELDS:
        values = np.array([getattr(sample, field) for sample in samples], dtype=float)
        steps = np.stack([values, np.zeros_like(values)], axis=1).ravel()
        integral = np.concatenate([[0.0], np.cumsum(steps * lengths)])[:-1]
        means[field] = np.diff(np.interp(edges, points, integral)) / np.diff(edges)
    return means


def _mean_count(times: Sequence[float], edges: Array) -> Array:
    """Return, per interval, the mean number of `times` that have passed."""
    passed = np.clip(edges[1:, None] - np.asarray(times, dtype=float)[None, :], 0.0, None)
    before = np.clip(edges[:-1, None] - np.asarray(times, dtype=float)[None, :], 0.0, None)
    means: Array = (passed - before).sum(axis=1) / np.diff(edges)
    return means


def _curve(node: str, fields: dict[str, Array]) -> measurements.Curve:
    return measurements.Curve(node=node, **{name: _rounded(fields[name]) for name in FIELDS})


def _rounded(values: Array) -> list[float]:
    """Round to what a reader can see; -0.0 and rounding dust become 0."""
    return [float(value) + 0.0 for value in np.round(values, 3)]
