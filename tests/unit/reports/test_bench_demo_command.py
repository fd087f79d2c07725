import json

import click.testing
import pytest

from lab import errors
from lab.cli import arms, benches
from lab.controlplane import states
from tests.unit.reports import stages
from tests.unit.reports import synthetic_runs as a

RATIOS = {
    "equal_requests.mean_completion",
    "equal_requests.mean_completion_upper",
    "equal_requests.p95_completion",
    "fifo_gates.mean_completion",
    "opened_by_timeout",
}


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Put the stage where the bench looks for a real lab."""
    return stages.set_up(tmp_path, monkeypatch)


def bench(tmp_path, *more):
    """Run the command with one workflow; its errors are raised."""
    arguments = ["--into", str(tmp_path / "reports"), "--workflows", "1", "--warm-up", "1", *more]
    runner = click.testing.CliRunner()
    return runner.invoke(benches.bench_demo, arguments, catch_exceptions=False).output


def results(tmp_path):
    """Return what the bench wrote."""
    return json.loads((tmp_path / "results" / "demo_seeds.json").read_text())


def test_each_load_gets_its_ratios_over_all_seeds(stage, tmp_path):
    """Geometric means under the keys that docs/results.md names; equal arms give 1."""
    output = bench(tmp_path, "--seeds", "2", "--load", "light", "--load", "overloaded")
    read = results(tmp_path)
    for load in ("light", "overloaded"):
        assert {key: read[f"{load}.{key}"] for key in RATIOS} == {
            **dict.fromkeys(RATIOS, 1.0),
            "opened_by_timeout": 0.0,
        }
        assert (2, 0) == (read[f"{load}.seeds"], read[f"{load}.doubtful_runs"])
    assert "sample" == read["data"]
    assert "light, seed 1: SAMPLE DATA: these figures show how the lab works" in output
    assert "nothing else; mean completion +0 %, P95 +0 %; mere gates +0 %" in output


def test_every_run_is_told_with_its_seed_and_speed(stage, tmp_path):
    """The last seed runs slowly, since the control plane is no quicker when time is."""
    bench(tmp_path, "--seeds", "2", "--load", "light", "--speed", "30")
    runs = results(tmp_path)["runs"]
    told = [(run["arm"], run["seed"], run["speed"]) for run in runs]
    names = ("default", "fifo_gates", "tiphys")
    assert [(name, seed, speed) for seed, speed in ((1, 30.0), (2, 5.0)) for name in names] == told


def test_means_of_doubtful_runs_are_marked(stage, tmp_path):
    """A control plane that was too slow says nothing about who schedules better."""
    stage.run = a.too_fast(latency_s=30.0)
    output = bench(tmp_path, "--seeds", "1", "--load", "light")
    assert 3 == results(tmp_path)["light.doubtful_runs"]
    assert "does not count (default, fifo_gates, tiphys ran INVALID): mean completion" in output


def test_a_measurement_goes_on_where_it_was_left(stage, tmp_path):
    """What counts is kept, in the means too; nothing is measured twice."""
    part = ("--seeds", "1", "--load", "light")
    bench(tmp_path, *part)
    calls = list(stage.calls)
    output = bench(tmp_path, "--go-on", *part, "--load", "overloaded")
    assert "light, seed 1: measured before, kept" in output
    assert 2 * len(calls) == len(stage.calls)
    read = results(tmp_path)
    assert (1, 1) == (read["light.seeds"], read["overloaded.seeds"])
    assert ["light", "overloaded"] == [row["load"] for row in read["ratios"]]
    assert 6 == len(read["runs"])
    assert "nothing is left to measure" in bench(tmp_path, "--go-on", *part)
    assert read == results(tmp_path)


@pytest.mark.parametrize(
    "change", [{"git": "another"}, {"workflows": 2}, {"kubernetes": "v1.0"}, {"data": "pack"}]
)
def test_another_measurement_is_not_gone_on_with(stage, tmp_path, change):
    """One file never mixes two commits, sizes, versions or kinds of data."""
    part = ("--seeds", "1", "--load", "light")
    bench(tmp_path, *part)
    path = tmp_path / "results" / "demo_seeds.json"
    path.write_text(json.dumps(results(tmp_path) | change))
    assert "kept" not in bench(tmp_path, "--go-on", *part)


def test_runs_that_do_not_count_are_repeated(stage, tmp_path):
    """A busy hour is no reason to begin anew, nor to keep its figures."""
    part = ("--seeds", "1", "--load", "light")
    bench(tmp_path, *part)
    path = tmp_path / "results" / "demo_seeds.json"
    read = results(tmp_path)
    read["runs"][1]["valid"] = False
    path.write_text(json.dumps(read))
    assert "kept" not in bench(tmp_path, "--go-on", *part)
    assert (1, 3) == (results(tmp_path)["light.seeds"], len(results(tmp_path)["runs"]))


def test_only_tiphys_sees_a_warm_up_and_only_gates_have_a_policy(stage, tmp_path):
    """Each arm in a lab of its own; opted in for both passes where there are two."""
    bench(tmp_path, "--seeds", "1", "--load", "light")
    lab = ["up", "run", "down"]
    gates = ["up", "install", "opt in", "run", "down"]
    warmed = ["up", "install", "opt in", "opt in", "run", "run", "down"]
    assert [*lab, *gates, *warmed] == stage.calls
    assert [arms.FIFO_GATES.policy, None, None] == stage.policies


def test_the_lab_of_another_bench_is_left_alone(stage, tmp_path, monkeypatch):
    """It is neither used nor taken down."""
    running = type("Running", (), {"running": True})()
    monkeypatch.setattr(states, "read", lambda home: running)
    with pytest.raises(errors.UsageError, match="'bench' runs already"):
        bench(tmp_path)
    assert [] == stage.calls
