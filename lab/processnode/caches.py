"""Objects of one collection, kept current by a watch, whatever is cut or lost on the way."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from lab import apis

logger = logging.getLogger(__name__)

RETRY_S = 1.0

Change = Callable[[str, apis.Object | None], None]
"""Told a key and the object as it is now; None: it is gone."""


class Cache:
    """Runs until it is cancelled; `ready` is set once everything that there is has been told."""

    def __init__(
        self,
        api: apis.Api,
        path: str,
        *,
        key: Callable[[apis.Object], str],
        on_change: Change,
        params: Mapping[str, str] | None = None,
    ) -> None:
        self._api = api
        self._path = path
        self._key = key
        self._on_change = on_change
        self._params = dict(params or {})
        self.items: dict[str, apis.Object] = {}
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Follow the collection for ever.

        A refused call is made again, as rights may come; and whatever one object did to whoever was
        told of it, the others must still be followed.
        """
        while True:
            try:
                await self._follow()
            except apis.ApiError as error:
                logger.warning("%s is not followed: %s", self._path, error)
            except Exception:
                logger.exception("%s is followed anew", self._path)
            await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        async for change, item in self._api.watch(self._path, params=self._params):
            if change == "LISTED":
                await self._forget()
                self.ready.set()
            elif change == "DELETED":
                self._drop(self._key(item))
            else:
                self.items[self._key(item)] = item
                self._on_change(self._key(item), item)

    async def _forget(self) -> None:
        """Drop what went while nobody watched; the event of its end will never come."""
        if self.ready.is_set():
            listed = await self._api.get(self._path, params=self._params)
            there = {self._key(item) for item in listed.get("items") or ()}
            for key in self.items.keys() - there:
                self._drop(key)

    def _drop(self, key: str) -> None:
        if self.items.pop(key, None) is not None:
            self._on_change(key, None)


def full_name(item: apis.Object) -> str:
    """Return `NAMESPACE/NAME`, a key for what is looked up by name."""
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"
