"""A run from start to end against a cluster in memory, and every way in which it may not end."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab import catalogs, errors, homes, truths
from lab.cli import runs as commands
from lab.workloads import mixes, packs, plans, runs, submissions
from tests.unit.workloads.clusters_faked import Cluster

LIMIT_WALL_S = 20.0


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster in memory that submissions talk to."""
    made = Cluster(home=homes.Home(name="l", root=tmp_path))
    made.home.audit_log.touch()
    made.home.journal.touch()
    monkeypatch.setattr(submissions.apis, "Api", made.client)
    monkeypatch.setattr(submissions, "ACCOUNT_WALL_S", 0.1)
    return made


def workload() -> plans.Workload:
    """Return three workflows of one pod each as far as the cluster in memory goes."""
    return mixes.generate(
        mixes.find("uniform"),
        mixes.Wish(
            workflows=3,
            seed=1,
            pack=packs.Pack(root=packs.SAMPLE, sample=True),
            most_tasks=3,
        ),
        tag="s1",
        cluster=catalogs.load("uniform"),
    )


def a_run(cluster: Cluster, made: plans.Workload, **options: Any) -> submissions.Run:
    """Return the run, its truths and first record written."""
    record = commands.described(
        made,
        home=cluster.home,
        cluster=catalogs.load("uniform"),
        speed=60.0,
        command="",
        arrivals="at-once",
        tag="s1",
    )
    one_pod = tuple(msgspec.structs.replace(workflow, tasks=1) for workflow in record.workflows)
    record = msgspec.structs.replace(record, workflows=one_pod)
    prepared = submissions.prepared(cluster.home, made, record)
    return submissions.Run(cluster.home, made, prepared, **options)


def written(cluster: Cluster) -> runs.RunRecord:
    """Return the record on disk."""
    return runs.read(runs.path(cluster.home, "uniform-s1"))


async def test_a_run_ends_when_all_have_ended(cluster: Cluster) -> None:
    """Every workflow has its phase and times, every pod is counted, the record is on disk."""
    ended = await a_run(cluster, workload()).complete(limit_wall_s=LIMIT_WALL_S)
    assert ("complete", 3, 3) == (ended.outcome, ended.pods_created, ended.pods_ended)
    assert {"Succeeded"} == {item.phase for item in ended.workflows}
    assert all(item.submitted_at <= item.ended_at for item in ended.workflows)
    assert ended == written(cluster)


async def test_a_workflow_deleted_while_the_watch_was_cut_has_ended(cluster: Cluster) -> None:
    """No DELETED ever comes for it; the next list does not have it."""
    cluster.phase = ""
    task = asyncio.create_task(a_run(cluster, workload()).complete(limit_wall_s=LIMIT_WALL_S))
    for _ in range(3):
        await cluster.accepted.get()
    await asyncio.sleep(0)
    for namespace, _ in list(cluster.workflows):
        cluster.drop(namespace)
    cluster.changed.set()
    assert {"Deleted"} == {item.phase for item in (await task).workflows}


async def test_the_truth_is_there_before_the_first_workflow(cluster: Cluster) -> None:
    """The kubelet reads the file when it meets the first pod."""
    made = workload()
    a_run(cluster, made)
    path = submissions.truths_path(cluster.home, "uniform-s1")
    assert list(made.truths) == list(truths.read(path))
    assert {} == cluster.workflows


async def test_a_run_that_takes_too_long_is_given_up(cluster: Cluster) -> None:
    """Its workflows are deleted, the record says so, and the sentence says what to do."""
    cluster.phase = ""
    with pytest.raises(
        errors.RunError,
        match=r"after 0 wall s 3 of 3 workflows had not ended \(s1-[^…]*\); .*--limit",
    ):
        await a_run(cluster, workload()).complete(limit_wall_s=0.5)
    assert {} == cluster.workflows
    assert "timeout" == written(cluster).outcome
    assert {"Deleted"} == {item.phase for item in written(cluster).workflows}


async def test_a_pod_that_is_lost_fails_the_run(cluster: Cluster) -> None:
    """Workflows may all have succeeded: a pod without an end is an error all the same."""
    cluster.loses_pods = True
    with pytest.raises(errors.RunError, match=r"3 of 3 pods are unaccounted for:\nload-a/s1-"):
        await a_run(cluster, workload()).complete(limit_wall_s=LIMIT_WALL_S)
    assert 3 == len(written(cluster).pods_unaccounted)


async def test_a_name_that_is_taken_ends_the_run(cluster: Cluster) -> None:
    """What had been submitted is removed again."""
    made = workload()
    plan = made.workflows[0]
    cluster.workflows[plan.namespace, plan.name] = {"metadata": {}, "status": {"phase": "Running"}}
    with pytest.raises(errors.UsageError, match=r"exists already.*--tag"):
        await a_run(cluster, made).complete(limit_wall_s=LIMIT_WALL_S)
    assert "interrupted" == written(cluster).outcome


async def test_a_run_of_the_same_name_keeps_what_it_left(cluster: Cluster) -> None:
    """A second run of one --tag neither overwrites the first one's record nor deletes its work."""
    first = await a_run(cluster, workload()).complete(limit_wall_s=LIMIT_WALL_S)
    with pytest.raises(errors.UsageError, match=r"has a run uniform-s1 already: .*--tag"):
        a_run(cluster, workload())
    assert first == written(cluster)
    assert 3 == len(cluster.workflows)


def test_a_seed_run_again_gets_another_tag(cluster: Cluster) -> None:
    """Also one below zero, whose tag has a `-` in it."""
    assert "s-7" == commands.free_tag(cluster.home, -7)
    runs.folder(cluster.home).mkdir()
    runs.path(cluster.home, "uniform-s-7").write_text("{}")
    assert "s-7b" == commands.free_tag(cluster.home, -7)


async def test_a_lab_that_ends_ends_the_run(cluster: Cluster) -> None:
    """A watch on a server that is gone would wait for ever."""
    cluster.phase = ""

    def gone() -> None:
        raise errors.RunError("the lab ended during the run")

    with pytest.raises(errors.RunError, match="ended during the run"):
        await a_run(cluster, workload(), check_lab=gone).complete(limit_wall_s=LIMIT_WALL_S)
    assert "interrupted" == written(cluster).outcome


async def test_an_interrupted_run_removes_its_workflows(cluster: Cluster) -> None:
    """Nothing is left, and the record says what happened."""
    cluster.phase = ""
    task = asyncio.create_task(a_run(cluster, workload()).complete(limit_wall_s=LIMIT_WALL_S))
    for _ in range(3):
        await cluster.accepted.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {} == cluster.workflows
    assert ("interrupted", 3, 3) == (
        written(cluster).outcome,
        written(cluster).pods_created,
        written(cluster).pods_ended,
    )


async def interrupted(cluster: Cluster, **options: Any) -> None:
    """Interrupt a run once all its workflows are there."""
    task = asyncio.create_task(
        a_run(cluster, workload(), **options).complete(limit_wall_s=LIMIT_WALL_S)
    )
    for _ in range(3):
        await cluster.accepted.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_interrupted_run_leaves_its_workflows_to_a_lab_that_ends(cluster: Cluster) -> None:
    """To delete them one by one would only keep whoever waits; the record says what happened."""
    cluster.phase = ""
    await interrupted(cluster, lab_stays=False)
    assert 3 == len(cluster.workflows)
    assert "interrupted" == written(cluster).outcome


async def test_a_deletion_shows_what_is_left(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as long as pods take to end, and looks like a hang without a word."""
    cluster.phase = ""
    seen: list[str] = []

    async def removed(api: object, run: str, *, workflows: object, tell: Any) -> None:
        tell(3, 7)

    monkeypatch.setattr(submissions, "remove", removed)
    await interrupted(cluster, show=lambda progress: seen.append(commands._line(progress)))
    assert "deleting: 3 workflows and 7 pods are left" in seen
