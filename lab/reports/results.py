"""Results as data: each program that prints figures writes `build/results/NAME.json` as well.

The schema is in docs/results.md: one flat JSON object. A head (`schema`, `name`, `command`, `seed`,
`data`, `git`, `speed`, `machine`, `written_at`) and beside it the figures, with dotted keys
(`default.mean_completion_s`) and the unit at the end of the name. `machine` is the only object.
"""

import math
import os
import platform
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from lab import errors, records

Scalar = float | int | str | bool | None
Figure = Scalar | Sequence[Scalar] | Sequence[Mapping[str, Scalar]]

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA = 1
NAME_PATTERN = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*")
KEY_PATTERN = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
HEAD = frozenset(
    {"schema", "name", "command", "seed", "data", "git", "speed", "machine", "written_at"}
)


def folder() -> Path:
    """Return the folder of results: `build/results` of the repository, or `TIPHYS_RESULTS`."""
    chosen = os.environ.get("TIPHYS_RESULTS")
    return Path(chosen) if chosen else REPOSITORY / "build" / "results"


def check_place(place: Path) -> None:
    """Make a folder and prove that files can be written there; raises `OSError` that names it.

    For whatever works for minutes before it has anything to write.
    """
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=place):
        pass


def write(
    name: str,
    *,
    seed: int | None,
    speed: float | None,
    figures: Mapping[str, Figure],
    command: str | None = None,
    data: str | None = None,
) -> Path:
    """Write one set of results and return its path; the file appears whole or not at all.

    `seed` and `speed` are None where nothing was drawn and where no simulated time ran; `data` is
    `pack` or `sample` (`figures.data`), None where no recorded traces were used. `command` repeats
    the run; the default is this process' own command line. Raises `UsageError` for a name, a key or
    a figure that the schema does not allow (infinite and NaN among them).
    """
    if not NAME_PATTERN.fullmatch(name):
        raise errors.UsageError(f"{name!r} cannot name results: use a-z, 0-9, '_' and '-'")
    for key, figure in figures.items():
        if not KEY_PATTERN.fullmatch(key) or key in HEAD:
            raise errors.UsageError(
                f"{name}.json: {key!r} cannot name a figure: use a-z, 0-9, '_', '-' in parts joined"
                f" by '.', and none of {', '.join(sorted(HEAD))}"
            )
        _check(figure, where=f"{name}.json: {key}")
    document = {
        "schema": SCHEMA,
        "name": name,
        "command": command or command_line(),
        "seed": seed,
        "data": data,
        "git": git(),
        "speed": speed,
        "machine": machine(),
        "written_at": round(time.time(), 3),
        **figures,
    }
    path = folder() / f"{name}.json"
    records.write_whole(path, msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
    return path


def add(name: str, *, seed: int | None, speed: float | None, figures: Mapping[str, Figure]) -> Path:
    """Write figures beside those that other programs wrote for the same commit; return the path.

    What is of another commit is dropped: one file never mixes two versions.
    """
    before: dict[str, Figure] = {}
    kept = read(name)
    if kept.get("git") == git():
        before = {key: value for key, value in kept.items() if key not in HEAD}  # type: ignore[misc]
    return write(name, seed=seed, speed=speed, figures={**before, **figures})


def read(name: str) -> dict[str, object]:
    """Return one set of results with its head; nothing where there is none that can be read."""
    try:
        text = (folder() / f"{name}.json").read_bytes()
        return msgspec.json.decode(text, type=dict[str, object])
    except (OSError, msgspec.MsgspecError):
        return {}


def command_line() -> str:
    """Return the command that started this process, as a person would type it."""
    program, *arguments = sys.argv
    path = Path(program)
    if path.name == "__main__.py":
        # An environment may lie inside the repository: the nearest folder on the path is meant.
        roots = [Path(entry) for entry in sys.path if entry and path.is_relative_to(entry)]
        nearest = max([REPOSITORY, *roots], key=lambda root: len(root.parts))
        inside = path.parent.relative_to(nearest) if path.is_relative_to(nearest) else path.parent
        return shlex.join(["python", "-m", ".".join(inside.parts), *arguments])
    return shlex.join([path.name, *arguments])


def git() -> str:
    """Return the commit of the repository, with `-dirty` behind it where files differ from it."""
    command = ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty"]
    try:
        shown = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return shown.stdout.strip()


def machine() -> dict[str, Scalar]:
    """Describe the machine that the figures come from: `cores`, `memory_bytes`, `arch`, `kernel`.

    `cores` are those that this process may use.
    """
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "arch": platform.machine(),
        "kernel": platform.release(),
    }


def _check(figure: Figure, *, where: str) -> None:
    """Refuse figures that JSON cannot carry or that are nested deeper than the schema allows."""
    if isinstance(figure, float) and not math.isfinite(figure):
        raise errors.UsageError(f"{where} is {figure}; write null and say why in another key")
    if isinstance(figure, Mapping):
        raise errors.UsageError(f"{where} is an object; write dotted keys instead")
    if isinstance(figure, Sequence) and not isinstance(figure, str):
        for item in figure:
            for value in item.values() if isinstance(item, Mapping) else [item]:
                if isinstance(value, Sequence | Mapping) and not isinstance(value, str):
                    raise errors.UsageError(f"{where} is nested too deep")
                _check(value, where=where)
