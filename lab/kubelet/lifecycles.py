"""One pod from the moment its node sees it to its end: the order of things that a kubelet keeps.

bound → admitted or refused → image and start server → init containers → running → ended → reported
→ recorded in the journal → (the kubelet's status loop takes its time) → final status → deleted, if
somebody asked for it. Whatever cuts this short (deletion, signal, deadline, node loss) arrives as a
`Stop`; the journal gets exactly one record per pod in any case.

Longer than other files, so that this order stands in one place.
"""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lab import apis, clocks, events, truths
from lab.kubelet import (
    admissions,
    announcements,
    computations,
    endings,
    hosts,
    ledgers,
    lookups,
    machines,
    memories,
    pods,
    resizes,
    settings,
    statuses,
    writers,
)
from lab.kubelet.behaviours import contracts
from tiphys.models.physics import starts

logger = logging.getLogger(__name__)

BACKOFF_S = 10.0
"""Simulated seconds before the second restart of a container; doubles each time (kubelet). The
first comes at once."""
MOST_BACKOFF_S = 300.0
BACKOFF_RESET_S = 600.0
"""A run of this many simulated seconds starts the back-off anew (kubelet)."""
GRACE_LOOK_S = 1.0
"""Wall seconds after which a stopped pod's grace is looked up again."""
REPORT_GRACE_S = 30.0
"""Wall seconds that a stopped pod has to report."""


class Stopped(Exception):  # noqa: N818 - a turn of events, not an error
    """The pod was stopped while it was being worked on."""


class Chooser(Protocol):
    """Makes the behaviour of a pod; see `lab.kubelet.behaviours.chooser`."""

    def __call__(self, host: contracts.Host, truth: truths.Truth | None) -> contracts.Behaviour:
        """Return what the pod does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What every life cycle works with; one per kubelet."""

    api: apis.Api
    clock: clocks.SimClock
    settings: settings.Settings
    computing: computations.Computations
    ledger: ledgers.Ledger
    lookup: lookups.Lookup
    events: events.Events
    choose: Chooser


class Lifecycle:
    """Takes one pod through its life; `task` ends when nothing is left to do."""

    def __init__(
        self,
        services: Services,
        machine: machines.Machine,
        *,
        memory: memories.Memory,
        item: apis.Object,
    ) -> None:
        self.memory = memory
        self.pod = pod = memory.pod
        self.item = item
        self.machine = machine
        self.view = statuses.view(pod, seen_at=self.memory.seen_at)
        self.found = services.lookup.find(pod.namespace, pod.argo_node) if pod.argo_node else None
        self._services = services
        self._clock = services.clock
        self._stop: endings.Stop | None = None
        self._signal = 15
        self._stopping: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._hurry = asyncio.Event()
        """Set when nothing is to be waited for any more: the object is deleted or gone."""
        self._setback: contracts.Outcome | None = None
        """How the containers were ended, when they are to start again."""
        self._host: hosts.PodHost | None = None
        self._behaviour: contracts.Behaviour | None = None
        self.oom_kills = 0
        self.ended_s = 0.0
        """When (simulated) the pod was over."""
        self._slow: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._writer = writers.Writer(
            services.api, pod, render=self._render, reachable=machine.reachable
        )
        self.task = asyncio.create_task(self._live())

    @property
    def key(self) -> str:
        """Identity over runs with one seed, as far as the pod has one."""
        argo_node = self.pod.argo_node
        return f"{self.pod.namespace}/{argo_node}" if argo_node else self.pod.name

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the object's deletion."""
        return "deletionTimestamp" in self.item["metadata"]

    def update(self, item: apis.Object) -> None:
        """Take note of a newer object."""
        before, self.item = self.item, item
        if self._host is not None:
            self._host.pod = item
        if item["spec"] is not before["spec"]:
            self._follow_spec()
        if self.deleting:
            self._hurry.set()
            self.stop(endings.Stop.DELETED)

    def stop(self, stop: endings.Stop, *, signal: int = 15) -> None:
        """Cut the life short; the first reason decides how the pod ends."""
        if stop is endings.Stop.GONE:
            self._hurry.set()
            self._writer.close()
        if self._stop is None:
            self._stop, self._signal = stop, signal
            self._stopping.set_result(None)
            self._announce(announcements.of_stop(self.pod, self.view, stop))

    def resize(self) -> None:
        """Give the pod what its spec asks for by now, if its node has that."""
        wanted = resizes.resized(self.pod, pods.read(self.item))
        before, self.view.resize = self.view.resize, None
        if wanted != self.pod:
            held_bytes = self._services.computing.held_bytes(self._prefix, node=self.machine.name)
            self.view.resize = resizes.hindrance(
                wanted,
                others=[pod for uid, pod in self.machine.bound.items() if uid != self.pod.uid],
                allocatable=self.machine.allocatable,
                held_bytes=held_bytes,
            )
            if self.view.resize is None:
                self._take(wanted)
                self._services.computing.resize(self._prefix, hosts.bounds(wanted))
                self._writer.publish()
        if self.view.resize != before:
            self._writer.publish()

    def containers_changed(
        self, *, ready: dict[str, bool], ended: dict[str, contracts.ContainerEnd]
    ) -> None:
        """Take over what a behaviour says about its containers, and publish it."""
        for run in self.view.every_run:
            if run.name in ended:
                run.stop(ended[run.name], self._clock.wall())
            elif run.name in ready and run.running:
                run.ready = ready[run.name]
        self.memory.ready = {run.name: run.ready for run in self.view.every_run if run.ready}
        self._writer.publish()

    def warn(self, reason: str, message: str) -> None:
        """Have a warning about the pod written as an Event."""
        self._announce([announcements.of_pod(self.pod, reason, message)])

    @property
    def _prefix(self) -> str:
        """What the keys of its computations begin with."""
        return f"{self.pod.uid}/"

    @property
    def _grace_s(self) -> float:
        """Wall seconds from SIGTERM to SIGKILL; who deletes a pod may ask for others."""
        asked = self.item["metadata"].get("deletionGracePeriodSeconds")
        return self.pod.grace_s if asked is None else float(asked)

    def _follow_spec(self) -> None:
        """Do as the spec says by now: of a pod that runs its deadline and its resources change."""
        deadline_s = pods.read(self.item).deadline_s
        if deadline_s != self.pod.deadline_s:
            self._take(replace(self.pod, deadline_s=deadline_s))
            self._watch_deadline()
        if self.view.phase not in statuses.ENDED:
            self.resize()

    def _take(self, pod: pods.Pod) -> None:
        """Let the pod be another: in the node's books and in what a restart remembers."""
        self.pod = self.memory.pod = pod
        if pod.uid in self.machine.bound:
            self.machine.bound[pod.uid] = pod

    # The life itself

    async def _live(self) -> None:
        try:
            await self._whole_life()
        except Exception:
            logger.exception("the life of %s broke off", self.pod.path)
            self._journal("Error", exit_code=1)
            self._stop_runs(statuses.KILLED)
            self.view.phase, self.view.message = statuses.FAILED, "the simulation of it broke off"
            await self._writer.flush()
        finally:
            self._writer.close()
            for timer in (self._slow, self._deadline):
                if timer is not None:
                    timer.cancel()
            self.machine.free(self.pod.uid)
            self.item, self._host, self._behaviour = pods.slim(self.item), None, None

    async def _whole_life(self) -> None:
        if self.memory.started_at is None and (refusal := self._refusal()):
            await self._refuse(refusal)
            return
        machine, memory = self.machine, self.memory
        machine.bound[self.pod.uid] = self.pod
        memory.gpus = memory.gpus or machine.take_gpus(self.pod.uid, self.pod.requests.gpus)
        machine.gpus[self.pod.uid] = memory.gpus
        memory.address = memory.address or machine.next_address()
        self._watch_deadline()
        if memory.started_at is not None:
            # The spec may have changed while there was no kubelet.
            self._follow_spec()
        if not machine.reachable.is_set() and memory.started_at is not None:
            self.stop(endings.Stop.LOST)
        if self.deleting:
            self.update(self.item)
        outcome, reason = await self._until_end()
        self._end(outcome)
        main = next(run for run in self.view.runs if run.name == self.pod.main.name)
        self._journal(reason, exit_code=main.end.exit_code if main.end else 1)
        await self._freed()
        # Before the API server hears of it: the scheduler may bind the next pod to this room while
        # the answer is still on its way here, and that pod would be refused.
        self.machine.free(self.pod.uid)
        await self._writer.flush()
        if pods.awaits_kubelet(self.item):
            await writers.delete(self._services.api, self.pod)

    async def _until_end(self) -> tuple[contracts.Outcome, str]:
        """Work until the pod ends by itself or is stopped; return how, and the record's word."""
        while True:
            try:
                outcome = await self._race(self._work())
                return outcome, endings.word(outcome)
            except Stopped:
                assert self._stop is not None
            if not await self._goes_on(self._stop):
                break
            self._stop, self._stopping = None, asyncio.get_running_loop().create_future()
        outcome = endings.stopped(self.view, self._stop, signal=self._signal)
        if (
            self._stop in (endings.Stop.SIGNALLED, endings.Stop.DEADLINE)
            and self._behaviour is not None
        ):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REPORT_GRACE_S):
                    outcome = await self._behaviour.report(outcome)
        return outcome, self._stop.word

    async def _goes_on(self, stop: endings.Stop) -> bool:
        """Return whether a stopped pod starts (again), and make ready for that."""
        if stop is endings.Stop.SIGNALLED and self.pod.restart_policy != "Never":
            self._setback = endings.stopped(self.view, stop, signal=self._signal)
            return True
        never_ran = self.memory.first_started_at is None
        if stop is not endings.Stop.LOST or (self.pod.restart_policy == "Never" and not never_ran):
            return False
        # A lost node that comes back starts what had not started or is to be restarted.
        await self._reachable_or_hurry()
        if self._hurry.is_set():
            return False
        if not never_ran:
            self._stop_runs(statuses.UNKNOWN)
            self.memory.restart()
        return True

    async def _reachable_or_hurry(self) -> None:
        events = [
            asyncio.create_task(event.wait()) for event in (self.machine.reachable, self._hurry)
        ]
        try:
            await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for event in events:
                event.cancel()

    async def _race(self, work: Coroutine[None, None, contracts.Outcome]) -> contracts.Outcome:
        """Do the work unless a stop comes first; then cancel it and raise `Stopped`."""
        task = asyncio.create_task(work)
        either: set[asyncio.Future[Any]] = {task, self._stopping}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            task.cancel()
            if not await self._ends_in_grace(task):
                self._signal = 9
        if task.done() and not task.cancelled():
            return task.result()
        raise Stopped

    async def _ends_in_grace(self, task: asyncio.Task[contracts.Outcome]) -> bool:
        """Wait for stopped containers to end; who deletes a pod again may shorten their grace."""
        began = self._clock.wall()
        while not task.done():
            left_s = began + self._grace_s - self._clock.wall()
            if left_s <= 0:
                return False
            await asyncio.wait({task}, timeout=min(left_s, GRACE_LOOK_S))
        return True

    async def _work(self) -> contracts.Outcome:
        """Start, run, and restart as the pod's policy says."""
        await self.machine.reachable.wait()
        if self._setback is not None:
            setback, self._setback = self._setback, None
            await self._back_off(setback)
        elif self.memory.started_at is None:
            await self._start()
        while True:
            outcome = await self._run_once()
            if not self._restarts(outcome):
                return outcome
            await self._back_off(outcome)

    async def _start(self) -> None:
        """Wait for the image and for the node's start server."""
        self._publish_if_slow()
        services, machine = self._services, self.machine
        size = self.found.truth.image_bytes if self.found else 0.0
        image = self.pod.main.image

        async def fetch() -> None:
            if size:
                pull = starts.pull(size, key=f"pull/{machine.name}/{image}")
                try:
                    await services.computing.run(pull, node=machine.name)
                except asyncio.CancelledError:
                    services.computing.stop(pull.key)
                    raise

        await machine.pull(image, size, fetch)
        now_s = self._clock.now_s()
        service_s = starts.service_s(
            services.settings.seed,
            self.key,
            node=machine.name,
            median_s=services.settings.cluster.start_median_s,
        )
        machine.start_free_s = starts.ready_s(
            now_s, free_s=machine.start_free_s, service_s=service_s
        )
        await asyncio.sleep(self._clock.wall_duration(machine.start_free_s - now_s))

    async def _run_once(self) -> contracts.Outcome:
        """Run all containers once, from the first init container to the report."""
        services = self._services
        self._host = hosts.PodHost(
            self,
            api=services.api,
            clock=self._clock,
            artifacts=services.settings.home.artifacts,
            computing=services.computing,
        )
        behaviour = services.choose(self._host, self.found.truth if self.found else None)
        if self.memory.started_at is None:
            self._publish_if_slow()
            prepared = await behaviour.prepare()
            if prepared.exit_code:
                return endings.unprepared(self.view, prepared)
        self._behaviour = behaviour
        self._containers_start()
        return await behaviour.report(await behaviour.run())

    def _containers_start(self) -> None:
        """Let all containers run, or have them run as before the kubelet's restart."""
        memory, fresh = self.memory, self.memory.started_at is None
        if memory.started_at is None:
            memory.started_at = self._clock.wall()
            if memory.first_started_at is None:
                memory.first_started_at = memory.started_at
        for run in self.view.init_runs:
            if run.sidecar:
                run.start(memory.started_at, ready=True)
            elif run.end is None:
                run.start(memory.started_at, ready=False)
                run.stop(statuses.COMPLETED, memory.started_at)
        for run in self.view.runs:
            run.start(memory.started_at, ready=not run.probed or memory.ready.get(run.name, False))
        self.view.phase, self.view.address = statuses.RUNNING, memory.address
        self.view.backing_off = False
        self._cancel_slow()
        for container in self.pod.containers:
            if container.probe_s is not None:
                asyncio.get_running_loop().call_later(
                    self._clock.wall_duration(container.probe_s), self._probed, container.name
                )
        if fresh or self.item["status"].get("phase") != statuses.RUNNING:
            self._writer.publish()

    def _probed(self, name: str) -> None:
        """Let a readiness probe succeed, unless the container has ended."""
        run = next(run for run in self.view.runs if run.name == name)
        if run.running and not run.ready:
            self.containers_changed(ready={name: True}, ended={})

    def _restarts(self, outcome: contracts.Outcome) -> bool:
        if outcome.reason or self.pod.restart_policy == "Never":
            return False
        return self.pod.restart_policy == "Always" or outcome.phase == statuses.FAILED

    async def _back_off(self, outcome: contracts.Outcome) -> None:
        """Say how the containers ended, and wait before they start again."""
        memory, now_at = self.memory, self._clock.wall()
        ran_s = (now_at - (memory.started_at or now_at)) * self._clock.speed
        if ran_s >= BACKOFF_RESET_S:
            memory.failures = 0
        self._end_runs(outcome)
        if memory.failures:
            self._announce(announcements.of_back_off(self.pod, self.view))
            self.view.backing_off = True
            delay_s = min(MOST_BACKOFF_S, BACKOFF_S * 2 ** (memory.failures - 1))
        else:
            delay_s = 0.0
        memory.failures += 1
        self._writer.publish()
        memory.restart()
        await asyncio.sleep(self._clock.wall_duration(delay_s))

    # How it ends

    def _refusal(self) -> admissions.Refusal | None:
        machine = self.machine
        return admissions.refusal(
            self.pod,
            others=machine.bound.values(),
            allocatable=machine.allocatable,
            most_pods=machine.place.group.pods,
            labels=machine.labels,
        )

    async def _refuse(self, refusal: admissions.Refusal) -> None:
        """End a pod that the node does not take."""
        self.view.phase, self.view.reason = statuses.FAILED, refusal.reason
        self.view.message = refusal.status_message
        self.warn(refusal.reason, refusal.message)
        self._journal("Rejected", exit_code=1)
        await self._writer.flush()

    def _end_runs(self, outcome: contracts.Outcome) -> None:
        peak_bytes = self.memory.used.memory_peak_bytes
        self._announce(
            announcements.of_outcome(self.pod, self.view, outcome, peak_bytes=peak_bytes)
        )
        killed = endings.end_runs(self.view, outcome, at=self._clock.wall())
        self.oom_kills += killed
        self.machine.meter.oom_kills += killed

    def _announce(self, told: Iterable[events.Event]) -> None:
        """Have Events written, if the node can speak."""
        if self.machine.reachable.is_set():
            for event in told:
                self._services.events.tell(event)

    def _stop_runs(self, end: contracts.ContainerEnd) -> None:
        for run in self.view.every_run:
            run.stop(end, self._clock.wall())

    def _end(self, outcome: contracts.Outcome) -> None:
        """Let the pod be over; nothing is written yet."""
        self._cancel_slow()
        self._end_runs(outcome)
        self.view.backing_off = False
        self.view.phase, self.view.address = outcome.phase, self.memory.address
        self.view.reason, self.view.message = outcome.reason, outcome.message
        self.ended_s = self._clock.now_s()
        if outcome.reason == statuses.EVICTED:
            self.machine.pressed_until_s = self.ended_s + machines.MEMORY_PRESSURE_S

    async def _freed(self) -> None:
        """Wait until the kubelet's loops have noticed the end: only then requests are free."""
        release_s = starts.release_s(self._services.settings.seed, self.key)
        left = self._clock.wall_duration(self.ended_s + release_s - self._clock.now_s())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, left)):
                await self._hurry.wait()

    def _journal(self, reason: str, *, exit_code: int) -> None:
        """Record the pod's end, once."""
        self._services.ledger.end(
            self.memory,
            group=self.machine.place.group.name,
            template=self.found.truth.template if self.found else "",
            reason=reason,
            exit_code=exit_code,
        )

    # Statuses and timers

    def _render(self) -> apis.Object:
        at = self._clock.wall()
        before = self.item["status"]
        if self.view.phase == statuses.FAILED and not self.memory.address:
            return statuses.rejected(self.view, before=before)
        address = self.machine.place.address
        return statuses.status(
            self.pod,
            self.view,
            host_address=address,
            at=at,
            before=before,
            generation=self.item["metadata"].get("generation", 0),
        )

    def _publish_if_slow(self) -> None:
        """Publish that containers are being made, if that takes long enough to be seen."""
        self._cancel_slow()
        self._slow = asyncio.get_running_loop().call_later(settings.SLOW_S, self._writer.publish)

    def _cancel_slow(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _watch_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self.pod.deadline_s is not None:
            left_s = self.pod.deadline_s
            if not self.pod.on_wall_clock:
                left_s = self._clock.wall_duration(left_s)
            ends_at = self.memory.seen_at + left_s
            self._deadline = asyncio.get_running_loop().call_later(
                max(0.0, ends_at - self._clock.wall()), self.stop, endings.Stop.DEADLINE
            )
