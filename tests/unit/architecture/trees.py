"""The repository as these tests see it: its root and its tracked files."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = ("argo", "ebpf", "lab", "models", "operator", "webhook")
PORTIONS = tuple(folder for folder in CODE if folder != "lab")


def tracked(*suffixes: str) -> list[Path]:
    """Return the tracked files, absolute, that still exist and end with one of `suffixes`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [
        path
        for path in paths
        if path.is_file() and (not suffixes or path.suffix in suffixes or path.name in suffixes)
    ]
