"""All pods bound to this node: a worker for each that lives, the last word for the rest."""

import asyncio
import logging
from collections.abc import Iterator

from lab import apis
from lab.processnode import addresses, caches, logs, pods, rooms, services, workers

logger = logging.getLogger(__name__)

RETRY_S = 1.0


class Neighbour:
    """A worker as the network sees it."""

    def __init__(self, worker: workers.Worker) -> None:
        self._worker = worker

    @property
    def endpoint(self) -> services.Endpoint:
        """The pod as Services see it."""
        return self._worker.endpoint

    def show_hosts(self, content: bytes) -> None:
        """Replace what stands in its `/etc/hosts`."""
        self._worker.room.show_hosts(content)


class Roster:
    """Starts, feeds and buries workers as the watch on pods says."""

    def __init__(self, slots: addresses.Slots) -> None:
        self._slots = slots
        self._workers: dict[str, workers.Worker] = {}
        self._ended: set[str] = set()
        """Uids of pods that ran here to their end; late news of them must not start them again."""
        self._burying: dict[str, asyncio.Task[None]] = {}
        self._ground: rooms.Ground | None = None
        self._cache: caches.Cache | None = None
        self._closing = False

    @property
    def neighbours(self) -> Iterator[Neighbour]:
        """Every pod that has an address here."""
        return (Neighbour(worker) for worker in list(self._workers.values()))

    def find(self, namespace: str, name: str) -> workers.Worker | None:
        """Return the worker of a pod by its name."""
        for worker in self._workers.values():
            if pods.name(worker.pod) == f"{namespace}/{name}":
                return worker
        return None

    def namespace_changed(self, namespace: str) -> None:
        """A ConfigMap or Secret there is new or other: those who show it may look."""
        for worker in self._workers.values():
            if worker.pod["metadata"]["namespace"] == namespace:
                worker.room.look_again()

    async def run(self, ground: rooms.Ground) -> None:
        """Follow the pods of this node for ever."""
        self._ground = ground
        self._cache = caches.Cache(
            ground.api,
            "/api/v1/pods",
            key=pods.uid,
            on_change=self._changed,
            params={"fieldSelector": f"spec.nodeName={ground.settings.node}"},
        )
        await self._cache.run()

    async def close(self, *, grace_s: float) -> None:
        """End every process: SIGTERM, SIGKILL after `grace_s`; the API server hears nothing."""
        self._closing = True
        living = list(self._workers.values())
        for worker in living:
            worker.abandon()
        silence = [asyncio.create_task(worker.silent()) for worker in living]
        if silence:
            _, late = await asyncio.wait(silence, timeout=grace_s)
            for worker in living if late else ():
                worker.kill()
            await asyncio.wait(silence)
        tasks = [worker.task for worker in living] + list(self._burying.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, uid: str, pod: apis.Object | None) -> None:
        if self._closing:
            return
        worker = self._workers.get(uid)
        if pod is None:
            self._ended.discard(uid)
            if worker is not None:
                worker.gone()
        elif worker is not None:
            worker.update(pod)
        elif uid in self._ended or pods.is_over(pod):
            self._bury(pod)
        else:
            self._begin(uid, pod)

    def _begin(self, uid: str, pod: apis.Object) -> None:
        ground = self._ground
        assert ground is not None, "pods come from the watch that `run` starts"
        wanted = pod.get("status", {}).get("podIP", "")
        try:
            address = self._slots.take(wanted=wanted)
        except LookupError as error:
            ground.events.warning(pod, "NoAddress", str(error))
            return
        worker = workers.Worker(ground, pod, address=address, on_change=ground.on_change)
        self._workers[uid] = worker
        worker.task.add_done_callback(lambda task: self._left(uid, worker, task))

    def _left(self, uid: str, worker: workers.Worker, task: asyncio.Task[None]) -> None:
        del self._workers[uid]
        self._slots.give(worker.endpoint.address)
        if task.cancelled() or self._closing:
            return
        if error := task.exception():
            logger.error("pod %s was given up", pods.name(worker.pod), exc_info=error)
        ground = self._ground
        assert ground is not None and self._cache is not None
        ground.on_change()
        logs.prune(ground.settings.logs, in_use=[item.room.logs for item in self._workers.values()])
        if uid in self._cache.items:
            self._ended.add(uid)
            self._bury(self._cache.items[uid])

    def _bury(self, pod: apis.Object) -> None:
        """Let the object of an ended pod go, once it is asked to."""
        uid = pods.uid(pod)
        if pod["metadata"].get("deletionTimestamp") and uid not in self._burying:
            task = asyncio.create_task(self._delete(pod))
            self._burying[uid] = task
            task.add_done_callback(lambda _: self._burying.pop(uid, None))

    async def _delete(self, pod: apis.Object) -> None:
        ground = self._ground
        assert ground is not None
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pods.uid(pod)},
        }
        while True:
            try:
                await ground.api.call("DELETE", pods.path(pod), body=body)
                return
            except apis.ApiError as error:
                if error.status in (404, 409):
                    return  # gone, or another pod has its name
                logger.warning("pod %s not deleted: %s", pods.name(pod), error)
                await asyncio.sleep(RETRY_S)
