"""Truth files: found by node name, written whole, refused by line."""

from pathlib import Path

import pytest

from lab import errors, truths


@pytest.mark.parametrize(
    ("node_name", "expected"),
    [
        ("wf-1.align", ("ns", "wf-1", "align", 0)),
        ("wf-1.align(2)", ("ns", "wf-1", "align", 2)),
        ("wf-1.align(3:chr4)", ("ns", "wf-1", "align(3:chr4)", 0)),
        ("wf-1.align(3:chr4)(1)", ("ns", "wf-1", "align(3:chr4)", 1)),
        ("wf-1.sub.align(0)", ("ns", "wf-1", "sub.align", 0)),
        ("wf-1", ("ns", "wf-1", "", 0)),
    ],
)
def test_a_node_name_leads_to_its_task_and_attempt(
    node_name: str, expected: tuple[str, str, str, int]
) -> None:
    """Only the retry's number is cut off; the item of a fan-out belongs to the task."""
    assert truths.key("ns", node_name) == expected


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Writing and reading are inverse, and no partial file stays."""
    truth = truths.Truth(
        namespace="ns",
        workflow="wf",
        task="a",
        template="t",
        cpu_s=3.5,
        reads=(truths.FileRead(file="ref", bytes=7.0),),
        exit_codes=(1, 0),
    )
    path = tmp_path / "truths" / "run.jsonl"
    truths.write(path, [truth])
    assert list(truths.read(path)) == [truth]
    assert [path] == list(path.parent.iterdir())


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    """The error carries the file, the number of the line, and what to do."""
    path = tmp_path / "run.jsonl"
    path.write_text('{"namespace": "ns"}\n')
    with pytest.raises(errors.UsageError, match=r"run.jsonl, line 1: .*workflow.*; start the run"):
        list(truths.read(path))
