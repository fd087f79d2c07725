"""All simulated nodes of one lab in one process: watches pods, keeps nodes, obeys faults.

Over 400 lines, because it is the one place where what the kubelet hears, does each second, exports
and obeys comes together.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine

from lab import apis, events, journals
from lab.kubelet import (
    absences,
    acquaintances,
    announcements,
    computations,
    controls,
    disturbances,
    endings,
    keepers,
    ledgers,
    lifecycles,
    lookups,
    machines,
    memories,
    nodes,
    pods,
    samples,
    settings,
    statuses,
    streams,
    tidings,
    writers,
)
from lab.kubelet.behaviours import grounds
from lab.kubelet.exporters import observations
from tiphys.models.physics import engines

logger = logging.getLogger(__name__)

CLOSED_WITHIN_S = 2.0
"""Wall seconds in which behaviours let go when the kubelet ends."""
ADOPTION_S = 3.0
"""Wall seconds after the first list in which adopted pods come for their computations."""
ENDING_SIGNALS = frozenset({1, 2, 3, 9, 15})
BOUND_PODS = {"fieldSelector": "spec.nodeName!="}


class Kubelet:
    """The kubelets of all nodes. `run` goes on until it is cancelled."""

    def __init__(
        self,
        chosen: settings.Settings,
        api: apis.Api,
        *,
        ledger: ledgers.Ledger,
        choose: lifecycles.Chooser,
        port: int,
        restart: Callable[[], None],
    ) -> None:
        self.settings = chosen
        self.known: dict[str, acquaintances.Known] = {}
        """By uid."""
        self._clock = chosen.clock
        self._api = api
        self._checkpoint = memories.read(chosen.state)
        now_s = self._clock.now_s()
        engine = memories.engine(self._checkpoint) or engines.Engine(
            computations.cluster(chosen.cluster), seed=chosen.seed, at_s=now_s
        )
        self.computing = computations.Computations(engine, self._clock)
        self.computing.ended |= self._checkpoint.ended
        self.machines = {place.name: self._machine(place) for place in nodes.places(chosen.cluster)}
        self._events = events.Events(api, component=announcements.COMPONENT)
        self._keeper = keepers.Keeper(
            api, self._clock, events=self._events, port=port, version=chosen.version
        )
        self._services = lifecycles.Services(
            api=api,
            clock=self._clock,
            settings=chosen,
            computing=self.computing,
            ledger=ledger,
            lookup=lookups.Lookup(chosen.home.truths),
            events=self._events,
            choose=choose,
        )
        self._disturbances = disturbances.Disturbances(
            self.machines,
            self.computing,
            clock=self._clock,
            lives_on=self._lives_on,
            restart=restart,
        )
        self._adopting = True
        """Until the first list is read: what the checkpoint holds may still be claimed."""
        self._saving = asyncio.Lock()
        """Held while a checkpoint is written, so that an older one never replaces a newer."""
        self._version = ""
        """Of the pods, as last heard of."""
        self._busy = False
        self._sampled_s = now_s
        self._errands: set[asyncio.Task[None]] = set()

    # From start to end

    async def run(self) -> None:
        """Register the nodes, then do what a kubelet does until cancelled."""
        await asyncio.gather(*(self._keeper.register(one) for one in self.machines.values()))
        async with asyncio.TaskGroup() as group:
            for machine in self.machines.values():
                group.create_task(self._keeper.keep(machine))
            group.create_task(self._watch())
            group.create_task(self._tick())
            group.create_task(self._events.run())

    async def close(self, *running: asyncio.Task[None]) -> None:
        """Write down where everything stands, and let go of it and of what is `running`."""
        async with self._saving:
            memories.write(self.settings.state, self._encoded())
        self.computing.close()
        lives = [known.life.task for known in self.known.values() if known.life is not None]
        tasks = {*running, *lives, *self._errands}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=CLOSED_WITHIN_S)

    def _machine(self, place: nodes.Place) -> machines.Machine:
        at = self._clock.wall()
        machine = machines.machine(place, at=at)
        remembered = self._checkpoint.nodes.get(place.name)
        if remembered is None:
            return machine
        machine.images, machine.addresses = remembered.images, remembered.addresses
        machine.start_free_s = remembered.start_free_s
        machine.pressed_until_s, machine.meter = remembered.pressed_until_s, remembered.meter
        self.computing.totals[place.name] = remembered.total
        if remembered.lost:
            machine.reachable.clear()
        if why := remembered.not_ready:
            machine.set_condition(nodes.READY, status=False, at=at, why=why)
        return machine

    # Pods

    async def _make_up(self, *, since: str, until: str) -> None:
        """Record pods that came and went while there was no kubelet; no list has them."""
        for item in await absences.deleted(self._api, since=since, until=until):
            if item["spec"].get("nodeName") in self.machines:
                memory = memories.fresh(pods.read(item), item, at=self._clock.wall())
                self._end(memory, reason=endings.Stop.GONE.word, exit_code=137)

    async def _watch(self) -> None:
        watch = self._api.watch("/api/v1/pods", params=BOUND_PODS, read=tidings.event)
        async for kind, item in watch:
            self._version = item["metadata"]["resourceVersion"]
            if kind == "LISTED":
                self._all_listed(item["uids"])
                continue
            known = self.known.get(item["metadata"]["uid"])
            tidings.complete(item, before=known.latest if known else None)
            if known is not None or item["spec"].get("nodeName") in self.machines:
                self._heard(kind, item)

    def _heard(self, kind: str, item: apis.Object) -> None:
        uid = item["metadata"]["uid"]
        if kind == "DELETED":
            if known := self.known.pop(uid, None):
                self._gone(known)
            return
        known = self.known.get(uid)
        if known is None:
            self.known[uid] = known = self._met(item)
        if known.life is not None and not known.life.task.done():
            known.life.update(item)
            known.pod = known.life.pod
            return
        known.item = pods.slim(item)
        if pods.awaits_kubelet(item) and not known.confirmed:
            known.confirmed = True
            self._run_errand(writers.delete(self._api, known.pod))

    def _run_errand(self, work: Coroutine[None, None, None]) -> None:
        errand = asyncio.create_task(work)
        self._errands.add(errand)
        errand.add_done_callback(self._errands.discard)

    def _met(self, item: apis.Object) -> acquaintances.Known:
        """Take on a pod that was not known."""
        pod = pods.read(item)
        known = acquaintances.Known(pod=pod, item=pods.slim(item))
        if item["status"].get("phase") not in statuses.ENDED:
            memory = self._checkpoint.pods.get(pod.uid)
            if memory is None:
                memory = memories.fresh(pod, item, at=self._clock.wall())
            known.life = lifecycles.Lifecycle(
                self._services, self.machines[pod.node], memory=memory, item=item
            )
        elif pod.uid not in self._services.ledger.ended:
            # Somebody else said that it is over, while there was no kubelet.
            view = statuses.viewed(pod, item)
            reason, exit_code = endings.told(view, main=pod.main.name)
            memory = memories.fresh(pod, item, at=self._clock.wall())
            self._end(memory, reason=reason, exit_code=exit_code)
        return known

    def _end(self, memory: memories.Memory, *, reason: str, exit_code: int) -> None:
        """Record the end of a pod that has no life here."""
        pod, services = memory.pod, self._services
        found = services.lookup.find(pod.namespace, pod.argo_node) if pod.argo_node else None
        services.ledger.end(
            memory,
            group=self.machines[pod.node].place.group.name,
            template=found.truth.template if found else "",
            reason=reason,
            exit_code=exit_code,
        )

    def _gone(self, known: acquaintances.Known) -> None:
        if known.life is not None and not known.life.task.done():
            known.life.stop(endings.Stop.GONE)

    def _all_listed(self, uids: set[str]) -> None:
        """Let go of what the list did not name, and of what nobody came for after a restart."""
        for uid in [uid for uid in self.known if uid not in uids]:
            self._gone(self.known.pop(uid))
        for uid, memory in self._checkpoint.pods.items():
            if uid not in self.known:
                self._end(memory, reason=endings.Stop.GONE.word, exit_code=137)
        if self._adopting:
            self._adopting = False
            since = self._checkpoint.version
            self._run_errand(self._make_up(since=since, until=self._version))
            self._checkpoint = memories.Checkpoint()
            asyncio.get_running_loop().call_later(ADOPTION_S, self.computing.forsake)

    # What the API server asks of a kubelet's port

    def execute(
        self, namespace: str, pod: str, container: str, *, command: list[str]
    ) -> streams.Executed | None:
        """Carry a `kill` out on a pod; any other command finds no program to run."""
        life = self._life(namespace, pod, container)
        if life is None:
            return None
        signal = streams.signal_of(command)
        if signal is None:
            text = f"{command[:1] or ['']}: a simulated container has no programs\n"
            return streams.Executed(exit_code=streams.REFUSED, stderr=text)
        if signal in ENDING_SIGNALS:
            life.stop(endings.Stop.SIGNALLED, signal=signal)
        return streams.Executed()

    def log(self, namespace: str, pod: str, container: str) -> str | None:
        """Return what a container's commands printed; computed tasks print nothing."""
        if self._life(namespace, pod, container) is None:
            return None
        return grounds.log(self.settings.home.root, namespace, pod, container)

    def _life(self, namespace: str, pod: str, container: str) -> lifecycles.Lifecycle | None:
        for known in self.known.values():
            if (known.pod.namespace, known.pod.name) == (namespace, pod) and known.life:
                names = {run.name for run in known.life.view.every_run}
                return known.life if container in names else None
        return None

    # Every second

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(settings.SAMPLE_PERIOD_S)
            self._pressures()
            self._resize()
            busy = any(machine.bound for machine in self.machines.values())
            if busy or self._busy:
                self._sample()
                if not self._adopting:
                    await self.save()
            self._busy, self._sampled_s = busy, self._clock.now_s()

    def _sample(self) -> None:
        now_s = self._clock.now_s()
        readings = self.computing.engine.node_readings(now_s)
        tasks = self._tasks_by_node(now_s)
        self.computing.settle()
        self._services.ledger.append(
            samples.samples(readings, machine_of=self.machines, at=self._clock.wall())
        )
        for reading in readings:
            machine, group = self.machines[reading.node], self.machines[reading.node].place.group
            total = self.computing.totals.get(reading.node, computations.Usage())
            machine.meter.advance(
                now_s - self._sampled_s,
                reading,
                tasks[reading.node],
                cores=group.cores,
                kind=group.disk.kind,
                read_share=total.read_share,
            )

    def _tasks_by_node(self, now_s: float) -> dict[str, list[engines.Reading]]:
        tasks: dict[str, list[engines.Reading]] = {name: [] for name in self.machines}
        for reading in self.computing.engine.readings(now_s):
            tasks[reading.node].append(reading)
        return tasks

    def _pressures(self) -> None:
        """Let memory pressure pass when its time is over."""
        for machine in self.machines.values():
            pressed = machine.pressed_until_s > self._clock.now_s()
            machine.set_condition(
                nodes.MEMORY_PRESSURE,
                status=pressed,
                at=self._clock.wall(),
                why="kubelet has insufficient memory available",
            )

    def _resize(self) -> None:
        """Look again at pods that their nodes could not give what they ask for."""
        for known in self.known.values():
            if known.life is not None and known.life.view.resize is not None:
                known.life.resize()
                known.pod = known.life.pod

    async def save(self) -> None:
        """Write down where everything stands."""
        async with self._saving:
            # Renaming waits for the disk on some file systems; pods should not.
            await asyncio.to_thread(memories.write, self.settings.state, self._encoded())

    def _encoded(self) -> bytes:
        lives = [known.life for known in self.known.values() if known.life is not None]
        totals = self.computing.totals
        return memories.encode(
            memories.Checkpoint(
                pods={life.pod.uid: life.memory for life in lives if not life.task.done()},
                nodes={
                    name: machine.memory(totals.get(name, computations.Usage()))
                    for name, machine in self.machines.items()
                },
                engine=self.computing.frozen(),
                ended=self.computing.ended,
                version=self._version,
            )
        )

    # What is exported

    def observe_nodes(self) -> dict[str, observations.Node]:
        """Return every node at this instant, by name."""
        now_s = self._clock.now_s()
        readings = self.computing.engine.node_readings(now_s)
        tasks = self._tasks_by_node(now_s)
        self.computing.settle()
        found = {}
        for reading in readings:
            machine = self.machines[reading.node]
            total = self.computing.totals.get(reading.node, computations.Usage())
            for task in tasks[reading.node]:
                total += computations.usage(task.usage)
            found[reading.node] = observations.Node(
                place=machine.place,
                conditions=tuple(machine.conditions.values()),
                reachable=machine.reachable.is_set(),
                usage=total,
                meter=machine.meter,
                working_set_bytes=reading.memory_working_set_bytes,
                cache_bytes=reading.page_cache_bytes,
                up_s=now_s,
                booted_at=self._clock.epoch,
            )
        return found

    def observe_pods(self, *, node: str | None = None) -> list[observations.Pod]:
        """Return every pod that is bound to a simulated node, or to one of them."""
        running: dict[str, list[engines.Reading]] = {}
        for reading in self.computing.engine.readings(self._clock.now_s(), node=node):
            running.setdefault(reading.key.partition("/")[0], []).append(reading)
        self.computing.settle()
        return [
            known.observed(running.get(known.pod.uid, ()))
            for known in self.known.values()
            if node is None or known.pod.node == node
        ]

    def counts(self) -> dict[str, float]:
        """Return figures about this process."""
        return {
            "api_retries": float(self._api.retries),
            "pods_known": float(len(self.known)),
            "pods_ended": float(len(self._services.ledger.ended)),
            "cpu_seconds": time.process_time(),
        }

    # Faults

    async def obey(self, command: controls.Command) -> None:
        """Let a fault happen, write it down, and report the node if it can speak."""
        self._disturbances.cause(command)
        self.computing.settle()
        at = self._clock.wall()
        self._services.ledger.append(
            (journals.FaultRecord(at=at, fault=command.fault, node=command.node),)
        )
        await self.save()
        if (machine := self.machines.get(command.node)) and machine.reachable.is_set():
            await self._keeper.report(machine)
            await self._keeper.renew(machine)

    def _lives_on(self, node: str) -> list[lifecycles.Lifecycle]:
        return [
            known.life
            for known in self.known.values()
            if known.life is not None and known.pod.node == node and not known.life.task.done()
        ]
