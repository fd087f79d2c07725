"""What reading Argo's objects costs: every admission reads a pod, every event a pod or Workflow.

CPU time, not wall time, and the quickest of several rounds, so that a busy machine changes little.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from lab.reports import results
from tests.goldens import argo
from tests.unit.argo import builders, hostiles
from tests.unit.argo.builders import a_dag, a_node, a_status, a_task, a_template, a_workflow
from tiphys.argo import clocks, names
from tiphys.argo import pods as argo_pods
from tiphys.argo import workflows as argo_workflows

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["reading"]
ROUNDS = 15
CHAINS = 60


def a_wide_workflow() -> builders.Object:
    """Return a Workflow of 243 nodes: 60 chains of three retried tasks, two of them ended."""
    tasks = [a_task("split")]
    for n in range(CHAINS):
        sample = {"parameters": [{"name": "sample", "value": "{{workflow.parameters.run}}"}]}
        tasks += [
            a_task(f"align{n}", ["split"], template="align", arguments=sample),
            a_task(f"sort{n}", [f"align{n}"]),
            a_task(f"call{n}", [f"sort{n}"]),
        ]
    tasks.append(a_task("merge", [f"call{n}" for n in range(CHAINS)]))
    ended = ["split", *(f"{name}{n}" for name in ("align", "sort") for n in range(CHAINS))]
    nodes = [a_node("wf", type="DAG")]
    for name in ended:
        for path, kind in ((f"wf.{name}", "Retry"), (f"wf.{name}(0)", "Pod")):
            nodes.append(a_node(path, "Succeeded", type=kind, finishedAt=builders.CREATED))
    align = a_template(
        "align", retryStrategy={"limit": 2}, inputs={"parameters": [{"name": "sample"}]}
    )
    return a_workflow(
        a_dag(*tasks),
        a_template("work", retryStrategy={"limit": 2}),
        align,
        status=a_status(*nodes),
        arguments={"parameters": [{"name": "run", "value": "7"}]},
    )


def quickest_s(read: Callable[[Any], object], objects: list[Any]) -> float:
    """Return CPU seconds for one object, in the quickest round."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for obj in objects:
            read(obj)
        best = min(best, time.process_time() - began)
    return best / len(objects)


def once_s(read: Callable[[Any], object], obj: Any) -> float:
    """Return CPU seconds for one object, read once."""
    began = time.process_time()
    read(obj)
    return time.process_time() - began


@pytest.mark.bench
def test_reading_is_cheap(capsys: pytest.CaptureFixture[str]) -> None:
    """Pods as the lab recorded them; a Workflow of 200 nodes; the worst that anybody may write."""
    recorded = argo.load()
    pods = [{**pod, "status": builders.ENDED} for pod in recorded["pods"]] * 5
    wide = a_wide_workflow()
    figures = {
        "pod_us": quickest_s(argo_pods.read, pods) * 1e6,
        "pod_clocks_us": quickest_s(lambda pod: clocks.of_pod(pod, at=0.0), pods) * 1e6,
        "workflow_200_ms": quickest_s(argo_workflows.read, [wide]) * 1e3,
        "workflow_recorded_ms": quickest_s(argo_workflows.read, recorded["ended"]) * 1e3,
    }
    figures["hostile_workflow_s"] = max(
        once_s(argo_workflows.read, obj) for obj in hostiles.WORKFLOWS.values()
    )
    figures["hostile_name_s"] = max(once_s(names.attempt, name) for name in hostiles.NODE_NAMES)
    figures = {name: round(value, 2) for name, value in figures.items()}
    path = results.write(
        "reading", seed=None, speed=None, figures={**figures, "nodes": len(wide["status"]["nodes"])}
    )
    with capsys.disabled():
        for name, value in figures.items():
            Console().print(f"{name:24} {value:8.2f}")
        Console().print(f"written to {path}")
    assert 200 <= len(wide["status"]["nodes"])
    assert {} == {
        name: figures[name] for name, limit in RANGES.items() if figures[name] > limit["most"]
    }
