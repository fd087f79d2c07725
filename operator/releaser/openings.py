"""Finds gated pods by their label and opens their gates, the important and the old ones first."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.operator.releaser import connections

PAGE = 500
BATCH = 256
"""Pods between two questions whether to go on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Gate:
    """What is kept of a pod to open its gate: a pod as it was read takes fifty times as much."""

    order: tuple[int, str, str]
    path: str
    uid: str
    patch: patches.Patch


class Opener:
    """Opens gates, several at a time and so many a second at most."""

    def __init__(self, api: connections.Api, *, per_second: float, callers: int) -> None:
        self._api = api
        self._pause_s = 1.0 / per_second
        self._pool = futures.ThreadPoolExecutor(callers, thread_name_prefix="open")
        self._lock = threading.Lock()
        self._next_at = 0.0
        self.opened = 0
        self.failed = 0
        self.gated = 0
        """Gates that the last look found."""

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def find(self) -> list[Gate]:
        """Return our gates in the order in which they are opened.

        A gate that somebody set by hand is none of ours, and a guard keeps us from it.
        """
        found = [gate for pod in self._pages() if (gate := _gate(pod)) is not None]
        found.sort(key=lambda gate: gate.order)
        self.gated = len(found)
        return found

    def open(self, found: Sequence[Gate], *, goes_on: Callable[[], bool]) -> tuple[int, int]:
        """Open gates until all are, or until `goes_on` says no; return (opened, failed)."""
        opened = failed = 0
        for start in range(0, len(found), BATCH):
            if not goes_on():
                break
            for done in self._pool.map(self._one, found[start : start + BATCH]):
                opened += done
                failed += not done
        self.opened += opened
        self.failed += failed
        self.gated -= opened
        return opened, failed

    def _pages(self) -> Iterator[connections.Object]:
        """Yield the pods with our label; whoever makes huge ones gets small pages."""
        limit, token = PAGE, ""
        while True:
            params = {"labelSelector": f"{decisions.GATED_LABEL}=true", "limit": str(limit)}
            try:
                page = self._api.get(
                    "/api/v1/pods", params={**params, "continue": token} if token else params
                )
            except connections.TooLongError:
                if limit == 1:
                    raise
                limit = max(limit // 4, 1)
                continue
            yield from page.get("items") or ()
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def _one(self, gate: Gate) -> bool:
        """Open one gate; a pod that is gone, replaced or open is no failure."""
        self._wait()
        for attempt in range(3):
            try:
                self._api.patch(gate.path, gate.patch)
            except connections.CallError as error:
                if error.status in (404, 409, 422):
                    return self._gone(gate.path, gate.uid)
                if error.status not in (429, 500, 502, 503, 504):
                    return False
            except errors.UnavailableError:
                pass
            else:
                return True
            time.sleep(0.2 * 2**attempt)
        return False

    def _gone(self, path: str, uid: str) -> bool:
        """Say whether nothing is left to open there; what changed is found by the next look."""
        try:
            pod = self._api.get(path)
        except connections.CallError as error:
            return error.status == 404
        except errors.UnavailableError:
            return False
        return pod["metadata"]["uid"] != uid or not patches.opening(pod)

    def _wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            at = max(now, self._next_at)
            self._next_at = at + self._pause_s
        time.sleep(max(0.0, at - now))


def _gate(pod: connections.Object) -> Gate | None:
    """Return the gate of ours on a pod, if there is one that we may open."""
    patch = patches.opening(pod)
    if not patch or not patches.steered(pod):
        return None
    about = pod["metadata"]
    return Gate(
        order=(
            -int(pod["spec"].get("priority") or 0),
            about["creationTimestamp"],
            about["name"],
        ),
        path=f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}",
        uid=about["uid"],
        patch=patch,
    )
