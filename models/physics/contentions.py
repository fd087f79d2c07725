"""Does it matter where tasks run beside one another? The label "contention" for cluster and mix.

The same jobs go through the same queue (first come first served; what does not fit now is passed
over) on the same cluster under rules that differ in how they choose among the nodes with room. Two
are blind for neighbours:

- `least_requested`: most free requests left, as kube-scheduler does by default;
- `fastest_alone`: where the task would take least if it were alone (speed, affinity, disk, links);

and two know everything that happens on each node now (node grain):

- `soonest_end`: where the task will take least, with the neighbours that it will have;
- `least_lost`: where it and its neighbours together lose least.

Nodes that are equal in that are ranked by `least_requested`. Of either pair the better one counts,
in hindsight: as `blind` and as `oracle`. A cluster and mix is called "contention" only if the
oracle's mean completion is at least 5 % below that of the blind rule: then neighbours matter beyond
what single tasks tell. The oracle is greedy and does not wait: it may miss a case of contention.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from . import engines, errors, starts
from .clusters import Cluster, Node
from .readings import Ended, Preview, Reason
from .tasks import Task

GAIN = 0.05
"""Least part of the mean completion that the oracle must save. Assumption (the design's figure)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A task to be placed. Its `gpus` are chosen with the node; `gpu_count` says how many."""

    task: Task
    arrives_s: float = 0.0
    after: tuple[str, ...] = ()
    """Keys of tasks that must have completed."""
    workflow: str = ""
    """What completions are counted by; empty means the task for itself."""
    gpu_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one rule reached."""

    mean_completion_s: float
    """Over workflows, from their first arrival to their last end."""
    makespan_s: float
    oom_kills: int
    """OOM kills and evictions; each is tried again with twice the memory."""
    completion_s: dict[str, float]
    """By workflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the rules compare."""

    least_requested: Outcome
    fastest_alone: Outcome
    soonest_end: Outcome
    least_lost: Outcome

    @property
    def blind_s(self) -> float:
        """The mean completion of the better blind rule."""
        return min(self.least_requested.mean_completion_s, self.fastest_alone.mean_completion_s)

    @property
    def oracle_s(self) -> float:
        """The mean completion of the better rule that sees neighbours."""
        return min(self.soonest_end.mean_completion_s, self.least_lost.mean_completion_s)

    @property
    def gain(self) -> float:
        """The part of the blind rule's mean completion that the oracle saves."""
        return 1 - self.oracle_s / self.blind_s

    @property
    def contention(self) -> bool:
        """Whether cluster and mix deserve the name."""
        return self.gain >= GAIN


@dataclass(slots=True)
class _Host:
    """A node as the queue sees it."""

    node: Node
    free_cores: float
    free_memory: float
    free_gpus: set[int]
    server_free_s: float
    starting: dict[str, Task] = field(default_factory=dict)

    def fits(self, job: Job) -> bool:
        """Return whether the requests of a job fit."""
        return (
            job.task.cpu_request_cores <= self.free_cores + 1e-9
            and job.task.memory_request_bytes <= self.free_memory + 1e-3
            and job.gpu_count <= len(self.free_gpus)
        )

    def take(self, job: Job, *, sign: int) -> None:
        """Take requests (sign 1) or give them back (-1)."""
        self.free_cores -= sign * job.task.cpu_request_cores
        self.free_memory -= sign * job.task.memory_request_bytes
        for gpu in job.task.gpus:
            (self.free_gpus.discard if sign > 0 else self.free_gpus.add)(gpu)


Rule = Callable[["_Run", Job, list[_Host]], _Host]


def _left(job: Job, host: _Host) -> float:
    """Return the free parts of cores and memory that a job leaves on a node."""
    cores = (host.free_cores - job.task.cpu_request_cores) / host.node.cores
    memory = (host.free_memory - job.task.memory_request_bytes) / host.node.memory_bytes
    return cores + memory


def _least_requested(_: "_Run", job: Job, hosts: list[_Host]) -> _Host:
    return max(hosts, key=lambda host: _left(job, host))


def _fastest_alone(run: "_Run", job: Job, hosts: list[_Host]) -> _Host:
    def rank(host: _Host) -> tuple[float, float]:
        own_s = run.empty.preview(job.task, node=host.node.name, at_s=0.0).own_s
        return (round(own_s, 6), -_left(job, host))

    return min(hosts, key=rank)


def _soonest_end(run: "_Run", job: Job, hosts: list[_Host]) -> _Host:
    def rank(host: _Host) -> tuple[float, float]:
        return (round(run.preview(job, host).own_s, 6), -_left(job, host))

    return min(hosts, key=rank)


def _least_lost(run: "_Run", job: Job, hosts: list[_Host]) -> _Host:
    def rank(host: _Host) -> tuple[float, float]:
        seen = run.preview(job, host)
        return (round(seen.own_s + seen.others_s, 6), -_left(job, host))

    return min(hosts, key=rank)


class _Run:
    """One simulation of all jobs under one rule."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], rule: Rule, *, seed: int) -> None:
        self.engine = engines.Engine(cluster, seed=seed)
        self.empty = engines.Engine(cluster, seed=seed, noisy=False)
        self.now_s = 0.0
        self._rule, self._seed = rule, seed
        self._jobs = {job.task.key: job for job in jobs}
        self._waits = {job.task.key: set(job.after) for job in jobs}
        self._children: defaultdict[str, list[str]] = defaultdict(list)
        for job in jobs:
            for parent in job.after:
                self._children[parent].append(job.task.key)
        self._order = {
            job.task.key: index
            for index, job in enumerate(sorted(jobs, key=lambda job: job.arrives_s))
        }
        self._hosts = {
            node.name: _Host(
                node=node,
                free_cores=node.cores,
                free_memory=node.memory_bytes,
                free_gpus=set(range(sum(node.gpu_roots))),
                server_free_s=0.0,
            )
            for node in cluster.nodes
        }
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._queue: list[str] = []
        self._count = 0
        self._kills = 0
        self._ended: dict[str, float] = {}
        for job in jobs:
            if not job.after:
                self._at(job.arrives_s, partial(self._queue.append, job.task.key))

    def outcome(self) -> Outcome:
        """Run to the end."""
        while True:
            upcoming = self.engine.next_s()
            if self._events:
                upcoming = min(upcoming, self._events[0][0])
            if upcoming == float("inf"):
                break
            self.now_s = max(self.now_s, upcoming)
            for ended in self.engine.advance(self.now_s):
                self._end(ended)
            while self._events and self._events[0][0] <= self.now_s:
                heapq.heappop(self._events)[2]()
            self._place()
        if len(self._ended) < len(self._jobs):
            stuck = next(key for key in self._jobs if key not in self._ended)
            raise errors.PhysicsError(
                f"job {stuck!r} never runs: it fits no node, or waits for one that does not end"
            )
        first: dict[str, float] = {}
        last: dict[str, float] = {}
        for key, job in self._jobs.items():
            name = job.workflow or key
            first[name] = min(first.get(name, job.arrives_s), job.arrives_s)
            last[name] = max(last.get(name, 0.0), self._ended[key])
        completion = {name: last[name] - first[name] for name in first}
        return Outcome(
            mean_completion_s=sum(completion.values()) / len(completion),
            makespan_s=max(last.values()) - min(first.values()),
            oom_kills=self._kills,
            completion_s=completion,
        )

    def preview(self, job: Job, host: _Host) -> Preview:
        """Return what would happen if a job began on a node now, together with those that start."""
        also = tuple(host.starting.values())
        return self.engine.preview(job.task, node=host.node.name, at_s=self.now_s, also=also)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, act))

    def _place(self) -> None:
        """Give nodes to all in the queue that fit, in order."""
        self._queue.sort(key=lambda key: self._order[key])
        for key in list(self._queue):
            job = self._jobs[key]
            hosts = [host for host in self._hosts.values() if host.fits(job)]
            if hosts:
                self._queue.remove(key)
                self._bind(job, self._rule(self, job, hosts))

    def _bind(self, job: Job, host: _Host) -> None:
        gpus = tuple(sorted(host.free_gpus)[: job.gpu_count])
        job = replace(job, task=replace(job.task, gpus=gpus))
        key = job.task.key
        self._jobs[key] = job
        host.take(job, sign=1)
        host.starting[key] = job.task
        service = starts.service_s(self._seed, f"{key}/{job.task.attempt}", node=host.node.name)
        host.server_free_s = starts.ready_s(
            self.now_s, free_s=host.server_free_s, service_s=service
        )

        def begin() -> None:
            del host.starting[key]
            self.engine.start(job.task, node=host.node.name, at_s=self.now_s)

        self._at(host.server_free_s, begin)

    def _end(self, ended: Ended) -> None:
        job, host = self._jobs[ended.key], self._hosts[ended.node]
        task = job.task
        freed = starts.release_s(self._seed, f"{ended.key}/{task.attempt}")
        self._at(ended.at_s + freed, partial(host.take, job, sign=-1))
        if ended.reason is Reason.COMPLETED:
            self._ended[ended.key] = ended.at_s
            for child in self._children[ended.key]:
                self._waits[child].discard(ended.key)
                if not self._waits[child]:
                    arrives = max(self.now_s, self._jobs[child].arrives_s)
                    self._at(arrives, partial(self._queue.append, child))
            return
        self._kills += 1
        limit = task.memory_limit_bytes
        most = max(node.node.memory_bytes for node in self._hosts.values())
        again = replace(
            task,
            attempt=task.attempt + 1,
            memory_request_bytes=min(2 * task.memory_request_bytes, most),
            memory_limit_bytes=None if limit is None else min(2 * limit, most),
        )
        if replace(again, attempt=task.attempt) == task:
            raise errors.PhysicsError(f"job {ended.key!r} needs more memory than any node has")
        self._jobs[ended.key] = replace(job, task=again)
        self._queue.append(ended.key)


def judge(cluster: Cluster, jobs: Sequence[Job], *, seed: int = 0) -> Verdict:
    """Run the jobs under the four rules; the same seed means the same noise in all.

    Raises `PhysicsError` for a job that can never run.
    """
    return Verdict(
        least_requested=_Run(cluster, jobs, _least_requested, seed=seed).outcome(),
        fastest_alone=_Run(cluster, jobs, _fastest_alone, seed=seed).outcome(),
        soonest_end=_Run(cluster, jobs, _soonest_end, seed=seed).outcome(),
        least_lost=_Run(cluster, jobs, _least_lost, seed=seed).outcome(),
    )
