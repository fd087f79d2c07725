"""What the cache of built programs holds that no version which this checkout knows would use.

A folder is never used again once its key is another: after an edit of `go.mod`, of the flags, or
with another Go. Other checkouts may know it still; they would build it again. Folders of tools that
this checkout has never heard of are left alone.
"""

import contextlib
import fcntl
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import errors, homes
from lab.controlplane import processes, states, toolchains, tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One folder of the cache that is not needed here."""

    path: Path
    size_bytes: int


def leftovers() -> list[Leftover]:
    """Return what is not needed, by name; raises `SetupError` without the Go that makes the keys.

    What a lab runs with is needed, whichever version it is and wherever its home.
    """
    root = homes.cache_root() / "bin"
    known = tools.known()
    needed = {root / tool.key(toolchains.find(tool).version) for tool in known} | _run_with()
    there = {path for tool in known for path in root.glob(f"{tool.name}-v*") if path.is_dir()}
    return [Leftover(path=path, size_bytes=size_bytes(path)) for path in sorted(there - needed)]


def remove(leftover: Leftover) -> bool:
    """Delete one folder; returns False, and leaves it, where a build is at work in it."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context((leftover.path / ".lock").open("a"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        shutil.rmtree(leftover.path)
    return True


def _run_with() -> set[Path]:
    """Return the folders of the programs that labs run with now."""
    found: set[Path] = set()
    # By their processes: `TIPHYS_LAB_HOME` of now need not be that of each lab.
    for root in processes.roots():
        with contextlib.suppress(errors.LabError):
            state = states.read(homes.Home(name=root.name, root=root))
            if state is not None and state.running:
                programs = (state.binaries.etcd, state.binaries.kube_apiserver)
                found |= {Path(each).parent for each in (*programs, state.binaries.argo_manifests)}
    return found


def size_bytes(folder: Path) -> int:
    """Return what a folder takes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
