"""The process that owns a lab: starts its components in order, keeps them up, and ends them.

Order: etcd, API server; then, side by side, the controller manager, the scheduler, Argo (after its
CRDs are served), the simulated nodes and the process node. A component that ends on its own is
started again after a pause (1 s, doubled with each crash within ten minutes), as a node's own
kubelet or systemd would do; every such end is counted in the state, so that a run can be told from
an undisturbed one. What crashes more than five times in ten minutes is left down.

Everything happens in one thread: commands, ends of processes and probes are events of one loop, and
`state.json` is replaced after each change.
"""

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path

from msgspec import structs

from lab import apis, catalogs, errors, homes, invocations
from lab.controlplane import (
    children,
    components,
    configurations,
    manifests,
    ports,
    probes,
    processes,
    states,
)

PROBE_EVERY_S = 0.1
PORT_TRIES = 4
FIRST_PAUSE_S = 1.0
"""Before a component that crashed is started again; doubles with each crash."""
CRASHES_AT_MOST = 5
CRASHES_WITHIN_S = 600.0
ADDRESS_IN_USE = "address already in use"
ARGO_HEALTH = ":6060"

logger = logging.getLogger("lab.controlplane")


class Supervisor:
    """One lab and its processes."""

    def __init__(self, home: homes.Home, state: states.State) -> None:
        self._home = home
        self._present = components.present(state.asked)
        self._children: dict[str, children.Child] = {}
        self._wanted: set[str] = set()
        """Components that are to run; the others were stopped on command."""
        self._came_up: set[str] = set()
        self._starting = {name: asyncio.Lock() for name in self._present}
        """Held while a component is started: two at once would fight for its ports."""
        self._crashed_at: dict[str, list[float]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._keeper = states.Keeper(home)
        self._probes = probes.Probes(home, node_names=_node_names(home))
        self.state = structs.replace(
            state,
            supervisor=processes.current(),
            components=tuple(
                states.Component(
                    name=name,
                    version=components.version(name, state),
                    log=str(home.logs / f"{name}.log"),
                )
                for name in self._present
            ),
        )

    async def run(self) -> None:
        """Bring the lab up, keep it until somebody closes it, and take it down."""
        self._publish()
        async with self._probes:
            try:
                await self._until_closed(self._bring_up())
                if not self._closing.is_set():
                    self._publish(phase=states.Phase.READY, ready_after_s=self._age_s())
                    await self._closing.wait()
            except errors.LabError as error:
                self._publish(
                    phase=states.Phase.FAILED, error=str(error), error_code=error.exit_code
                )
                raise
            finally:
                self._closing.set()
                await self._take_down()

    def close(self) -> None:
        """Ask the lab to end; returns at once."""
        self._closing.set()

    def close_if_starting(self) -> None:
        """End the lab unless it has been ready."""
        if self.state.ready_after_s is None:
            self._closing.set()

    # --- commands -------------------------------------------------------------------------------

    async def start(self, name: str) -> None:
        """Start a component that is down; returns when it is ready."""
        self.state.component(name)
        async with self._starting[name]:
            child = self._children.get(name)
            if child is None or not child.running:
                await self._start(name)

    async def stop(self, name: str) -> None:
        """End a component; it stays down until it is started."""
        self.state.component(name)
        self._wanted.discard(name)
        await self._end(name)
        async with self._starting[name]:
            # Whoever was starting it has given up by now, or has started another one.
            self._wanted.discard(name)
            await self._end(name)
            self._note(name, phase=states.Phase.STOPPED, process=None)

    async def restart(self, name: str) -> None:
        """End and start a component on the same ports; returns when it is ready again."""
        await self.stop(name)
        await self.start(name)

    async def kill(self, name: str) -> None:
        """SIGKILL: the component comes back as after a crash."""
        self._running(name).signal(signal.SIGKILL)

    async def pause(self, name: str) -> None:
        """SIGSTOP: the process hangs, its sockets stay open."""
        self._running(name).signal(signal.SIGSTOP)
        self._note(name, phase=states.Phase.PAUSED)

    async def resume(self, name: str) -> None:
        """SIGCONT after `pause`."""
        self._running(name).signal(signal.SIGCONT)
        if self._is_paused(name):
            self._note(name, phase=states.Phase.READY)

    def _running(self, name: str) -> children.Child:
        self.state.component(name)
        child = self._children.get(name)
        if child is None or not child.running:
            raise errors.UsageError(
                f"{name} is not running: "
                f"`{invocations.lab()} component start {name} --name {self._home.name}` starts it"
            )
        return child

    # --- up and down ----------------------------------------------------------------------------

    async def _bring_up(self) -> None:
        await self._start(components.ETCD)
        await self._start(components.API_SERVER)
        beside = [
            name
            for name in self._present
            if name not in (components.ETCD, components.API_SERVER, components.ARGO)
        ]
        try:
            async with asyncio.TaskGroup() as group:
                for name in beside:
                    group.create_task(self._start(name))
                group.create_task(self._furnish())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _furnish(self) -> None:
        """Give the empty cluster what it needs, and start Argo in it."""
        async with apis.Api(self._home.kubeconfig) as api:
            await manifests.apply(api, manifests.lab_rights())
            if components.ARGO in self._present:
                folder = Path(self.state.binaries.argo_manifests)
                crds = manifests.argo_crds(folder, full=self.state.asked.full_crds)
                await asyncio.gather(
                    manifests.apply_crds(api, crds),
                    manifests.apply(api, manifests.argo_objects(folder)),
                )
                await self._start(components.ARGO)
            if components.CONTROLLER_MANAGER in self._present:
                argo = components.ARGO in self._present
                namespaces = ("default", manifests.NAMESPACE) if argo else ("default",)
                await manifests.accounts_exist(api, namespaces)

    async def _take_down(self) -> None:
        """End everything: nodes and Argo first, etcd last, so that nobody logs a lost server."""
        for task in self._tasks:
            task.cancel()
        stages: tuple[Iterable[str], ...] = (
            (components.KUBELET, components.PROCESS_NODE, components.ARGO),
            (components.SCHEDULER, components.CONTROLLER_MANAGER),
            (components.API_SERVER,),
            (components.ETCD,),
        )
        for stage in stages:
            await asyncio.gather(*(self._end(name) for name in stage))

    # --- one component --------------------------------------------------------------------------

    async def _start(self, name: str) -> None:
        """Start one component and wait until it is ready; asks for other ports if they are taken.

        Raises `StartError` with the tail of its log when it ends or does not come up in time.
        """
        may_move = name not in self._came_up
        for attempt in range(PORT_TRIES):
            await self._prepare(name, again=attempt > 0)
            child, plan = self._spawn(name)
            with self._argo_held() if name == components.API_SERVER else contextlib.nullcontext():
                problem = await self._until_ready(name, child, within_s=plan.ready_within_s)
            if problem is None:
                self._came_up.add(name)
                self._tend(name, child)
                return
            log_tail = child.tail()
            taken = may_move and not child.running and _port_was_taken(log_tail)
            await self._end(name)
            self._note(name, phase=states.Phase.FAILED, process=None, last_exit=problem)
            if not taken or attempt + 1 == PORT_TRIES:
                raise errors.StartError(f"{name} {problem}", log=child.log, tail=log_tail)

    async def _prepare(self, name: str, *, again: bool) -> None:
        """Give a component its ports and tell those who must know; they stay its own for good."""
        asked = self.state.asked.api_port
        if name == components.API_SERVER and asked is not None:
            ports.refuse_taken(asked)
            chosen = {"secure": asked}
        elif again or name not in self._came_up:
            uses = components.PORTS[name]
            chosen = dict(zip(uses, ports.free(len(uses)), strict=True))
        else:
            return
        self._note(name, ports=chosen)
        if name == components.API_SERVER:
            configurations.write_kubeconfigs(self._home, port=chosen["secure"])
        elif name == components.ARGO:
            settings = manifests.argo_settings(metrics_port=chosen["metrics"])
            async with apis.Api(self._home.kubeconfig) as api:
                await manifests.apply(api, [settings])

    def _spawn(self, name: str) -> tuple[children.Child, components.Plan]:
        component = self.state.component(name)
        plan = components.plan(name, home=self._home, state=self.state, ports=component.ports)
        try:
            child = children.Child(
                plan.arguments,
                environment={
                    **os.environ,
                    processes.MARKER: str(self._home.root),
                    **plan.environment,
                },
                log=self._home.logs / f"{name}.log",
                folder=self._home.root,
            )
        except OSError as error:
            self._note(name, phase=states.Phase.FAILED, last_exit=str(error))
            raise errors.StartError(
                f"{name} does not start ({error}): {components.remedy(name, plan.arguments[0])}"
            ) from error
        self._children[name] = child
        self._wanted.add(name)
        self._note(
            name,
            phase=states.Phase.STARTING,
            process=child.process,
            started_at=time.time(),
            ready_after_s=None,
        )
        return child, plan

    async def _until_ready(
        self, name: str, child: children.Child, *, within_s: float
    ) -> str | None:
        """Wait until ready; returns what went wrong, or None."""
        began = time.monotonic()
        component_ports = self.state.component(name).ports
        while time.monotonic() - began < within_s:
            if await self._probes.ready(name, component_ports):
                if not child.running:
                    break
                self._note(
                    name,
                    phase=states.Phase.READY,
                    ready_after_s=round(time.monotonic() - began, 3),
                )
                return None
            if not child.running:
                break
            await asyncio.wait([child.ended], timeout=PROBE_EVERY_S)
        if not child.running:
            return f"ended with {child.how_it_ended()} before it was ready"
        return f"was not ready within {within_s:.0f} s"

    @contextlib.contextmanager
    def _argo_held(self) -> Iterator[None]:
        """Stop Argo's controller (SIGSTOP) until the API server is ready.

        A server that starts refuses everybody for a second, before it has read its roles. Behind a
        load balancer nobody would be sent to it yet; Argo's controller, once refused, never again
        watches its ConfigMaps, but spins on a whole core and writes 40 MB of log a second (tried).
        """
        child = self._children.get(components.ARGO)
        if child is not None:
            child.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            if child is not None and not self._is_paused(components.ARGO):
                child.signal(signal.SIGCONT)

    def _is_paused(self, name: str) -> bool:
        return self.state.component(name).phase is states.Phase.PAUSED

    def _tend(self, name: str, child: children.Child) -> None:
        task = asyncio.create_task(self._bring_back(name, child))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring_back(self, name: str, child: children.Child) -> None:
        """Wait for the end of a component and start it again, unless somebody else sees to it."""
        await asyncio.wait([child.ended])
        while name in self._wanted and self._children[name] is child:
            now = time.monotonic()
            recent = [at for at in self._crashed_at.get(name, ()) if now - at < CRASHES_WITHIN_S]
            self._crashed_at[name] = [*recent, now]
            given_up = len(recent) >= CRASHES_AT_MOST
            self._note(
                name,
                phase=states.Phase.FAILED if given_up else states.Phase.CRASHED,
                process=None,
                crashes=self.state.component(name).crashes + 1,
                last_exit=": ".join([child.how_it_ended(), *child.tail().splitlines()[-1:]]),
            )
            if given_up:
                return
            await asyncio.sleep(FIRST_PAUSE_S * 2 ** len(recent))
            async with self._starting[name]:
                if name not in self._wanted or self._children[name] is not child:
                    return
                try:
                    await self._start(name)
                except errors.LabError as error:
                    logger.warning("%s", error)
                    child = self._children[name]

    async def _end(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.running:
            component = self.state.component(name)
            plan = components.plan(name, home=self._home, state=self.state, ports=component.ports)
            await child.end(grace_s=plan.grace_s)

    # --- state ----------------------------------------------------------------------------------

    def _note(self, name: str, **changes: object) -> None:
        if phase := changes.get("phase"):
            logger.info("%s is %s %s", name, phase, changes.get("last_exit", ""))
        changed = tuple(
            structs.replace(item, **changes) if item.name == name else item
            for item in self.state.components
        )
        self._publish(components=changed)

    def _publish(self, **changes: object) -> None:
        self.state = structs.replace(self.state, **changes)
        self._keeper.keep(self.state)

    def _age_s(self) -> float:
        return round(time.time() - self.state.created_at, 3)

    async def _until_closed(self, work: Coroutine[None, None, None]) -> None:
        """Do `work`, but drop it as soon as the lab is to be closed; raises what it raises."""
        task = asyncio.create_task(work)
        closing = asyncio.create_task(self._closing.wait())
        await asyncio.wait([task, closing], return_when=asyncio.FIRST_COMPLETED)
        closing.cancel()
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            return
        task.result()


def _port_was_taken(log_tail: str) -> bool:
    """Whether a component ended because of a port; Argo bears it that its health port is taken."""
    return any(ADDRESS_IN_USE in line and ARGO_HEALTH not in line for line in log_tail.splitlines())


def _node_names(home: homes.Home) -> frozenset[str]:
    return frozenset(name for name, _ in catalogs.load(str(home.cluster)).nodes)
