"""Recording what Argo really creates: every state of pods and Workflows while a lab is in use."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from lab import apis

COLLECTIONS = {
    "pods": ("/api/v1/pods", {"labelSelector": "workflows.argoproj.io/workflow"}),
    "workflows": ("/apis/argoproj.io/v1alpha1/workflows", {}),
}


async def record(kubeconfig: Path, into: Path) -> None:
    """Append each state to `into` (gzip of JSON lines: kind, event, object) until cancelled."""
    with gzip.open(into, "at", compresslevel=3) as lines:
        async with apis.Api(kubeconfig) as api, asyncio.TaskGroup() as group:
            for kind in COLLECTIONS:
                group.create_task(_follow(api, kind, lines))


async def _follow(api: apis.Api, kind: str, lines: TextIO) -> None:
    path, params = COLLECTIONS[kind]
    async for event, item in api.watch(path, params=params):
        if event == "LISTED":
            continue
        item.get("metadata", {}).pop("managedFields", None)
        lines.write(json.dumps([kind, event, item], separators=(",", ":")) + "\n")


def states(recording: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Return the kind, the event and the object of each line."""
    # A recording that was cut off lacks its end only.
    with contextlib.suppress(EOFError), gzip.open(recording, "rt") as lines:
        for line in lines:
            kind, event, item = json.loads(line)
            yield kind, event, item
