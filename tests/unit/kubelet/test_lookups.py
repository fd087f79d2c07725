"""Truth files are found when they appear."""

from pathlib import Path

import pytest

from lab import truths
from lab.kubelet import lookups
from tests.unit.kubelet.builders import a_truth


def test_a_file_that_appears_later_is_found(tmp_path: Path) -> None:
    """A miss looks again; the attempt is cut off the name."""
    lookup = lookups.Lookup(tmp_path / "truths")
    assert lookup.find("default", "wf.a") is None
    truths.write(tmp_path / "truths" / "one.jsonl", [a_truth("a")])
    found = lookup.find("default", "wf.a(1)")
    assert found is not None
    assert ("a", 1, "one") == (found.truth.task, found.attempt, found.run)


def test_a_file_that_is_written_again_replaces_what_it_said(tmp_path: Path) -> None:
    """More tasks of the same run."""
    lookup = lookups.Lookup(tmp_path)
    truths.write(tmp_path / "one.jsonl", [a_truth("a")])
    lookup.find("default", "wf.a")
    truths.write(tmp_path / "one.jsonl", [a_truth("a"), a_truth("b")])
    assert lookup.find("default", "wf.b") is not None


def test_a_broken_file_is_reported_and_the_others_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log names file and line; nothing else is lost."""
    (tmp_path / "bad.jsonl").write_text('{"namespace": 3}\n')
    truths.write(tmp_path / "good.jsonl", [a_truth("a")])
    assert lookups.Lookup(tmp_path).find("default", "wf.a") is not None
    assert "bad.jsonl, line 1" in caplog.text
