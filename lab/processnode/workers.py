"""One pod from the moment it is bound here to the moment its object may go."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import replace

from lab import apis
from lab.processnode import containers, pods, rooms, services, statuses

logger = logging.getLogger(__name__)

RETRY_S = 1.0
REFUSED_AFTER_S = 10.0
FORCED_GRACE_S = 1.0
"""What a pod gets that was deleted without any grace, as kubelets do it."""


class Worker:
    """Runs one pod; `task` ends when nothing of it runs any more and the API server knows."""

    def __init__(
        self,
        ground: rooms.Ground,
        pod: apis.Object,
        *,
        address: str,
        on_change: Callable[[], None],
    ) -> None:
        self.pod = pod
        self.room = rooms.Room(ground, pod, address=address)
        self.ready = False
        """Whether Services may send to it."""
        self._ground = ground
        self._on_change = on_change
        self._init = self._containers(pods.init_containers(pod), rerun=True)
        self._main = self._containers(pods.containers(pod), rerun=False)
        status = pod.get("status", {})
        self._whole = statuses.Whole(
            phase="Pending",
            started_at=statuses.unix(status.get("startTime")) or time.time(),
            pod_ip=address,
            node_ip=ground.settings.block.node,
        )
        self._conditions: list[apis.Object] = status.get("conditions") or []
        self._written: apis.Object | None = None
        self._version = 0
        """Of the object that our last status made; what is older says nothing about it."""
        self._dirty = asyncio.Event()
        self._stop = asyncio.Event()
        self._deadline: containers.Deadline | None = None
        self._exists = True
        self._over = False
        self._init_failed = False
        self.update(pod)
        self.task = asyncio.create_task(self._run())

    @property
    def endpoint(self) -> services.Endpoint:
        """The pod as Services see it."""
        return services.Endpoint(pod=self.pod, address=self._whole.pod_ip, ready=self.ready)

    def container(self, name: str) -> containers.Container | None:
        """Return one of its containers."""
        found = (item for item in (*self._init, *self._main) if item.spec["name"] == name)
        return next(found, None)

    def update(self, pod: apis.Object) -> None:
        """Take the object as it is now; a deletion begins, or is hurried on."""
        self.pod = self.room.pod = pod
        self.room.look_again()
        self._hear_others()
        self._note_change()
        if pod["metadata"].get("deletionTimestamp"):
            self._end_within(pods.grace_s(pod))

    def _hear_others(self) -> None:
        """Write the status again where somebody has said otherwise since.

        Of a node that was silent for a while the node controller says that its pods are not ready;
        that they are is for the node to say.
        """
        newer = int(self.pod["metadata"]["resourceVersion"]) > self._version
        if newer and self._written is not None and statuses.contradicts(self.pod, self._written):
            self._written = None
            self._conditions = self.pod["status"]["conditions"]
            self._dirty.set()

    def gone(self) -> None:
        """The object is gone: end what runs, and write nothing more."""
        self._exists = False
        self._end_within(FORCED_GRACE_S)

    def abandon(self) -> None:
        """The node ends: ask what runs to end, start nothing more, write nothing more."""
        self._exists = False
        self.task.cancel()
        for item in (*self._init, *self._main):
            item.terminate()

    def kill(self) -> None:
        """Kill what still runs."""
        for item in (*self._init, *self._main):
            item.kill()

    async def silent(self) -> None:
        """Wait until no process is left."""
        await asyncio.gather(*(item.gone() for item in (*self._init, *self._main)))

    def _containers(self, specs: list[apis.Object], *, rerun: bool) -> list[containers.Container]:
        """Return containers as an earlier life of the node left them; `rerun`: from the start."""
        found = []
        for spec in specs:
            facts = statuses.earlier(self.pod, spec)
            if rerun and facts.ended is not None:
                facts = replace(facts, ended=None, last=facts.ended)
            found.append(
                containers.Container(self.room, spec, facts=facts, on_change=self._note_change)
            )
        return found

    def _end_within(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = containers.Deadline(seconds)
        else:
            self._deadline.shorten(seconds)
        self._stop.set()

    async def _run(self) -> None:
        writing = asyncio.create_task(self._keep_writing())
        try:
            await self._live_and_end()
        finally:
            writing.cancel()
            (fault,) = await asyncio.gather(writing, return_exceptions=True)
            if isinstance(fault, Exception):
                logger.error("pod %s was not reported", pods.name(self.pod), exc_info=fault)
            self.room.clear()
        self._over = True
        written = False
        while self._exists and not written:
            written = await self._write()
            await asyncio.sleep(0.0 if written else RETRY_S)
        self._on_change()

    async def _live_and_end(self) -> None:
        if reason := pods.objection(self.pod):
            self._whole = replace(self._whole, reason="ProcessNodeRefused", message=reason)
            self._note_change()
            self._ground.events.warning(self.pod, "ProcessNodeRefused", reason)
            # Not at once: its owner makes the next one as soon as this one has failed.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFUSED_AFTER_S):
                    await self._stop.wait()
            return
        living = asyncio.create_task(self._live())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait(
                {living, stopping},
                timeout=self._active_left_s(),
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            stopping.cancel()
            late = not living.done() and not self._stop.is_set()
            living.cancel()
            (fault,) = await asyncio.gather(living, return_exceptions=True)
        if isinstance(fault, Exception):
            logger.error("pod %s failed", pods.name(self.pod), exc_info=fault)
            self._whole = replace(self._whole, reason="ProcessNodeError", message=repr(fault))
        if late:
            self._whole = replace(
                self._whole,
                reason="DeadlineExceeded",
                message="Pod was active on the node longer than the specified deadline",
            )
        await self._stop_all()

    def _active_left_s(self) -> float | None:
        limit_s = self.pod["spec"].get("activeDeadlineSeconds")
        if limit_s is None or self._whole.started_at is None:
            return None
        return max(0.0, self._whole.started_at + float(limit_s) - time.time())

    async def _live(self) -> None:
        """Run the pod until all its main containers are over for good."""
        if all(item.is_done for item in self._main):
            return
        sidecars: list[asyncio.Task[None]] = []
        try:
            await self.room.furnish(self._explain)
            self._whole = replace(self._whole, volumes_ready=True)
            keeping = asyncio.create_task(self.room.keep_current())
            sidecars.append(keeping)
            for item in self._init:
                if pods.is_sidecar(item.spec):
                    sidecars.append(asyncio.create_task(item.keep()))
                    await item.is_up.wait()
                    continue
                await item.keep()
                if item.facts.ended is None or item.facts.ended.exit_code != 0:
                    self._init_failed = True
                    return
            self._whole = replace(self._whole, initialized=True)
            self._note_change()
            async with asyncio.TaskGroup() as group:
                for item in self._main:
                    group.create_task(item.keep())
        finally:
            for task in sidecars:
                task.cancel()
            await asyncio.gather(*sidecars, return_exceptions=True)
            self.room.leave()

    async def _stop_all(self) -> None:
        """End what still runs: main containers together, then sidecars, the last started first."""
        deadline = self._deadline or containers.Deadline(pods.grace_s(self.pod))
        self._deadline = deadline
        why = "Stopping container {}"
        plain = [item for item in self._init if not pods.is_sidecar(item.spec)]
        await asyncio.gather(
            *(
                item.stop(deadline, why=why.format(item.spec["name"]))
                for item in (*plain, *self._main)
            )
        )
        for item in reversed(self._init):
            await item.stop(deadline, why=why.format(item.spec["name"]))

    def _explain(self, message: str) -> None:
        """Say what keeps the volumes from being there."""
        self._ground.events.warning(self.pod, "FailedMount", message)
        for item in (*self._init, *self._main):
            item.facts = replace(item.facts, waiting=("ContainerCreating", message))
        self._note_change()

    def _note_change(self) -> None:
        self._dirty.set()
        self._on_change()

    async def _keep_writing(self) -> None:
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            if not await self._write():
                await asyncio.sleep(RETRY_S)
                self._dirty.set()

    async def _write(self) -> bool:
        """Bring the status to the API server; False when it has to be tried again."""
        init = [item.facts for item in self._init]
        main = [item.facts for item in self._main]
        status = statuses.pod_status(
            self.pod,
            replace(self._whole, phase=self._phase(main)),
            init=init,
            main=main,
            conditions=self._conditions,
            now=time.time(),
        )
        ready = next(item for item in status["conditions"] if item["type"] == "Ready")
        if self.ready != (ready["status"] == "True"):
            self.ready = ready["status"] == "True"
            self._on_change()
        if status == self._written or not self._exists:
            return True
        body = {"metadata": {"uid": pods.uid(self.pod)}, "status": status}
        try:
            answer = await self._ground.api.patch(
                f"{pods.path(self.pod)}/status", body, content_type=apis.STRATEGIC_PATCH
            )
        except apis.ApiError as error:
            if error.status not in (404, 409):  # gone, or another pod of that name
                logger.warning("status of %s not written: %s", pods.name(self.pod), error)
            # A refusal stands; what was not answered is worth another try.
            return bool(error.status) and error.status not in apis.RETRIED
        self._version = int(answer["metadata"]["resourceVersion"])
        self._written = status
        self._conditions = status["conditions"]
        self._hear_others()  # of whom we may have heard before our own answer
        return True

    def _phase(self, main: list[statuses.Facts]) -> str:
        if self._over:
            if self._init_failed or self._whole.reason:
                return "Failed"
            return statuses.phase(self.pod, main=main, over=True)
        if not self._whole.initialized:
            return "Pending"
        return statuses.phase(self.pod, main=main, over=False)
