"""The whole kubelet against a fake API server: lists, watches, restarts, faults."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from lab import errors, journals
from lab.kubelet import controls, memories, nodes
from tests.unit.kubelet.builders import (
    Running,
    a_clock,
    a_kubelet,
    a_pod,
    a_truth,
    an_argo_pod,
    deleted,
    until,
)
from tests.unit.kubelet.conducts import Steady


def is_running(kubelet: Running) -> bool:
    """Whether a pod was reported as running."""
    return "Running" in [
        body.get("status", {}).get("phase")
        for _, path, body in kubelet.api.written
        if "pods" in path
    ]


def node_writes(kubelet: Running, name: str) -> list[str]:
    """What was written about one node: verbs, in order."""
    return [
        verb
        for verb, path, _ in kubelet.api.written
        if path.endswith((f"/{name}", f"/{name}/status"))
    ]


async def test_nodes_are_registered_reported_and_leased(tmp_path: Path) -> None:
    """One create, one status, one lease each."""
    async with a_kubelet(tmp_path) as kubelet:
        await until(lambda: len(kubelet.api.written) >= 6)
        created = [
            body["metadata"]["name"] for verb, _, body in kubelet.api.written if verb == "POST"
        ]
        assert ["g-0", "g-1"] == sorted(created)
        assert ["PATCH", "APPLY"] == node_writes(kubelet, "g-0")


async def test_pods_of_other_nodes_are_none_of_its_business(tmp_path: Path) -> None:
    """Another kubelet's pod is left alone."""
    async with a_kubelet(tmp_path) as kubelet:
        kubelet.api.listed(a_pod(node="process-0"), own := a_pod())
        await until(kubelet.records)
        assert [own["metadata"]["uid"]] == [record.uid for record in kubelet.records()]


async def test_a_pod_is_taken_on_once_however_often_it_is_heard_of(tmp_path: Path) -> None:
    """ADDED, MODIFIED, a second list: one life, one record."""
    async with a_kubelet(tmp_path) as kubelet:
        item = a_pod()
        kubelet.api.listed(item)
        kubelet.api.hear("MODIFIED", item)
        kubelet.api.listed(item)
        await until(kubelet.records)
        await asyncio.sleep(0.02)
        assert 1 == len(kubelet.records())


async def test_what_a_new_list_does_not_name_is_over(tmp_path: Path) -> None:
    """The watch was cut, and the pod was deleted by force meanwhile."""
    async with a_kubelet(tmp_path, behaviour=Steady) as kubelet:
        kubelet.api.listed(a_pod())
        await until(lambda: is_running(kubelet))
        kubelet.api.listed()
        await until(kubelet.records)
        assert ["Deleted"] == [record.reason for record in kubelet.records()]


async def test_a_deletion_that_came_before_the_end_is_confirmed_after_it(tmp_path: Path) -> None:
    """Also for a pod that had ended before this kubelet began."""
    async with a_kubelet(tmp_path) as kubelet:
        item = deleted(a_pod())
        item["status"]["phase"] = "Succeeded"
        kubelet.api.listed(item)
        await until(lambda: kubelet.api.deletions)
        kubelet.api.hear("MODIFIED", item)
        await asyncio.sleep(0.01)
        assert 1 == len(kubelet.api.deletions)
        assert ["Completed"] == [record.reason for record in kubelet.records()]


async def test_a_deletion_without_grace_needs_no_kubelet(tmp_path: Path) -> None:
    """The API server removes pods that had ended by itself; a call more would find nothing."""
    async with a_kubelet(tmp_path) as kubelet:
        item = deleted(a_pod())
        item["metadata"]["deletionGracePeriodSeconds"] = 0
        item["status"]["phase"] = "Succeeded"
        kubelet.api.listed(item)
        await asyncio.sleep(0.02)
        assert [] == kubelet.api.deletions


async def test_little_is_kept_of_pods_that_are_over(tmp_path: Path) -> None:
    """Neither spec nor behaviour, of which there may be thousands."""
    async with a_kubelet(tmp_path) as kubelet:
        kubelet.api.listed(a_pod("p"))
        await until(kubelet.records)
        (known,) = kubelet.kubelet.known.values()
        assert known.life is not None
        await known.life.task
        assert {"metadata", "status"} == known.life.item.keys() == known.item.keys()


@pytest.mark.parametrize("orderly", [True, False])
async def test_a_restarted_kubelet_ends_each_pod_once(tmp_path: Path, orderly: bool) -> None:
    """Tasks compute on over the restart: as much work in all as without it."""
    clock = a_clock(100.0)
    truth = a_truth("a", cpu_s=150.0)
    item = an_argo_pod("a")
    async with a_kubelet(tmp_path, clock=clock, known=(truth,), orderly=orderly) as kubelet:
        kubelet.api.listed(item)
        await until(lambda: is_running(kubelet))
        if not orderly:
            await asyncio.sleep(0.1)
            await kubelet.kubelet.save()
        status = [b["status"] for _, path, b in kubelet.api.written if path.endswith("status")][-1]
    item["status"] = status
    async with a_kubelet(tmp_path, clock=clock, known=(truth,)) as kubelet:
        kubelet.api.listed(item)
        await until(kubelet.records)
        assert ["Completed"] == [record.reason for record in kubelet.records()]
    (record,) = kubelet.records()
    async with a_kubelet(tmp_path / "undisturbed", clock=clock, known=(truth,)) as other:
        other.api.listed(an_argo_pod("a"))
        await until(other.records)
    (undisturbed,) = other.records()
    assert undisturbed.cpu_s == pytest.approx(record.cpu_s)
    assert record.started_at is not None
    # Alone on its core: it took what it computed, the restart included.
    took_s = (record.ended_at - record.started_at) * clock.speed
    assert record.cpu_s == pytest.approx(took_s, abs=1.0)


async def test_a_pod_that_vanished_during_a_restart_is_recorded(tmp_path: Path) -> None:
    """It was running, and the list of the next kubelet does not have it."""
    clock = a_clock()
    async with a_kubelet(tmp_path, clock=clock, behaviour=Steady) as kubelet:
        kubelet.api.listed(a_pod())
        await until(lambda: is_running(kubelet))
    async with a_kubelet(tmp_path, clock=clock) as kubelet:
        kubelet.api.listed()
        await until(kubelet.records)
        assert ["Deleted"] == [record.reason for record in kubelet.records()]


async def test_a_pod_that_came_and_went_during_a_restart_is_recorded(tmp_path: Path) -> None:
    """No list has it, but the history of changes; what was deleted later is the watch's matter."""
    clock = a_clock()
    async with a_kubelet(tmp_path, clock=clock) as kubelet:
        kubelet.api.listed()
        await asyncio.sleep(0.01)
    late = a_pod("late")
    late["metadata"]["resourceVersion"] = "7"
    gone = (a_pod("gone"), a_pod("elsewhere", node="process-0"), late)
    async with a_kubelet(tmp_path, clock=clock) as kubelet:
        kubelet.api.history = [{"type": "DELETED", "object": item} for item in gone]
        kubelet.api.listed()
        await until(kubelet.records)
        await asyncio.sleep(0.01)
        assert [("gone", "Deleted")] == [(r.name, r.reason) for r in kubelet.records()]


async def test_a_history_that_is_forgotten_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The API server keeps some minutes of it."""
    clock = a_clock()
    async with a_kubelet(tmp_path, clock=clock) as kubelet:
        kubelet.api.listed()
        await asyncio.sleep(0.01)
    async with a_kubelet(tmp_path, clock=clock) as kubelet:
        kubelet.api.history = [{"type": "ERROR", "object": {"code": 410}}]
        kubelet.api.listed()
        await until(lambda: "which pods came and went" in caplog.text)


async def test_an_end_that_others_wrote_is_recorded_once(tmp_path: Path) -> None:
    """A node's pods are failed by the control plane while its kubelet is away."""
    item = a_pod()
    item["status"] |= {"phase": "Failed", "reason": "NodeLost"}
    for _ in range(2):
        async with a_kubelet(tmp_path) as kubelet:
            kubelet.api.listed(item)
            await until(kubelet.records)
            await asyncio.sleep(0.01)
    assert [("NodeLost", 1)] == [(r.reason, r.exit_code) for r in kubelet.records()]


async def test_a_checkpoint_of_another_format_is_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Pods begin anew, and the log says so."""
    for content in (b"{", b'{"format": 99}', b'{"format": 1, "engine": "AAAA"}'):
        path = tmp_path / "kubelet.json"
        path.write_bytes(content)
        assert memories.engine(memories.read(path)) is None
    assert 3 == len(caplog.records)


async def test_a_lost_node_stays_lost_over_a_restart(tmp_path: Path) -> None:
    """Faults are remembered; pods of the lost node do not run on."""
    clock = a_clock()
    item = a_pod()
    async with a_kubelet(tmp_path, clock=clock, behaviour=Steady) as kubelet:
        kubelet.api.listed(item)
        await until(lambda: is_running(kubelet))
        await kubelet.kubelet.obey(controls.Command(fault="node-lost", node="g-0"))
        await until(kubelet.records)
    item["status"]["phase"] = "Running"
    async with a_kubelet(tmp_path, clock=clock, behaviour=Steady) as kubelet:
        kubelet.api.listed(item)
        await asyncio.sleep(0.05)
        assert not any("g-0" in path for verb, path, _ in kubelet.api.written if verb != "POST")
        await kubelet.kubelet.obey(controls.Command(fault="node-ready", node="g-0"))
        await until(lambda: any(path.endswith("g-0/status") for _, path, _ in kubelet.api.written))
        await until(lambda: "Failed" in kubelet.api.phases_of_pods())
    assert ["NodeLost"] == [record.reason for record in kubelet.records()]


async def test_an_unready_node_says_so_and_its_pods_run_on(tmp_path: Path) -> None:
    """Ready is False with a reason; then True again."""
    async with a_kubelet(tmp_path, behaviour=Steady) as kubelet:
        kubelet.api.listed(a_pod())
        await until(lambda: is_running(kubelet))
        machine = kubelet.kubelet.machines["g-0"]
        await kubelet.kubelet.obey(controls.Command(fault="not-ready", node="g-0"))
        assert not machine.conditions[nodes.READY].status
        assert "container runtime is down" in str(kubelet.api.written[-2])
        await kubelet.kubelet.obey(controls.Command(fault="node-ready", node="g-0"))
        assert machine.conditions[nodes.READY].status
        assert [] == kubelet.records()


async def test_a_slow_disk_slows_what_reads_from_it(tmp_path: Path) -> None:
    """From 30,000 to 2,000 IOPS in mid-run: what is left then takes 15 times as long."""
    ops = 900_000.0
    clock = a_clock(100.0)
    known = (a_truth("a", cpu_s=0.0, disk_ops=ops),)
    async with a_kubelet(tmp_path, clock=clock, known=known) as kubelet:
        kubelet.api.listed(an_argo_pod("a"))
        await until(lambda: is_running(kubelet))
        await asyncio.sleep(0.1)
        fell_at = clock.wall()
        await kubelet.kubelet.obey(controls.Command(fault="slow-disk", node="g-0", iops=2000.0))
        await until(kubelet.records)
    (record,) = kubelet.records()
    assert record.started_at is not None
    before_s = (fell_at - record.started_at) * clock.speed
    after_s = (record.ended_at - fell_at) * clock.speed
    assert 10.0 == pytest.approx(before_s, abs=1.0)
    assert (ops - 30_000 * before_s) / 2000 == pytest.approx(after_s, abs=0.1)
    assert '"fault":"slow-disk","node":"g-0"' in kubelet.journal.read_text()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (controls.Command(fault="earthquake", node="g-0"), "no fault 'earthquake'"),
        (controls.Command(fault="node-lost", node="x"), "no node 'x': this lab simulates g-0, g-1"),
        (controls.Command(fault="slow-disk", node="g-0"), "needs a bandwidth"),
        (controls.Command(fault="pcie-link-down", node="g-0"), "it has no GPUs at all"),
    ],
)
async def test_a_fault_that_cannot_be_is_refused(
    tmp_path: Path, command: controls.Command, words: str
) -> None:
    """One sentence that says what there is."""
    async with a_kubelet(tmp_path) as kubelet:
        with pytest.raises(errors.UsageError, match=words):
            await kubelet.kubelet.obey(command)


async def test_a_restart_by_command_comes_after_the_answer(tmp_path: Path) -> None:
    """The process begins anew once the caller knows."""
    async with a_kubelet(tmp_path) as kubelet:
        await kubelet.kubelet.obey(controls.Command(fault="restart"))
        assert [] == kubelet.restarts
        await until(lambda: kubelet.restarts)


async def test_samples_are_written_while_something_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One a node and second, with what is requested and used."""
    monkeypatch.setattr("lab.kubelet.settings.SAMPLE_PERIOD_S", 0.05)
    truth = a_truth("a", cpu_s=1e6)
    async with a_kubelet(tmp_path, clock=a_clock(10_000.0), known=(truth,)) as kubelet:
        kubelet.api.listed(an_argo_pod("a"))
        await until(lambda: '"cpu_used":1.0' in kubelet.journal.read_text())
    decoder = msgspec.json.Decoder(journals.Record)
    lines = [decoder.decode(line) for line in kubelet.journal.read_bytes().splitlines()]
    busy = [s for s in lines if isinstance(s, journals.NodeSample) and s.node == "g-0"][-1]
    assert (1.0, 1.0, float(2**30), 1) == (
        busy.cpu_used,
        busy.cpu_requested,
        busy.memory_requested_bytes,
        busy.pods,
    )


async def test_kill_by_exec_reaches_the_pod(tmp_path: Path) -> None:
    """Only in a container that there is; other commands find no program."""
    async with a_kubelet(tmp_path, behaviour=Steady) as kubelet:
        item = a_pod("p")
        kubelet.api.listed(item)
        await until(lambda: is_running(kubelet))
        execute = kubelet.kubelet.execute
        assert execute("default", "p", "nope", command=["kill", "-9", "1"]) is None
        found = execute("default", "p", "main", command=["ls"])
        assert found is not None
        assert 126 == found.exit_code
        execute("default", "p", "main", command=["kill", "-0", "1"])
        assert [] == kubelet.records()
        execute("default", "p", "main", command=["kill", "-9", "1"])
        await until(kubelet.records)
        assert [137] == [record.exit_code for record in kubelet.records()]


async def test_pods_are_observed_with_what_they_use(tmp_path: Path) -> None:
    """Running ones by the physics; one that ended earlier by its status."""
    truth = a_truth("a", cpu_s=1e5, memory_curve=((0.0, 2e8), (1.0, 2e8)))
    old = a_pod("old")
    old["status"] = {"phase": "Failed", "reason": "Evicted"}
    async with a_kubelet(tmp_path, clock=a_clock(500.0), known=(truth,)) as kubelet:
        kubelet.api.listed(an_argo_pod("a", name="new"), old)
        await until(lambda: is_running(kubelet))
        await asyncio.sleep(0.02)
        found = {one.pod.name: one for one in kubelet.kubelet.observe_pods()}
        assert 2e8 == found["new"].working_set_bytes
        assert found["new"].usage.cpu_core_s > 0
        assert ("Failed", "Evicted") == (found["old"].view.phase, found["old"].view.reason)
        node = kubelet.kubelet.observe_nodes()["g-0"]
        assert node.usage.cpu_core_s >= found["new"].usage.cpu_core_s
        assert 2.0 == kubelet.kubelet.counts()["pods_known"]
