from pathlib import Path

import pytest

from lab import errors
from lab.controlplane import toolchains, tools
from tests.unit.controlplane import fake_tools as a


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tools.Tool:
    """Return a tool that needs Go 1.26.0."""
    monkeypatch.setattr(tools, "FOLDER", tmp_path / "tools")
    return a.a_tool(tmp_path / "tools", go="1.26.0")


def test_a_go_that_is_new_enough_is_taken(
    tool: tools.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own word; what it could fetch is not asked for."""
    a.install_go(tmp_path, monkeypatch, version="go1.26.0", fetch="exit 1")

    assert "go1.26.0" == toolchains.find(tool).version


def test_without_go_the_error_says_which_one_to_install(
    tool: tools.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And that prebuilt programs are the other way."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(errors.SetupError) as caught:
        toolchains.find(tool)

    assert "no `go` on PATH" in str(caught.value)
    assert "Go 1.26.0 or newer" in str(caught.value)
    assert "TIPHYS_LAB_BIN" in str(caught.value)


def test_a_go_that_can_fetch_the_newer_one_does(
    tool: tools.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Go does since 1.21 when GOTOOLCHAIN allows it."""
    a.install_go(tmp_path, monkeypatch, version="go1.22.1", fetch="echo go1.26.0")

    assert "go1.26.0" == toolchains.find(tool).version


@pytest.mark.parametrize(
    ("version", "fetch", "said"),
    [
        ("go1.19.8", "echo never asked", "go1.19.8, too old"),
        ("go1.25.9", "echo go1.25.9", "go1.25.9, too old"),
        ("go1.25.9", "echo 'dial tcp: no route' >&2; exit 1", "dial tcp: no route"),
    ],
)
def test_a_go_that_is_too_old_is_refused_with_the_version_that_is_needed(
    tool: tools.Tool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    fetch: str,
    said: str,
) -> None:
    """Whether it cannot fetch the newer one, may not, or fails to."""
    a.install_go(tmp_path, monkeypatch, version=version, fetch=fetch)

    with pytest.raises(errors.SetupError) as caught:
        toolchains.find(tool)

    assert said in str(caught.value)
    assert "Go 1.26.0 or newer is needed; install it from https://go.dev/dl/" in str(caught.value)


def test_a_go_that_does_not_run_is_named(
    tool: tools.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executable that is none."""
    a.install_go(tmp_path, monkeypatch)
    (tmp_path / "bin" / "go").write_bytes(b"\x7fELF nonsense")

    with pytest.raises(errors.SetupError, match=r"does not run .*: repair that Go, or install"):
        toolchains.find(tool)


def test_a_go_that_fails_is_named_with_what_to_do(
    tool: tools.Tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken installation."""
    a.install_go(tmp_path, monkeypatch)
    (tmp_path / "bin" / "go").write_text("#!/bin/sh\necho no GOROOT >&2; exit 2\n")

    with pytest.raises(
        errors.SetupError, match=r"env GOVERSION` fails: no GOROOT: repair that Go, or install it"
    ):
        toolchains.find(tool)
