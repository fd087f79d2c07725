"""`lab corpus --list`: what each example must come to, without a lab."""

import click.testing
import pytest

from lab import errors
from lab.cli import corpus


def listed(*names: str) -> str:
    """Return what the command prints."""
    runner = click.testing.CliRunner()
    arguments = ["--list", *names]
    return runner.invoke(corpus.corpus, arguments, catch_exceptions=False).output


def test_named_examples_are_listed_alone() -> None:
    """With the end that each must come to."""
    output = listed("coinflip")
    assert "coinflip" in output and "Succeeded" in output
    assert "artifact-passing" not in output


def test_an_unknown_example_is_refused() -> None:
    """An empty table would read as if it had nothing to come to."""
    with pytest.raises(
        errors.UsageError, match=r"no example nosuch: `.*python -m lab corpus --list`"
    ):
        listed("coinflip", "nosuch")
