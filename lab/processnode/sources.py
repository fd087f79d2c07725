"""ConfigMaps and Secrets of the namespaces in which pods run here, kept current by watches."""

import asyncio
import base64
from collections import Counter
from collections.abc import Callable, Mapping

from lab import apis
from lab.processnode import caches

COLLECTIONS = ("configmaps", "secrets")


class Sources:
    """Watches a namespace for as long as somebody holds it; tells `on_change` its name."""

    def __init__(self, api: apis.Api, *, on_change: Callable[[str], None]) -> None:
        self._api = api
        self._on_change = on_change
        self._holders: Counter[str] = Counter()
        self._caches: dict[tuple[str, str], caches.Cache] = {}
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def hold(self, namespace: str) -> None:
        """Watch a namespace, and wait until what it holds is known; `release` it later."""
        self._holders[namespace] += 1
        if namespace not in self._tasks:
            watching = [self._watched(collection, namespace) for collection in COLLECTIONS]
            self._tasks[namespace] = [asyncio.create_task(cache.run()) for cache in watching]
        for collection in COLLECTIONS:
            await self._caches[collection, namespace].ready.wait()

    def release(self, namespace: str) -> None:
        """Give back one `hold`."""
        self._holders[namespace] -= 1
        if not self._holders[namespace]:
            for task in self._tasks.pop(namespace):
                task.cancel()

    def config_map(self, namespace: str, name: str, *, binary: bool) -> Mapping[str, bytes] | None:
        """Return the keys of a ConfigMap, with `binaryData` if asked to; None: there is none."""
        item = self._caches["configmaps", namespace].items.get(f"{namespace}/{name}")
        if item is None:
            return None
        plain = {key: text.encode() for key, text in (item.get("data") or {}).items()}
        return plain | _decoded(item.get("binaryData")) if binary else plain

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the keys of a Secret, or None if there is none."""
        item = self._caches["secrets", namespace].items.get(f"{namespace}/{name}")
        return None if item is None else _decoded(item.get("data"))

    def _watched(self, collection: str, namespace: str) -> caches.Cache:
        cache = caches.Cache(
            self._api,
            f"/api/v1/namespaces/{namespace}/{collection}",
            key=caches.full_name,
            on_change=lambda *_: self._on_change(namespace),
        )
        self._caches[collection, namespace] = cache
        return cache


def _decoded(content: Mapping[str, str] | None) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in (content or {}).items()}
