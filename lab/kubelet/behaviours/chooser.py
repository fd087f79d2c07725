"""Chooses what a pod does: computed where its truth is known, by its shape otherwise."""

from lab.kubelet.behaviours import (
    agents,
    collectors,
    computed,
    contracts,
    executed,
    grounds,
    listings,
    nets,
    pods,
    resources,
)
from lab.truths import Truth


def choose(host: contracts.Host, truth: Truth | None) -> contracts.Behaviour:
    """Return the behaviour of one run of a pod's containers."""
    if truth is not None:
        return computed.Computed(host, truth)
    ground = grounds.of(host)
    match pods.kind(host.pod):
        case pods.Kind.AGENT:
            return agents.Agent(host, ground)
        case pods.Kind.ARTIFACT_GC:
            return collectors.Collector(host)
        case pods.Kind.RESOURCE:
            return resources.ResourcePod(host, ground)
        case pods.Kind.DATA:
            return listings.Listing(host)
        case _:
            nets.open_node(ground)
            return executed.Executed(host, ground)
