"""Pods, nodes and a kubelet's surroundings for tests; nothing is started but coroutines."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from lab import apis, catalogs, clocks, events, homes, journals, truths
from lab.kubelet import (
    announcements,
    computations,
    kubelets,
    ledgers,
    lifecycles,
    lookups,
    machines,
    memories,
    nodes,
    pods,
    settings,
)
from lab.kubelet.behaviours import contracts
from tests.unit.kubelet import conducts, virtual_times
from tiphys.models.physics import engines

GB = 1e9
SPEED = 2000.0
"""Of tests that wait: a pod start of 3 s takes 1.5 ms."""
_numbers = itertools.count()


def a_group(name: str = "g", **changes: Any) -> catalogs.Group:
    """A group of one node with 8 cores and 16 GB."""
    facts: dict[str, Any] = {
        "name": name,
        "count": 1,
        "instance_type": "test-8",
        "rack": "rack-a",
        "zone": "zone-1",
        "cores": 8,
        "memory": 16 * GB,
        "memory_bandwidth": 50 * GB,
        "disk": catalogs.Disk(kind="ssd", bandwidth=500e6, iops=30000),
        "nic": 1 * GB,
    }
    return catalogs.Group(**{**facts, **changes})


def a_cluster(*groups: catalogs.Group, **changes: Any) -> catalogs.Cluster:
    """A cluster of the groups, or of two equal nodes."""
    return catalogs.Cluster(
        name="test",
        about="for tests",
        groups=groups or (a_group(count=2),),
        network=catalogs.Network(rack_uplink=10 * GB, object_store=10 * GB),
        **changes,
    )


def a_container(name: str = "main", **changes: Any) -> apis.Object:
    """A container of a pod's spec that asks for one core and 1 GiB."""
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    return {"name": name, "image": f"{name}:1", "resources": resources, **changes}


def a_pod(
    name: str = "",
    *,
    node: str = "g-0",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    metadata: dict[str, Any] | None = None,
    **spec: Any,
) -> apis.Object:
    """A pod object that was just bound."""
    number = next(_numbers)
    name = name or f"pod-{number}"
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}-{number}",
            "creationTimestamp": "2026-11-30T08:00:00Z",
            "resourceVersion": "1",
            "annotations": annotations or {},
            "labels": labels or {},
            **(metadata or {}),
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [a_container()],
            **spec,
        },
        "status": {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": "2026-11-30T08:00:01Z",
                }
            ],
        },
    }


def deleted(item: apis.Object) -> apis.Object:
    """Return the object after somebody asked for its deletion."""
    return {**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-11-30T09:00:00Z"}}


def a_truth(task: str = "a", **changes: Any) -> truths.Truth:
    """The truth about a task of workflow `wf` that computes 60 s on one core."""
    facts: dict[str, Any] = {
        "namespace": "default",
        "workflow": "wf",
        "task": task,
        "template": "t",
        "cpu_s": 60.0,
    }
    return truths.Truth(**{**facts, **changes})


def an_argo_pod(task: str = "a", **changes: Any) -> apis.Object:
    """A pod of workflow `wf` whose truth can be found."""
    return a_pod(
        annotations={pods.NODE_NAME_ANNOTATION: f"wf.{task}"},
        labels={pods.WORKFLOW_LABEL: "wf"},
        **changes,
    )


@dataclass
class FakeApi:
    """Keeps what is written; answers with the refusals in `refusals`, first come first served."""

    written: list[tuple[str, str, apis.Object]] = field(default_factory=list)
    """(verb, path, body)"""
    refusals: list[apis.ApiError] = field(default_factory=list)
    retries: int = 0

    async def patch(self, path: str, body: apis.Object, **_: Any) -> apis.Object:
        """Take note of a patch."""
        return self._take("PATCH", path, body)

    async def create(self, path: str, body: apis.Object) -> apis.Object:
        """Take note of a create."""
        return self._take("POST", path, body)

    async def apply(self, path: str, body: apis.Object) -> apis.Object:
        """Take note of an apply."""
        return self._take("APPLY", path, body)

    async def call(self, method: str, path: str, *, body: apis.Object, brief: bool) -> apis.Object:
        """Take note of any call."""
        return self._take(method, path, body)

    def _take(self, verb: str, path: str, body: apis.Object) -> apis.Object:
        if self.refusals:
            raise self.refusals.pop(0)
        self.written.append((verb, path, body))
        return body

    @property
    def statuses(self) -> list[apis.Object]:
        """The pod statuses that were written, in order."""
        return [body["status"] for verb, path, body in self.written if path.endswith("/status")]

    @property
    def phases(self) -> list[str]:
        """The phases that were written, in order."""
        return [status["phase"] for status in self.statuses]

    def phases_of_pods(self) -> list[str]:
        """The phases of pods that were written, in order; statuses of nodes have none."""
        return [status["phase"] for status in self.statuses if "phase" in status]

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """The events that were written, in order: (type, reason, message)."""
        return [
            (body["type"], body["reason"], body["message"])
            for verb, path, body in self.written
            if verb == "POST" and path.endswith("/events")
        ]

    @property
    def deletions(self) -> list[str]:
        """The paths that were deleted."""
        return [path for verb, path, _ in self.written if verb == "DELETE"]


def refused(status: int, message: str = "no") -> apis.ApiError:
    """A refusal of the API server."""
    return apis.ApiError(status=status, reason="", message=message, call="PATCH")


@dataclass
class World:
    """One kubelet's surroundings: machines, physics, journal, a fake API server."""

    api: FakeApi
    services: lifecycles.Services
    machines: dict[str, machines.Machine]
    journal: Path
    behaviours: list[contracts.Behaviour]

    def begin(
        self, item: apis.Object, *, memory: memories.Memory | None = None
    ) -> lifecycles.Lifecycle:
        """Let a pod's life begin."""
        pod = pods.read(item)
        memory = memory or memories.fresh(pod, item, at=self.services.clock.wall())
        return lifecycles.Lifecycle(
            self.services, self.machines[pod.node], memory=memory, item=item
        )

    def records(self) -> list[journals.PodRecord]:
        """Return the pod records of the journal."""
        return read_records(self.journal)


def read_records(path: Path) -> list[journals.PodRecord]:
    """Return the pod records of a journal."""
    decoder = msgspec.json.Decoder(journals.Record)
    decoded = [decoder.decode(line) for line in path.read_bytes().splitlines()]
    return [record for record in decoded if isinstance(record, journals.PodRecord)]


@contextlib.asynccontextmanager
async def a_world(
    folder: Path,
    *,
    cluster: catalogs.Cluster | None = None,
    behaviour: type[conducts.Sleeper] = conducts.Sleeper,
    engine: engines.Engine | None = None,
    speed: float = SPEED,
    known: tuple[truths.Truth, ...] = (),
) -> AsyncIterator[World]:
    """Yield the surroundings of one kubelet whose files are below `folder`."""
    cluster = cluster or a_cluster()
    clock = a_clock(speed)
    home = homes.Home(name="test", root=folder)
    truths.write(home.truths / "run.jsonl", known)
    chosen = settings.Settings(
        home=home, kubeconfig=folder / "none", cluster=cluster, clock=clock, version="v1.36.3"
    )
    engine = engine or engines.Engine(
        computations.cluster(cluster), at_s=clock.now_s(), noisy=False
    )
    api, made = FakeApi(), list[contracts.Behaviour]()
    telling = events.Events(cast(apis.Api, api), component=announcements.COMPONENT)

    def choose(host: contracts.Host, truth: truths.Truth | None) -> contracts.Behaviour:
        made.append(behaviour(host, truth))
        return made[-1]

    with ledgers.Ledger(home.journal, clock) as ledger:
        computing = computations.Computations(engine, clock)
        writing = asyncio.create_task(telling.run())
        yield World(
            api=api,
            services=lifecycles.Services(
                api=cast(apis.Api, api),
                clock=clock,
                settings=chosen,
                computing=computing,
                ledger=ledger,
                lookup=lookups.Lookup(home.truths),
                events=telling,
                choose=choose,
            ),
            machines={
                place.name: machines.machine(place, at=clock.wall())
                for place in nodes.places(cluster)
            },
            journal=home.journal,
            behaviours=made,
        )
        writing.cancel()
        computing.close()


def a_clock(speed: float = SPEED) -> clocks.SimClock:
    """A clock that began just now; its wall time is that of the event loop."""
    wall = virtual_times.wall()
    return clocks.SimClock(speed=speed, epoch=wall(), wall=wall)


async def until(condition: Any, within_s: float = 5.0) -> None:
    """Wait until a function returns something true."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0.002)


class WatchedApi(FakeApi):
    """A fake API server whose pods are watched: tests put events on `events`."""

    def __init__(self) -> None:
        super().__init__()
        self.events: asyncio.Queue[tuple[str, apis.Object]] = asyncio.Queue()
        self.history: list[apis.Object] = []
        """What a watch from an earlier version is told."""

    async def watch(self, path: str, **_: Any) -> AsyncIterator[tuple[str, apis.Object]]:
        """Yield what the test puts in."""
        while True:
            yield await self.events.get()

    async def text(self, path: str) -> str:
        """Tell the history."""
        return "\n".join(msgspec.json.encode(event).decode() for event in self.history)

    def hear(self, kind: str, item: apis.Object) -> None:
        """Let the kubelet hear of a pod."""
        self.events.put_nowait((kind, item))

    def listed(self, *items: apis.Object) -> None:
        """Let the kubelet read a list."""
        for item in items:
            self.hear("ADDED", item)
        uids = {item["metadata"]["uid"] for item in items}
        self.hear("LISTED", {"metadata": {"resourceVersion": "1"}, "uids": uids})


@dataclass
class Running:
    """A kubelet that runs against a fake API server."""

    api: WatchedApi
    kubelet: kubelets.Kubelet
    journal: Path
    restarts: list[str]

    def records(self) -> list[journals.PodRecord]:
        """Return the pod records of the journal."""
        return read_records(self.journal)


@contextlib.asynccontextmanager
async def a_kubelet(
    folder: Path,
    *,
    clock: clocks.SimClock | None = None,
    cluster: catalogs.Cluster | None = None,
    behaviour: type[conducts.Sleeper] = conducts.Sleeper,
    known: tuple[truths.Truth, ...] = (),
    orderly: bool = True,
) -> AsyncIterator[Running]:
    """Run a kubelet below `folder`; `orderly=False` ends it as a crash would."""
    home = homes.Home(name="test", root=folder)
    home.data.mkdir(parents=True, exist_ok=True)
    truths.write(home.truths / "run.jsonl", known)
    chosen = settings.Settings(
        home=home,
        kubeconfig=folder / "none",
        cluster=cluster or a_cluster(),
        clock=clock or a_clock(),
        version="v1.36.3",
    )
    api, restarts = WatchedApi(), list[str]()
    with ledgers.Ledger(home.journal, chosen.clock) as ledger:
        kubelet = kubelets.Kubelet(
            chosen,
            cast(apis.Api, api),
            ledger=ledger,
            choose=behaviour,
            port=1,
            restart=lambda: restarts.append("now"),
        )
        running = asyncio.create_task(kubelet.run())
        await asyncio.sleep(0)
        try:
            yield Running(api, kubelet, home.journal, restarts)
        finally:
            if not orderly:
                saved = chosen.state.read_bytes()
            await kubelet.close(running)
            if not orderly:
                chosen.state.write_bytes(saved)
