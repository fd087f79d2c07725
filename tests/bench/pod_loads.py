"""Workflows that keep a control plane busy: one task, many beside each other, one at the end."""

import asyncio
import random
import time
from collections.abc import Iterator

from lab import apis, homes, truths
from lab.controlplane import manifests

NAMESPACE = "load"
WORKFLOWS = f"/apis/argoproj.io/v1alpha1/namespaces/{NAMESPACE}/workflows"
ENDED = frozenset({"Succeeded", "Failed", "Error"})


def tasks(width: int) -> list[str]:
    """Return the names of a workflow's tasks, in order."""
    return ["first", *(f"m{index}" for index in range(width)), "last"]


def known(count: int, *, width: int, seed: int, cpu_s: float) -> Iterator[truths.Truth]:
    """Yield the truths of all tasks: half to one and a half times the CPU seconds, some IO."""
    random_ = random.Random(seed)
    for number in range(count):
        for task in tasks(width):
            yield truths.Truth(
                namespace=NAMESPACE,
                workflow=f"load-{number}",
                task=task,
                template="work",
                cpu_s=random_.uniform(0.5, 1.5) * cpu_s,
                reads=(truths.FileRead(file=f"reference-{random_.randrange(5)}", bytes=2e8),),
                written_bytes=1e8,
                store_bytes=1e7,
                disk_ops=2000.0,
                memory_traffic_bytes_per_s=1e9,
                memory_sensitivity=0.3,
                memory_curve=((0.0, 5e7), (0.5, 2e8), (1.0, 2.2e8)),
            )


def workflow(number: int, *, width: int) -> apis.Object:
    """Return one workflow; its pods are deleted as they end."""
    first, *middle, last = tasks(width)
    needs: dict[str, list[str]] = {first: [], last: middle} | {name: [first] for name in middle}
    resources = {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
    container = {"image": "busybox", "command": ["work"], "resources": resources}
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": f"load-{number}", "namespace": NAMESPACE},
        "spec": {
            "entrypoint": "main",
            "podGC": {"strategy": "OnPodCompletion"},
            "templates": [
                {
                    "name": "main",
                    "dag": {
                        "tasks": [
                            {"name": name, "template": "work", "dependencies": needs[name]}
                            for name in tasks(width)
                        ]
                    },
                },
                {"name": "work", "container": container},
            ],
        },
    }


async def run(
    home: homes.Home, *, workflows: int, width: int, seed: int, cpu_s: float, limit_s: float
) -> float:
    """Submit all workflows and wait for their ends; return the wall seconds from first to last.

    Raises `TimeoutError` when they have not ended within `limit_s`.
    """
    truths.write(home.truths / "load.jsonl", known(workflows, width=width, seed=seed, cpu_s=cpu_s))
    async with apis.Api(home.kubeconfig) as api, asyncio.timeout(limit_s):
        await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await manifests.accounts_exist(api, [NAMESPACE])
        began = time.monotonic()
        for number in range(workflows):
            await api.create(WORKFLOWS, workflow(number, width=width))
        while True:
            items = (await api.get(WORKFLOWS))["items"]
            if sum(item.get("status", {}).get("phase") in ENDED for item in items) == workflows:
                return time.monotonic() - began
            await asyncio.sleep(0.5)
