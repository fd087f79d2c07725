"""A Go that builds at once, a tool module to build, prebuilt programs: files in a test's folder."""

import stat
from pathlib import Path

import pytest

from lab.controlplane import tools

GO = """#!/bin/sh
# GO_LOG collects the calls; GO_BUILD is what `go build` does after it chose $out; GO_MODULE is
# where the module of Argo is.
echo "$GOTOOLCHAIN $*" >> "$GO_LOG"
case "$1" in
env)
    if [ "$GOTOOLCHAIN" = local ]; then echo "$GO_VERSION"; else eval "$GO_FETCH"; fi ;;
list)
    if [ "$2" = -m ]; then echo "$GO_MODULE"; exit; fi
    eval "$GO_LIST"
    printf 'fmt\\nos\\nexample.com/program\\n' ;;
build)
    while [ "$1" != -o ]; do shift; done
    out=$2
    eval "$GO_BUILD" ;;
esac
"""
PROGRAMS = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "workflow-controller",
)
BUILT = """
printf 'fmt\\nexample.com/program\\n' >&2
printf '#!/bin/sh\\necho v1\\n' > "$out"
chmod +x "$out"
"""


def a_tool(
    folder: Path, *, name: str = "thing", go: str = "1.26.0", **changes: object
) -> tools.Tool:
    """Return a tool `thing v1` with one program; its module is written below `folder`."""
    tool = tools.Tool(
        name=name,
        version="v1",
        programs=(tools.Program(name="program", package="example.com/program"),),
        **changes,
    )
    module = folder / f"{name}-v1"
    module.mkdir(parents=True, exist_ok=True)
    (module / "go.mod").write_text(f"module example.com/tools\n\ngo {go}\n")
    (module / "go.sum").write_text("example.com/program v1 h1:x=\n")
    return tool


def install_go(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    version: str = "go1.26.8",
    fetch: str = "exit 1",
    listing: str = "",
    build: str = BUILT,
) -> Path:
    """Put the fake on PATH; returns the file in which it writes its calls down."""
    script = folder / "bin" / "go"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(GO)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    log = folder / "go.log"
    log.touch()
    monkeypatch.setenv("PATH", f"{script.parent}:/usr/bin:/bin")
    monkeypatch.setenv("GO_LOG", str(log))
    monkeypatch.setenv("GO_VERSION", version)
    monkeypatch.setenv("GO_FETCH", fetch)
    monkeypatch.setenv("GO_LIST", listing)
    monkeypatch.setenv("GO_BUILD", build)
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    return log


def prebuilt(folder: Path, *, says: str = f"Kubernetes {tools.KUBERNETES_VERSIONS[0]}") -> Path:
    """Fill a folder as envtest lays it out, with Argo's manifests beside."""
    folder.mkdir(exist_ok=True)
    for name in PROGRAMS:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {says}\n")
        program.chmod(0o755)
    (folder / "manifests" / "crds" / "minimal").mkdir(parents=True)
    return folder
