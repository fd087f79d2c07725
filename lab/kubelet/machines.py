"""One simulated node as it is now: what it holds, whether it answers, how it starts pods."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from lab.kubelet import computations, memories, meters, nodes, pods

MEMORY_PRESSURE_S = 300.0
"""Simulated seconds for which memory pressure outlasts an eviction (kubelet:
eviction-pressure-transition-period, 5 min)."""


@dataclass(slots=True, kw_only=True)
class Machine:
    """The mutable side of one node. Times named `_s` are simulated, `_at` are wall time."""

    place: nodes.Place
    allocatable: pods.Resources
    labels: dict[str, str]
    conditions: dict[str, nodes.Condition]
    reachable: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared while the node is lost: nothing is reported, nothing runs."""
    images: dict[str, float] = field(default_factory=dict)
    """Bytes by name of the images that are here."""
    pulls: dict[str, "asyncio.Future[None]"] = field(default_factory=dict)
    bound: dict[str, pods.Pod] = field(default_factory=dict)
    """By uid: bound here, requests not yet freed."""
    gpus: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By uid: which GPUs a pod holds."""
    start_free_s: float = 0.0
    """When the serial start server is free."""
    addresses: int = 0
    """How many pod addresses were given out."""
    pressed_until_s: float = 0.0
    meter: meters.Meter = field(default_factory=meters.Meter)
    status_written_at: float = 0.0
    status_changed: bool = True
    """Whether the node status holds something that was not written yet."""

    told: dict[str, bool] = field(default_factory=dict)
    """Conditions as they were last reported."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.place.name

    def next_address(self) -> str:
        """Return a pod address that was not in use for the last 253 pods."""
        self.addresses += 1
        return self.place.pod_address(self.addresses)

    def set_condition(self, kind: str, *, status: bool, at: float, why: str = "") -> None:
        """Change one condition, if it differs."""
        if self.conditions[kind].status != status:
            self.conditions[kind] = nodes.condition(kind, status=status, since=at, why=why)
            self.status_changed = True

    def take_gpus(self, uid: str, count: int) -> tuple[int, ...]:
        """Give a pod free GPUs, of one root complex if one has enough (the fullest that fits)."""
        if not count or not self.place.group.gpus:
            return ()
        held = {gpu for mine in self.gpus.values() for gpu in mine}
        free: list[list[int]] = []
        first = 0
        for number in self.place.group.gpus.roots:
            root = [gpu for gpu in range(first, first + number) if gpu not in held]
            free.append(root)
            first += number
        fitting = [root for root in free if len(root) >= count]
        chosen = (
            min(fitting, key=len)
            if fitting
            else [gpu for root in sorted(free, key=len, reverse=True) for gpu in root]
        )
        self.gpus[uid] = tuple(chosen[:count])
        return self.gpus[uid]

    def memory(self, total: computations.Usage) -> memories.NodeMemory:
        """Return what a restarted kubelet must know of the node; `total` was used on it so far."""
        ready = self.conditions[nodes.READY]
        return memories.NodeMemory(
            lost=not self.reachable.is_set(),
            not_ready="" if ready.status else ready.message,
            images=self.images,
            addresses=self.addresses,
            start_free_s=self.start_free_s,
            pressed_until_s=self.pressed_until_s,
            total=total,
            meter=self.meter,
        )

    def free(self, uid: str) -> None:
        """Give back what a pod held."""
        self.bound.pop(uid, None)
        self.gpus.pop(uid, None)

    async def pull(self, image: str, size: float, fetch: Callable[[], Awaitable[None]]) -> None:
        """Have an image here; the first that needs it fetches it, the others wait for that one.

        When the one that fetches is cancelled, the next that waits begins again.
        """
        while image not in self.images:
            if (under_way := self.pulls.get(image)) is not None:
                await asyncio.wait({under_way})
                continue
            done = asyncio.get_running_loop().create_future()
            self.pulls[image] = done
            try:
                await fetch()
                self.images[image] = size
                self.status_changed = True
            finally:
                del self.pulls[image]
                done.set_result(None)


def machine(place: nodes.Place, *, at: float) -> Machine:
    """Return a node that was just switched on."""
    made = Machine(
        place=place,
        allocatable=nodes.allocatable(place.group),
        labels=nodes.labels(place),
        conditions={item.kind: item for item in nodes.healthy(at)},
    )
    made.reachable.set()
    return made
