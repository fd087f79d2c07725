import contextlib
import itertools
import json
import re
import types

import click.testing
import pytest

from lab import errors
from lab.cli import arms, demos
from lab.controlplane import states
from lab.workloads import packs
from tests.unit.reports import stages
from tests.unit.reports import synthetic_runs as a


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """Put the stage where the demo looks for a real lab."""
    return stages.set_up(tmp_path, monkeypatch)


def demo(tmp_path):
    """Run the command and return what it printed; its errors are raised."""
    return invoke(tmp_path).output


def invoke(tmp_path, *more):
    """Run the command; its errors are raised."""
    arguments = ["--into", str(tmp_path / "reports"), "--seed", "7", "--speed", "60", *more]
    runner = click.testing.CliRunner()
    return runner.invoke(demos.demo, arguments, catch_exceptions=False)


def test_the_demo_says_each_step_and_writes_its_figures(stage, tmp_path):
    """A lab by the default and a lab by Tiphys; then the table, the results and the page."""
    output = demo(tmp_path)
    assert ["up", "run", "down", "up", "install", "opt in", "run", "down"] == stage.calls
    assert [None] == stage.policies
    assert all(f"[{step}/3]" in output for step in (1, 2, 3))
    assert "mean completion, simulated min" in output
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert (7, 60.0, 1) == (read["seed"], read["speed"], read["default.succeeded"])
    assert (1, 1.0, [1.0, 1.0]) == (
        read["tiphys.succeeded"],
        read["ratio.mean_completion"],
        read["ratio.interval_95"],
    )
    assert (10, 0) == (read["tiphys.gates_opened"], read["tiphys.opened_by_timeout"])
    assert (tmp_path / "reports" / "demo-synthetic.html").is_file()


def test_what_the_whole_demo_took_is_a_figure_and_its_last_line(stage, tmp_path, monkeypatch):
    """From the first step to the results, whatever the arms took of it."""
    times = itertools.chain([1000.0], itertools.repeat(1432.25))
    monkeypatch.setattr(demos, "time", types.SimpleNamespace(monotonic=lambda: next(times)))
    last = demo(tmp_path).splitlines()[-1]
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert "done in 432 s; open the page in a browser" == last
    assert 432.25 == read["total_wall_s"]


def test_what_became_worse_stands_beside_the_ratio(stage, tmp_path):
    """Waits and deadlines of both arms, and what the interval is not; page and terminal alike."""
    stage.run = a.a_run(sample=False)
    output = demo(tmp_path)
    page = (tmp_path / "reports" / "demo-synthetic.html").read_text()
    for line in (
        "tiphys against default: mean completion +0 % (95 % interval +0 % to +0 %), "
        "P95 completion +0 %",
        "mean wait of a pod 0.1 simulated min by default, 0.1 simulated min by tiphys (+0 %); "
        "deadlines missed 0 of 1 by default, 0 of 1 by tiphys",
        "the interval is a paired bootstrap over the workflows of this one run (pairs: 1), not the "
        "spread between runs (several seeds: `make bench-demo`)",
    ):
        assert f"{line}\n" in output
        assert line.replace(" %", "\N{NO-BREAK SPACE}%") in page
    assert "DOES NOT COUNT" not in output
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert (True, [], "pack") == (read["counts"], read["does_not_count_because"], read["data"])


def test_sample_data_is_marked_wherever_its_figures_are_read(stage, tmp_path):
    """In the table, beside the ratio, in the results and on the page."""
    output = demo(tmp_path)
    page = (tmp_path / "reports" / "demo-synthetic.html").read_text()
    said = "SAMPLE DATA: these figures show how the lab works and nothing else"
    assert said in output
    assert said in page
    assert "cluster · SAMPLE DATA · Tiphys lab</title>" in page
    assert (
        "DOES NOT COUNT: the workflows are the repository's own sample, which shows how the lab "
        "works and nothing else; --data or TIPHYS_DATA point to a pack\nnot a result: tiphys "
    ) in output
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert ("sample", False) == (read["data"], read["counts"])


def test_a_demo_in_which_tiphys_did_nothing_does_not_count(stage, tmp_path):
    """It fails open: everything succeeds, and nothing was compared."""
    stage.run, stage.fails_open = a.a_run(sample=False), True
    said = "DOES NOT COUNT: Tiphys decided about none of the pods of the arm tiphys\nnot a result"
    assert said in demo(tmp_path)


def test_the_demo_takes_a_data_pack(stage, tmp_path):
    """What its own advice says; both arms get it, and one that is not there ends it at once."""
    assert 0 == invoke(tmp_path, "--data", str(packs.SAMPLE)).exit_code
    assert [packs.SAMPLE, packs.SAMPLE] == stage.data
    del stage.calls[:]
    with pytest.raises(errors.UsageError, match="no data pack at /nowhere/pack"):
        invoke(tmp_path, "--data", "/nowhere/pack")
    assert [] == stage.calls


def test_the_figures_follow_the_flat_schema(stage, tmp_path):
    """What a reader of any program's results may count on: these keys, and one level only."""
    demo(tmp_path)
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    head = {"command": str, "seed": int, "git": str, "speed": float, "machine": dict}
    counts = "workflows succeeded pods_created pods_ended oom_kills"
    amounts = "mean_completion_s p95_completion_s mean_wait_s utilisation wall_s"
    asked = {
        **head,
        **{f"default.{name}": int for name in counts.split()},
        **{f"default.{name}": float for name in amounts.split()},
        "default.requested_over_used_memory": float,
    }
    assert asked == {name: type(read[name]) for name in asked}
    assert ["machine"] == [name for name, value in read.items() if isinstance(value, dict)]
    assert 1 <= read["machine"]["cores"]


@pytest.mark.parametrize(
    ("error", "how"),
    [(RuntimeError("broken"), "down"), (KeyboardInterrupt(), "down at once")],
)
def test_the_lab_is_taken_down_whatever_happens(stage, tmp_path, error, how):
    """Whoever presses Ctrl-C does not wait for an end in order; no figures are written."""
    stage.error = error
    with contextlib.suppress(RuntimeError):
        demo(tmp_path)
    assert how == stage.calls[-1]
    assert [] == list((tmp_path / "results").iterdir())


def test_a_workflow_that_failed_for_another_reason_than_memory_fails_the_demo(stage, tmp_path):
    """It is a fault of the lab; the figures are written all the same."""
    stage.run = a.a_run(workflows=[a.a_workflow(phase="Failed")])
    stage.error = errors.RunError("1 of 1 workflows did not succeed")
    with pytest.raises(errors.RunError, match="did not succeed"):
        demo(tmp_path)
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert "default: 1 of 1 workflows did not succeed" in read["does_not_count_because"]
    assert "no workflow succeeded both by default and by tiphys" in read["does_not_count_because"]


def test_a_workflow_that_failed_for_memory_is_a_finding(stage, tmp_path):
    """The mix asks for too little now and then; the demo says which and ends well."""
    pod = a.a_pod(reason="OOMKilled", exit_code=137)
    stage.run = a.a_run(pods=[pod], workflows=[a.a_workflow(phase="Failed")])
    stage.error = errors.RunError("1 of 1 workflows did not succeed")
    assert "genomics/wf-0 failed: its requests were too small" in demo(tmp_path)


def test_a_pod_that_is_unaccounted_for_fails_the_demo(stage, tmp_path):
    """Whatever the run itself said."""
    calls = [call for call in stage.run.calls if call.resource != "pods/binding"]
    stage.run = a.a_run(calls=calls)
    with pytest.raises(errors.RunError, match="do not add up"):
        demo(tmp_path)


def test_a_demo_that_was_too_fast_says_how_to_repeat_it(stage, tmp_path, monkeypatch):
    """Half the speed at most, ready to be pasted with what else was asked, and the time."""
    stage.run = a.too_fast(sample=False)
    monkeypatch.setenv("TIPHYS_KUBERNETES", "v1.34.4")
    output = demo(tmp_path)
    into = tmp_path / "reports"
    others = f"--seed 7 --kubernetes v1.34.4 --into {into}"
    repeated = rf'`make demo ARGS="--speed (\d+) {others}"`, about 1 min'
    speed = re.search(repeated, output)
    assert speed is not None
    assert 0 < int(speed[1]) <= 30
    why = "is invalid (the control plane was too slow for speed 60)"
    assert (
        f"DOES NOT COUNT: the arm default {why}; the arm tiphys {why}; this machine is too slow or "
        "too busy: free it of other work, or repeat with `make demo"
    ) in output
    assert "\nnot a result: tiphys against default: mean completion" in output
    read = json.loads((tmp_path / "results" / "demo.json").read_text())
    assert not read["counts"]
    assert [f"the arm default {why}", f"the arm tiphys {why}"] == read["does_not_count_because"]


def test_a_demo_that_would_take_hours_is_not_proposed(stage, tmp_path):
    """Then the machine has to become free."""
    stage.run = a.too_fast(workflows=[a.a_workflow(ended_s=30_000.0)])
    output = demo(tmp_path)
    assert "free this machine of other work and repeat the same" in output
    assert "would take about 1.5 hours" in output
    assert "make demo" not in output


def test_slower_time_and_more_work_are_given_longer():
    """What the demo proposes for a slow machine is never cut short by the demo itself."""
    assert 600 == demos.limit_wall_s(16, overload=1.5, speed=demos.SPEED)
    assert 600 == demos.limit_wall_s(3, overload=2, speed=60)
    assert 1200 == demos.limit_wall_s(16, overload=1.5, speed=demos.SPEED / 2)
    assert 3600 == demos.limit_wall_s(32, overload=0.5, speed=demos.SPEED)


def test_the_lab_of_another_demo_is_left_alone(stage, tmp_path, monkeypatch):
    """It is neither used nor taken down."""
    running = type("Running", (), {"running": True})()
    monkeypatch.setattr(states, "read", lambda home: running)
    with pytest.raises(errors.UsageError, match="runs already"):
        demo(tmp_path)
    assert [] == stage.calls


def test_figures_without_a_place_end_the_demo_before_it_begins(stage, tmp_path):
    """Not after minutes, when they are there."""
    (tmp_path / "results").write_text("")
    with pytest.raises(FileExistsError, match="results"):
        demo(tmp_path)
    assert [] == stage.calls


def test_a_demo_without_helm_ends_before_it_begins(stage, tmp_path, monkeypatch):
    """Prebuilt programs may lack it, and Go may be absent; the first arm would not need it."""

    def fail(report):
        raise errors.SetupError("no `go` on PATH")

    monkeypatch.setattr(arms.helms, "find", fail)
    with pytest.raises(errors.SetupError, match="no `go`"):
        demo(tmp_path)
    assert [] == stage.calls
