"""Cleaning the cache: what is needed stays, what is not goes, and both are said."""

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs

from lab import homes
from lab.cli import groups
from lab.controlplane import builds, processes, states, tools
from tests.unit.controlplane import fake_tools as a
from tests.unit.controlplane import lab_states


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache of a machine with one tool, built once as it is and once as it was."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setattr(tools, "FOLDER", tmp_path / "tools")
    tool = a.a_tool(tmp_path / "tools")
    monkeypatch.setattr(tools, "known", lambda: (tool,))
    a.install_go(tmp_path, monkeypatch)
    builds.build([builds.target(tool, tool.programs[0])])
    folder = tmp_path / "cache" / "tiphys" / "bin"
    for name in ("thing-v0-aaaa", "stranger-v1-bbbb"):
        (folder / name).mkdir()
        (folder / name / "program").write_bytes(b"x" * 2**21)
    return folder


def names(cache: Path) -> list[str]:
    """Return what the cache holds, without keys."""
    return sorted(path.name.rpartition("-")[0] for path in cache.iterdir())


@contextlib.contextmanager
def a_process_of(home: homes.Home) -> Iterator[None]:
    """Let a process run that is marked as one of a lab."""
    marked = {**os.environ, processes.MARKER: str(home.root)}
    with subprocess.Popen(["sleep", "60"], env=marked) as process:
        try:
            yield
        finally:
            process.kill()


def test_what_no_version_uses_is_deleted_and_said(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its size; a tool that this checkout does not know belongs to another one."""
    assert 0 == groups.run(["build", "--prune"])

    said = capsys.readouterr().out
    listed = f"not used by this checkout: {cache}/thing-v0-aaaa (2 MiB)"
    assert said.index(listed) < said.index("deleted ")
    assert f"deleted {cache}/thing-v0-aaaa (2 MiB)" in said
    assert f"2 MiB freed in {cache.parent}" in said
    assert ["stranger-v1", "thing-v1"] == names(cache)


def test_a_dry_run_says_the_same_and_deletes_nothing(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever shares the cache with another checkout may want to see it first."""
    assert 0 == groups.run(["build", "--prune", "--dry-run"])

    said = capsys.readouterr().out
    assert f"not used by this checkout: {cache}/thing-v0-aaaa (2 MiB)" in said
    assert f"2 MiB in {cache.parent} that no version" in said
    assert "deleted" not in said
    assert ["stranger-v1", "thing-v0", "thing-v1"] == names(cache)
    assert 2 == groups.run(["build", "--dry-run"])
    assert "--dry-run goes with --prune" in capsys.readouterr().err


def test_what_a_build_is_at_work_in_is_kept(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its lock says so."""
    with (cache / "thing-v0-aaaa" / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert 0 == groups.run(["build", "--prune"])

    assert "thing-v0-aaaa: a build is at work there" in capsys.readouterr().out
    assert ["stranger-v1", "thing-v0", "thing-v1"] == names(cache)


def test_what_a_lab_runs_with_is_kept_wherever_its_home(cache: Path, tmp_path: Path) -> None:
    """A component that crashes is started from there again."""
    home = homes.Home(name="a", root=tmp_path / "other labs" / "a")
    programs = structs.replace(lab_states.BINARIES, etcd=str(cache / "thing-v0-aaaa" / "etcd"))
    states.write(home, lab_states.a_state(home, binaries=programs))

    with a_process_of(home):
        assert 0 == groups.run(["build", "--prune"])

    assert ["stranger-v1", "thing-v0", "thing-v1"] == names(cache)


def test_pruning_builds_nothing(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever names a program as well wanted something else."""
    assert 2 == groups.run(["build", "--prune", "argo"])

    assert "--prune and 'argo' do not go together" in capsys.readouterr().err
    assert ["stranger-v1", "thing-v0", "thing-v1"] == names(cache)
