"""Goldens of the mutating webhook: the patch for each shape of pod that Argo really makes.

`admissions/patches.txt` holds one line a pod and decision: outcome, then the operations. Decisions
go through all verdicts and ways to write a placement, with a size now and then.
"""

import asyncio
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fakes import hooks, patching, pods, webhooks
from tests.goldens import argo
from tiphys.models.domain import amounts, decisions
from tiphys.webhook import admissions, reviews

FOLDER = Path(__file__).with_name("admissions")
FILE = FOLDER / "patches.txt"
SELECTOR = (("node.kubernetes.io/instance-type", "f1"), ("topology.kubernetes.io/rack", "r2"))
Object = dict[str, Any]


def plans(pod: Object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is decided about a pod, by a name."""
    yield "gate", {"verdict": decisions.Verdict.GATE}
    for bind in ("prefer", "require"):
        placement = decisions.Placement(group="fast", selector=SELECTOR, bind=bind)
        yield bind, {"verdict": decisions.Verdict.PLACE, "placement": placement}
    container = pod["spec"]["containers"][-1]
    asked = amounts.Amounts.read((container.get("resources") or {}).get("requests"))
    sizing = decisions.Sizing(
        container=container["name"],
        cpu_m=max(asked.cpu_m // 2, 50),
        memory_bytes=max(asked.memory_bytes // 2, 2**26),
        original_cpu_m=asked.cpu_m,
        original_memory_bytes=asked.memory_bytes,
    )
    yield "size", {"verdict": decisions.Verdict.GATE, "sizings": (sizing,)}


async def answered(pod: Object, plan: dict[str, Any]) -> tuple[Object, Object]:
    """Return the answers to the first call, and to the second one with the patched pod."""
    reached = hooks.effects(lambda _: plan)
    namespace = pod["metadata"]["namespace"]
    found = []
    changed = pod
    for number in range(2):
        body = pods.a_body(changed, namespace=namespace, uid=f"call-{number}")
        response = json.loads(await admissions.mutate(reviews.read(body), reached))["response"]
        found.append(response)
        changed = patching.applied(changed, webhooks.patch_of(response))
    return found[0], found[1]


def text(found: list[Object]) -> str:
    """Return the whole file for a list of pods."""
    return asyncio.run(_text(found))


async def _text(found: list[Object]) -> str:
    lines = []
    for pod in found:
        for name, plan in plans(pod):
            first, _ = await answered(pod, plan)
            outcome = first["auditAnnotations"]["outcome"]
            lines.append(f"{pod['metadata']['name']} {name}: {outcome}")
            lines += [f"  {_line(operation)}" for operation in webhooks.patch_of(first)]
    return "\n".join(lines) + "\n"


def _line(operation: Object) -> str:
    """Show an operation; a decision and its signature by their names alone."""
    value = operation.get("value")
    if isinstance(value, dict):
        value = {k: "…" if k in decisions.WRITTEN else v for k, v in value.items()}
    if any(operation["path"].endswith(name.replace("/", "~1")) for name in decisions.WRITTEN):
        value = "…"
    return " ".join(
        [operation["op"], operation["path"], *([] if value is None else [json.dumps(value)])]
    )


def pods_of_argo() -> list[Object]:
    """Return one pod of each shape that Argo made in a lab."""
    taken: list[Object] = argo.load()["pods"]
    return list(itertools.chain(taken, [pods.a_pod()]))
