"""`lab workload` and `lab run` from the command line; no lab is started."""

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from lab import errors, truths
from lab.cli import runs, workloads
from lab.workloads import mixes, packs


def invoked(*arguments: str) -> Result:
    """Run `lab workload …` on the repository's sample."""
    return CliRunner().invoke(
        workloads.workload, [*arguments, "--data", str(packs.SAMPLE)], catch_exceptions=True
    )


def test_mixes_are_listed() -> None:
    """Each with one line."""
    result = CliRunner().invoke(workloads.workload, ["list"])
    assert list(mixes.MIXES) == [line.split()[0] for line in result.output.splitlines()]


@pytest.mark.parametrize("name", mixes.MIXES)
def test_a_workload_is_shown(name: str) -> None:
    """Loads, ratios and the digest."""
    result = invoked("show", name, "--workflows", "4", "--overload", "1.5")
    assert result.exit_code == 0, result.output
    assert "plans sha256" in result.output
    assert "1.50 by use" in " ".join(result.output.split())


def test_a_workload_is_written_for_reading(tmp_path: Path) -> None:
    """One YAML for each workflow, and the truths."""
    folder = tmp_path / "made"
    result = invoked("write", str(folder), "genomics", "--workflows", "3")
    assert result.exit_code == 0, result.output
    paths = sorted(folder.glob("*.yaml"))
    assert ["Workflow"] * 3 == [yaml.safe_load(path.read_text())["kind"] for path in paths]
    assert {path.stem for path in paths} == {
        truth.workflow for truth in truths.read(folder / "truths.jsonl")
    }
    assert [folder] == list(tmp_path.iterdir())


def test_nothing_is_half_written(tmp_path: Path) -> None:
    """A mix that cannot be made leaves no folder."""
    result = invoked("write", str(tmp_path / "made"), "spark", "--held-out")
    assert isinstance(result.exception, errors.UsageError)
    assert [] == list(tmp_path.iterdir())


def test_a_folder_that_exists_is_kept(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    result = invoked("write", str(tmp_path), "genomics")
    assert isinstance(result.exception, errors.UsageError)
    assert "exists already" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("show", "genomix"), "no mix 'genomix'"),
        (("show", "genomics", "--cluster", "moon"), "no cluster 'moon'"),
        (("show", "spark", "--held-out"), "--held-out"),
        (("show", "uniform", "--most-tasks", "2"), "3 pods at least"),
    ],
)
def test_a_wrong_name_is_one_sentence(arguments: tuple[str, ...], expected: str) -> None:
    """Which name, and what there is."""
    result = invoked(*arguments)
    assert isinstance(result.exception, errors.UsageError)
    assert expected in str(result.exception)


def test_a_run_needs_a_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without one the person learns how to start it."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    result = CliRunner().invoke(runs.run, ["genomics", "--lab", "none"])
    assert isinstance(result.exception, errors.UsageError)
    assert "python -m lab up" in str(result.exception)
