"""One container from its first start to its last end: runs, probes, hooks, pauses, restarts."""

import asyncio
import logging
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab import apis
from lab.processnode import (
    actions,
    backoffs,
    launches,
    logs,
    pods,
    probes,
    rooms,
    statuses,
)

logger = logging.getLogger(__name__)

CANNOT_START = 128
HOOK_LIMIT_S = 3600.0
AFTER_HOOK_S = 2.0
"""What a container has at least between the end of its preStop hook and SIGKILL."""
REFUSED_RETRY_S = 10.0


class Deadline:
    """A moment that can still be moved closer."""

    def __init__(self, seconds: float) -> None:
        self._at = asyncio.get_running_loop().time() + seconds
        self._moved = asyncio.Event()

    @property
    def left_s(self) -> float:
        """Seconds until then; negative when it has passed."""
        return self._at - asyncio.get_running_loop().time()

    def shorten(self, seconds: float) -> None:
        """Move it to `seconds` from now, unless it is closer already."""
        if seconds < self.left_s:
            self._at = asyncio.get_running_loop().time() + seconds
            self._moved.set()

    async def passed(self, *, at_least_s: float = 0.0) -> None:
        """Wait for it, and for `at_least_s` in any case."""
        await asyncio.sleep(at_least_s)
        while (left_s := self.left_s) > 0:
            self._moved.clear()
            try:
                async with asyncio.timeout(left_s):
                    await self._moved.wait()
            except TimeoutError:
                return


class Container:
    """Keeps one container of a pod as its restart policy says; `facts` is how it stands."""

    def __init__(
        self,
        room: rooms.Room,
        spec: apis.Object,
        *,
        facts: statuses.Facts,
        on_change: Callable[[], None],
    ) -> None:
        self.spec = spec
        self.facts = facts
        self.is_up = asyncio.Event()
        """Set while it runs and its start-up is done; what waits for a sidecar waits for this."""
        self._room = room
        self._on_change = on_change
        self._policy = pods.restart_policy(room.pod, spec)
        self._pause = backoffs.Pause()
        self._launched: launches.Launched | None = None
        self._order: rooms.Order | None = None
        self._kept = False

    @property
    def is_done(self) -> bool:
        """Whether the last end was the last one, by the restart policy."""
        ended = self.facts.ended
        if ended is None or self._policy == "Always":
            return False
        return self._policy == "Never" or ended.exit_code == 0

    async def keep(self) -> None:
        """Run it again and again until its restart policy says that it is over.

        Cancelling this leaves the container running; `stop` then ends it.
        """
        self._kept = True
        try:
            await self._keep()
        finally:
            self._kept = False

    async def _keep(self) -> None:
        while not self.is_done:
            await self._wait()
            try:
                launched = await self._start()
            except rooms.LATER as error:
                self._explain("CreateContainerConfigError", str(error))
                await asyncio.sleep(self._room.ground.settings.config_retry_s)
                continue
            except rooms.NEVER as error:
                self._explain("CreateContainerError", str(error))
                await asyncio.sleep(REFUSED_RETRY_S)
                continue
            except launches.StartError as error:
                self._note("Failed", f"Error: {error}", warning=True)
                self._end(CANNOT_START, reason="StartError", message=str(error))
                continue
            attending = asyncio.create_task(self._attend(launched))
            try:
                code = await asyncio.shield(launched.exited)
            finally:
                attending.cancel()
                (fault,) = await asyncio.gather(attending, return_exceptions=True)
                if isinstance(fault, Exception):
                    logger.error("probing %s failed", self.facts.id, exc_info=fault)
            self._end(code, reason="Completed" if code == 0 else "Error")

    async def stop(self, deadline: Deadline, *, why: str) -> None:
        """End it: preStop hook, stop signal, SIGKILL at the deadline; returns when it is gone."""
        launched = self._launched
        if launched is None:
            return
        if not launched.exited.done():
            self._note("Killing", why)
            await self._stop(launched, deadline)
        if not self._kept and self.facts.running_since is not None:
            code = launched.exited.result()
            self._end(code, reason="Completed" if code == 0 else "Error")

    async def _stop(self, launched: launches.Launched, deadline: Deadline) -> None:
        passed = asyncio.create_task(deadline.passed())
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        if hook and launched.pid:
            running = asyncio.create_task(self._hook("PreStop", hook))
            await _first(running, passed, launched.exited)
            running.cancel()
            passed.cancel()
            passed = asyncio.create_task(deadline.passed(at_least_s=AFTER_HOOK_S))
        launched.signal(self._stop_signal())
        await _first(passed, launched.exited)
        passed.cancel()
        launched.kill()
        await asyncio.shield(launched.exited)

    def terminate(self) -> None:
        """Send its stop signal and no more."""
        if self._launched is not None:
            self._launched.signal(self._stop_signal())

    def kill(self) -> None:
        """Kill it without a word."""
        if self._launched is not None:
            self._launched.kill()

    async def gone(self) -> None:
        """Wait until no process of it is left."""
        if self._launched is not None:
            await asyncio.shield(self._launched.exited)

    def subject(self) -> actions.Subject | None:
        """Return what a command in the container needs; None while it does not run."""
        launched, order = self._launched, self._order
        if launched is None or order is None or not launched.pid or launched.exited.done():
            return None
        return actions.Subject(
            container=self.spec,
            pod_ip=self._room.place.pod_ip,
            environment=order.spec.environment,
            folder=order.spec.folder,
            isolation=order.spec.isolation,
            pid=launched.pid,
        )

    async def _wait(self) -> None:
        """Wait as long as a container that ended so soon has to."""
        ended = self.facts.ended
        if ended is None:
            return
        ran_s = (ended.ended_at or 0.0) - (ended.started_at or ended.ended_at or 0.0)
        rules = self._room.ground.settings.backoff
        self._pause = backoffs.following(self._pause, ran_s=ran_s, rules=rules)
        if not self._pause.wait_s:
            return
        name = self.spec["name"]
        message = (
            f"back-off {self._pause.wait_s:g}s restarting failed container={name} "
            f"pod={pods.name(self._room.pod)}"
        )
        self.facts = replace(
            self.facts, ended=None, last=ended, waiting=("CrashLoopBackOff", message)
        )
        self._note("BackOff", message, warning=True)
        self._on_change()
        await asyncio.sleep(self._pause.wait_s)

    async def _start(self) -> launches.Launched:
        order = self._room.order(self.spec)
        before = self.facts
        launched = launches.Launched(order.spec)
        self._launched, self._order = launched, order
        ran = before.ended or before.last
        self.facts = replace(
            before,
            waiting=("ContainerCreating", ""),
            ended=None,
            last=ran,
            restarts=before.restarts + (1 if ran else 0),
            started=False,
            ready=False,
            id=f"process://{uuid.uuid4().hex}",
        )
        await launched.started()
        self.facts = replace(self.facts, running_since=time.time())
        self._note("Started", f"Container started as process {launched.pid}")
        self._on_change()
        return launched

    def _end(self, code: int, *, reason: str, message: str = "") -> None:
        self.is_up.clear()
        self.facts = replace(
            self.facts,
            running_since=None,
            started=False,
            ready=False,
            ended=statuses.Ended(
                exit_code=code,
                reason=reason,
                message=message or self._last_words(code),
                started_at=self.facts.running_since,
                ended_at=time.time(),
                id=self.facts.id,
            ),
        )
        self._on_change()

    def _last_words(self, code: int) -> str:
        order = self._order
        if order is None:
            return ""
        words = _beginning(order.last_words)
        policy = self.spec.get("terminationMessagePolicy")
        if not words and code != 0 and policy == "FallbackToLogsOnError":
            return logs.last_words(order.log)
        return words

    async def _attend(self, launched: launches.Launched) -> None:
        """Do what comes with a run: the postStart hook, then the probes."""
        hook = (self.spec.get("lifecycle") or {}).get("postStart")
        if hook and not await self._hook("PostStart", hook):
            await self._restart(launched, "its postStart hook failed")
            return
        startup = self.spec.get("startupProbe")
        if startup and not await self._decide(probes.Kind.STARTUP, startup):
            await self._restart(launched, "its startup probe failed", probe=startup)
            return
        readiness = self.spec.get("readinessProbe")
        self.facts = replace(self.facts, started=True, ready=not readiness)
        self.is_up.set()
        self._on_change()
        async with asyncio.TaskGroup() as group:
            if readiness:
                look = self._looking(readiness)
                group.create_task(
                    probes.for_ever(readiness, look, tell=self._tell_ready, report=self._unhealthy)
                )
            if liveness := self.spec.get("livenessProbe"):
                await self._decide(probes.Kind.LIVENESS, liveness)
                await self._restart(launched, "its liveness probe failed", probe=liveness)

    async def _decide(self, kind: probes.Kind, probe: apis.Object) -> bool:
        look = self._looking(probe)
        return await probes.until_decided(kind, probe, look, report=self._unhealthy)

    async def _restart(
        self, launched: launches.Launched, why: str, *, probe: apis.Object | None = None
    ) -> None:
        """End a run that is not well; `keep` then starts the next one."""
        if self._launched is launched:
            asked = (probe or {}).get("terminationGracePeriodSeconds")
            grace_s = pods.grace_s(self._room.pod) if asked is None else float(asked)
            text = f"Container {self.spec['name']}: {why}, it will be restarted"
            # Shielded: `keep` cancels this once the run has ended, and `stop` sees to the end.
            await asyncio.shield(self.stop(Deadline(grace_s), why=text))

    def _looking(self, probe: apis.Object) -> probes.Look:
        limit_s = float(probe.get("timeoutSeconds", 1))

        async def look() -> actions.Outcome:
            subject = self.subject()
            if subject is None:
                return actions.Outcome(ok=False, message="the container does not run")
            return await actions.perform(probe, subject, limit_s=limit_s)

        return look

    async def _hook(self, kind: str, hook: apis.Object) -> bool:
        subject = self.subject()
        if subject is None:
            return False
        outcome = await actions.perform(hook, subject, limit_s=HOOK_LIMIT_S)
        if not outcome.ok:
            self._note(f"Failed{kind}Hook", f"{kind} hook failed: {outcome.message}", warning=True)
        return outcome.ok

    def _tell_ready(self, ready: bool) -> None:
        if ready != self.facts.ready:
            self.facts = replace(self.facts, ready=ready)
            self._on_change()

    def _unhealthy(self, kind: probes.Kind, message: str) -> None:
        self._note("Unhealthy", f"{kind.capitalize()} probe failed: {message}", warning=True)

    def _explain(self, reason: str, message: str) -> None:
        if self.facts.waiting != (reason, message):
            self._note("Failed", f"Error: {message}", warning=True)
        last = self.facts.ended or self.facts.last
        self.facts = replace(self.facts, waiting=(reason, message), ended=None, last=last)
        self._on_change()

    def _note(self, reason: str, message: str, *, warning: bool = False) -> None:
        events = self._room.ground.events
        (events.warning if warning else events.normal)(self._room.pod, reason, message)

    def _stop_signal(self) -> int:
        name = (self.spec.get("lifecycle") or {}).get("stopSignal", "SIGTERM")
        return int(getattr(signal, name, signal.SIGTERM))


async def _first(*waited: asyncio.Future[Any]) -> None:
    """Wait for the first of several to be done."""
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)


def _beginning(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(logs.MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        return ""
