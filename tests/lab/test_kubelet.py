"""Simulated nodes under the real API server, scheduler and controllers."""

import asyncio
import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import apis, homes
from lab.controlplane import processes
from tests import programs
from tests.lab import polls, simulated_pods
from tests.lab.simulated_pods import a_container, a_pod, a_truth

LabMaker = Callable[..., homes.Home]

pytestmark = pytest.mark.timeout(240)

GIB = float(2**30)
PROMETHEUS = programs.find("prometheus")


def pods_of(namespace: str) -> str:
    """The path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_nodes_look_like_those_of_a_cloud(lab: homes.Home, api: apis.Api) -> None:
    """Ready, with topology labels, capacity above allocatable, and a fresh lease."""
    node = await api.get("/api/v1/nodes/fast-0")
    labels = node["metadata"]["labels"]
    assert ("m6-16", "zone-2", "rack-c") == (
        labels["node.kubernetes.io/instance-type"],
        labels["topology.kubernetes.io/zone"],
        labels["topology.kubernetes.io/rack"],
    )
    status = node["status"]
    assert "16" == status["capacity"]["cpu"]
    assert status["capacity"]["memory"] != status["allocatable"]["memory"]
    lease = await api.get("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/fast-0")
    assert "fast-0" == lease["spec"]["holderIdentity"]


async def test_a_pod_runs_to_its_end_and_is_recorded_once(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """Bound by the real scheduler, computed by the physics, ended, freed."""
    simulated_pods.tell(lab, namespace, a_truth(namespace, "one"))
    await api.create(pods_of(namespace), a_pod("one", task="work"))
    ended = await simulated_pods.in_phase(api, f"{pods_of(namespace)}/one", "Succeeded")
    status = ended["status"]
    assert 0 == status["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    assert status["podIP"].startswith("10.")
    conditions = {item["type"]: item["status"] for item in status["conditions"]}
    assert ("True", "True", "False") == (
        conditions["PodScheduled"],
        conditions["Initialized"],
        conditions["Ready"],
    )
    (record,) = await simulated_pods.recorded(lab, namespace, 1)
    assert ("Completed", ended["spec"]["nodeName"]) == (record.reason, record.node)
    assert record.cpu_s > 0


async def test_the_truth_stands_in_no_object(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """Neither the CPU seconds nor the memory peak of a task is found in the API server."""
    truth = a_truth(namespace, "t", cpu_s=31.41592653, memory_curve=((0.0, 0.0), (1.0, 27182818.0)))
    simulated_pods.tell(lab, namespace, truth)
    await api.create(pods_of(namespace), a_pod("t", task="work"))
    await simulated_pods.in_phase(api, f"{pods_of(namespace)}/t", "Succeeded")
    text = json.dumps([await api.get(pods_of(namespace)), await api.get("/api/v1/nodes")])
    assert "31.4159" not in text
    assert "27182818" not in text


async def test_a_task_above_its_limit_is_oom_killed(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """137, in the status, in the record."""
    truth = a_truth(namespace, "greedy", memory_curve=((0.0, 0.0), (1.0, 2 * GIB)))
    simulated_pods.tell(lab, namespace, truth)
    resources = {"requests": {"memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    pod = a_pod("greedy", task="work", container=a_container(resources=resources))
    await api.create(pods_of(namespace), pod)
    ended = await simulated_pods.in_phase(api, f"{pods_of(namespace)}/greedy", "Failed")
    state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert ("OOMKilled", 137) == (state["reason"], state["exitCode"])
    (record,) = await simulated_pods.recorded(lab, namespace, 1)
    assert "OOMKilled" == record.reason
    assert GIB == pytest.approx(record.peak_memory_bytes)


async def test_a_pod_that_was_bound_by_hand_is_refused_where_it_does_not_fit(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """OutOfcpu, as a real kubelet's admission."""
    resources = {"requests": {"cpu": "17"}}
    pod = a_pod("huge", container=a_container(resources=resources), nodeName="base-0")
    await api.create(pods_of(namespace), pod)
    ended = await simulated_pods.in_phase(api, f"{pods_of(namespace)}/huge", "Failed")
    assert "OutOfcpu" == ended["status"]["reason"]
    (record,) = await simulated_pods.recorded(lab, namespace, 1)
    assert "Rejected" == record.reason


async def test_a_job_and_a_deployment_do_what_they_do_elsewhere(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """A Job completes; a Deployment becomes ready by its probe and replaces a deleted pod."""
    template = {"spec": {"restartPolicy": "Never", "containers": [a_container()]}}
    job = {
        "metadata": {"name": "j"},
        "spec": {"completions": 2, "parallelism": 2, "template": template},
    }
    await api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", job)
    probed = a_container(image="nginx", command=None, readinessProbe={"tcpSocket": {"port": 80}})
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [probed]},
            },
        },
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    await api.create(path, deployment)

    async def ready() -> bool:
        return (await api.get(f"{path}/web"))["status"].get("readyReplicas") == 2

    await polls.until(ready, within_s=60)
    listed = await api.get(pods_of(namespace), params={"labelSelector": "app=web"})
    victim = listed["items"][0]["metadata"]
    await api.delete(f"{pods_of(namespace)}/{victim['name']}")

    async def replaced() -> bool:
        now = await api.get(pods_of(namespace), params={"labelSelector": "app=web"})
        return victim["uid"] not in [item["metadata"]["uid"] for item in now["items"]]

    await polls.until(replaced, within_s=60)
    await polls.until(ready, within_s=60)

    async def complete() -> bool:
        job = await api.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/j")
        return job["status"].get("succeeded") == 2

    await polls.until(complete, within_s=60)
    ends = [
        record for record in simulated_pods.records(lab, namespace) if record.reason == "Deleted"
    ]
    assert [(victim["uid"], 143)] == [(record.uid, record.exit_code) for record in ends]


async def test_argo_stops_a_workflow_through_the_kubelets_port(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """The controller signals the containers by `exec`; the pod ends with 143."""
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows"
    simulated_pods.tell(lab, namespace, a_truth(namespace, "long", task="", cpu_s=1e6))
    step = {"name": "main", "container": {"image": "busybox", "command": ["work"]}}
    workflow = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "long"},
        "spec": {"entrypoint": "main", "templates": [step]},
    }
    await api.create(path, workflow)
    await simulated_pods.in_phase(api, f"{pods_of(namespace)}/long", "Running")
    await api.patch(f"{path}/long", {"spec": {"shutdown": "Terminate"}})
    await simulated_pods.in_phase(api, f"{path}/long", "Failed")
    (record,) = await simulated_pods.recorded(lab, namespace, 1)
    assert ("Error", 143) == (record.reason, record.exit_code)


async def test_kubectl_exec_and_logs_are_answered(
    lab: homes.Home, api: apis.Api, namespace: str, kubectl: str
) -> None:
    """`kill` works, other programs are absent, logs are there to be read."""
    simulated_pods.tell(lab, namespace, a_truth(namespace, "p", cpu_s=1e6))
    await api.create(pods_of(namespace), a_pod("p", task="work"))
    await simulated_pods.in_phase(api, f"{pods_of(namespace)}/p", "Running")

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [kubectl, "--kubeconfig", lab.kubeconfig, "-n", namespace, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    listing = await asyncio.to_thread(call, "exec", "p", "--", "ls", "/")
    assert 126 == listing.returncode
    assert "has no programs" in listing.stderr
    assert 0 == (await asyncio.to_thread(call, "logs", "p")).returncode
    assert 0 == (await asyncio.to_thread(call, "exec", "p", "--", "kill", "-9", "1")).returncode
    (record,) = await simulated_pods.recorded(lab, namespace, 1)
    assert 137 == record.exit_code


async def test_metrics_of_a_running_pod_have_their_usual_names(
    lab: homes.Home, api: apis.Api, namespace: str
) -> None:
    """cAdvisor on its node, kube-state-metrics for it, node-exporter for the node."""
    truth = a_truth(namespace, "busy", cpu_s=1e6, memory_curve=((0.0, 1e9), (1.0, 1e9)))
    simulated_pods.tell(lab, namespace, truth)
    await api.create(pods_of(namespace), a_pod("busy", task="work"))
    pod = await simulated_pods.in_phase(api, f"{pods_of(namespace)}/busy", "Running")
    node = pod["spec"]["nodeName"]
    url = json.loads((lab.data / "kubelet-metrics.json").read_text())["url"]

    def read(path: str) -> str:
        with urllib.request.urlopen(f"{url}{path}", timeout=30) as response:
            text: str = response.read().decode()
            return text

    cadvisor = await asyncio.to_thread(read, f"/metrics/cadvisor?node={node}")
    (working_set,) = [
        line
        for line in cadvisor.splitlines()
        if line.startswith("container_memory_working_set_bytes")
        and f'namespace="{namespace}"' in line
        and 'container="main"' in line
    ]
    assert working_set.endswith(" 1e+09")
    state = await asyncio.to_thread(read, "/metrics/state")
    assert f'kube_pod_status_phase{{namespace="{namespace}",phase="Running"' in state
    exporter = await asyncio.to_thread(read, f"/metrics/node?node={node}")
    assert "node_cpu_seconds_total" in exporter


@pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus: `.ci/setup debian`")
async def test_prometheus_scrapes_the_lab_with_the_configuration_that_it_wrote(
    lab: homes.Home, tmp_path: Path
) -> None:
    """Every target is up; the CPU modes of a node add up to its cores."""
    port = 29190
    started = await asyncio.create_subprocess_exec(
        PROMETHEUS,
        f"--config.file={lab.data / 'prometheus.yml'}",
        f"--storage.tsdb.path={tmp_path}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=error",
    )

    def query(text: str) -> list[Any]:
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(text)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                found: list[Any] = json.load(response)["data"]["result"]
                return found
        except OSError:
            return []

    async def all_up() -> bool:
        ups = await asyncio.to_thread(query, "up")
        return len(ups) == 10 and all(one["value"][1] == "1" for one in ups)

    async def rates() -> list[Any]:
        return await asyncio.to_thread(
            query, "sum by (node) (irate(node_cpu_seconds_total[30s])) > 0"
        )

    try:
        await polls.until(all_up, within_s=60)
        found = await polls.until(rates, within_s=60)
    finally:
        started.terminate()
        await asyncio.wait_for(started.wait(), 20)
    assert {one["metric"]["node"] for one in found} <= {"old-0", "base-0", "fast-0", "turbo-0"}
    assert all(16.0 == pytest.approx(float(one["value"][1]), rel=0.02) for one in found)


async def test_the_largest_is_evicted_where_a_node_runs_out_of_memory(
    make_lab: LabMaker,
) -> None:
    """The one furthest above its request goes; the node says MemoryPressure for a while."""
    home = make_lab("evict", speed=60.0, without=("workflow-controller", "processnode"))
    async with apis.Api(home.kubeconfig) as api:
        await polls.until(lambda: _account(api), within_s=30)
        slow = {"cpu_s": 4000.0}
        simulated_pods.tell(
            home,
            "evict",
            a_truth("default", "greedy", memory_curve=((0.0, 30 * GIB), (1.0, 38 * GIB)), **slow),
            a_truth("default", "modest", memory_curve=((0.0, 28 * GIB), (1.0, 28 * GIB)), **slow),
        )
        asks_much = a_container(resources={"requests": {"memory": "28Gi"}})
        await api.create(
            pods_of("default"), a_pod("modest", task="work", container=asks_much, nodeName="base-0")
        )
        await api.create(pods_of("default"), a_pod("greedy", task="work", nodeName="base-0"))
        ended = await simulated_pods.in_phase(
            api, f"{pods_of('default')}/greedy", "Failed", within_s=120
        )
        assert "Evicted" == ended["status"]["reason"]
        assert "low on resource: memory" in ended["status"]["message"]

        async def pressed() -> bool:
            node = await api.get("/api/v1/nodes/base-0")
            return any(
                item["type"] == "MemoryPressure" and item["status"] == "True"
                for item in node["status"]["conditions"]
            )

        await polls.until(pressed, within_s=30)
        modest = await api.get(f"{pods_of('default')}/modest")
        assert "Running" == modest["status"]["phase"]
    assert ["Evicted"] == [one.reason for one in simulated_pods.records(home, "default")]
    assert processes.of_lab(home.root)


async def _account(api: apis.Api) -> bool:
    accounts = await api.get("/api/v1/namespaces/default/serviceaccounts")
    return bool(accounts["items"])
