"""Files of a volume that change all at once: the `..data` symlink way of kubelets.

`NAME -> ..data/NAME`, `..data -> ..2026_11_30_…`: replacing the one symlink `..data` shows all
new files at an instant; whoever holds an old file open keeps it.
"""

import os
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

File = tuple[bytes, int]
"""Content and mode."""
Payload = Mapping[str, File]
"""Files by their path in the volume, `/` between folders."""

DATA = "..data"
NEXT = "..data_tmp"


def write(folder: Path, payload: Payload) -> None:
    """Make `folder` show exactly `payload`."""
    old = folder / (folder / DATA).readlink() if (folder / DATA).is_symlink() else None
    stamp = time.strftime("..%Y_%m_%d_%H_%M_%S", time.gmtime())
    new = folder / f"{stamp}.{secrets.token_hex(5)}"
    new.mkdir(mode=0o755)
    for path, (content, mode) in payload.items():
        _write_file(new / checked(path), content, mode)
    (folder / NEXT).unlink(missing_ok=True)
    (folder / NEXT).symlink_to(new.name)
    (folder / NEXT).replace(folder / DATA)
    shown = {PurePosixPath(path).parts[0] for path in payload}
    for name in shown:
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"{DATA}/{name}")
    for entry in folder.iterdir():
        if not entry.name.startswith("..") and entry.name not in shown:
            entry.unlink()
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def checked(path: str) -> str:
    """Return a path that stays inside its volume; raises `ValueError` for any other."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise ValueError(f"path {path!r} leaves its volume: write a relative path without `..`")
    return path


def _write_file(path: Path, content: bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    path.chmod(mode)
