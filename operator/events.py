"""Events for people: few, in words, and gathered where many say the same.

One Event per object and reason; when it happens again its text and count are patched, at most once
in `AGAIN_S`. A bucket bounds the writes of the process; what does not fit is counted, not queued
for ever: an Event is a courtesy, and the decision itself stands on the pod.
"""

import collections
import dataclasses
import datetime
import hashlib

import structlog

from tiphys.models.domain import errors, pods
from tiphys.operator import apis, clocks, tallies

AGAIN_S = 30.0
MOST_WAITING = 500
"""Events that wait to be written; beyond them new ones are dropped."""
MOST_KNOWN = 20_000
UNSPACED = "default"
"""Namespace of Events about objects without one."""
CORE_KINDS = ("Pod", "Namespace")
LONGEST = 1000
"""Letters of a message; Kubernetes takes 1,024 bytes."""

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The object that an Event is about."""

    kind: str
    """`Pod`, `Namespace` or one of Argo's."""
    namespace: str
    """Where the Event is kept: the object's namespace, a Namespace's own, empty for what has none
    (then it is `default`, as Kubernetes wants it)."""
    name: str
    uid: str


@dataclasses.dataclass(slots=True)
class _Known:
    name: str
    count: int
    written_at: float
    """Monotonic second."""
    made: bool = False


class Recorder:
    """Takes notes at any time and writes them when there is time."""

    def __init__(
        self,
        api: apis.Api,
        *,
        clock: clocks.Clock,
        counted: tallies.Tallies,
        per_second: float,
        component: str = "tiphys-operator",
    ) -> None:
        self._api = api
        self._clock = clock
        self._counted = counted
        self._per_second = per_second
        self._component = component
        self._known: collections.OrderedDict[tuple[str, str], _Known] = collections.OrderedDict()
        self._waiting: collections.OrderedDict[tuple[str, str], tuple[About, str, str]] = (
            collections.OrderedDict()
        )

    def note(self, about: About, reason: str, message: str, *, warns: bool = False) -> None:
        """Note that something happened; the latest message of an object and reason counts."""
        key = (about.uid, reason)
        if key not in self._waiting and len(self._waiting) >= MOST_WAITING:
            self._counted.events.labels("dropped").inc()
            return
        kind = "Warning" if warns else "Normal"
        self._waiting[key] = (about, kind, message[:LONGEST])

    async def run(self) -> None:
        """Write until cancelled, at most `per_second` Events a second."""
        while True:
            await self._clock.sleep(1.0 / self._per_second)
            for key in list(self._waiting)[:MOST_WAITING]:
                known = self._known.get(key)
                now = self._clock.monotonic()
                if known is not None and known.made and now - known.written_at < AGAIN_S:
                    continue
                about, kind, message = self._waiting.pop(key)
                await self._write(key, about, kind, message)
                break

    async def _write(self, key: tuple[str, str], about: About, kind: str, message: str) -> None:
        known = self._known.get(key)
        if known is None:
            digest = hashlib.sha256(f"{key[0]}/{key[1]}".encode()).hexdigest()[:16]
            known = self._known[key] = _Known(f"{about.name[:200]}.{digest}", 1, 0.0)
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        known.written_at = self._clock.monotonic()
        space = about.namespace or UNSPACED
        path = f"/api/v1/namespaces/{space}/events"
        stamp = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        at = stamp.strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            if known.made:
                known.count += 1
                changes = {"count": known.count, "lastTimestamp": at, "message": message}
                await self._api.call(
                    "PATCH",
                    f"{path}/{known.name}",
                    body=changes,
                    content_type=apis.MERGE_PATCH,
                    attempts=1,
                )
            else:
                body = self._event(known, about, kind, message, reason=key[1], at=at)
                await self._api.call("POST", path, body=body, attempts=1)
                known.made = True
            self._counted.events.labels("written").inc()
        except apis.ConflictError:
            known.made = True  # of a leader before us: patched next time
        except apis.NotFoundError:
            self._known.pop(key, None)  # it was old and is gone, or its namespace is
        except errors.TiphysError as error:
            self._counted.events.labels("failed").inc()
            log.info("event was not written", about=about.name, error=str(error))

    def _event(
        self, known: _Known, about: About, kind: str, message: str, *, reason: str, at: str
    ) -> apis.Object:
        version = "v1" if about.kind in CORE_KINDS else "argoproj.io/v1alpha1"
        return {
            "metadata": {"name": known.name, "namespace": about.namespace or UNSPACED},
            "involvedObject": {
                "apiVersion": version,
                "kind": about.kind,
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": reason,
            "message": message,
            "type": kind,
            "count": known.count,
            "firstTimestamp": at,
            "lastTimestamp": at,
            "source": {"component": self._component},
            "reportingComponent": self._component,
        }


def of_pod(pod: pods.Pod) -> About:
    """Return a pod as what an Event is about."""
    return About(kind="Pod", namespace=pod.namespace, name=pod.name, uid=pod.uid)
