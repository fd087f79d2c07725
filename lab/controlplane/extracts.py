"""What is taken out of Argo's Go module beside the program, so that a lab needs no Go to start.

Below a tool's cache folder: `manifests/crds/{minimal,full}`, `manifests/rbac`, `examples`.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

MANIFESTS = "manifests"
EXAMPLES = "examples"


def copy_data(module: Path, folder: Path) -> None:
    """Copy manifests and examples into a cache folder, each whole or not at all."""
    manifests = module / "manifests"
    rbac = manifests / "cluster-install-no-crds" / "workflow-controller-rbac"
    controller = manifests / "base" / "workflow-controller"
    account, priority = "workflow-controller-sa.yaml", "workflow-controller-priorityclass.yaml"
    wanted = {
        **_files(manifests / "base" / "crds", below="crds"),
        **_files(rbac, below="rbac"),
        Path("rbac") / account: controller / account,
        Path("rbac") / priority: controller / priority,
    }
    _copy_whole(wanted, folder / MANIFESTS)
    _copy_whole(_files(module / "examples"), folder / EXAMPLES)


def copy_source(module: Path, folder: Path) -> Path:
    """Copy the module out of Go's cache and give it the web page that Argo's CLI embeds."""
    copy = folder / f".source.{os.getpid()}"
    shutil.rmtree(copy, ignore_errors=True)
    _copy_whole(_files(module), copy)
    page = copy / "ui" / "dist" / "app" / "index.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("<!doctype html><title>Argo</title>The lab builds Argo without its pages.\n")
    return copy


def _files(folder: Path, *, below: str = "") -> dict[Path, Path]:
    """Return every file of a folder by the relative path that its copy gets."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {Path(below) / path.relative_to(folder): path for path in found}


def _copy_whole(wanted: Mapping[Path, Path], destination: Path) -> None:
    """Copy contents, not modes: the module cache is write-protected, a cache folder is not."""
    if destination.is_dir():
        return
    beside = destination.with_name(f".{destination.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    for name, source in wanted.items():
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, beside / name)
    beside.replace(destination)
