"""Events about pods, as `kubectl describe` shows them; never waited for, dropped when too many."""

import asyncio
import time
from collections import OrderedDict

from lab import apis
from lab.processnode import statuses

COMPONENT = "tiphys-lab-processnode"
REMEMBERED = 1000
QUEUED = 500

Key = tuple[str, str, str]


class Events:
    """Writes events one by one; the same one again only counts up."""

    def __init__(self, api: apis.Api, *, node: str) -> None:
        self._api = api
        self._node = node
        self._known: OrderedDict[Key, tuple[str, int]] = OrderedDict()
        self._queue: asyncio.Queue[tuple[apis.Object, str, str, bool]] = asyncio.Queue(QUEUED)

    def normal(self, about: apis.Object, reason: str, message: str) -> None:
        """Note something that happened as it should."""
        self._put(about, reason, message, warning=False)

    def warning(self, about: apis.Object, reason: str, message: str) -> None:
        """Note something that a person may have to look at."""
        self._put(about, reason, message, warning=True)

    async def run(self) -> None:
        """Write what is put, for ever."""
        while True:
            about, reason, message, warning = await self._queue.get()
            try:
                await self._write(about, reason, message, warning=warning)
            except apis.ApiError:
                continue  # its namespace is going, or the API server is: an event is no fact

    def _put(self, about: apis.Object, reason: str, message: str, *, warning: bool) -> None:
        if not self._queue.full():
            self._queue.put_nowait((about, reason, message, warning))

    async def _write(self, about: apis.Object, reason: str, message: str, *, warning: bool) -> None:
        metadata = about["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/events"
        key = (metadata["uid"], reason, message)
        now = statuses.time_text(time.time())
        if key in self._known:
            name, count = self._known[key]
            self._known[key] = (name, count + 1)
            self._known.move_to_end(key)
            try:
                await self._api.patch(f"{path}/{name}", {"count": count + 1, "lastTimestamp": now})
                return
            except apis.ApiError as error:
                if error.status != 404:
                    raise  # old events are removed by the API server; then it is a new one
        name = f"{metadata['name']}.{time.time_ns():x}"
        await self._api.create(
            path,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": metadata["namespace"]},
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": about.get("kind", "Pod"),
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": COMPONENT, "host": self._node},
                "reportingComponent": COMPONENT,
                "reportingInstance": self._node,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )
        self._known[key] = (name, 1)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
