"""Pods on simulated nodes, their truths, and what the kubelet wrote down about them."""

from typing import Any

import msgspec

from lab import apis, homes, journals, truths
from tests.lab import polls

ENDED = ("Succeeded", "Failed")
NODE_NAME = "workflows.argoproj.io/node-name"


def a_container(**fields: Any) -> apis.Object:
    """A container that sleeps a moment, unless its pod's task is computed."""
    requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    facts = {"name": "main", "image": "busybox", "command": ["sleep", "1"], "resources": requests}
    return {**facts, **fields}


def a_pod(
    name: str, *, task: str = "", container: apis.Object | None = None, **spec: Any
) -> apis.Object:
    """A pod; with `task` it computes the truth of that task of workflow `NAME`."""
    annotations = {NODE_NAME: f"{name}.{task}"} if task else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [container or a_container()], **spec},
    }


def a_truth(namespace: str, workflow: str, **changes: Any) -> truths.Truth:
    """The truth about task `work` of a workflow."""
    facts: dict[str, Any] = {
        "namespace": namespace,
        "workflow": workflow,
        "task": "work",
        "template": "work",
        "cpu_s": 30.0,
    }
    return truths.Truth(**{**facts, **changes})


def tell(home: homes.Home, run: str, *known: truths.Truth) -> None:
    """Write the truths of a run where only the kubelet reads them."""
    truths.write(home.truths / f"{run}.jsonl", known)


def records(home: homes.Home, namespace: str) -> list[journals.PodRecord]:
    """Return the kubelet's records about one namespace, in order."""
    decoder = msgspec.json.Decoder(journals.Record)
    lines = home.journal.read_bytes().splitlines(keepends=True) if home.journal.exists() else []
    decoded = [decoder.decode(line) for line in lines if line.endswith(b"\n")]
    return [
        record
        for record in decoded
        if isinstance(record, journals.PodRecord) and record.namespace == namespace
    ]


async def in_phase(api: apis.Api, path: str, *phases: str, within_s: float = 60.0) -> apis.Object:
    """Wait until an object is there and in one of the phases, and return it."""

    async def look() -> apis.Object | None:
        try:
            item = await api.get(path)
        except apis.ApiError as error:
            if error.status != 404:
                raise
            return None
        return item if item.get("status", {}).get("phase") in phases else None

    found = await polls.until(look, within_s=within_s)
    assert found is not None
    return found


async def recorded(
    home: homes.Home, namespace: str, count: int, *, within_s: float = 30.0
) -> list[journals.PodRecord]:
    """Wait until so many pods of a namespace have ended, and return their records."""

    async def look() -> list[journals.PodRecord]:
        found = records(home, namespace)
        return found if len(found) >= count else []

    return await polls.until(look, within_s=within_s)
