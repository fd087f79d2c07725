"""What is taken out of Argo's module, and programs that are built in a copy of it."""

import os
from pathlib import Path

import pytest

from lab import errors
from lab.controlplane import builds, extracts, tools
from tests.unit.controlplane import fake_tools as a

MODULE = {
    "go.mod": "module example.com/argo\n",
    "cmd/argo/main.go": "package main\n",
    "examples/hello-world.yaml": "kind: Workflow\n",
    "examples/memoize/simple.yaml": "kind: Workflow\n",
    "manifests/base/crds/full/workflows.yaml": "full\n",
    "manifests/base/crds/minimal/workflows.yaml": "minimal\n",
    "manifests/base/workflow-controller/workflow-controller-priorityclass.yaml": "priority\n",
    "manifests/base/workflow-controller/workflow-controller-sa.yaml": "account\n",
    "manifests/base/workflow-controller/workflow-controller-deployment.yaml": "deployment\n",
    "manifests/cluster-install-no-crds/workflow-controller-rbac/role.yaml": "role\n",
}
DATA = {
    "examples/hello-world.yaml": "kind: Workflow\n",
    "examples/memoize/simple.yaml": "kind: Workflow\n",
    "manifests/crds/full/workflows.yaml": "full\n",
    "manifests/crds/minimal/workflows.yaml": "minimal\n",
    "manifests/rbac/role.yaml": "role\n",
    "manifests/rbac/workflow-controller-priorityclass.yaml": "priority\n",
    "manifests/rbac/workflow-controller-sa.yaml": "account\n",
}
PAGE = "ui/dist/app/index.html"
SEEN = """
pwd > "$GO_LOG.folder"
find . -type f | sort > "$GO_LOG.files"
"""
"""What `go build` writes down here of the folder that it runs in."""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Return a module as Go keeps it: nobody may write to its files."""
    for name, text in MODULE.items():
        path = tmp_path / "module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o444)
    return tmp_path / "module"


@pytest.fixture
def folder(tmp_path: Path, module: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that stands for the machine, whose Go knows where the module is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GO_MODULE", str(module))
    monkeypatch.setattr(tools, "FOLDER", tmp_path / "tools")
    return tmp_path


def argo_in(folder: Path, *, from_copy: bool) -> builds.Target:
    """Return a program of a tool that is called argo."""
    program = tools.Program(name="program", package="example.com/program", from_copy=from_copy)
    tool = a.a_tool(folder / "tools", name="argo")
    return builds.target(tool, program)


def contents(folder: Path) -> dict[str, str]:
    """Return the text of every file below a folder by its relative path."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in found}


def test_manifests_and_examples_lie_where_a_lab_looks_for_them(
    module: Path, tmp_path: Path
) -> None:
    """Only these of the module; a second time changes nothing."""
    folder = tmp_path / "cache"
    for _ in range(2):
        extracts.copy_data(module, folder)
        assert DATA == contents(folder)


def test_what_lacks_a_file_is_not_copied_at_all(module: Path, tmp_path: Path) -> None:
    """Nothing half-copied stands under the name that is looked for."""
    (module / "manifests/base/workflow-controller/workflow-controller-sa.yaml").unlink()

    with pytest.raises(FileNotFoundError, match=r"workflow-controller-sa\.yaml"):
        extracts.copy_data(module, tmp_path / "cache")

    assert not (tmp_path / "cache" / extracts.MANIFESTS).exists()


def test_a_copy_of_the_module_has_a_page_and_can_be_written_to(
    module: Path, tmp_path: Path
) -> None:
    """What an earlier one of the same name left is gone; the module stays as it was."""
    left = tmp_path / "cache" / f".source.{os.getpid()}" / "left"
    left.parent.mkdir(parents=True)
    left.touch()

    copy = extracts.copy_source(module, tmp_path / "cache")

    copied = contents(copy)
    assert "The lab builds Argo without its pages" in copied.pop(PAGE)
    assert MODULE == copied
    assert all(path.stat().st_mode & 0o200 for path in copy.rglob("*"))
    assert MODULE == contents(module)


def test_a_program_that_embeds_pages_is_built_in_a_copy(
    folder: Path, module: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy holds module and page while Go builds, and goes; the lab's data stays."""
    log = a.install_go(folder, monkeypatch, build=SEEN + a.BUILT)
    target = argo_in(folder, from_copy=True)

    builds.build([target])

    where = log.with_name("go.log.folder").read_text().strip()
    assert str(target.folder / f".source.{os.getpid()}") == where
    seen = log.with_name("go.log.files").read_text().split()
    assert sorted(f"./{name}" for name in (*MODULE, PAGE)) == sorted(seen)
    there = {name: text for name, text in contents(target.folder).items() if name != ".lock"}
    assert "program" in there
    assert DATA == {name: text for name, text in there.items() if name != "program"}
    assert MODULE == contents(module)


def test_any_other_program_is_built_in_the_labs_own_module(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whose sums fix what goes in; nothing is copied for it but the lab's data."""
    log = a.install_go(folder, monkeypatch, build=SEEN + a.BUILT)
    target = argo_in(folder, from_copy=False)

    builds.build([target])

    assert str(target.tool.module) == log.with_name("go.log.folder").read_text().strip()
    assert DATA.keys() | {"program", ".lock"} == contents(target.folder).keys()


def test_a_failed_build_leaves_no_copy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The copy takes tens of MiB; the program's place stays empty."""
    a.install_go(folder, monkeypatch, build="echo 'x.go:1:1: syntax error' >&2; exit 1")
    target = argo_in(folder, from_copy=True)

    with pytest.raises(errors.SetupError, match="syntax error"):
        builds.build([target])

    assert DATA.keys() | {".lock"} == contents(target.folder).keys()
    assert not list(target.folder.glob(".source*"))


def test_argo_data_is_taken_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second time it is found in the cache, and Go is not asked."""
    log = a.install_go(folder, monkeypatch)
    programs = (tools.Program(name="workflow-controller", package="example.com/program"),)
    argo = a.a_tool(folder / "tools", name="argo")
    argo = tools.Tool(name=argo.name, version=argo.version, programs=programs)
    monkeypatch.setattr(tools, "argo", lambda: argo)

    first = builds.argo_data()
    asked = log.read_text()

    assert DATA.keys() | {".lock"} == contents(first).keys()
    assert first == builds.argo_data()
    assert asked == log.read_text()
