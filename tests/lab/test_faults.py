"""Faults on command: what the cluster notices, and that no pod is lost or ends twice."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from lab import apis, faults, homes
from lab.controlplane import controls as supervisors
from lab.controlplane import manifests
from lab.kubelet.controls import Command
from tests.lab import polls, simulated_pods
from tests.lab.simulated_pods import a_container, a_pod, a_truth

LabMaker = Callable[..., homes.Home]

pytestmark = pytest.mark.timeout(400)

PODS = "/api/v1/namespaces/default/pods"
WORKFLOWS = "/apis/argoproj.io/v1alpha1/namespaces/default/workflows"


async def cause(home: homes.Home, fault: str, node: str, **amounts: float) -> None:
    """Cause a fault without holding up the loop."""
    await asyncio.to_thread(faults.cause, home, Command(fault=fault, node=node, **amounts))


def a_workflow(name: str, width: int) -> apis.Object:
    """A task, `width` tasks beside each other, a task."""
    middle = [f"m{index}" for index in range(width)]
    needs = {"first": [], **{task: ["first"] for task in middle}, "last": middle}
    resources = {"requests": {"cpu": "500m", "memory": "256Mi"}}
    work = {"image": "busybox", "command": ["work"], "resources": resources}
    tasks = [
        {"name": task, "template": "work", "dependencies": before} for task, before in needs.items()
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {"name": "main", "dag": {"tasks": tasks}},
                {"name": "work", "container": work},
            ],
        },
    }


async def test_every_pod_ends_once_whatever_is_restarted(make_lab: LabMaker) -> None:
    """Kubelet (in order and by SIGKILL), API server, etcd and scheduler, under load."""
    home = make_lab("restarts", speed=60.0, cluster="uniform")
    count, width = 10, 12
    names = [f"wf-{number}" for number in range(count)]
    tasks = ["first", "last", *(f"m{index}" for index in range(width))]
    simulated_pods.tell(
        home,
        "restarts",
        *(
            a_truth("default", name, task=task, cpu_s=400.0 + 40 * index)
            for name in names
            for index, task in enumerate(tasks)
        ),
    )
    async with apis.Api(home.kubeconfig, sure_of_rights=True) as api:
        await manifests.accounts_exist(api, ["default"])
        for name in names:
            await api.create(WORKFLOWS, a_workflow(name, width))
        await simulated_pods.recorded(home, "default", 2, within_s=60)
        for component in ("kubelet", "kube-apiserver", "etcd", "kube-scheduler"):
            await asyncio.to_thread(faults.restart, home, component)
            await asyncio.sleep(2)
        await asyncio.to_thread(supervisors.send, home, "kill", "kubelet")

        async def ended() -> dict[str, int]:
            items = (await api.get(WORKFLOWS))["items"]
            phases = Counter(item.get("status", {}).get("phase") for item in items)
            return phases if not phases.keys() & {None, "Pending", "Running"} else {}

        phases = await polls.until(ended, within_s=240)
    assert {"Succeeded": count} == phases
    records = simulated_pods.records(home, "default")
    assert count * len(tasks) == len(records) == len({record.uid for record in records})
    assert {"Completed"} == {record.reason for record in records}


async def test_a_lost_node_is_noticed_and_its_pods_end_when_it_is_back(
    make_lab: LabMaker,
) -> None:
    """Silent, tainted as unreachable, its pods evicted; back, it confirms their end."""
    home = make_lab("lost", speed=60.0, without=("workflow-controller", "processnode"))
    async with apis.Api(home.kubeconfig) as api:
        await manifests.accounts_exist(api, ["default"])
        simulated_pods.tell(home, "lost", a_truth("default", "p", cpu_s=1e6))
        soon = {
            "key": "node.kubernetes.io/unreachable",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 2,
        }
        await api.create(PODS, a_pod("p", task="work", nodeName="base-0", tolerations=[soon]))
        await simulated_pods.in_phase(api, f"{PODS}/p", "Running")
        await cause(home, "node-lost", "base-0")
        (record,) = await simulated_pods.recorded(home, "default", 1)
        assert ("NodeLost", 137) == (record.reason, record.exit_code)

        async def evicted() -> bool:
            return "deletionTimestamp" in (await api.get(f"{PODS}/p"))["metadata"]

        await polls.until(evicted, within_s=120)
        taints = (await api.get("/api/v1/nodes/base-0"))["spec"]["taints"]
        assert "node.kubernetes.io/unreachable" in [taint["key"] for taint in taints]
        assert "Running" == (await api.get(f"{PODS}/p"))["status"]["phase"]
        await asyncio.to_thread(faults.restart, home, "kubelet")
        assert await evicted()
        await cause(home, "node-ready", "base-0")

        async def gone_and_ready() -> bool:
            items = (await api.get(PODS))["items"]
            node = await api.get("/api/v1/nodes/base-0")
            return not items and not node["spec"].get("taints")

        await polls.until(gone_and_ready, within_s=60)
        await api.create(PODS, a_pod("q", nodeName="base-0"))
        await simulated_pods.in_phase(api, f"{PODS}/q", "Succeeded")
    ends = [(one.name, one.reason) for one in simulated_pods.records(home, "default")]
    assert [("p", "NodeLost"), ("q", "Completed")] == ends


async def test_a_pod_that_came_and_went_without_a_kubelet_is_recorded(make_lab: LabMaker) -> None:
    """No list names it afterwards; the API server's history does."""
    home = make_lab("absent", speed=60.0, without=("workflow-controller", "processnode"))
    async with apis.Api(home.kubeconfig) as api:
        await manifests.accounts_exist(api, ["default"])
        await api.create(PODS, a_pod("before", nodeName="base-0"))
        await simulated_pods.recorded(home, "default", 1)
        await asyncio.to_thread(supervisors.send, home, "stop", "kubelet")
        for name in ("gone", "stays"):
            await api.create(PODS, a_pod(name, nodeName="base-0"))
        await api.delete(f"{PODS}/gone", params={"gracePeriodSeconds": "0"})
        await asyncio.to_thread(supervisors.send, home, "start", "kubelet")
        await simulated_pods.recorded(home, "default", 3)
    ends = {(one.name, one.reason) for one in simulated_pods.records(home, "default")}
    assert {("before", "Completed"), ("gone", "Deleted"), ("stays", "Completed")} == ends


async def test_an_unready_node_gets_no_new_pods_until_it_is_ready(make_lab: LabMaker) -> None:
    """The scheduler leaves it out; what runs there goes on."""
    home = make_lab("unready", speed=60.0, without=("workflow-controller", "processnode"))
    async with apis.Api(home.kubeconfig) as api:
        await manifests.accounts_exist(api, ["default"])
        chosen = {"kubernetes.io/hostname": "base-0"}
        simulated_pods.tell(home, "unready", a_truth("default", "old", cpu_s=300.0))
        await api.create(PODS, a_pod("old", task="work", nodeSelector=chosen))
        await simulated_pods.in_phase(api, f"{PODS}/old", "Running")
        await cause(home, "not-ready", "base-0")

        async def tainted() -> bool:
            node = await api.get("/api/v1/nodes/base-0")
            return bool(node["spec"].get("taints"))

        await polls.until(tainted, within_s=30)
        await api.create(PODS, a_pod("new", nodeSelector=chosen))
        await simulated_pods.in_phase(api, f"{PODS}/old", "Succeeded")
        assert "Pending" == (await api.get(f"{PODS}/new"))["status"]["phase"]
        await cause(home, "node-ready", "base-0")
        await simulated_pods.in_phase(api, f"{PODS}/new", "Succeeded")


async def test_a_slow_disk_and_a_broken_link_slow_what_uses_them(make_lab: LabMaker) -> None:
    """IOPS fall in mid-run; a PCIe link that is down lets its task hang until it is back."""
    home = make_lab(
        "slow", speed=60.0, cluster="gpu", without=("workflow-controller", "processnode")
    )
    async with apis.Api(home.kubeconfig) as api:
        await manifests.accounts_exist(api, ["default"])
        reads = {"cpu_s": 1.0, "written_bytes": 1e9, "disk_ops": 30_000.0}
        talks = {"cpu_s": 1.0, "gpu_s": 10.0, "sibling_bytes": 50e9}
        simulated_pods.tell(
            home,
            "slow",
            *(a_truth("default", name, **reads) for name in ("before", "after")),
            *(a_truth("default", name, **talks) for name in ("whole", "broken")),
        )

        async def duration_s(name: str, node: str, **container: object) -> float:
            pod = a_pod(name, task="work", container=a_container(**container), nodeName=node)
            await api.create(PODS, pod)
            await simulated_pods.in_phase(api, f"{PODS}/{name}", "Succeeded", within_s=120)
            record = simulated_pods.records(home, "default")[-1]
            assert record.started_at is not None
            return (record.ended_at - record.started_at) * 60.0

        before_s = await duration_s("before", "cpu-0")
        await cause(home, "slow-disk", "cpu-0", iops=300.0)
        after_s = await duration_s("after", "cpu-0")
        # 30,000 operations at 300 a second.
        assert before_s < 60 < 95 < after_s

        gpus = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
        whole_s = await duration_s("whole", "p100-0", **gpus)
        await cause(home, "pcie-link-down", "p100-0")
        hanging = asyncio.create_task(duration_s("broken", "p100-0", **gpus))
        await asyncio.sleep(whole_s / 60.0 + 8.0)
        assert not hanging.done()
        await cause(home, "link-up", "p100-0")
        assert await hanging > whole_s + 200


async def test_the_command_line_says_what_is_wrong(lab: homes.Home, lab_command: list[str]) -> None:
    """Unknown nodes, GPUs that are not there: one sentence and an exit code."""
    for words, expected in (
        (
            ["node-lost", "nope"],
            "no node 'nope': this lab simulates old-0, base-0, fast-0, turbo-0",
        ),
        (["pcie-link-down", "base-0"], "no PCIe root complex 0 with GPUs: it has no GPUs at all"),
        (["slow-disk", "base-0"], "needs a bandwidth"),
        (["restart", "nope"], "no component 'nope'"),
    ):
        process = await asyncio.create_subprocess_exec(
            *(lab_command or [sys.executable, "-m", "lab"]),
            *("fault", *words, "--name", lab.name),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        assert 2 == process.returncode
        assert expected in said.decode()
        assert "Traceback" not in said.decode()
