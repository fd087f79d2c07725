import json

import click.testing
import msgspec
import pytest

from lab import errors, homes, invocations
from lab.cli import measures
from lab.workloads import runs
from tests.unit.reports import synthetic_runs as a
from tests.unit.reports import written_runs


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return the home of a lab named `default` in which one run was written down."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setenv("TIPHYS_RESULTS", str(tmp_path / "results"))
    home = homes.home("default")
    home.root.mkdir(parents=True)
    written_runs.write(home, a.a_run())
    return home


def measure(tmp_path, *arguments):
    """Run the command and return what it printed; its errors are raised."""
    runner = click.testing.CliRunner()
    into = str(tmp_path / "reports")
    outcome = runner.invoke(measures.measure, ["--into", into, *arguments], catch_exceptions=False)
    return outcome.output


def test_table_json_results_and_page_are_written(lab, tmp_path):
    """One command, four things; paths are printed."""
    output = measure(tmp_path)
    assert "mean completion, simulated min" in output
    assert "valid at speed 60" in output
    for path in (
        "reports/test-synthetic-default.json",
        "reports/test-synthetic-default.html",
        "results/test-synthetic-default.json",
    ):
        assert (tmp_path / path).is_file()
        assert path in output.replace("\n", "")
    figures = json.loads((tmp_path / "results" / "test-synthetic-default.json").read_text())
    assert 70.0 == pytest.approx(figures["default.mean_completion_s"], abs=1e-3)
    assert ("sample", False) == (figures["data"], figures["counts"])
    assert "SAMPLE DATA: these figures show how the lab works" in output
    assert a.a_run().record.command == figures["command"]


def test_an_invalid_run_is_marked_in_the_table(lab, tmp_path):
    """It is still shown: a person may want to know why."""
    written_runs.write(lab, a.too_fast())
    output = measure(tmp_path)
    said = " ".join(output.split())
    assert "INVALID run, its figures do not count: the control plane was too slow" in said
    assert "default: INVALID" not in said
    assert "repeat it in a slower lab (about 1 min), `up` with the rest as it was:" in output
    lines = [line.strip() for line in output.splitlines() if "python -m lab" in line]
    assert [
        f"{invocations.lab()} down -n test",
        f"{invocations.lab()} up -n test --speed 11",
        f"{invocations.lab()} run genomics --workflows 1 --seed 1",
        f"{invocations.lab()} measure -n test",
    ] == lines


def test_a_steered_run_is_repeated_with_tiphys_in_it(lab, tmp_path):
    """A lab begins empty: without these lines the repetition would be one of the other arm."""
    written_runs.write(lab, a.steered(a.too_fast()))
    output = measure(tmp_path)
    place = output.index("up -n test --speed 11")
    for line in (
        f"{invocations.lab()} install -n test",
        "for each in genomics; do kubectl create namespace $each; done",
        "kubectl annotate namespaces genomics tiphys.dev/enabled=true",
        f"{invocations.lab()} run genomics --workflows 1 --seed 1",
        f"{invocations.lab()} measure -n test --arm tiphys",
    ):
        place = output.index(f"  {line}\n", place)


def test_a_slower_run_is_given_the_time_that_it_needs(lab, tmp_path):
    """Its limit would end it otherwise, since time that runs slower takes longer."""
    command = "python -m lab run genomics --limit 900 --seed 1"
    ended = [a.a_workflow(ended_s=15_000.0)]
    written_runs.write(lab, a.too_fast(workflows=ended, command=command))
    output = measure(tmp_path)
    assert "repeat it in a slower lab (about 23 min)" in output
    assert f"  {invocations.lab()} run genomics --seed 1 --limit 2800\n" in output


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"workflows": [a.a_workflow(ended_s=150_000.0)]}, "would take about 3.8 hours"),
        ({"outcome": "timeout"}, "is not known, since this one was cut short"),
    ],
)
def test_nobody_is_sent_to_a_run_of_hours(lab, tmp_path, more, why):
    """What is too slow for any sensible speed has to become free."""
    written_runs.write(lab, a.too_fast(**more))
    output = measure(tmp_path)
    assert "free this machine of other work and repeat the same" in output
    assert why in output
    assert "--speed" not in output


def test_a_pod_that_is_unaccounted_for_fails_the_command(lab, tmp_path):
    """With everything written all the same, and the pod named."""
    lab.journal.write_bytes(b"")
    with pytest.raises(errors.RunError, match="wf-0-align-1"):
        measure(tmp_path)
    assert (tmp_path / "reports" / "test-synthetic-default.html").is_file()


def test_a_workflow_that_did_not_end_fails_the_command(lab, tmp_path):
    """A mean over the others is no answer."""
    run = a.a_run(workflows=[a.a_workflow(ended_s=None, phase="")], outcome="timeout")
    written_runs.write(lab, run)
    with pytest.raises(errors.RunError, match="1 of 1 workflows did not end, first wf-0"):
        measure(tmp_path)


def test_a_run_under_way_is_not_measured(lab, tmp_path):
    """Half a run looks like a quick one."""
    record = msgspec.structs.replace(a.a_run().record, outcome="running", ended_at=None)
    runs.write(lab, record)
    with pytest.raises(errors.UsageError, match="still under way"):
        measure(tmp_path)


def test_files_are_named_after_the_arm(lab, tmp_path):
    """The lab may be called like the other arm; both arms of one run name lie side by side."""
    measure(tmp_path)
    measure(tmp_path, "--arm", "other")
    names = {path.stem for path in (tmp_path / "results").iterdir()}
    assert {"test-synthetic-default", "test-synthetic-other"} == names


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("gated", "tiphys"),
        ("placed", "tiphys"),
        ("passed", "tiphys"),
        ("shadow", "default"),
        ("failed", "default"),
        ("", "default"),
    ],
)
def test_an_arm_is_called_after_what_the_record_says(lab, tmp_path, outcome, expected):
    """A steered run under the name of the default would be compared the wrong way round."""
    written_runs.write(lab, a.steered(a.a_run(), outcome=outcome))
    assert f"test-synthetic-{expected}.json" in measure(tmp_path).replace("\n", "")


def test_an_arm_that_the_record_contradicts_is_refused(lab, tmp_path):
    """In both directions, before anything is written; any third name is free."""
    with pytest.raises(errors.UsageError, match=r"none of the 1 pods .* not 'tiphys': leave --arm"):
        measure(tmp_path, "--arm", "tiphys")
    written_runs.write(lab, a.steered(a.a_run()))
    with pytest.raises(errors.UsageError, match=r"1 of the 1 pods .* not 'default': leave --arm"):
        measure(tmp_path, "--arm", "default")
    assert not (tmp_path / "reports").exists()
    measure(tmp_path, "--arm", "fifo_gates")


def test_an_arm_that_cannot_name_files_is_refused(lab, tmp_path):
    """Before anything is written."""
    with pytest.raises(errors.UsageError, match=r"'\.\./x' cannot name an arm"):
        measure(tmp_path, "--arm", "../x")
    assert not (tmp_path / "reports").exists()


def test_an_unknown_run_is_refused(lab, tmp_path):
    """Nothing is written."""
    with pytest.raises(errors.UsageError, match="has no run 'other'"):
        measure(tmp_path, "--run", "other")
    assert not (tmp_path / "reports").exists()
