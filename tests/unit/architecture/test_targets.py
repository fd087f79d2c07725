"""The Makefile explains itself: few targets first, each with its line, none forgotten."""

import re
import subprocess

import pytest

from tests.unit.architecture import trees

FIRST = ["demo", "test", "lint", "bench", "lab-up", "lab-down", "docs", "clean"]
TEXT = (trees.ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z-]+):(?!=)", TEXT, re.MULTILINE)


def test_help_lists_the_few_and_then_the_rest() -> None:
    """In the order in which a person meets them, within a terminal's width."""
    command = ["make", "--no-print-directory", "help"]
    done = subprocess.run(command, cwd=trees.ROOT, capture_output=True, text=True, check=True)
    few, _, rest = done.stdout.partition("\n\n")
    assert FIRST == [line.split()[0] for line in few.splitlines()]
    assert set(TARGETS) - set(FIRST) == {line.split()[0] for line in rest.splitlines()[1:]}
    assert 100 >= max(map(len, done.stdout.splitlines()))


def test_all_is_set_up_before_the_first_of_the_tests() -> None:
    """Unit tests look for Argo's module and Prometheus, and are skipped where these are missing."""
    command = ["make", "--no-print-directory", "--dry-run", "test"]
    done = subprocess.run(command, cwd=trees.ROOT, capture_output=True, text=True, check=True)
    steps = done.stdout.splitlines()
    assert ".ci/setup python debian binaries" == steps[0]
    ran = [folder for line in steps for folder in re.findall(r"pytest (tests/\w+)", line)]
    assert ["tests/unit", "tests/lab"] == ran


def test_every_target_is_declared_to_be_no_file() -> None:
    """A file of that name would keep it from running."""
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", TEXT, re.MULTILINE)
    assert phony is not None
    assert sorted(TARGETS) == sorted(phony[1].replace("\\", "").split())


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "CONTRIBUTING.md",
        *sorted(str(path.relative_to(trees.ROOT)) for path in (trees.ROOT / "docs").glob("*.md")),
    ],
)
def test_pages_name_only_targets_that_exist(page: str) -> None:
    """What stands behind `make` in a command of a page is a target."""
    text = (trees.ROOT / page).read_text()
    named = re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)
    assert set() == set(named) - set(TARGETS)
