"""The Workflows of a corpus run as they are now, from one watch for all of them."""

import asyncio
import time
from collections.abc import Callable

from lab import apis

COLLECTION = "/apis/argoproj.io/v1alpha1/workflows"
ENDED = frozenset({"Succeeded", "Failed", "Error"})
CRON_LABEL = "workflows.argoproj.io/cron-workflow"
Key = tuple[str, str]
"""Namespace and name."""


class Watcher:
    """Keeps the last state of every Workflow; `run` must run beside."""

    def __init__(self, api: apis.Api) -> None:
        self.workflows: dict[Key, apis.Object] = {}
        """By namespace and name; a deleted one stays as it was last."""
        self._api = api
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Follow the watch for ever."""
        async for kind, item in self._api.watch(COLLECTION):
            if kind not in ("ADDED", "MODIFIED"):
                continue
            metadata = item["metadata"]
            self.workflows[metadata["namespace"], metadata["name"]] = item
            self._changed.set()
            self._changed = asyncio.Event()

    async def wait(
        self, key: Key, fulfilled: Callable[[apis.Object], bool], *, limit_s: float
    ) -> apis.Object | None:
        """Return the Workflow once it is as wanted; None if it is not in `limit_s` wall seconds."""
        found = await self.first(lambda at, item: at == key and fulfilled(item), limit_s=limit_s)
        return None if found is None else found[1]

    async def first(
        self, wanted: Callable[[Key, apis.Object], bool], *, limit_s: float
    ) -> tuple[Key, apis.Object] | None:
        """Return the first Workflow that is as wanted; None if there is none in time."""
        until = time.monotonic() + limit_s
        while True:
            changed = self._changed
            for key, item in self.workflows.items():
                if wanted(key, item):
                    return key, item
            try:
                async with asyncio.timeout(until - time.monotonic()):
                    await changed.wait()
            except TimeoutError:
                return None


def phase(workflow: apis.Object) -> str:
    """Return a Workflow's phase; empty before the controller has seen it."""
    return str((workflow.get("status") or {}).get("phase") or "")


def ended(workflow: apis.Object) -> bool:
    """Whether a Workflow has come to its end."""
    return phase(workflow) in ENDED


def message(workflow: apis.Object) -> str:
    """Return why a Workflow ended as it did: its own message, and that of the first bad node."""
    status = workflow.get("status") or {}
    bad = [
        f"{node.get('displayName')}: {node['message']}"
        for node in (status.get("nodes") or {}).values()
        if node.get("phase") in ("Failed", "Error", "Pending") and node.get("message")
    ]
    return "; ".join([*([status["message"]] if status.get("message") else []), *bad[:1]])
