"""Programs of other projects that some tests use; a test whose program is absent is skipped."""

import shutil
from pathlib import Path

UNPACKED = Path(__file__).parents[1] / "build" / "debian" / "usr" / "bin"
"""Where `.ci/setup debian` unpacks what would otherwise come with a service."""


def find(name: str) -> str | None:
    """Return the machine's program, else the one that was unpacked, else None."""
    return shutil.which(name) or shutil.which(str(UNPACKED / name))
