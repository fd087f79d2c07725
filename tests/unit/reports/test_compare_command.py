"""`lab compare` on two measurements that `lab measure` wrote."""

import json

import click.testing
import pytest

from lab import errors
from lab.cli import compares
from lab.reports import figures, measurements
from tests.unit.reports import synthetic_runs as a

BASE, ARM = "test-genomics-s1-default", "test-genomics-s1b-tiphys"


@pytest.fixture
def reports(tmp_path, monkeypatch):
    """Return the folder of reports; results go beside it."""
    monkeypatch.setenv("TIPHYS_RESULTS", str(tmp_path / "results"))
    folder = tmp_path / "reports"
    folder.mkdir()
    return folder


def measured(reports, tag, arm, *, ended_s, **record):
    """Write the measurement of a run of two workflows that took so long, as one lab names them."""
    workflows = [
        a.a_workflow(f"{tag}-bwa-00{index}", ended_s=end) for index, end in enumerate(ended_s)
    ]
    calls = [a.a_call(0.0, "create", "workflows", item.name) for item in workflows]
    defaults = {"run": f"genomics-{tag}", "sample": False}
    run = a.a_run(calls=calls, pods=[], workflows=workflows, **{**defaults, **record})
    item = figures.measure(run, arm=arm)
    path = reports / f"{item.lab}-{item.run}-{arm}.json"
    measurements.write(path, item)
    return path


def compare(reports, base, arm):
    """Run the command and return what it printed; its errors are raised."""
    runner = click.testing.CliRunner()
    arguments = [str(base), str(arm), "--into", str(reports)]
    return runner.invoke(compares.compare, arguments, catch_exceptions=False).output


def test_two_runs_of_one_lab_are_compared_workflow_by_workflow(reports, tmp_path):
    """The second of a seed has other names; a path and a name of a report mean the same."""
    path = measured(reports, "s1", "default", ended_s=(100, 300))
    measured(reports, "s1b", "tiphys", ended_s=(50, 150))
    output = compare(reports, path, ARM)
    assert "tiphys against default: mean completion -50 % (95 % interval -50 % to -50 %)" in output
    assert "genomics-s1 and genomics-s1b have names of their own" in output
    stem = f"compare-{BASE}-{ARM}"
    read = json.loads((tmp_path / "results" / f"{stem}.json").read_text())
    assert (0.5, 2, 0) == (
        read["ratio.mean_completion"],
        read["ratio.pairs"],
        read["ratio.left_out"],
    )
    assert (200.0, 100.0) == pytest.approx(
        (read["default.mean_completion_s"], read["tiphys.mean_completion_s"]), abs=1e-3
    )
    assert ("pack", 1) == (read["data"], read["seed"])
    page = (reports / f"{stem}.html").read_text()
    assert 2 == page.count('class="arm"')
    assert "mean completion -50" in page


def test_arms_that_do_not_count_are_said_to_be_so(reports):
    """No pod ran in these, so nothing could be judged."""
    measured(reports, "s1", "default", ended_s=(100, 300))
    measured(reports, "s1b", "tiphys", ended_s=(50, 150))
    output = compare(reports, BASE, ARM)
    assert "DOES NOT COUNT: the arm default is invalid (no pod ran, so nothing can" in output
    assert "not a result: tiphys against default" in output


def test_sample_data_comes_with_advice_that_holds_here(reports):
    """This command has no --data; the one that makes runs has."""
    measured(reports, "s1", "default", ended_s=(100, 300), sample=True)
    measured(reports, "s1b", "tiphys", ended_s=(50, 150), sample=True)
    output = compare(reports, BASE, ARM)
    assert "the repository's own sample, which shows how the lab works and nothing else;" in output
    assert "python -m lab run` takes --data, the folder of a data pack\nnot a result" in output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seed": 2}, "seed 1 and 2"),
        ({"mix": "spark"}, "mix genomics and spark"),
        ({"sample": True}, "data pack and sample"),
        ({"speed": 30.0}, "speed 60.0 and 30.0"),
        ({"ended_s": (50,)}, "workflows 2 and 1"),
        ({"plans_sha256": "1" * 64}, "other tasks or times of arrival"),
    ],
)
def test_different_workloads_are_refused(reports, tmp_path, change, said):
    """What differs is named, and nothing is written."""
    base = measured(reports, "s1", "default", ended_s=(100, 300))
    arm = measured(reports, "s1b", "tiphys", **{"ended_s": (50, 150), **change})
    with pytest.raises(errors.UsageError, match=said):
        compare(reports, base, arm)
    assert not (tmp_path / "results").exists()


def test_two_arms_of_one_name_are_refused(reports):
    """Figures are told apart by it."""
    base = measured(reports, "s1", "default", ended_s=(100, 300))
    arm = measured(reports, "s1b", "default", ended_s=(100, 300))
    with pytest.raises(errors.UsageError, match=r"both called 'default': .* another --arm"):
        compare(reports, base, arm)


def test_what_was_never_measured_is_named(reports):
    """With the command that makes one."""
    base = measured(reports, "s1", "default", ended_s=(100, 300))
    with pytest.raises(errors.UsageError, match="no measurement at nowhere: make one with"):
        compare(reports, base, "nowhere")
