"""Where the programs come from: `TIPHYS_LAB_BIN` (prebuilt, flat as envtest lays them out), else
the user's cache, which is filled by building each once from its Go module.
"""

import os
import shlex
from concurrent import futures
from pathlib import Path

from lab import errors
from lab.controlplane import builds, extracts, states, tools

PREBUILT = "TIPHYS_LAB_BIN"


def prebuilt() -> Path | None:
    """Return the folder that `TIPHYS_LAB_BIN` names, or None if it is not set."""
    chosen = os.environ.get(PREBUILT)
    return Path(chosen).expanduser().absolute() if chosen else None


def find(asked: states.Asked, *, report: builds.Report = lambda progress: None) -> states.Binaries:
    """Return the programs for a lab, building what is missing.

    Raises `SetupError` where a program is missing, does not start, is of another version than
    asked, or cannot be built.
    """
    if folder := prebuilt():
        return from_folder(folder, asked)
    targets = {
        program.name: builds.target(tool, program)
        for tool in tools.needed(asked.kubernetes)
        for program in tool.programs
    }
    builds.build(list(targets.values()), report=report)
    argo = targets["workflow-controller"].folder
    return states.Binaries(
        **{_field(name): str(item.path) for name, item in targets.items()},
        argo_manifests=str(argo / extracts.MANIFESTS),
        argo_examples=str(argo / extracts.EXAMPLES),
    )


def from_folder(folder: Path, asked: states.Asked) -> states.Binaries:
    """Return the programs of a flat folder; raises `SetupError` naming all that is wrong."""
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise errors.SetupError(
            f"{PREBUILT}={folder} {what}: name the folder of the programs, "
            f"or unset {PREBUILT} and the lab builds its own"
        )
    needed = [
        (tool, program) for tool in tools.needed(asked.kubernetes) for program in tool.programs
    ]
    missing = [program.name for _, program in needed if not (folder / program.name).is_file()]
    manifests = folder / extracts.MANIFESTS
    if not (manifests / "crds" / "minimal").is_dir():
        missing.append(f"{extracts.MANIFESTS}/crds/minimal (Argo's CRDs)")
    if missing:
        raise errors.SetupError(
            f"{PREBUILT}={folder} lacks {', '.join(missing)}: put them there, "
            f"or unset {PREBUILT} and the lab builds its own"
        )
    locked = [
        str(folder / program.name)
        for _, program in needed
        if not os.access(folder / program.name, os.X_OK)
    ]
    if locked:
        raise errors.SetupError(
            f"{PREBUILT}={folder}: {', '.join(Path(path).name for path in locked)} may not be "
            f"executed: `chmod +x {shlex.join(locked)}`"
        )
    with futures.ThreadPoolExecutor() as pool:
        wrong = [item for item in pool.map(lambda pair: _wrong(folder, *pair), needed) if item]
    if wrong:
        raise errors.SetupError(f"{PREBUILT}={folder}: {'; '.join(wrong)}")
    return states.Binaries(
        **{_field(program.name): str(folder / program.name) for _, program in needed},
        argo_manifests=str(manifests),
        argo_examples=str(folder / extracts.EXAMPLES),
    )


def _wrong(folder: Path, tool: tools.Tool, program: tools.Program) -> str:
    """Return what is wrong with a prebuilt program, or an empty string."""
    said, problem = builds.says(program, folder / program.name)
    if problem:
        return f"{program.name} does not start ({problem}); replace it"
    if tool.name == "kubernetes" and tool.version not in said:
        first = said.partition("\n")[0]
        return (
            f"{program.name} says `{first}`, but {tool.version} was asked for: "
            "choose the other one with --kubernetes, or replace it"
        )
    return ""


def _field(name: str) -> str:
    return name.replace("-", "_")
