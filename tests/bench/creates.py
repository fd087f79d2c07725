"""Pod creates at a fixed rate or as fast as they go, timed by the API server itself."""

import asyncio
import dataclasses
import itertools
import re
import statistics
import time
import uuid
from collections.abc import Iterable

from lab import apis, homes
from lab.reports import audits

HOLD = "bench.tiphys.dev/hold"
"""A gate of nobody's: pods of both arms stay unbound, so that only their creation is measured."""
HOOKS = "apiserver_admission_webhook_admission_duration_seconds"
AT_ONCE = {"propagationPolicy": "Background", "gracePeriodSeconds": "0"}
_SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What one arm took."""

    latencies_ms: tuple[float, ...]
    """Of each create, from received to answered: the API server's audit log."""
    mean_ms: float
    """The same from its histogram of request durations (sum over count)."""
    hook_ms: float
    """Mean of its histogram of webhook calls, mutating and validating added; 0 without calls."""
    api_cpu_ms: float
    """CPU of the API server a create."""
    decided: float
    """Share of pods with a decision."""
    per_s: float

    def quantile_ms(self, part: float) -> float:
        """Return a quantile of the latencies."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)]


def a_pod(owner: apis.Object, *, name: str) -> apis.Object:
    """Return a pod of a workflow as Argo makes it, some kilobytes, held by a gate of nobody's."""
    return {
        "metadata": {
            "name": name,
            "labels": {
                "workflows.argoproj.io/completed": "false",
                "workflows.argoproj.io/workflow": owner["name"],
            },
            "annotations": {
                "workflows.argoproj.io/node-id": name,
                "workflows.argoproj.io/node-name": f"{owner['name']}.{name}",
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "Never",
            "schedulingGates": [{"name": HOLD}],
            "initContainers": [_container("init", "x" * 2000)],
            "containers": [_container("wait", "x" * 2000), _container("main", "x" * 1000)],
        },
    }


def _container(name: str, template: str) -> apis.Object:
    return {
        "name": name,
        "image": "busybox:1",
        "command": ["true"],
        "env": [{"name": "ARGO_TEMPLATE", "value": template}],
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
    }


async def open_loop(
    home: homes.Home,
    api: apis.Api,
    namespace: str,
    owner: apis.Object,
    *,
    per_s: float,
    count: int,
) -> Spent:
    """Create `count` pods, one every 1/`per_s` seconds whatever became of the ones before."""
    names = _names(count)
    before, began = await _counters(api), time.monotonic()
    tasks = []
    for number, name in enumerate(names):
        await asyncio.sleep(max(0.0, began + number / per_s - time.monotonic()))
        tasks.append(asyncio.create_task(_create(api, namespace, a_pod(owner, name=name))))
    made = await asyncio.gather(*tasks)
    return await _spent(home, api, before, made, names=names, took_s=time.monotonic() - began)


async def closed_loop(
    home: homes.Home,
    api: apis.Api,
    namespace: str,
    owner: apis.Object,
    *,
    callers: int,
    count: int,
) -> Spent:
    """Create `count` pods, `callers` at a time, as fast as they go."""
    names = _names(count)
    before, began = await _counters(api), time.monotonic()
    left = iter(names)

    async def go_on() -> list[bool]:
        return [await _create(api, namespace, a_pod(owner, name=name)) for name in left]

    made = await asyncio.gather(*(go_on() for _ in range(callers)))
    took_s = time.monotonic() - began
    return await _spent(
        home, api, before, itertools.chain.from_iterable(made), names=names, took_s=took_s
    )


async def cleared(api: apis.Api, namespace: str) -> None:
    """Delete every pod of a namespace."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    await api.call("DELETE", path, params=AT_ONCE)
    while (await api.get(path, params={"limit": "1"}))["items"]:  # noqa: ASYNC110
        await asyncio.sleep(0.2)


async def _create(api: apis.Api, namespace: str, pod: apis.Object) -> bool:
    made = await api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
    return "tiphys.dev/decision" in made["metadata"]["annotations"]


def _names(count: int) -> list[str]:
    tail = uuid.uuid4().hex[:8]
    return [f"p-{tail}-{number}" for number in range(count)]


async def _spent(
    home: homes.Home,
    api: apis.Api,
    before: dict[str, float],
    made: Iterable[bool],
    *,
    names: list[str],
    took_s: float,
) -> Spent:
    after = await _counters(api)
    spent = {key: after[key] - before.get(key, 0.0) for key in after}
    wanted = set(names)
    # The audit log is written a moment after the answer.
    for _ in range(50):
        found = [
            call.latency_s * 1000
            for call in audits.read(home)
            if call.verb == "create" and call.resource == "pods" and call.name in wanted
        ]
        if len(found) >= len(names):
            break
        await asyncio.sleep(0.1)
    hooks = [
        spent[f"hook.{kind}.sum"] / spent[f"hook.{kind}.count"]
        for kind in ("admit", "validating")
        if spent.get(f"hook.{kind}.count")
    ]
    return Spent(
        latencies_ms=tuple(found),
        mean_ms=1000 * spent["create.sum"] / spent["create.count"],
        hook_ms=1000 * sum(hooks),
        api_cpu_ms=1000 * spent["cpu"] / len(names),
        decided=statistics.fmean(made),
        per_s=len(names) / took_s,
    )


async def _counters(api: apis.Api) -> dict[str, float]:
    """Return what the API server has counted so far: creates of pods, webhook calls, CPU."""
    found: dict[str, float] = {}
    for line in (await api.text("/metrics")).splitlines():
        if line.startswith("process_cpu_seconds_total "):
            found["cpu"] = float(line.split()[1])
        match = _SAMPLE.match(line)
        if match is None:
            continue
        labels, (stem, _, kind) = match["labels"], match["name"].rpartition("_")
        if kind not in ("sum", "count"):
            continue
        key = ""
        if stem == "apiserver_request_duration_seconds":
            if all(t in labels for t in ('resource="pods"', 'subresource=""', 'verb="POST"')):
                key = f"create.{kind}"
        elif stem == HOOKS and 'name="pods.tiphys.dev"' in labels:
            phase = "admit" if 'type="admit"' in labels else "validating"
            key = f"hook.{phase}.{kind}"
        if key:
            found[key] = found.get(key, 0.0) + float(match["value"])
    return found
