"""A whole cluster in motion: tasks come and go at any time, and what happens to them comes back.

The one place of the physics that keeps state between calls; what it decides, the pure functions
decide. Each node is solved on its own when something happens on it. Only while rack uplinks or the
object store bind are all nodes solved together. Events are processed in the order of their exact
times, however late the caller comes: results do not depend on how often it calls.

Times are simulated seconds and never go back: an earlier one counts as the present.

This file is over 400 lines because it is one class whose methods share all that it knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from . import (
    advances,
    caches,
    clusters,
    constants,
    errors,
    events,
    networks,
    noises,
    rates,
    readings,
    states,
    victims,
)
from .clusters import Cluster
from .readings import Ended as Ended
from .readings import NodeReading as NodeReading
from .readings import Preview as Preview
from .readings import Reading as Reading
from .readings import Reason as Reason
from .readings import Usage as Usage
from .tasks import Asked, Task

LEAST_STEP_S = 1e-6
"""Shortest time from one event of a node to the next, so that rounding never stops the clock."""
COUPLING = 1e-9
"""Relative excess from which a shared link binds (rounding)."""
EVICTION_SHARE_MOST = 0.1
"""The eviction reserve is at most this part of a node (tiny nodes in tests)."""


@dataclass(slots=True)
class _Block:
    """One node."""

    state: states.State
    keys: list[str]
    flow: rates.Rates
    alone: rates.Rates
    """Rates if uplinks and store do not bind."""

    solved: "_Basis"
    """For what the rates were found."""

    @property
    def holds(self) -> bool:
        """Whether they hold for the present state too: only progress differs."""
        now, then = self.state, self.solved
        return (
            now.work is then.work
            and now.machines is then.machines
            and bool(now.tokens[0] > 0) == then.bursts
        )


@dataclass(frozen=True, slots=True)
class _Basis:
    """The parts of a node's state that its rates depend on."""

    work: clusters.Floats
    machines: clusters.Machines
    bursts: bool


def _basis(state: states.State) -> _Basis:
    return _Basis(state.work, state.machines, bool(state.tokens[0] > 0))


@dataclass(frozen=True, slots=True)
class _Placed:
    task: Task
    node: int


class Engine:
    """A cluster with its running tasks.

    `seed` and `run` choose the noise; `noisy=False` leaves it out (affinity stays, it is a property
    of the hardware).
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        seed: int = 0,
        run: str = "",
        at_s: float = 0.0,
        noisy: bool = True,
    ) -> None:
        self.cluster = cluster
        self._seed, self._run, self._noisy = seed, run, noisy
        self._now = at_s
        self._indexes = {node.name: index for index, node in enumerate(cluster.nodes)}
        self._distances = networks.distances(cluster)
        self._machines = clusters.machines(cluster)
        self._health: dict[tuple[str, int], float] = {}
        self._placed: dict[str, _Placed] = {}
        self._running: dict[str, str] = {}
        """Identity to key, of the latest attempt."""
        self._talkers: dict[str, set[str]] = {}
        """Identity to the keys that name it as sibling."""
        self._ended: list[Ended] = []
        self.turns = 0
        """Events, arrivals and faults so far; while it stands, the past says the present."""
        count = len(cluster.nodes)
        self._due = np.full(count, np.inf)
        self._reserve = np.minimum(
            constants.EVICTION_RESERVE_BYTES, self._machines.memory_bytes * EVICTION_SHARE_MOST
        ).tolist()
        self._shared = np.zeros((count, len(self._machines.uplink_bytes_per_s) + 1))
        """What each node alone would take from each uplink and the store."""
        self._capacity = np.append(
            self._machines.uplink_bytes_per_s, self._machines.store_bytes_per_s
        )
        self._coupled = False
        self._blocks: list[_Block] = []
        for index in range(count):
            state = states.empty(self._machines.take([index]), at_s=at_s)
            flow = rates.rates(state)
            self._blocks.append(
                _Block(state=state, keys=[], flow=flow, alone=flow, solved=_basis(state))
            )

    @property
    def now_s(self) -> float:
        """The time up to which everything is decided."""
        return self._now

    @property
    def running(self) -> list[str]:
        """The keys of all tasks that have not ended."""
        return list(self._placed)

    def next_s(self) -> float:
        """Return when something happens next, if nobody comes or goes; inf for never."""
        if self._ended:
            return self._now
        return float(self._due.min()) if len(self._due) else float("inf")

    def start(self, task: Task, *, node: str, at_s: float) -> None:
        """Let a task begin to work.

        Raises `PhysicsError`: no such node, GPU that it does not have, key that runs already.
        """
        index = self._index(node)
        here = self.cluster.nodes[index]
        if task.key in self._placed:
            raise errors.PhysicsError(f"task {task.key!r} runs already; end it first")
        for gpu in task.gpus:
            here.root_of(gpu)
        self._advance(at_s)
        self._placed[task.key] = _Placed(task, index)
        self._running[task.identity] = task.key
        for sibling in task.siblings:
            self._talkers.setdefault(sibling, set()).add(task.key)
        block = self._blocks[index]
        self._catch_up(block)
        block.state = states.add(block.state, [self._arrival(task, index)])
        block.keys.append(task.key)
        self._settle({index} | self._repath(task.identity))

    def preview(self, task: Task, *, node: str, at_s: float, also: Sequence[Task] = ()) -> Preview:
        """Return what would happen at the rates that hold now if a task began on a node.

        `also` are tasks that are about to begin there. Nothing changes. What other nodes do to the
        links that they share with this one is left out.
        """
        index = self._index(node)
        self._advance(at_s)
        block = self._blocks[index]
        self._catch_up(block)
        before = states.add(block.state, [self._arrival(other, index) for other in also])
        after = states.add(before, [self._arrival(task, index)])
        now = rates.rates(before, shared=False, start=block.alone.prices)
        then = rates.rates(after, shared=False, start=now.prices)
        own_s = float(1 / then.per_s[-1])
        # A neighbour is slowed as long as both run.
        together_s = np.minimum((1 - before.x) / then.per_s[:-1], own_s)
        longer = together_s * (1 - then.per_s[:-1] / now.per_s)
        return Preview(own_s=own_s, others_s=float(longer.sum()))

    def stop(self, key: str, *, at_s: float) -> Ended | None:
        """Take a task away; None if it is not there (it may have ended: see `advance`).

        What is returned here does not come again from `advance`.
        """
        self._advance(at_s)
        placed = self._placed.get(key)
        if placed is None:
            return None
        block = self._blocks[placed.node]
        self._catch_up(block)
        touched = self._remove(placed.node, {block.keys.index(key): Reason.STOPPED})
        ended = self._ended.pop()
        self._settle(touched | {placed.node})
        return ended

    def resize(self, key: str, asked: Asked, *, at_s: float) -> bool:
        """Let a running task ask for and be held to something else; False if it is not there.

        A limit below its present working set kills it at once.
        """
        self._advance(at_s)
        placed = self._placed.get(key)
        if placed is None:
            return False
        task = replace(
            placed.task,
            cpu_request_cores=asked.cpu_request_cores,
            cpu_limit_cores=asked.cpu_limit_cores,
            memory_request_bytes=asked.memory_request_bytes,
            memory_limit_bytes=asked.memory_limit_bytes,
        )
        block = self._blocks[placed.node]
        self._catch_up(block)
        state, position = block.state, block.keys.index(key)
        work = state.work.copy()
        cores = self.cluster.nodes[placed.node].cores
        work[states.ASKED_ROWS, position] = states.asked_rows(task, cores=cores)
        curves = state.curves.with_limit(
            position, task.memory_curve, task.memory_limit_bytes, x=float(state.x[position])
        )
        block.state = replace(state, work=work, curves=curves)
        self._placed[key] = _Placed(task, placed.node)
        self._settle({placed.node})
        return True

    def advance(self, at_s: float) -> list[Ended]:
        """Let time go on to `at_s`; return what has ended since the last call, oldest first."""
        self._advance(at_s)
        ended, self._ended = self._ended, []
        return ended

    def set_disk(
        self,
        node: str,
        *,
        at_s: float,
        bytes_per_s: float | None = None,
        burst_bytes_per_s: float | None = None,
        iops: float | None = None,
    ) -> None:
        """Change the caps of a node's disk; None leaves one as it is.

        A changed `bytes_per_s` alone moves the burst rate in proportion.
        """
        index = self._index(node)
        self._advance(at_s)
        block = self._blocks[index]
        self._catch_up(block)
        nodes = block.state.machines
        if bytes_per_s is not None and burst_bytes_per_s is None:
            factor = nodes.disk_burst_bytes_per_s[0] / nodes.disk_bytes_per_s[0]
            burst_bytes_per_s = bytes_per_s * float(factor)
        changes = {
            "disk_bytes_per_s": bytes_per_s,
            "disk_burst_bytes_per_s": burst_bytes_per_s,
            "disk_iops": iops,
        }
        given = {field: amount for field, amount in changes.items() if amount is not None}
        for field, amount in given.items():
            if not 0 < amount < float("inf"):
                raise errors.PhysicsError(
                    f"node {node!r}: `{field}` is {amount}; it must be a positive number"
                )
        self._machines = self._machines.with_disk(index, given)
        block.state = replace(block.state, machines=self._machines.take([index]))
        self._settle({index})

    def reboot(self, node: str, *, at_s: float) -> None:
        """Begin a node anew: its page cache is empty, its disk rested. No task may run on it."""
        index = self._index(node)
        self._advance(at_s)
        block = self._blocks[index]
        self._catch_up(block)
        if block.keys:
            raise errors.PhysicsError(
                f"node {node!r} runs {len(block.keys)} tasks; stop them before it reboots"
            )
        tokens = block.state.machines.disk_burst_bytes.copy()
        block.state = replace(block.state, cache=caches.empty(), tokens=tokens)
        self._settle({index})

    def set_link(self, node: str, root: int, *, health: float, at_s: float) -> None:
        """Change what is left of the bandwidth of a PCIe root complex: 1 whole, 0 down."""
        index = self._index(node)
        roots = len(self.cluster.nodes[index].gpu_roots)
        if not 0 <= root < roots:
            raise errors.PhysicsError(
                f"node {node!r} has no PCIe root complex {root} with GPUs: "
                + (f"choose one of 0 to {roots - 1}" if roots else "it has no GPUs at all")
            )
        if not 0 <= health <= 1:
            raise errors.PhysicsError(f"link health is {health}; it must lie between 0 and 1")
        self._advance(at_s)
        self._health[node, root] = health
        self._settle({self._placed[key].node for key in self._placed if self._renew_path(key)})

    def readings(self, at_s: float, *, node: str | None = None) -> list[Reading]:
        """Return all running tasks, or those of one node, at a time."""
        self._advance(at_s)
        indexes = range(len(self._blocks)) if node is None else [self._index(node)]
        for index in indexes:
            self._catch_up(self._blocks[index])
        return [
            reading
            for index in indexes
            for reading in readings.of_tasks(
                self._blocks[index].state,
                self._blocks[index].flow,
                self._blocks[index].keys,
                node=self.cluster.nodes[index].name,
            )
        ]

    def node_readings(self, at_s: float) -> list[NodeReading]:
        """Return all nodes at a time, in the cluster's order."""
        self._advance(at_s)
        for block in self._blocks:
            self._catch_up(block)
        return [
            readings.of_node(block.state, block.flow, node=node.name)
            for block, node in zip(self._blocks, self.cluster.nodes, strict=True)
        ]

    def _index(self, node: str) -> int:
        try:
            return self._indexes[node]
        except KeyError:
            raise errors.PhysicsError(
                f"no node {node!r} in this cluster; it has {', '.join(self._indexes)}"
            ) from None

    def _advance(self, at_s: float) -> None:
        """Process all events up to a time."""
        while len(self._due):
            index = int(self._due.argmin())
            due = float(self._due[index])
            if due > at_s:
                break
            self._now = max(self._now, due)
            self._happen(index)
        self._now = max(self._now, at_s)

    def _happen(self, index: int) -> None:
        """Let the due event of a node happen: ends, crossed limits, and room to be made."""
        block = self._blocks[index]
        self._catch_up(block)
        reserve = self._reserve[index]
        exhausted = victims.exhausted(block.state, 0, reserve_bytes=reserve)
        growth = victims.growth_bytes_per_s(block.state, block.flow.per_s, 0) if exhausted else 0.0
        sudden = growth * constants.EVICTION_PERIOD_S > reserve
        done = np.flatnonzero(block.state.x >= 1.0).tolist()
        killed = [i for i in victims.over_limit(block.state) if i not in done]
        touched = self._remove(
            index,
            {**dict.fromkeys(done, Reason.COMPLETED), **dict.fromkeys(killed, Reason.OOM_KILLED)},
        )
        while exhausted and victims.exhausted(block.state, 0, reserve_bytes=reserve):
            victim = victims.largest_over_request(block.state, 0)
            if victim is None:
                break
            reason = Reason.OOM_KILLED if sudden else Reason.EVICTED
            touched |= self._remove(index, {victim: reason})
        if block.holds:
            self.turns += 1
            self._schedule(index)
        else:
            self._settle(touched | {index})

    def _catch_up(self, block: _Block) -> None:
        """Bring a node to the present; must come before its tasks change."""
        block.state = advances.advance(block.state, block.flow, self._now - block.state.at_s)

    def _remove(self, index: int, reasons: dict[int, Reason]) -> set[int]:
        """Take tasks off a caught-up node; return the other nodes whose paths that changed."""
        if not reasons:
            return set()
        block, touched = self._blocks[index], set[int]()
        keys = [block.keys[i] for i in reasons]
        used = readings.usages(block.state)
        self._ended += [
            Ended(
                key=block.keys[i],
                node=self.cluster.nodes[index].name,
                at_s=self._now,
                reason=reason,
                usage=used[i],
            )
            for i, reason in reasons.items()
        ]
        block.state = states.remove(block.state, list(reasons))
        block.keys = [key for key in block.keys if key not in keys]
        tasks = [self._placed.pop(key).task for key in keys]
        for task in tasks:
            if self._running.get(task.identity) == task.key:
                del self._running[task.identity]
            for sibling in task.siblings:
                self._talkers[sibling].discard(task.key)
                if not self._talkers[sibling]:
                    del self._talkers[sibling]
        for task in tasks:
            touched |= self._repath(task.identity)
        return touched

    def _arrival(self, task: Task, index: int) -> states.Arrival:
        """Return a task as its node sees it."""
        here = self.cluster.nodes[index]
        speed = here.speed * noises.affinity(
            self._seed, task.template, hardware=here.hardware, sigma=self.cluster.affinity_sigma
        )
        factor = 1.0
        if self._noisy:
            factor = noises.work_factor(
                self._seed,
                task.template,
                run=task.run or self._run,
                host=here.name,
                task=task.identity,
                attempt=task.attempt,
            )
        column = states.column(
            task,
            cores=here.cores,
            speed=speed,
            gpu_speed=here.gpu_speed,
            work_factor=factor,
            path=self._path(task, index),
        )
        return states.Arrival(task=task, node=0, column=column)

    def _path(self, task: Task, index: int) -> networks.Path:
        """Return the path from a task to those of its siblings that run now."""
        if not (task.sibling_bytes or task.round_trips):
            return networks.ALONE
        others = [self._placed[self._running[s]] for s in task.siblings if s in self._running]
        return networks.path(
            networks.Place(node=self.cluster.nodes[index], gpus=task.gpus),
            [
                networks.Place(node=self.cluster.nodes[o.node], gpus=o.task.gpus)
                for o in others
                if o.task.key != task.key
            ],
            distances=self._distances,
            link_health=self._health,
        )

    def _repath(self, identity: str) -> set[int]:
        """Renew the paths of all that talk to a task that came or went; return their nodes."""
        keys = sorted(self._talkers.get(identity, ()))
        return {self._placed[key].node for key in keys if self._renew_path(key)}

    def _renew_path(self, key: str) -> bool:
        """Renew the path of one task; return whether it changed."""
        placed = self._placed[key]
        path = self._path(placed.task, placed.node)
        block = self._blocks[placed.node]
        position = block.keys.index(key)
        fresh = states.path_rows(placed.task, path)
        if (block.state.work[states.PATH_ROWS, position] == fresh).all():
            return False
        self._catch_up(block)
        work = block.state.work.copy()
        work[states.PATH_ROWS, position] = fresh
        block.state = replace(block.state, work=work)
        return True

    def _settle(self, indexes: set[int]) -> None:
        """Solve nodes anew after their tasks changed; all of them while shared links bind."""
        self.turns += 1
        for index in sorted(indexes):
            block = self._blocks[index]
            block.solved = _basis(block.state)
            block.alone = rates.rates(block.state, shared=False, start=block.alone.prices)
            self._shared[index, :-1] = block.alone.uplink_bytes_per_s
            self._shared[index, -1] = block.alone.store_total_bytes_per_s
        coupled = bool((self._shared.sum(axis=0) > self._capacity * (1 + COUPLING)).any())
        if not (coupled or self._coupled):
            for index in indexes:
                self._blocks[index].flow = self._blocks[index].alone
                self._schedule(index)
            return
        for index, block in enumerate(self._blocks):
            if index not in indexes:
                self._catch_up(block)
        flows = self._together() if coupled else [block.alone for block in self._blocks]
        self._coupled = coupled
        for index, (block, flow) in enumerate(zip(self._blocks, flows, strict=True)):
            block.flow = flow
            self._schedule(index)

    def _together(self) -> list[rates.Rates]:
        """Return the rates of all nodes, solved together."""
        parts = [block.state for block in self._blocks]
        counts = [part.count for part in parts]
        whole = replace(
            states.empty(self._machines),
            node=np.repeat(np.arange(len(parts)), counts),
            work=np.concatenate([part.work for part in parts], axis=1),
            x=np.zeros(sum(counts)),
            tokens=np.concatenate([part.tokens for part in parts]),
        )
        prices = np.concatenate([block.flow.prices for block in self._blocks], axis=1)
        flow = rates.rates(whole, start=prices)
        ends = np.cumsum(counts).tolist()
        return [
            flow.part(slice(end - count, end), slice(index, index + 1))
            for index, (end, count) in enumerate(zip(ends, counts, strict=True))
        ]

    def _schedule(self, index: int) -> None:
        block = self._blocks[index]
        following = events.next_event(block.state, block.flow, reserve_bytes=self._reserve[index])
        self._due[index] = block.state.at_s + max(following.in_s, LEAST_STEP_S)
