"""Events about pods and nodes where something is not as usual; never waited for.

A real kubelet also tells when each container was pulled, created and started: some nine objects a
pod of Argo's, as many writes as all else about it, and read by nobody in a run. Those are left out.
The same event again only counts up.
"""

import asyncio
import time
from dataclasses import dataclass

from lab import apis
from lab.kubelet import nodes, pods

COMPONENT = "kubelet"
QUEUED = 500
"""Events that may wait to be written; further ones are dropped."""
REMEMBERED = 1000
"""Events whose repetitions are counted; beyond that counting begins anew."""
MOST_TEXT = 1024
"""Characters of a message that the API server takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened, as `kubectl describe` shows it."""

    kind: str
    """Of the object that it is about: `Pod` or `Node`."""
    namespace: str
    name: str
    uid: str
    node: str
    reason: str
    message: str
    warning: bool
    container: str = ""


def of_pod(
    pod: pods.Pod, reason: str, message: str, *, container: str = "", warning: bool = True
) -> Event:
    """Return an event about a pod, or about one container of it."""
    return Event(
        kind="Pod",
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        reason=reason,
        message=message,
        warning=warning,
        container=container,
    )


def of_node(node: str, reason: str, message: str, *, warning: bool = False) -> Event:
    """Return an event about a node; kubelets name it by its name in place of a uid."""
    return Event(
        kind="Node",
        namespace="default",
        name=node,
        uid=node,
        node=node,
        reason=reason,
        message=message,
        warning=warning,
    )


class Events:
    """Writes events one by one."""

    def __init__(self, api: apis.Api) -> None:
        self._api = api
        self._queue: asyncio.Queue[tuple[Event, float]] = asyncio.Queue(QUEUED)
        self._known: dict[Event, tuple[str, int]] = {}
        """Name and count of what was written."""

    def tell(self, event: Event) -> None:
        """Have an event written soon; dropped when too many wait."""
        if not self._queue.full():
            self._queue.put_nowait((event, time.time()))

    async def run(self) -> None:
        """Write what is told, for ever."""
        while True:
            event, at = await self._queue.get()
            try:
                await self._write(event, at=at)
            except apis.ApiError:
                continue  # its namespace is going, or the API server is: an event is no fact

    async def _write(self, event: Event, *, at: float) -> None:
        path = f"/api/v1/namespaces/{event.namespace}/events"
        now = nodes.timestamp(at)
        if event in self._known:
            name, count = self._known[event]
            self._known[event] = name, count + 1
            try:
                await self._api.patch(f"{path}/{name}", {"count": count + 1, "lastTimestamp": now})
            except apis.ApiError as error:
                if error.status != 404:
                    raise  # the API server removes old ones; then it is a new one
            else:
                return
        name = f"{event.name}.{time.time_ns():x}"
        about = {
            "apiVersion": "v1",
            "kind": event.kind,
            "name": event.name,
            "uid": event.uid,
        }
        if event.kind == "Pod":
            about["namespace"] = event.namespace
        if event.container:
            about["fieldPath"] = f"spec.containers{{{event.container}}}"
        await self._api.create(
            path,
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": event.namespace},
                "involvedObject": about,
                "reason": event.reason,
                "message": event.message[:MOST_TEXT],
                "type": "Warning" if event.warning else "Normal",
                "source": {"component": COMPONENT, "host": event.node},
                "reportingComponent": COMPONENT,
                "reportingInstance": event.node,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            },
        )
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[event] = name, 1
