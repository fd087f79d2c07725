"""What Prometheus reads: names and labels of a real cluster, rates that are the true ones.

Over 400 lines, since all exporters are read from one world.
"""

import asyncio
import contextlib
import dataclasses
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest
import yaml
from prometheus_client import parser

from lab import catalogs, homes
from lab.kubelet import computations, meters, nodes, pods, settings, statuses
from lab.kubelet.exporters import (
    cadvisors,
    kube_states,
    node_exporters,
    observations,
    pages,
    scrapes,
    servers,
)
from tests import programs
from tests.unit.kubelet.builders import a_clock, a_cluster, a_container, a_group, a_pod
from tiphys.models.physics import engines

PATHS = ("/metrics/cadvisor?node=g-0", "/metrics/node?node=g-0", "/metrics/state", "/metrics")
PROMTOOL = programs.find("promtool")
needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool, which comes with Prometheus: `.ci/setup debian`"
)
USAGE = computations.Usage(
    cpu_core_s=600.0,
    disk_read_bytes=3e9,
    disk_written_bytes=1e9,
    disk_ops=4000.0,
    net_bytes=2e9,
    memory_peak_bytes=5e8,
    memory_current_peak_bytes=7e8,
)


def a_node(**changes: object) -> observations.Node:
    """A node with 600 of 10,000 x 8 core-seconds used."""
    facts: dict[str, object] = {
        "place": nodes.places(a_cluster(a_group(labels={"team.example/name": "a"})))[0],
        "conditions": nodes.healthy(0.0),
        "reachable": True,
        "usage": USAGE,
        "meter": meters.Meter(io_time_s=50.0, iowait_core_s=40.0, oom_kills=2),
        "working_set_bytes": 4e8,
        "cache_bytes": 1e9,
        "up_s": 10_000.0,
        "booted_at": 1.8e9,
        **changes,
    }
    return observations.Node(**facts)  # type: ignore[arg-type]


def a_member(*, phase: str = "Running") -> observations.Pod:
    """A pod with a main container and a helper."""
    limited = {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    item = a_pod("p", containers=[a_container(resources=limited), a_container("wait")])
    view = statuses.view(pods.read(item), seen_at=1.8e9)
    view.phase, view.address = phase, "10.128.0.2"
    for run in view.runs:
        run.start(1.8e9 + 3, ready=True)
        if phase == "Failed":
            run.stop(statuses.KILLED, 1.8e9 + 9)
    return observations.Pod(
        pod=pods.read(item),
        view=view,
        usage=USAGE,
        working_set_bytes=4e8,
        cache_bytes=1e8,
        running=phase == "Running",
    )


def samples(page: pages.Page) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Parse a page as Prometheus would; samples by name."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(page.text().decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


Samples = dict[str, list[tuple[dict[str, str], float]]]


def cadvisor(*members: observations.Pod, speed: float = 60.0) -> Samples:
    """One node's cAdvisor page."""
    page = pages.Page()
    cadvisors.write(page, a_node(), members, speed=speed, at=1.8e9)
    return samples(page)


def test_containers_have_the_series_that_queries_on_real_clusters_use() -> None:
    """The main container's own series, the pod's with an empty container label, the node's root."""
    found = cadvisor(a_member())
    labelled = {
        (labels["namespace"], labels["pod"], labels["container"]): value
        for labels, value in found["container_cpu_usage_seconds_total"]
    }
    assert {("default", "p", "main"), ("default", "p", ""), ("", "", "")} == labelled.keys()
    for name in (
        "container_memory_working_set_bytes",
        "container_memory_rss",
        "container_memory_cache",
        "container_memory_max_usage_bytes",
        "container_fs_reads_bytes_total",
        "container_fs_writes_bytes_total",
        "container_network_receive_bytes_total",
        "container_network_transmit_bytes_total",
        "container_oom_events_total",
        "container_start_time_seconds",
        "container_spec_memory_limit_bytes",
        "container_spec_cpu_shares",
        "container_spec_cpu_quota",
    ):
        assert name in found


def test_counters_grow_by_wall_time_and_gauges_are_amounts() -> None:
    """At speed 60, 600 core-seconds count as 10; bytes in memory stay bytes."""
    found = cadvisor(a_member())
    assert {10.0} == {value for _, value in found["container_cpu_usage_seconds_total"]}
    assert {5e7} == {value for _, value in found["container_fs_reads_bytes_total"]}
    peaks = {value for labels, value in found["container_memory_max_usage_bytes"]}
    assert {7e8} == peaks


def test_an_ended_pod_has_no_container_series() -> None:
    """Its cgroup is gone; kube-state-metrics still knows it."""
    found = cadvisor(a_member(phase="Failed"))
    assert [""] == [labels["pod"] for labels, _ in found["container_cpu_usage_seconds_total"]]


def test_the_cpu_modes_of_a_node_fill_its_cores() -> None:
    """user + system + iowait + idle = cores x uptime, scaled to wall time."""
    page = pages.Page()
    node_exporters.write(page, a_node(), speed=10.0)
    found = samples(page)
    total = sum(value for _, value in found["node_cpu_seconds_total"])
    assert 8 * 10_000.0 / 10 == pytest.approx(total)
    busy = [
        v for labels, v in found["node_cpu_seconds_total"] if labels["mode"] in ("user", "system")
    ]
    assert 60.0 == pytest.approx(sum(busy))


def test_a_node_exports_disk_memory_network_and_pressure() -> None:
    """Each under node-exporter's name."""
    page = pages.Page()
    node_exporters.write(page, a_node(), speed=10.0)
    found = samples(page)
    assert [({"device": "sda"}, 5.0)] == found["node_disk_io_time_seconds_total"]
    assert [({}, 2.0)] == found["node_vmstat_oom_kill"]
    available = 16e9 - 1465 * 2**20 - 4e8
    assert [({}, available)] == found["node_memory_MemAvailable_bytes"]
    for name in (
        "node_load1",
        "node_memory_MemTotal_bytes",
        "node_memory_Cached_bytes",
        "node_disk_read_bytes_total",
        "node_disk_reads_completed_total",
        "node_disk_read_time_seconds_total",
        "node_network_receive_bytes_total",
        "node_pressure_cpu_waiting_seconds_total",
        "node_pressure_io_stalled_seconds_total",
        "node_pressure_memory_waiting_seconds_total",
    ):
        assert name in found


def test_kube_state_metrics_tell_requests_phases_and_ends() -> None:
    """Requests and limits by resource, one phase that holds, the reason of an end."""
    page = pages.Page()
    kube_states.write(page, [a_node()], [a_member(phase="Failed")])
    found = samples(page)
    requests = {
        (labels["container"], labels["resource"]): value
        for labels, value in found["kube_pod_container_resource_requests"]
    }
    assert (0.5, 2**30) == (requests["main", "cpu"], requests["main", "memory"])
    holds = [labels["phase"] for labels, value in found["kube_pod_status_phase"] if value]
    assert ["Failed"] == holds
    reasons = {
        labels["reason"] for labels, _ in found["kube_pod_container_status_terminated_reason"]
    }
    assert {"Error"} == reasons
    (labels, _), *_ = found["kube_node_labels"]
    assert ("a", "rack-a") == (
        labels["label_team_example_name"],
        labels["label_topology_kubernetes_io_rack"],
    )
    allocatable = {labels["resource"] for labels, _ in found["kube_node_status_allocatable"]}
    assert {"cpu", "memory", "ephemeral_storage", "pods"} == allocatable
    nodes_of = {labels["node"] for labels, _ in found["kube_pod_container_resource_requests"]}
    assert {"g-0"} == nodes_of
    assert "kube_pod_info" in found
    assert "kube_pod_start_time" in found


def test_kube_state_metrics_tell_what_waits_and_what_runs() -> None:
    """A pod in back-off is not ready and says why; a running one has its container's id."""
    waiting = a_member()
    waiting.view.backing_off = True
    for run in waiting.view.runs:
        run.stop(statuses.KILLED, 1.8e9 + 9)
    page = pages.Page()
    kube_states.write(page, [], [waiting])
    found = samples(page)
    assert {"CrashLoopBackOff"} == {
        labels["reason"] for labels, _ in found["kube_pod_container_status_waiting_reason"]
    }
    assert {0.0} == {value for _, value in found["kube_pod_container_status_terminated"]}
    assert ["false"] == [labels["condition"] for labels, v in found["kube_pod_status_ready"] if v]
    page = pages.Page()
    kube_states.write(page, [], [member := a_member()])
    found = samples(page)
    assert ["true"] == [labels["condition"] for labels, v in found["kube_pod_status_ready"] if v]
    main = member.view.runs[0]
    ids = {
        labels["container"]: labels["container_id"]
        for labels, _ in found["kube_pod_container_info"]
    }
    assert f"simulated://{statuses.container_id(member.pod, main)}" == ids["main"]
    assert {int(1.8e9) + 3} == {value for _, value in found["kube_pod_container_state_started"]}


def test_a_node_that_is_not_heard_of_is_unknown() -> None:
    """As the API server says of it."""
    page = pages.Page()
    kube_states.write(page, [a_node(reachable=False)], [])
    holds = {
        labels["condition"]: labels["status"]
        for labels, value in samples(page)["kube_node_status_condition"]
        if value
    }
    assert "unknown" == holds["Ready"]


@pytest.mark.parametrize(
    ("quality", "cgroup"),
    [
        ("Guaranteed", "/kubepods.slice/kubepods-pod{uid}.slice"),
        ("Burstable", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"),
        (
            "BestEffort",
            "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid}.slice",
        ),
    ],
)
def test_a_pods_cgroup_lies_where_its_quality_of_service_puts_it(quality: str, cgroup: str) -> None:
    """As systemd names it."""
    member = a_member()
    member = dataclasses.replace(member, pod=dataclasses.replace(member.pod, qos=quality))
    found = cadvisor(member)
    ids = {labels["container"]: labels["id"] for labels, _ in found["container_memory_rss"]}
    whole = cgroup.format(uid=member.pod.uid.replace("-", "_"))
    pods_own = [
        labels["id"]
        for labels, _ in found["container_memory_rss"]
        if labels["pod"] and not labels["container"]
    ]
    assert [whole] == pods_own
    assert ids["main"].startswith(f"{whole}/cri-containerd-")


def test_a_node_under_load_meters_what_the_physics_has_no_integral_of() -> None:
    """Disk half busy by two tasks that wait 30 % for it, for 100 s."""
    node = engines.NodeReading(
        node="n",
        tasks=2,
        cpu_cores=1.0,
        memory_working_set_bytes=0.0,
        page_cache_bytes=0.0,
        memory_pressure=0.0,
        disk_bytes_per_s=1e8,
        disk_ops_per_s=1000.0,
        disk_busy=0.5,
        disk_burst_left_bytes=0.0,
        net_bytes_per_s=0.0,
    )
    task = engines.Reading(
        key="k",
        node="n",
        usage=engines.Usage(
            progress=0.5,
            cpu_core_s=0.0,
            disk_read_bytes=0.0,
            disk_written_bytes=0.0,
            disk_ops=0.0,
            net_bytes=0.0,
            gpu_s=0.0,
            memory_byte_s=0.0,
            memory_peak_bytes=0.0,
            memory_current_peak_bytes=0.0,
        ),
        memory_working_set_bytes=0.0,
        memory_current_bytes=0.0,
        cpu_cores=0.5,
        cpu_share=0.7,
        cpu_wait_share=0.1,
        disk_share=0.3,
        memory_slowdown=1.0,
        rate_per_s=0.01,
    )
    meter = meters.Meter()
    meter.advance(100.0, node, [task, task], cores=8.0, kind="ssd", read_share=0.25)
    assert 50.0 == meter.io_time_s
    assert 1000 * 100 * 0.0005 * 2 == pytest.approx(meter.read_time_s + meter.write_time_s)
    assert 60.0 == pytest.approx(meter.iowait_core_s)
    assert 51.0 == pytest.approx(meter.io_waiting_s)
    assert 9.0 == pytest.approx(meter.io_stalled_s)
    assert 19.0 == pytest.approx(meter.cpu_waiting_s)
    assert 1.8 * (1 - 2.718281828 ** (-100 / 60)) == pytest.approx(meter.loads[0])


class FakeSource:
    """A source with one node that answers and one that is lost."""

    def __init__(self, folder: Path) -> None:
        home = homes.Home(name="test", root=folder)
        home.data.mkdir(parents=True)
        self.settings = settings.Settings(
            home=home,
            kubeconfig=folder,
            cluster=a_cluster(),
            clock=a_clock(60.0),
            version="v1.36.3",
        )

    def observe_nodes(self) -> dict[str, observations.Node]:
        """Two nodes."""
        return {"g-0": a_node(), "g-1": a_node(reachable=False)}

    def observe_pods(self, *, node: str | None = None) -> list[observations.Pod]:
        """One pod."""
        return [a_member()]

    def counts(self) -> dict[str, float]:
        """One figure."""
        return {"api_retries": 3.0}


@contextlib.asynccontextmanager
async def answering(folder: Path) -> AsyncIterator[Callable[[str], Awaitable[tuple[int, str]]]]:
    """Serve the pages of two nodes, one of them lost; yields what reads a page: status, text."""
    source = FakeSource(folder)
    runner = await servers.serve(source)
    try:
        url = yaml.safe_load(source.settings.endpoints.read_text())["url"]
        async with aiohttp.ClientSession(base_url=url) as session:

            async def get(path: str) -> tuple[int, str]:
                async with session.get(path) as response:
                    return response.status, await response.text()

            yield get
    finally:
        await runner.cleanup()


async def test_the_endpoint_answers_by_node_and_a_lost_one_does_not(tmp_path: Path) -> None:
    """200 for pages, 404 for an unknown node, 503 for a lost one."""
    async with answering(tmp_path) as get:
        assert {200} == {(await get(path))[0] for path in PATHS}
        assert 404 == (await get("/metrics/node?node=x"))[0]
        assert 503 == (await get("/metrics/cadvisor?node=g-1"))[0]
        assert "tiphys_lab_speed 60.0" in (await get("/metrics"))[1]


@needs_promtool
async def test_prometheus_own_tool_finds_nothing_wrong_with_the_pages(tmp_path: Path) -> None:
    """It also lints: MemTotal and the like are no snake_case, in the real node-exporter neither."""
    async with answering(tmp_path) as get:
        for path in PATHS:
            _, text = await get(path)
            assert [] == await asyncio.to_thread(complaints, text), path


def complaints(text: str) -> list[str]:
    """Return what promtool says of a page."""
    assert PROMTOOL is not None
    done = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )
    return [line for line in (done.stdout + done.stderr).splitlines() if "snake_case" not in line]


def test_the_prometheus_configuration_names_every_node() -> None:
    """Targets are node names; relabelling sends them all to one port."""
    text = scrapes.config(port=1234, nodes=["a-0", "a-1"])
    jobs = {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}
    assert {"kubelet", "node-exporter", "kube-state-metrics", "tiphys-lab"} == jobs.keys()
    assert ["a-0", "a-1"] == jobs["kubelet"]["static_configs"][0]["targets"]


@needs_promtool
def test_the_prometheus_configuration_is_one(tmp_path: Path) -> None:
    """As Prometheus' own tool reads it."""
    path = tmp_path / "prometheus.yml"
    path.write_text(scrapes.config(port=1234, nodes=["a-0", "a-1"]))
    assert PROMTOOL is not None
    subprocess.run([PROMTOOL, "check", "config", path], check=True, capture_output=True)


def test_gpu_groups_export_their_gpus() -> None:
    """nvidia_com_gpu, as kube-state-metrics spells it."""
    gpus = catalogs.Gpus(model="T4", roots=(1, 1), gpu_memory=16 * 2**30)
    page = pages.Page()
    place = nodes.places(a_cluster(a_group(gpus=gpus)))[0]
    kube_states.write(page, [a_node(place=place)], [])
    found = samples(page)["kube_node_status_allocatable"]
    assert 2.0 in [value for labels, value in found if labels["resource"] == "nvidia_com_gpu"]
