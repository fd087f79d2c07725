"""How the lab's command line is typed from here: what a message proposes must work as it stands."""

import contextlib
import shlex
import shutil
import sys
from pathlib import Path


def lab() -> str:
    """Return `python -m lab`, with the path of this interpreter where `python` is another one."""
    return f"{_python()} -m lab"


def _python() -> str:
    """Return what starts this interpreter with its environment from the working directory."""
    here = Path(sys.executable)
    found = shutil.which("python")
    # Links are not followed: of environments all lead to one interpreter.
    if found is not None and Path(found).absolute().parent == here.parent:
        return "python"
    with contextlib.suppress(OSError, ValueError):  # no such folder any more, or not below it
        near = here.relative_to(Path.cwd())
        if len(near.parts) > 1:  # a bare name would be looked for on PATH
            return shlex.quote(str(near))
    return shlex.quote(str(here))
