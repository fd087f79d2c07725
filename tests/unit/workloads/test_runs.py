"""Run records: whole on disk, refused when they are not records."""

from pathlib import Path

import pytest

from lab import errors, homes
from lab.cli import runs as commands
from lab.workloads import runs


def a_record(run: str) -> runs.RunRecord:
    """Return a record with one workflow."""
    workflow = runs.WorkflowRun(
        namespace="n",
        name="w",
        family="bwa",
        source="made/one",
        tasks=2,
        depth=2,
        work_core_s=10.0,
        critical_path_s=8.0,
        deadline_s=60.0,
        arrival_s=0.0,
    )
    return runs.RunRecord(
        run=run,
        command="python -m lab run genomics",
        lab="l",
        mix="genomics",
        seed=1,
        arrivals="poisson",
        window_s=60.0,
        overload=1.0,
        requested_load=2.0,
        held_out=False,
        sample=True,
        cluster="mixed",
        cores=64,
        speed=60.0,
        plans_sha256="p",
        truths_sha256="t",
        started_at=1000.0,
        workflows=(workflow,),
    )


def test_a_record_reads_as_it_was_written(tmp_path: Path) -> None:
    """And nothing else is left in the folder."""
    home = homes.Home(name="l", root=tmp_path)
    runs.write(home, a_record("genomics-s1"))
    assert a_record("genomics-s1") == runs.read(runs.path(home, "genomics-s1"))
    assert ["genomics-s1.json"] == [path.name for path in runs.folder(home).iterdir()]


def test_a_missing_record_says_how_to_get_one(tmp_path: Path) -> None:
    """One sentence."""
    with pytest.raises(errors.UsageError, match=r"start one with `.*python -m lab run MIX`"):
        runs.read(tmp_path / "none.json")


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    """File and reason."""
    path = tmp_path / "bad.json"
    path.write_text('{"run": 1}')
    with pytest.raises(errors.UsageError, match=r"bad\.json is not a run record"):
        runs.read(path)


def test_a_second_run_of_a_seed_gets_another_tag(tmp_path: Path) -> None:
    """Names of workflows must not repeat in one lab."""
    home = homes.Home(name="l", root=tmp_path)
    assert "s1" == commands.free_tag(home, 1)
    runs.write(home, a_record("genomics-s1"))
    assert "s1b" == commands.free_tag(home, 1)
    assert "s2" == commands.free_tag(home, 2)
