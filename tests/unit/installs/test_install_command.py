"""`lab install --values`: files that hold no values end in a sentence, before anything is asked."""

import click.testing
import pytest

from lab import errors
from lab.cli import installs


@pytest.fixture
def installed(monkeypatch):
    """Put a list in the place of a running lab: the values of each installation."""
    done = []
    monkeypatch.setattr(installs.states, "load", lambda home: None)
    monkeypatch.setattr(installs, "install_into", lambda home, *, more, wait: done.append(more))
    return done


def install(*files):
    """Run the command; its errors are raised."""
    arguments = [word for file in files for word in ("--values", str(file))]
    runner = click.testing.CliRunner()
    return runner.invoke(installs.install, arguments, catch_exceptions=False)


def test_later_files_win(installed, tmp_path):
    """Nested values are merged; an empty file adds nothing."""
    (tmp_path / "one.yaml").write_text("webhook: {replicas: 1, port: 1}\n")
    (tmp_path / "two.yaml").write_text("webhook: {replicas: 3}\n")
    (tmp_path / "none.yaml").write_text("")
    assert 0 == install(*(tmp_path / f"{name}.yaml" for name in ("one", "two", "none"))).exit_code
    assert [{"webhook": {"replicas": 3, "port": 1}}] == installed


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: [", "is no YAML.*values.yaml shows"),
        (b"\xff\xfe\x00", "is no YAML.*values.yaml shows"),
        (b"- 1\n", "holds no values: write `key: value` lines"),
    ],
)
def test_what_holds_no_values_is_named(installed, tmp_path, content, said):
    """Which file, what is wrong, what belongs there; nothing is installed."""
    (tmp_path / "bad.yaml").write_bytes(content)
    with pytest.raises(errors.UsageError, match=rf"(?s)bad\.yaml {said}"):
        install(tmp_path / "bad.yaml")
    assert [] == installed
