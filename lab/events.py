"""Events, as `kubectl describe` shows them; never waited for. The same one again only counts up."""

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass

from lab import apis, clocks

QUEUED = 500
"""Events that may wait to be written; further ones are dropped."""
REMEMBERED = 1000
"""Events whose repetitions are counted; one that was told longer ago begins anew."""
MOST_TEXT = 1024
"""Characters of a message that the API server takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to an object, told by the kubelet of a node."""

    kind: str
    """Of the object: `Pod`, `Node` or `Service`."""
    namespace: str
    """Where the Event is written: the object's own, `default` for a Node."""
    name: str
    uid: str
    part: str = ""
    """Of the object, as a path: `spec.containers{main}`."""
    node: str
    """Whose kubelet tells it."""
    reason: str
    message: str
    warning: bool

    @property
    def about(self) -> apis.Object:
        """A reference to the object."""
        about = {"apiVersion": "v1", "kind": self.kind, "name": self.name, "uid": self.uid}
        if self.kind != "Node":
            about["namespace"] = self.namespace
        if self.part:
            about["fieldPath"] = self.part
        return about


class Events:
    """Writes events one by one, in the name of one program."""

    def __init__(self, api: apis.Api, *, component: str) -> None:
        self._api = api
        self._component = component
        self._queue: asyncio.Queue[tuple[Event, float]] = asyncio.Queue(QUEUED)
        self._known: OrderedDict[Event, tuple[str, int]] = OrderedDict()
        """Name and count of what was written, the latest last."""

    def tell(self, event: Event) -> None:
        """Have an event written soon; dropped when too many wait."""
        if not self._queue.full():
            self._queue.put_nowait((event, time.time()))

    async def run(self) -> None:
        """Write what is told, for ever."""
        while True:
            event, at = await self._queue.get()
            try:
                if not await self._count_up(event, at=at):
                    await self._create(event, at=at)
            except apis.ApiError:
                continue  # its namespace is going, or the API server is: an event is no fact

    async def _count_up(self, event: Event, *, at: float) -> bool:
        """Write that a known event happened again; False where there is none to count up."""
        if event not in self._known:
            return False
        name, count = self._known[event]
        self._known[event] = name, count + 1
        self._known.move_to_end(event)
        change = {"count": count + 1, "lastTimestamp": clocks.timestamp(at)}
        try:
            await self._api.patch(f"{_path(event)}/{name}", change)
        except apis.ApiError as error:
            if error.status == 404:
                return False  # the API server removes old ones
            raise
        return True

    async def _create(self, event: Event, *, at: float) -> None:
        name = f"{event.name}.{time.time_ns():x}"
        now = clocks.timestamp(at)
        await self._api.create(
            _path(event),
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": event.namespace},
                "involvedObject": event.about,
                "reason": event.reason,
                "message": event.message[:MOST_TEXT],
                "type": "Warning" if event.warning else "Normal",
                "source": {"component": self._component, "host": event.node},
                "reportingComponent": self._component,
                "reportingInstance": event.node,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )
        self._known[event] = name, 1
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


def _path(event: Event) -> str:
    return f"/api/v1/namespaces/{event.namespace}/events"
