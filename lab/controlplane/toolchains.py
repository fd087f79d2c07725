"""The Go that builds the lab's programs: there, new enough, and able to fetch modules."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from lab import errors
from lab.controlplane import tools

ANSWER_WITHIN_S = 600.0
"""Go may fetch a newer toolchain before it answers."""
SWITCHING_SINCE = (1, 21)
"""The first Go that can fetch the toolchain that a module asks for."""
REMEDY = "install it from https://go.dev/dl/, or point TIPHYS_LAB_BIN to prebuilt programs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """A Go that can build one tool."""

    program: str
    """Path of `go`."""
    version: str
    """As it calls itself: `go1.26.8`."""


def find(tool: tools.Tool) -> Toolchain:
    """Return the Go for `tool`.

    An older Go that may fetch the right one (GOTOOLCHAIN=auto, its default) is asked to. Raises
    `SetupError` where there is no Go, or none that is new enough.
    """
    program = shutil.which("go")
    if program is None:
        raise errors.SetupError(
            f"no `go` on PATH, and the lab builds {tool.name} {tool.version} with it: "
            f"Go {tool.go_line} or newer is needed; {REMEDY}"
        )
    installed, problem = _version(program, local=True)
    if problem:
        raise errors.SetupError(f"{problem}: repair that Go, or {REMEDY}")
    if _numbers(installed) >= _numbers(tool.go_line):
        return Toolchain(program=program, version=installed)
    reason = ""
    if _numbers(installed)[:2] >= SWITCHING_SINCE:
        fetched, problem = _version(program, tool=tool)
        if _numbers(fetched) >= _numbers(tool.go_line):
            return Toolchain(program=program, version=fetched)
        if problem:
            reason = f" (it tried to fetch the newer one: {problem})"
    raise errors.SetupError(
        f"{program} is {installed}, too old for {tool.name} {tool.version}{reason}: "
        f"Go {tool.go_line} or newer is needed; {REMEDY}"
    )


def _version(
    program: str, *, tool: tools.Tool | None = None, local: bool = False
) -> tuple[str, str]:
    """Ask Go for its version, in the tool's module if one is given; returns (version, problem)."""
    environment = {**os.environ, **({"GOTOOLCHAIN": "local"} if local else {})}
    # Outside any module: an old Go fails on the `go` line of a newer one before it answers.
    folder = tool.module if tool else "/"
    try:
        answer = subprocess.run(
            [program, "env", "GOVERSION"],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=ANSWER_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{program} does not run ({error})"
    version = answer.stdout.strip()
    if answer.returncode != 0 or not version:
        detail = answer.stderr.strip().splitlines()[-1:] or [f"exit code {answer.returncode}"]
        return "", f"`{program} env GOVERSION` fails: {detail[0]}"
    return version, ""


def _numbers(version: str) -> tuple[int, ...]:
    """Return `(1, 26, 8)` for `go1.26.8`, `1.26.8` or `go1.26.8 X:nocoverageredesign`."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    return tuple(int(part or 0) for part in match.groups()) if match else (0, 0, 0)
