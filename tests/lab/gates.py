"""Operators as processes of their own against a lab, and pods that wait behind our gate."""

import contextlib
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from lab import apis, homes
from tests.lab import polls
from tiphys.models.domain import decisions, pods

TIPHYS = Path(sys.executable).with_name("tiphys")
ROOT = Path(__file__).parents[2]
CRDS = ROOT / "charts/tiphys/crds"
SYSTEM = "tiphys-system"
POLICIES = "/apis/tiphys.dev/v1alpha1/schedulingpolicies"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/{}/workflows"
TINY = """
name: tiny
about: two groups of two nodes of four cores
groups:
  - {name: fast, count: 2, instance_type: fast-4, rack: rack-a, zone: zone-1, cores: 4,
     memory: 16Gi, speed: 2.0, memory_bandwidth: 50Gi, nic: 1250M,
     disk: {kind: ssd, bandwidth: 500M, iops: 30000}}
  - {name: slow, count: 2, instance_type: slow-4, rack: rack-b, zone: zone-1, cores: 4,
     memory: 16Gi, speed: 1.0, memory_bandwidth: 50Gi, nic: 1250M,
     disk: {kind: ssd, bandwidth: 500M, iops: 30000}}
network: {rack_uplink: 2500M, object_store: 3G, rtt_ms: 0.2, rtt_ms_between: {rack-a/rack-b: 0.5}}
"""
NODES = 4
CORES = 16
"""Of the whole tiny cluster."""
_numbers = itertools.count(1)


async def prepare(home: homes.Home) -> None:
    """Create what the chart would: kinds and our namespace."""
    async with apis.Api(home.kubeconfig) as api:
        for path in sorted(CRDS.glob("*.yaml")):
            crd = yaml.safe_load(path.read_text())
            kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await api.apply(f"{kind}/{crd['metadata']['name']}", crd)
        await api.apply(
            f"/api/v1/namespaces/{SYSTEM}",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
        )


def environment(**more: str) -> dict[str, str]:
    """Return the environment of our processes: this one's, and more."""
    return {**os.environ, **more}


async def clear(api: apis.Api) -> None:
    """Delete what tests made: their namespaces with all pods, and policies."""
    listed = await api.get("/api/v1/namespaces")
    for item in listed["items"]:
        name = item["metadata"]["name"]
        if name.startswith("t-"):
            await api.call(
                "DELETE",
                f"/api/v1/namespaces/{name}/pods",
                params={"gracePeriodSeconds": "0"},
            )
            await api.delete(f"/api/v1/namespaces/{name}")
    await api.call("DELETE", POLICIES)

    async def empty() -> bool:
        found = await api.get("/api/v1/pods", params={"labelSelector": f"{decisions.LABEL}=true"})
        return not found["items"]

    await polls.until(empty, within_s=60)


@dataclasses.dataclass(slots=True)
class Operator:
    """One replica."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def url(self) -> str:
        """Address of its metrics and explanations."""
        for line in self.log.read_text().splitlines():
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if said.get("message") == "listening":
                    return f"http://127.0.0.1:{said['metrics_port']}"
        raise AssertionError(f"{self.name} does not listen")

    def kill(self) -> None:
        """End it at once, as a node that dies would."""
        self.process.kill()
        self.process.wait(10)

    def stop(self) -> None:
        """Ask it to end and wait."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def operator(
    home: homes.Home, *, environ: Mapping[str, str] | None = None, **dispatch: object
) -> Iterator[Operator]:
    """Run one replica with admin rights; settings of `dispatch` as in its file."""
    name = f"operator-{next(_numbers)}-{uuid.uuid4().hex[:5]}"
    settings = home.root / f"{name}.yaml"
    chosen = {
        "listen": {"host": "127.0.0.1", "decisionsPort": 0, "metricsPort": 0},
        "history": {"url": "sqlite://"},
        "dispatch": {"explainAfter": "1s", **dispatch},
    }
    settings.write_text(yaml.safe_dump(chosen))
    log = home.logs / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [TIPHYS, "operator", "--settings", settings, "--kubeconfig", home.kubeconfig],
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment(POD_NAME=f"tiphys-{name}", **(environ or {})),
            cwd=home.root,
        )
    running = Operator(name, process, log)
    try:
        yield running
    finally:
        running.stop()


async def dispatching(running: Operator, *, within_s: float = 40.0) -> None:
    """Wait until a replica leads and dispatches."""

    async def said() -> bool:
        if running.process.poll() is not None:
            raise AssertionError(running.log.read_text()[-4000:])
        return "dispatch begins" in running.log.read_text()

    await polls.until(said, within_s=within_s)


async def a_namespace(api: apis.Api, **annotations: str) -> str:
    """Create a namespace that opted in, with what pods need; delete it when done."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    wanted = {"tiphys.dev/enabled": "true", **annotations}
    body = {"metadata": {"name": name, "annotations": wanted}}
    await api.create("/api/v1/namespaces", body)

    async def account() -> bool:
        try:
            await api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")
        except Exception:
            return False
        return True

    await polls.until(account, within_s=20)
    return name


async def a_workflow(api: apis.Api, namespace: str, name: str, **spec: Any) -> str:
    """Create a Workflow that no controller looks after; return its uid."""
    body = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {
            "name": name,
            "labels": {"workflows.argoproj.io/controller-instanceid": "nobody"},
        },
        "spec": {
            "entrypoint": "work",
            "templates": [
                {"name": "work", "container": {"image": "busybox", "command": ["sleep", "1"]}}
            ],
            **spec,
        },
    }
    made = await api.create(WORKFLOWS.format(namespace), body)
    return str(made["metadata"]["uid"])


def a_gated_pod(
    name: str, workflow: str, uid: str, *, cpu: str = "4", seconds: float = 600, **spec: Any
) -> apis.Object:
    """A task's pod as Argo and our webhook make it, without decision."""
    return {
        "metadata": {
            "name": name,
            "labels": {
                "workflows.argoproj.io/completed": "false",
                "workflows.argoproj.io/workflow": workflow,
                decisions.LABEL: "true",
                decisions.GATED_LABEL: "true",
            },
            "annotations": {
                "workflows.argoproj.io/node-id": name,
                "workflows.argoproj.io/node-name": f"{workflow}.{name}",
            },
            "ownerReferences": [
                {
                    "apiVersion": "argoproj.io/v1alpha1",
                    "kind": "Workflow",
                    "name": workflow,
                    "uid": uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "restartPolicy": "Never",
            "schedulingGates": [{"name": pods.STEERING_GATE}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "command": ["sleep", str(seconds)],
                    "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
                }
            ],
            **spec,
        },
    }


async def pods_of(api: apis.Api, namespace: str) -> dict[str, apis.Object]:
    """Return the pods of a namespace by name."""
    listed = await api.get(f"/api/v1/namespaces/{namespace}/pods")
    return {item["metadata"]["name"]: item for item in listed["items"]}


def gated(pod: apis.Object) -> bool:
    """Say whether our gate is on it."""
    return any(
        gate["name"] == pods.STEERING_GATE for gate in pod["spec"].get("schedulingGates", ())
    )


async def open_pods(api: apis.Api, namespace: str) -> set[str]:
    """Return the names of the pods whose gate is open."""
    found = await pods_of(api, namespace)
    return {name for name, pod in found.items() if not gated(pod)}


def a_cluster(folder: Path) -> Path:
    """Write the tiny cluster's file."""
    path = folder / "tiny.yaml"
    path.write_text(TINY)
    return path
