"""Streaming watches that fill the caches: list in pages, follow, survive cuts, know their age.

A watch goes on from the last version that it saw. Where that is too old (410), or the server fails
at it again and again, it lists again and drops what the list does not hold. Cuts are waited out
with a doubling pause and jitter, so that an API server that comes back is not met by all watches of
all replicas at once.
"""

import random
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

import structlog

from tiphys.models.domain import errors
from tiphys.operator import apis, caches, clocks, objects

Value = TypeVar("Value")
Read = Callable[[apis.Object], Value]

SILENCE_S = 75.0
"""The API server sends a bookmark every minute; a stream that is quiet for longer is dead."""
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 15.0
REFUSALS = 3
"""So often in a row the server may fail at a version before it is given up for a new list."""
FAILED = frozenset({400, 500, 504})
"""What such a server says; one that is busy or on its way back says 429, 502 or 503."""

log = structlog.get_logger()


class Counts(Protocol):
    """What a watch reports; `metrics` has it."""

    def watched(self, kind: str, event: str) -> None:
        """Count an event: `added`, `modified`, `deleted`, `bookmark`, `listed`, `cut`, `gone`,
        `unreadable`.
        """


class Watch(Generic[Value]):
    """Keeps one cache like one collection of the API."""

    def __init__(
        self,
        api: apis.Api,
        path: str,
        cache: caches.Cache[Value],
        read: Read[Value],
        *,
        clock: clocks.Clock,
        counts: Counts,
        params: Mapping[str, str] | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._api = api
        self._path = path
        self._cache = cache
        self._read = read
        self._clock = clock
        self._counts = counts
        self._params = dict(params or {})
        self._silence_s = silence_s
        self._pause_s = FIRST_PAUSE_S
        self._version = ""
        self._refused = 0
        """How often in a row the server failed at this version."""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                self._cut("ended")
                # The server ends each watch after some minutes: no fault, so no long pause.
                self._pause_s = FIRST_PAUSE_S
            except apis.GoneError:
                self._cut("gone")
                self._counts.watched(self._cache.kind, "gone")
                self._version = ""
            except errors.TiphysError as error:
                self._cut("cut")
                self._counts.watched(self._cache.kind, "cut")
                self._refused += isinstance(error, apis.AnswerError) and error.status in FAILED
                if self._refused >= REFUSALS:
                    self._version = ""
                log.warning("watch was cut", kind=self._cache.kind, error=str(error))
            await self._clock.sleep(self._pause_s * random.uniform(0.5, 1.5))
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)

    async def _list(self) -> None:
        """Read the whole collection, a page at a time, and forget what it does not hold."""
        seen: set[str] = set()
        version = ""
        async for page in self._api.pages(self._path, params=self._params):
            version = version or page["metadata"]["resourceVersion"]
            for item in page.get("items") or ():
                seen.add(objects.key(item))
                self._put(item)
        self._cache.retain(seen)
        self._cache.heard_at = self._clock.monotonic()
        self._version, self._refused = version, 0
        self._counts.watched(self._cache.kind, "listed")

    async def _follow(self) -> None:
        """Take events from the last version on until the stream ends."""
        params = {**self._params, "resourceVersion": self._version}
        stream = self._api.stream(self._path, params=params, silence_s=self._silence_s)
        async for kind, item in stream:
            self._cache.heard_at = self._clock.monotonic()
            self._cache.current = True
            if kind == "OPEN":
                self._pause_s = FIRST_PAUSE_S
                continue
            self._version, self._refused = item["metadata"]["resourceVersion"], 0
            self._counts.watched(self._cache.kind, kind.lower())
            if kind == "DELETED":
                self._cache.drop(objects.key(item))
            elif kind in ("ADDED", "MODIFIED"):
                self._put(item)

    def _put(self, item: apis.Object) -> None:
        """Keep one object; what cannot be read is counted and kept out, never a reason to stop."""
        key = objects.key(item)
        try:
            self._cache.put(key, self._read(item))
        except Exception as error:
            # Also for what only a mistake of ours explains: one object must not stop all replicas.
            self._counts.watched(self._cache.kind, "unreadable")
            self._cache.drop(key)
            log.warning("object cannot be read", kind=self._cache.kind, key=key, error=repr(error))

    def _cut(self, how: str) -> None:
        if self._cache.current:
            log.debug("watch is closed", kind=self._cache.kind, how=how)
        self._cache.current = False
