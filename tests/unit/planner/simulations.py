"""A small event simulation that feeds `plan`, and the same inputs to a likeness of kube-scheduler.

Only for choosing constants and for keeping them honest: run times are CPU work over node speed with
noise per program and node kind; there is no contention, no disk, no network.  It has what makes
gates cost time: Argo makes the next pod a while after an end, requests are freed some seconds after
it, a released pod needs seconds to start.  True run times stay here; policies see estimates that a
`Book` learned from another pass over other inputs.  Times are simulated seconds, CPU millicores.
"""

import dataclasses
import heapq
import itertools
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Sequence

from lab import catalogs
from lab.workloads import mixes, packs
from lab.workloads import plans as lab_plans
from tiphys.models.domain import (
    amounts,
    clusters,
    footprints,
    pods,
    settings,
    snapshots,
    workflows,
)
from tiphys.models.estimators import books, histories
from tiphys.models.planner import groups, pictures, ticks
from tiphys.models.policies import rankings

NEXT_POD_S = 1.0
"""From an end to the creation of what waited for it (Argo's next look)."""
FREED_S = 3.0
"""From an end to the moment at which its requests are free."""
START_S = 3.0
"""From a binding to the start."""
BACK_OFF_S = 1.0
"""Pause of kube-scheduler before it tries an unschedulable pod again."""
DISTANT_NOISE = 0.15
"""Sigma of the logarithm of (program, node kind): some programs like some nodes."""
RUN_NOISE = 0.08
"""Sigma of the logarithm of one run."""


@dataclasses.dataclass(slots=True, eq=False)
class Task:
    """One pod to be, with the truth about it."""

    name: str
    workflow: "Run"
    template: str
    requests: amounts.Amounts
    work_s: float
    """True run time at speed 1."""
    parents: list["Task"] = dataclasses.field(default_factory=list)
    children: list["Task"] = dataclasses.field(default_factory=list)
    identity: workflows.Identity | None = None
    estimate: snapshots.Estimate | None = None
    factors: tuple[tuple[str, float], ...] = ()
    path_s: float = 0.0
    created_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    node: str = ""
    held_s: float = 0.0
    fitted_at: float | None = None
    pod: pods.Pod | None = None


@dataclasses.dataclass(slots=True, eq=False)
class Run:
    """One workflow."""

    name: str
    tenant: str
    priority: int
    arrival_s: float
    deadline_s: float
    tasks: list[Task] = dataclasses.field(default_factory=list)
    left: int = 0
    ended_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one arm."""

    completions_s: tuple[float, ...]
    """By arrival."""
    makespan_s: float
    waits_s: tuple[float, ...]
    forced: float
    """Share of gates that a clock opened."""

    @property
    def mean_s(self) -> float:
        """Mean completion time."""
        return statistics.fmean(self.completions_s)

    @property
    def p95_s(self) -> float:
        """95th percentile of completion times, interpolated."""
        ordered = sorted(self.completions_s)
        place = 0.95 * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def cluster_nodes(cluster: catalogs.Cluster) -> tuple[tuple[clusters.Node, float], ...]:
    """Return nodes and speeds of a shipped cluster, sorted by name."""
    found = []
    for name, group in cluster.nodes:
        labels = {
            settings.HOSTNAME: name,
            settings.INSTANCE_TYPE: group.instance_type,
            settings.RACK: group.rack,
        }
        found.append(
            (
                clusters.Node(
                    name=name,
                    labels=tuple(sorted(labels.items())),
                    allocatable=amounts.Amounts(
                        int(group.cores * 1000), int(group.memory), (("pods", 110),)
                    ),
                ),
                group.speed,
            )
        )
    return tuple(sorted(found, key=lambda pair: pair[0].name))


def runs_of(workload: lab_plans.Workload) -> list[Run]:
    """Return the workflows of a generated workload with their true run times."""
    truths = {(truth.workflow, truth.task): truth for truth in workload.truths}
    found = []
    for plan in workload.workflows:
        run = Run(plan.name, plan.namespace, plan.priority, plan.arrival_s, plan.deadline_s)
        by_name: dict[str, Task] = {}
        images = {program.name: program.image for program in plan.programs}
        for pod in plan.pods:
            truth = truths[plan.name, pod.task]
            asked = plan.requests_of(pod.template)
            cores = min(truth.parallelism, (asked.cpu_limit_m or 10**9) / 1000)
            io_s = (sum(read.bytes for read in truth.reads) + truth.written_bytes) / 400e6
            by_name[pod.task] = Task(
                name=f"{plan.name}.{pod.task}",
                workflow=run,
                template=pod.template,
                requests=amounts.Amounts(asked.cpu_m, asked.memory_bytes, (("pods", 1),))
                + footprints.BESIDE,
                work_s=truth.cpu_s / max(cores, 0.05) + io_s,
                identity=workflows.Identity(
                    source=f"wftmpl/{plan.namespace}/{plan.family}",
                    template=pod.template,
                    image=images[pod.template],
                ),
            )
        for pod in plan.pods:
            task = by_name[pod.task]
            for parent in pod.parents:
                task.parents.append(by_name[parent])
                by_name[parent].children.append(task)
        run.tasks = list(by_name.values())
        run.left = len(run.tasks)
        found.append(run)
    return found


def workload(
    mix: str,
    seed: int,
    *,
    workflows: int,
    overload: float,
    cluster: catalogs.Cluster,
    held_out: bool = False,
) -> lab_plans.Workload:
    """Return a generated workload of the lab."""
    wish = mixes.Wish(workflows=workflows, seed=seed, pack=packs.find(), held_out=held_out)
    return mixes.generate(mixes.find(mix), wish, tag="s", cluster=cluster, overload=overload)


def factor(task: Task, kind: str, speed: float) -> float:
    """Return true run time on a kind of node over that at speed 1, always the same for a task."""
    program = random.Random(f"{task.identity}/{kind}").gauss(0.0, DISTANT_NOISE)
    run = random.Random(f"{task.name}/{task.requests}").gauss(0.0, RUN_NOISE)
    return math.exp(program + run) / speed


class Simulation:
    """One arm over one workload.  With `policy` None it is kube-scheduler alone."""

    def __init__(
        self,
        runs: Sequence[Run],
        nodes: Sequence[tuple[clusters.Node, float]],
        *,
        book: books.Book | None = None,
        policy: rankings.Policy | None = None,
        choices: settings.PolicySettings | None = None,
    ) -> None:
        choices = choices or settings.PolicySettings()
        self.runs = runs
        self.nodes = {node.name: node for node, _ in nodes}
        self.speeds = {node.name: speed for node, speed in nodes}
        self.kind = {node.name: node.label(settings.INSTANCE_TYPE) or "" for node, _ in nodes}
        self.free = {node.name: node.allocatable for node, _ in nodes}
        self.footprints = footprints.Footprints(node.allocatable for node, _ in nodes)
        self.groups, self.group_of = groups.of(
            [node for node, _ in nodes], choices.placement.topology_keys
        )
        self.book = book or books.Book()
        self.policy = policy
        self.choices = choices
        self.picture = pictures.Picture()
        self.now = 0.0
        self.events: list[tuple[float, int, str, object]] = []
        self.numbers = itertools.count()
        self.waiting: dict[str, Task] = {}
        self.tries: dict[str, float] = {}
        self.running: dict[str, dict[str, Task]] = {name: {} for name in self.nodes}
        self.waits: list[float] = []
        self.forced = 0
        self.released = 0
        self.rows: list[histories.Row] = []
        self.rooms: dict[str, snapshots.Room] = {}

    def run(self) -> Outcome:
        """Run to the end of all workflows."""
        for run in self.runs:
            for task in reversed(run.tasks):
                task.estimate = self.estimate(task)
                task.factors = self.book.factors(task.identity)
            self._paths(run)
            self._at(run.arrival_s, "arrive", run)
        while self.events:
            self.now = self.events[0][0]
            while self.events and self.events[0][0] <= self.now:
                _, _, kind, what = heapq.heappop(self.events)
                getattr(self, f"_{kind}")(what)
            if self.policy is None:
                self._schedule()
            else:
                self._steer()
        assert all(run.ended_at is not None for run in self.runs), "a workflow did not end"
        return Outcome(
            completions_s=tuple((run.ended_at or 0.0) - run.arrival_s for run in self.runs),
            makespan_s=max(run.ended_at or 0.0 for run in self.runs),
            waits_s=tuple(self.waits),
            forced=self.forced / max(self.released, 1),
        )

    def estimate(self, task: Task) -> snapshots.Estimate:
        """Return what the planner is told of a task's run time."""
        return self.book.estimate(task.identity)

    def _at(self, time: float, kind: str, what: object) -> None:
        heapq.heappush(self.events, (time, next(self.numbers), kind, what))

    def _arrive(self, run: Run) -> None:
        for task in run.tasks:
            if not task.parents:
                self._create(task)

    def _create(self, task: Task) -> None:
        task.created_at = self.now
        self.waiting[task.name] = task

    def _bind(self, task: Task, node: str) -> None:
        del self.waiting[task.name]
        task.node = node
        self.free[node] = self.free[node] - task.requests
        self.running[node][task.name] = task
        self.rooms.pop(node, None)
        task.started_at = self.now + START_S
        self.waits.append(self.now - (task.created_at or 0.0))
        length_s = task.work_s * factor(task, self.kind[node], self.speeds[node])
        self._at(task.started_at + length_s, "end", task)

    def _end(self, task: Task) -> None:
        task.ended_at = self.now
        run = task.workflow
        run.left -= 1
        if not run.left:
            run.ended_at = self.now
        self.rows.append(
            histories.Row(
                identity=task.identity,
                duration_s=self.now - (task.started_at or 0.0),
                group=self.group_of[task.node],
                run=run.name,
                ended_at=self.now,
            )
        )
        self._at(self.now + FREED_S, "freed", task)
        for child in task.children:
            if all(parent.ended_at is not None for parent in child.parents):
                self._at(self.now + NEXT_POD_S, "create", child)

    def _freed(self, task: Task) -> None:
        self.free[task.node] = self.free[task.node] + task.requests
        del self.running[task.node][task.name]
        self.rooms.pop(task.node, None)

    def _look(self, _: object) -> None:
        """Wake up: a back-off or a wait is over."""

    def _schedule(self) -> None:
        """Bind as kube-scheduler does: in order of creation, spread by what is left on a node."""
        again = math.inf
        for task in sorted(self.waiting.values(), key=lambda each: (each.created_at, each.name)):
            if self.tries.get(task.name, -math.inf) + BACK_OFF_S > self.now:
                if any(task.requests.fits(free) for free in self.free.values()):
                    again = min(again, self.tries[task.name] + BACK_OFF_S)
                continue
            node = self._spread(task, list(self.nodes))
            if node:
                self._bind(task, node)
            else:
                self.tries[task.name] = self.now
        if again < math.inf:
            self._at(again, "look", None)

    def _spread(self, task: Task, names: Sequence[str]) -> str:
        """Return the node by LeastAllocated and BalancedAllocation; empty if none has room."""
        best, found = -math.inf, ""
        for name in names:
            if not task.requests.fits(self.free[name]):
                continue
            whole = self.nodes[name].allocatable
            left = self.free[name] - task.requests
            cpu, memory = left.cpu_m / whole.cpu_m, left.memory_bytes / whole.memory_bytes
            score = (cpu + memory) / 2 + 1 - abs(cpu - memory) / 2
            if score > best:
                best, found = score, name
        return found

    def _steer(self) -> None:
        assert self.policy is not None
        if not self.waiting:
            return
        snapshot = self._snapshot()
        self.picture.see(snapshot, self.choices, snapshot.waiting)
        tick = ticks.Tick(self.picture, snapshot, self.policy, choices=self.choices)
        tick.walk()
        names = [each.pod.uid for each in snapshot.waiting]
        tasks = [self.waiting[name] for name in names]
        for placed in tick.placed:
            task = tasks[placed.index]
            self.released += 1
            self.forced += bool(placed.clock)
            liked = []
            if tick.places and placed.node >= 0:
                home = snapshot.rooms[placed.node].group
                liked = [name for name in self.nodes if self.group_of[name] == home]
            node = self._spread(task, liked) or self._spread(task, list(self.nodes))
            assert node, "a pod was released that fits nowhere"
            self._bind(task, node)
        again = math.inf
        for hold in tick.held:
            task = tasks[hold.index]
            if task.fitted_at is not None:
                task.held_s += self.now - task.fitted_at
            task.fitted_at = self.now if hold.fits else None
            if hold.fits:
                again = min(again, self.now + 5.0)
        if again < math.inf:
            self._at(again, "look", None)

    def _snapshot(self) -> snapshots.Snapshot:
        for name in self.nodes:
            if name not in self.rooms or self.running[name]:
                self.rooms[name] = self._room(name)
        work: dict[str, float] = {}
        tenants: defaultdict[str, float] = defaultdict(float)
        whole = sum(node.allocatable.cpu_m for node in self.nodes.values())
        for running in self.running.values():
            for task in running.values():
                tenants[task.workflow.tenant] += task.requests.cpu_m / whole
        found = []
        for task in self.waiting.values():
            run = task.workflow
            if run.name not in work:
                work[run.name] = self._work(run)
            tenants[run.tenant] += 0.0
            if task.pod is None:
                task.pod = pods.Pod(
                    namespace=run.tenant, name=task.name, uid=task.name, requests=task.requests
                )
            found.append(
                snapshots.Waiting(
                    pod=task.pod,
                    workflow=f"{run.tenant}/{run.name}",
                    workflow_priority=run.priority,
                    workflow_created_at=run.arrival_s,
                    duration=task.estimate,
                    group_factors=task.factors,
                    remaining_work=work[run.name],
                    remaining_path_s=task.path_s,
                    deadline_at=run.arrival_s + run.deadline_s,
                    waiting_since=task.created_at or 0.0,
                    tenant=run.tenant,
                    held_s=task.held_s,
                )
            )
        found.sort(key=lambda each: (each.waiting_since, each.pod.key))
        return snapshots.Snapshot(
            at=self.now,
            groups=self.groups,
            rooms=tuple(self.rooms[name] for name in sorted(self.rooms)),
            waiting=tuple(found),
            tenants=tuple((name, 1.0, share) for name, share in sorted(tenants.items())),
            group_factors=self.book.group_factors,
        )

    def _room(self, name: str) -> snapshots.Room:
        group = self.group_of[name]
        common = dict(self.book.group_factors)
        ends = []
        for task in self.running[name].values():
            if task.ended_at is not None:
                ends.append((task.ended_at, task))
                continue
            ratio = dict(task.factors).get(group, common.get(group, 1.0))
            started_at = task.started_at or 0.0
            elapsed_s = max(0.0, self.now - started_at)
            rest_s = books.residual_s(task.estimate, ratio, elapsed_s)
            ends.append((max(self.now, started_at) + rest_s, task))
        ends.sort(key=lambda pair: (pair[0], pair[1].name))
        return snapshots.Room(
            node=self.nodes[name],
            group=group,
            free=self.free[name],
            frees_at=tuple((end, task.requests) for end, task in ends),
            holders=tuple(f"{task.workflow.tenant}/{task.name}" for _, task in ends),
        )

    def _paths(self, run: Run) -> None:
        left = {id(task): len(task.children) for task in run.tasks}
        ready = [task for task in run.tasks if not task.children]
        while ready:
            task = ready.pop()
            task.path_s = task.estimate.centre_s + max(
                (child.path_s for child in task.children), default=0.0
            )
            for parent in task.parents:
                left[id(parent)] -= 1
                if not left[id(parent)]:
                    ready.append(parent)

    def _work(self, run: Run) -> float:
        total = 0.0
        for task in run.tasks:
            if task.ended_at is None:
                rest_s = task.estimate.centre_s
                if task.started_at is not None:
                    rest_s = books.residual_s(
                        task.estimate, 1.0, max(0.0, self.now - task.started_at)
                    )
                asked = task.requests
                total += rest_s * self.footprints.cores(asked.cpu_m, asked.memory_bytes)
        return total
