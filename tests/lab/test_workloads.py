"""Workloads on the real control plane: every pod accounted for, one seed one run, GATK killed."""

import asyncio
import collections
import os
import signal
import subprocess
import sys
import time

import msgspec
import pytest

from lab import apis, homes, journals, truths
from lab.reports import sources
from lab.workloads import manifests, mixes, packs, runs, submissions
from tests.lab import polls
from tests.unit.workloads import tellings

SAMPLE = ("--data", str(packs.SAMPLE))
Edge = tuple[str, str]
"""Two nodes of Argo without the workflow's name: who came first, who after."""
pytestmark = pytest.mark.timeout(600)


def run_mix(home: homes.Home, *arguments: str, run: str) -> runs.RunRecord:
    """Run a mix to its end as a person would; returns the record that it left."""
    ended = subprocess.run(
        [sys.executable, "-m", "lab", "run", *arguments, "--name", home.name],
        capture_output=True,
        text=True,
        timeout=560,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return runs.read(runs.path(home, run))


def pods_of(home: homes.Home, record: runs.RunRecord) -> list[journals.PodRecord]:
    """Return the kubelet's records of the run's pods."""
    names = {(item.namespace, item.name) for item in record.workflows}
    return [
        item
        for item in sources.read_journal(home.journal)
        if isinstance(item, journals.PodRecord) and (item.namespace, item.workflow) in names
    ]


def test_sixty_workflows_of_22_pods_end_with_every_pod_accounted_for(make_lab):
    """1,320 pods are created and end once each, and all workflows succeed."""
    home = make_lab("crowd", cluster="uniform", speed=60.0)
    record = run_mix(home, "uniform", "--workflows", "60", run="uniform-s1")
    assert (1320, 1320, ()) == (
        record.pods_created,
        record.pods_ended,
        record.pods_unaccounted,
    )
    assert {"Succeeded": 60} == collections.Counter(item.phase for item in record.workflows)
    assert 1320 == len({item.uid for item in pods_of(home, record)})


def test_two_runs_of_one_seed_have_the_same_dags_requests_and_work(lab):
    """The plans have one digest, and the pods ask for and do the same, task by task."""
    told = ("genomics", *SAMPLE, "--workflows", "3", "--seed", "5", "--arrivals", "at-once")
    one = run_mix(lab, *told, run="genomics-s5")
    two = run_mix(lab, *told, run="genomics-s5b")
    assert one.plans_sha256 == two.plans_sha256
    asked = [
        {
            (item.workflow.partition("-")[2], item.task, item.attempt): (
                item.requested_cpu_m,
                item.requested_memory_bytes,
                item.limit_memory_bytes,
            )
            for item in pods_of(lab, record)
        }
        for record in (one, two)
    ]
    assert asked[0] == asked[1]
    work = [
        [mixes.truth_without_name(truth) for truth in truths.read(path)]
        for path in (submissions.truths_path(lab, record.run) for record in (one, two))
    ]
    assert work[0] == work[1]
    assert asyncio.run(_dags(lab, one)) == asyncio.run(_dags(lab, two))


async def _dags(lab: homes.Home, record: runs.RunRecord) -> list[tuple[apis.Object, set[Edge]]]:
    """Return, by arrival, each Workflow's spec in the API, and which node led to which in Argo."""
    found = []
    async with apis.Api(lab.kubeconfig) as api:
        for item in record.workflows:
            path = f"{submissions.WORKFLOWS}/namespaces/{item.namespace}/workflows/{item.name}"
            workflow = await api.get(path)
            nodes = workflow["status"]["nodes"]
            names = {key: node["name"].removeprefix(item.name) for key, node in nodes.items()}
            edges = {
                (names[key], names[child])
                for key, node in nodes.items()
                for child in node.get("children") or []
            }
            found.append((workflow["spec"], edges))
    return found


def test_pods_find_their_truth_and_grow_after_an_oom_kill(lab):
    """Every pod that the sample's genomics make is known to the kubelet, also as a second try."""
    record = run_mix(lab, "genomics", *SAMPLE, "--workflows", "4", "--seed", "3", run="genomics-s3")
    known = {
        (truth.workflow, truth.task): truth
        for truth in truths.read(submissions.truths_path(lab, record.run))
    }
    pods = pods_of(lab, record)
    assert known.keys() == {(item.workflow, item.task) for item in pods}
    for item in pods:
        truth = known[item.workflow, item.task]
        assert truth.template == item.template
        peak = max(level for _, level in truth.memory_curve)
        limit = item.limit_memory_bytes or float("inf")
        assert (item.reason == "OOMKilled") == (peak > limit), item


async def test_no_api_object_ever_holds_a_truth(lab: homes.Home) -> None:
    """Every state of every object of every kind, watched from before a run to its end.

    Sizes of images are no secret: a kubelet lists them in the status of its Node.
    """
    told = ("genomics", *SAMPLE, "--workflows", "3", "--seed", "11")
    numbers: dict[str, str] = {}
    """Each number that was seen, and in which collection."""
    pods: set[str] = set()
    async with apis.Api(lab.kubeconfig, connections=200) as api, asyncio.TaskGroup() as group:
        watches = [
            group.create_task(_seen(api, path, numbers=numbers, pods=pods))
            for path in await _collections(api)
        ]
        record = await asyncio.to_thread(run_mix, lab, *told, run="genomics-s11")
        ran = {item.name for item in pods_of(lab, record)}

        async def all_seen() -> bool:
            return ran <= pods

        await polls.until(all_seen, within_s=60.0)
        for watch in watches:
            watch.cancel()
    for truth in truths.read(submissions.truths_path(lab, record.run)):
        secret = msgspec.structs.replace(truth, image_bytes=0.0)
        said = tellings.told_by_nothing_else(secret) & numbers.keys()
        assert not said, f"{truth.workflow}.{truth.task}: {[(one, numbers[one]) for one in said]}"


async def _seen(api: apis.Api, path: str, *, numbers: dict[str, str], pods: set[str]) -> None:
    """Watch a collection, and note the numbers of its objects and the names of pods."""
    async for kind, item in api.watch(path):
        if kind == "LISTED":
            continue
        text = msgspec.json.encode(item).decode()
        assert "/reference" not in text, path
        numbers.update(dict.fromkeys(tellings.numbers_in(text), path))
        if path == "/api/v1/pods":
            pods.add(item["metadata"]["name"])


async def _collections(api: apis.Api) -> list[str]:
    """Return the path of every collection that can be watched, of all groups."""
    groups = (await api.get("/apis"))["groups"]
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    return [
        f"{root}/{resource['name']}"
        for root in roots
        for resource in (await api.get(root))["resources"]
        if "watch" in resource["verbs"]
    ]


def test_gatk_is_oom_killed_on_nodes_that_look_idle(make_lab):
    """With the default scheduler and usual requests: 60 % of the cores are idle, and it is killed.

    The idle share is that of the node at its last sample before each kill.
    """
    home = make_lab("exome", cluster="genomics", speed=100.0)
    record = run_mix(home, "exome", "--workflows", "10", "--overload", "2", run="exome-s1")
    pods = pods_of(home, record)
    killed = [item for item in pods if item.reason == "OOMKilled"]
    assert {"exome/gatk"} == {item.template for item in killed}
    assert () == record.pods_unaccounted
    samples = collections.defaultdict(list)
    for item in sources.read_journal(home.journal):
        if isinstance(item, journals.NodeSample):
            samples[item.node].append(item)
    busy = [
        [sample.cpu_used for sample in samples[item.node] if sample.at <= item.ended_at][-1] / 16
        for item in killed
    ]
    assert sum(busy) / len(busy) <= 0.4
    limits = {item.limit_memory_bytes for item in killed}
    assert all(item.peak_memory_bytes < limit for item in killed for limit in limits if limit)


def test_an_interrupted_run_leaves_nothing_running(lab):
    """Ctrl-C deletes the run's workflows and pods, accounts for them, and says so."""
    told = ["uniform", "--workflows", "6", "--seed", "9", "--name", lab.name]
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "run", *told],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        path = runs.path(lab, "uniform-s9")
        until = time.monotonic() + 60
        while not path.is_file() or not all(w.submitted_at for w in runs.read(path).workflows):
            assert time.monotonic() < until
            time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert 130 == process.returncode, output
    record = runs.read(path)
    assert ("interrupted", ()) == (record.outcome, record.pods_unaccounted)
    assert ([], []) == asyncio.run(_left(lab, record))


async def _left(lab: homes.Home, record: runs.RunRecord) -> tuple[list[str], list[str]]:
    """Return the workflows and the pods of a run that still exist, by name."""
    async with apis.Api(lab.kubeconfig) as api:
        selector = {"labelSelector": f"{manifests.RUN_LABEL}={record.run}"}
        workflows = await api.get(f"{submissions.WORKFLOWS}/workflows", params=selector)
        pods = await api.get("/api/v1/pods", params={"labelSelector": submissions.POD_LABEL})
    owners = [item["metadata"]["labels"][submissions.POD_LABEL] for item in pods["items"]]
    names = {item.name for item in record.workflows}
    return (
        [item["metadata"]["name"] for item in workflows["items"]],
        [owner for owner in owners if owner in names],
    )
