"""Builders of snapshots for tests: a few words for what matters, defaults for the rest."""

import random
from collections.abc import Sequence

from tiphys.models.domain import amounts, clusters, pods, settings, snapshots
from tiphys.models.planner import groups

GIB = 2**30
AT = 10_000.0
CHOICES = settings.PolicySettings()


def amount(cores: float = 1.0, gib: float = 1.0, **others: int) -> amounts.Amounts:
    """Return cores, GiB and one pod."""
    named = {"pods": 1} | {name.replace("_", "/"): value for name, value in others.items()}
    return amounts.Amounts(int(cores * 1000), int(gib * GIB), tuple(sorted(named.items())))


def a_node(
    name: str,
    *,
    cores: float = 16,
    gib: float = 64,
    kind: str = "m5",
    rack: str = "r1",
    labels: Sequence[tuple[str, str]] = (),
    taints: Sequence[clusters.Taint] = (),
    schedulable: bool = True,
    gpus: int = 0,
    mbpi: float | None = None,
    gpu_roots: tuple[int, ...] = (),
) -> clusters.Node:
    """Return a node that has its host's name, type and rack as labels."""
    others = (("nvidia.com/gpu", gpus),) if gpus else ()
    return clusters.Node(
        name=name,
        labels=tuple(
            sorted(
                {
                    settings.HOSTNAME: name,
                    settings.INSTANCE_TYPE: kind,
                    settings.RACK: rack,
                    **dict(labels),
                }.items()
            )
        ),
        taints=tuple(taints),
        allocatable=amounts.Amounts(
            int(cores * 1000), int(gib * GIB), tuple(sorted((("pods", 110), *others)))
        ),
        schedulable=schedulable,
        mbpi=mbpi,
        gpu_roots=gpu_roots,
    )


def a_waiting(
    name: str,
    *,
    cores: float = 1.0,
    gib: float = 1.0,
    lasts_s: float = 60.0,
    work: float | None = None,
    path_s: float | None = None,
    workflow: str | None = None,
    tenant: str = "ns",
    priority: int = 0,
    workflow_priority: int = 0,
    waited_s: float = 0.0,
    at: float = AT,
    constraints: pods.Constraints = pods.Constraints(),  # noqa: B008 (frozen)
    labels: Sequence[tuple[str, str]] = (),
    factors: Sequence[tuple[str, float]] = (),
    deadline_at: float | None = None,
    must_open_by: float | None = None,
    held_s: float = 0.0,
    urgency_of: Sequence[str] = (),
    gpus: int = 0,
) -> snapshots.Waiting:
    """Return a waiting pod; its workflow is its own unless one is named."""
    others = {"nvidia_com/gpu": gpus} if gpus else {}
    requests = amounts.Amounts(
        int(cores * 1000),
        int(gib * GIB),
        tuple(sorted({"pods": 1, **({"nvidia.com/gpu": gpus} if others else {})}.items())),
    )
    return snapshots.Waiting(
        pod=pods.Pod(
            namespace=tenant,
            name=name,
            uid=f"uid-{name}",
            requests=requests,
            priority=priority,
            constraints=constraints,
        ),
        workflow=f"{tenant}/{workflow or name}",
        workflow_priority=workflow_priority,
        duration=snapshots.Estimate(centre_s=lasts_s, count=5, basis="history"),
        group_factors=tuple(factors),
        remaining_work=lasts_s * cores if work is None else work,
        remaining_path_s=lasts_s if path_s is None else path_s,
        deadline_at=deadline_at,
        waiting_since=at - waited_s,
        must_open_by=must_open_by,
        tenant=tenant,
        urgency_of=tuple(urgency_of),
        labels=tuple(sorted(labels)),
        held_s=held_s,
    )


Running = tuple[str, float, amounts.Amounts]
"""Key of a pod, seconds until it ends, what it holds."""


def a_snapshot(
    nodes: Sequence[clusters.Node],
    waiting: Sequence[snapshots.Waiting] = (),
    *,
    running: dict[str, Sequence[Running]] | None = None,
    factors: Sequence[tuple[str, float]] = (),
    tenants: Sequence[tuple[str, float, float]] = (),
    at: float = AT,
    tight: Sequence[str] = (),
) -> snapshots.Snapshot:
    """Return a snapshot in the order that snapshots have; `running` is by node."""
    found, group_of = groups.of(list(nodes), CHOICES.placement.topology_keys)
    rooms = []
    for node in sorted(nodes, key=lambda each: each.name):
        busy = sorted((running or {}).get(node.name, ()), key=lambda each: (each[1], each[0]))
        free = node.allocatable
        for _, _, held in busy:
            free = free - held
        rooms.append(
            snapshots.Room(
                node=node,
                group=group_of[node.name],
                free=free,
                frees_at=tuple((at + seconds, held) for _, seconds, held in busy),
                holders=tuple(key for key, _, _ in busy),
            )
        )
    return snapshots.Snapshot(
        at=at,
        groups=found,
        rooms=tuple(rooms),
        waiting=tuple(sorted(waiting, key=lambda each: (each.waiting_since, each.pod.key))),
        tenants=tuple(tenants),
        group_factors=tuple(factors),
        tight_namespaces=tuple(tight),
    )


KINDS = (("old", "r1"), ("base", "r2"), ("fast", "r3"), ("turbo", "r3"))
SPEEDS = (("base/r2", 1.0), ("fast/r3", 0.7), ("old/r1", 1.6), ("turbo/r3", 0.5))
"""Factors of the groups of `drawn`."""


def drawn(
    seed: int, *, nodes: int = 6, waiting: int = 30, full: float = 0.5, tiers: int = 3
) -> snapshots.Snapshot:
    """Return a random snapshot: kinds of nodes, what runs, who waits, with all that constrains."""
    rng = random.Random(seed)
    made = []
    running: dict[str, list[Running]] = {}
    for number in range(nodes):
        kind, rack = rng.choice(KINDS)
        node = a_node(
            f"n{number:02d}",
            cores=rng.choice((8, 16, 32)),
            kind=kind,
            rack=rack,
            labels=(("disk", rng.choice(("ssd", "hdd"))),),
            taints=(clusters.Taint(key="spot"),) if rng.random() < 0.2 else (),
            schedulable=rng.random() > 0.1,
            mbpi=rng.choice((None, 0.3, 0.95)),
        )
        made.append(node)
        left = node.allocatable.cpu_m / 1000 * full * rng.random() * 2
        place = 0
        while left >= 1:
            cores = min(left, rng.choice((1, 2, 4)))
            busy = (f"ns/run-{number}-{place}", rng.uniform(5, 300), amount(cores, cores))
            running.setdefault(node.name, []).append(busy)
            left -= cores
            place += 1
    made_waiting = []
    for number in range(waiting):
        asked = {}
        if rng.random() < 0.2:
            asked["node_selector"] = (("disk", rng.choice(("ssd", "hdd"))),)
        if rng.random() < 0.3:
            asked["tolerations"] = (pods.Toleration(key="spot", operator="Exists"),)
        if rng.random() < 0.1:
            asked["required"] = (
                (pods.Expression(key=settings.RACK, operator="NotIn", values=("r1",)),),
            )
        made_waiting.append(
            a_waiting(
                f"p{number:03d}",
                cores=rng.choice((1, 1, 2, 4, 8, 64 if rng.random() < 0.1 else 2)),
                gib=rng.choice((1, 2, 8)),
                lasts_s=rng.choice((20, 60, 300)),
                work=rng.uniform(60, 10_000),
                workflow=f"w{rng.randrange(8)}",
                tenant=rng.choice(("alpha", "beta", "gamma")),
                priority=rng.choice((0, 0, 1000)) if tiers > 1 else 0,
                workflow_priority=rng.choice((0, 0, 10)) if tiers > 2 else 0,
                waited_s=rng.choice((0, 30, 400, 2_000)),
                constraints=pods.Constraints(**asked),
                deadline_at=rng.choice((None, AT + 500)),
            )
        )
    tenants = (("alpha", 1.0, 0.3), ("beta", 2.0, 0.1), ("gamma", 1.0, 0.0))
    return a_snapshot(made, made_waiting, running=running, factors=SPEEDS, tenants=tenants)
