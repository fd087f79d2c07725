"""Small data packs on disk, for readers."""

import json
import lzma
from pathlib import Path
from typing import Any

from lab.workloads import packs


def a_pack(root: Path, files: dict[str, list[Any]]) -> packs.Pack:
    """Write each file's rows (text as it is, other values as JSON), packed where named `.xz`."""
    for relative, rows in files.items():
        path = root / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        content = ("\n".join(lines) + "\n").encode()
        path.write_bytes(lzma.compress(content) if path.suffix == ".xz" else content)
    return packs.Pack(root=root)


def a_row(**changes: Any) -> dict[str, Any]:
    """Return a WfInstances workflow of two tasks."""
    task = {"rt": 5.0, "cpu": 80.0, "mem": 1e9, "rd": 1e6, "wr": 1e6, "inb": 1e6, "outb": 1e6}
    tasks = [{"name": "first", "p": [], **task}, {"name": "second", "p": [0], **task}]
    return {"id": "made/one", "wms": "made", "app": "bwa", "tasks": tasks} | changes
