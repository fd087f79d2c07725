"""The memory bus of a node: how much its load slows the CPU phase of each task."""

from dataclasses import dataclass

import numpy as np

from . import constants, groups
from .clusters import Floats, Ints

STEPS = 60
"""Newton steps at most; two to six are usual."""
TOLERANCE = 1e-11
"""Relative excess over the bandwidth that counts as none."""


def latency(pressure: Floats) -> Floats:
    """Return the rise of memory latency at a demand over the sustained bandwidth; 1 at rest.

    Served bandwidth follows demand up to the knee k and then bends towards 1 without reaching it:
    served(p) = k + (1 - k)(1 - exp(-(p - k) / (1 - k))); latency is demand over served.
    """
    knee = constants.MEMORY_KNEE
    beyond = np.maximum(pressure - knee, 0.0) / (1 - knee)
    served = knee + (1 - knee) * -np.expm1(-beyond)
    return np.where(pressure > knee, pressure / served, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """The memory buses of V nodes and what T tasks ask of them."""

    node: Ints
    """[T]"""
    traffic: Floats
    """[T] bytes per unit of progress."""
    sensitivity: Floats
    """[T]"""
    bandwidth: Floats
    """[V] sustained bytes/s."""

    def of_nodes(self, nodes: Ints, tasks: Ints) -> "Bus":
        """Return some nodes and all of their tasks, renumbered."""
        position = np.zeros(len(self.bandwidth), dtype=np.intp)
        position[nodes] = np.arange(len(nodes))
        return Bus(
            node=position[self.node[tasks]],
            traffic=self.traffic[tasks],
            sensitivity=self.sensitivity[tasks],
            bandwidth=self.bandwidth[nodes],
        )

    def pressure(self, cycle: Floats) -> Floats:
        """Return the demand over the bandwidth [V] of tasks with cycles [T]."""
        demand = groups.sums(self.node, self.traffic / cycle, len(self.bandwidth))
        return demand / self.bandwidth

    def slow(self, cpu: Floats, rest: Floats) -> Floats:
        """Return the slow-down [T] when the CPU phase without it takes `cpu` and all others `rest`.

        Latency slows by sensitivity. If tasks then still ask for more than the bandwidth, each that
        has traffic is slowed by the same further amount until the bytes fit.
        """
        count = len(self.bandwidth)
        pressure = self.pressure(cpu + rest)
        if not (pressure > constants.MEMORY_KNEE).any():
            return np.ones_like(cpu)
        slow = 1 + self.sensitivity * (latency(pressure)[self.node] - 1)
        moves = self.traffic > 0
        extra = np.zeros(count)
        for _ in range(STEPS):
            cycle = cpu * (slow + np.where(moves, extra[self.node], 0.0)) + rest
            served = self.traffic / cycle
            over = groups.sums(self.node, served, count) - self.bandwidth
            if not (over > TOLERANCE * self.bandwidth).any():
                break
            fall = groups.sums(self.node, served * cpu / cycle, count)
            extra = extra + np.where(over > 0, over / np.where(fall > 0, fall, 1.0), 0.0)
        return slow + np.where(moves, extra[self.node], 0.0)
