import json
import math
import re
from pathlib import Path

import pytest

from lab import errors
from lab.reports import results


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Send results to a folder of this test."""
    monkeypatch.setenv("TIPHYS_RESULTS", str(tmp_path))
    return tmp_path


def test_results_are_one_flat_object_with_head_and_figures():
    """Who reads a file needs no other: the head says how to repeat it."""
    path = results.write(
        "demo",
        command="python -m lab demo",
        seed=1,
        speed=60.0,
        figures={"default.mean_completion_s": 812.5, "ratio.interval_95": [0.4, 0.6]},
    )
    read = json.loads(path.read_text())
    assert 812.5 == read["default.mean_completion_s"]
    assert [0.4, 0.6] == read["ratio.interval_95"]
    assert ("python -m lab demo", 1, 60.0) == (read["command"], read["seed"], read["speed"])
    assert set(read) >= results.HEAD
    assert read["machine"]["cores"] >= 1
    assert read["git"] != ""


def test_a_list_of_flat_objects_is_a_figure():
    """The faults bench reports one object a fault."""
    faults = [{"fault": "node-lost", "bound_s": 2.5}, {"fault": "slow-disk", "bound_s": None}]
    path = results.write("faults", seed=None, speed=None, figures={"faults": faults})
    assert faults == json.loads(path.read_text())["faults"]


def test_nothing_is_left_beside_the_results(folder):
    """The file is renamed into place, so a reader never sees half of it."""
    results.write("demo", seed=1, speed=1.0, figures={})
    assert ["demo.json"] == [path.name for path in folder.iterdir()]


def test_figures_of_one_commit_stand_in_one_file(monkeypatch):
    """Three benches write one file; what an older commit left there is dropped."""
    monkeypatch.setattr(results, "git", lambda: "one")
    results.add("admission", seed=None, speed=1.0, figures={"added_p50_ms": 4.0, "pairs": 6})
    path = results.add("admission", seed=None, speed=1.0, figures={"pairs": 7})
    read = json.loads(path.read_text())
    assert (4.0, 7) == (read["added_p50_ms"], read["pairs"])
    monkeypatch.setattr(results, "git", lambda: "two")
    results.add("admission", seed=None, speed=1.0, figures={"decision_p99_ms": 9.0})
    assert "added_p50_ms" not in json.loads(path.read_text())


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("Demo", {}),
        ("../demo", {}),
        ("demo", {"seed": 2}),
        ("demo", {"mean completion": 2}),
        ("demo", {"mean_s": math.nan}),
        ("demo", {"interval_95": [0.1, math.inf]}),
        ("demo", {"default": {"mean_s": 1.0}}),
        ("demo", {"list": [[1.0]]}),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_and_nothing_written(folder, name, figures):
    """A wrong key or a NaN would be found only by whoever compares runs weeks later."""
    with pytest.raises(errors.UsageError):
        results.write(name, seed=1, speed=1.0, figures=figures)
    assert [] == list(folder.iterdir())


@pytest.mark.parametrize(
    ("main", "module"),
    [
        (results.REPOSITORY / "lab" / "__main__.py", "lab"),
        (Path(pytest.__file__).with_name("__main__.py"), "pytest"),
    ],
)
def test_the_command_is_what_a_person_would_type(monkeypatch, main, module):
    """A module started with -m shows as such, not as a path of this machine or its `.venv`."""
    monkeypatch.setattr("sys.argv", [str(main), "demo", "--seed", "2"])
    assert f"python -m {module} demo --seed 2" == results.command_line()


def test_every_program_writes_its_results_in_the_one_form():
    """Nobody writes below build/results by another way than `results`, so each has a head."""
    folder = re.compile(r"""["']build/results["']|["']build["'] / ["']results["']""")
    places = [
        str(path.relative_to(results.REPOSITORY))
        for root in ("lab", "tests", "operator", "webhook", "models")
        for path in (results.REPOSITORY / root).rglob("*.py")
        if folder.search(path.read_text())
    ]
    assert ["lab/reports/results.py"] == places


def test_every_file_of_results_is_documented():
    """docs/results.md has a row for each name that a program writes."""
    written = re.compile(r"""results\.(?:write|add)\(\s*f?["']([a-z_-]+)""")
    names = {
        name
        for root in ("lab", "tests/bench")
        for path in (results.REPOSITORY / root).rglob("*.py")
        for name in written.findall(path.read_text())
    }
    page = (results.REPOSITORY / "docs" / "results.md").read_text()
    assert {"demo", "demo_seeds", "corpus", "kubelet"} <= names
    assert set() == {name for name in names if f"`{name}.json`" not in page}
