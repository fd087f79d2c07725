"""Where the programs come from: `TIPHYS_LAB_BIN` (prebuilt, flat as envtest lays them out), else
the user's cache, which is filled by building each once from its Go module.

What a lab is told to leave out (`--without`) is neither looked for nor built.
"""

import os
import re
import shlex
from collections.abc import Mapping
from concurrent import futures
from pathlib import Path

from lab import errors
from lab.controlplane import builds, extracts, states, tools

PREBUILT = "TIPHYS_LAB_BIN"
ARGO = "workflow-controller"
CRDS = f"{extracts.MANIFESTS}/crds/minimal"
VERSION = re.compile(r"\bv?(\d+\.\d+\.\d+(?:-[\w.-]+)?)")


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
    targets = [builds.target(tool, program) for tool, program in _needed(asked)]
    builds.build(targets, report=report)
    paths = {item.program.name: item.path for item in targets}
    return _binaries(paths, argo=paths[ARGO].parent if ARGO in paths else None)


def command_line(
    tool: tools.Tool, name: str, *, report: builds.Report = lambda progress: None
) -> Path:
    """Return a program that people type and no lab needs: a tool's `optional` one of that name.

    Of `TIPHYS_LAB_BIN` if it is there, else of the cache, built when missing. Raises `SetupError`
    where it can neither be found nor built.
    """
    folder = prebuilt()
    if folder is not None and os.access(folder / name, os.X_OK):
        return folder / name
    target = builds.target(tool, tool.program(name))
    builds.build([target], report=report)
    return target.path


def from_folder(folder: Path, asked: states.Asked) -> states.Binaries:
    """Return the programs of a flat folder; raises `SetupError` naming all that is wrong.

    Argo's manifests and examples may stand there too; else they are those of the cache or of the
    Go module.
    """
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise errors.SetupError(
            f"{PREBUILT}={folder} {what}: name the folder of the programs, "
            f"or unset {PREBUILT} and the lab builds its own"
        )
    needed = _needed(asked)
    paths = {program.name: folder / program.name for _, program in needed}
    _refuse_absent(folder, paths)
    with futures.ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda pair: builds.says(pair[1], paths[pair[1].name]), needed))
    versions, wrong = {}, []
    own_manifests = (folder / CRDS).is_dir()
    for (tool, program), (said, problem) in zip(needed, answers, strict=True):
        found = VERSION.search(said)
        versions[program.name] = f"v{found.group(1)}" if found else "unknown"
        if problem:
            wrong.append(f"{program.name} does not start ({problem}); replace it")
        elif tool.name == "kubernetes" and tool.version not in said:
            wrong.append(
                f"{program.name} says `{said.partition(chr(10))[0]}`, but {tool.version} was asked "
                "for: choose the other one with --kubernetes, or replace it"
            )
        elif program.name == ARGO and not own_manifests and found and tool.version not in said:
            wrong.append(
                f"{ARGO} says that it is {versions[ARGO]}, but the manifests that the lab knows "
                f"are those of {tool.version}: put its own beside it, as {CRDS}"
            )
    if wrong:
        raise errors.SetupError(f"{PREBUILT}={folder}: {'; '.join(wrong)}")
    argo = None
    if ARGO in paths:
        argo = folder if own_manifests else _argo_data(folder)
    return _binaries(paths, argo=argo, versions=versions)


def _needed(asked: states.Asked) -> list[tuple[tools.Tool, tools.Program]]:
    """Return the programs of the components that a lab is to have."""
    return [
        (tool, program)
        for tool in tools.needed(asked.kubernetes)
        for program in tool.programs
        if program.name not in asked.without
    ]


def _binaries(
    paths: Mapping[str, Path], *, argo: Path | None, versions: Mapping[str, str] | None = None
) -> states.Binaries:
    """Return programs by name, with manifests and examples of the folder `argo`."""
    return states.Binaries(
        **{name.replace("-", "_"): str(path) for name, path in paths.items()},
        argo_manifests=str(argo / extracts.MANIFESTS) if argo else "",
        argo_examples=str(argo / extracts.EXAMPLES) if argo else "",
        versions=dict(versions or {}),
    )


def _refuse_absent(folder: Path, paths: Mapping[str, Path]) -> None:
    """Raise `SetupError` for programs that are not there, or may not be executed."""
    if missing := [name for name, path in paths.items() if not path.is_file()]:
        raise errors.SetupError(
            f"{PREBUILT}={folder} lacks {', '.join(missing)}: put them there, leave out with "
            f"--without what may be, or unset {PREBUILT} and the lab builds its own"
        )
    if locked := [path for path in paths.values() if not os.access(path, os.X_OK)]:
        raise errors.SetupError(
            f"{PREBUILT}={folder}: {', '.join(path.name for path in locked)} may not be "
            f"executed: `chmod +x {shlex.join(map(str, locked))}`"
        )


def _argo_data(folder: Path) -> Path:
    """Return where Argo's manifests and examples are, if not in `folder`."""
    try:
        return builds.argo_data()
    except errors.SetupError as error:
        raise errors.SetupError(
            f"{PREBUILT}={folder} lacks {CRDS} (Argo's CRDs), and its Go module is not at hand: "
            f"put them there (from {tools.ARGO_MODULE}@{tools.ARGO_VERSION}, see docs/lab.md), or "
            f"let the lab fetch them: {error}"
        ) from error
