"""Writes the status of one pod to the API server: the newest one, until it stands there."""

import asyncio
import logging
from collections.abc import Callable

from lab import apis
from lab.kubelet import pods

logger = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Wall seconds between two rounds of tries while the API server is away."""


class Writer:
    """What is published while a write is under way is written next; what is overtaken never is."""

    def __init__(
        self,
        api: apis.Api,
        pod: pods.Pod,
        *,
        render: Callable[[], apis.Object],
        reachable: asyncio.Event,
    ) -> None:
        self.gone = False
        """Whether the object is no longer there."""
        self._api = api
        self._pod = pod
        self._render = render
        self._reachable = reachable
        self._due = False
        self._task: asyncio.Task[None] | None = None

    def publish(self) -> None:
        """Have the status, as it will then be, written soon."""
        self._due = True
        if (self._task is None or self._task.done()) and not self.gone:
            self._task = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Have the status written; returns when it stands or the object is gone."""
        self.publish()
        if self._task is not None:
            await asyncio.wait({self._task})

    def close(self) -> None:
        """Write nothing any more."""
        self.gone = True
        if self._task is not None:
            self._task.cancel()

    async def _write(self) -> None:
        while self._due and not self.gone:
            await self._reachable.wait()
            self._due = False
            body = {"metadata": {"uid": self._pod.uid}, "status": self._render()}
            try:
                await self._api.patch(f"{self._pod.path}/status", body, brief=True)
            except apis.ApiError as error:
                if error.status == 404 or (error.status == 409 and "UID" in str(error)):
                    self.gone = True
                elif error.status in (0, 403, 409) or error.status in apis.RETRIED:
                    self._due = True
                    await asyncio.sleep(PAUSE_S)
                else:
                    logger.error("the status of %s was refused: %s", self._pod.path, error)


async def delete(api: apis.Api, pod: pods.Pod) -> None:
    """Confirm a deletion: the pod's processes are gone, the object may go too."""
    body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
    while True:
        try:
            await api.call("DELETE", pod.path, body=body, brief=True)
        except apis.ApiError as error:
            if error.status in (404, 409):
                return
            if error.status not in (0, 403) and error.status not in apis.RETRIED:
                logger.error("the deletion of %s was refused: %s", pod.path, error)
                return
            await asyncio.sleep(PAUSE_S)
        else:
            return
