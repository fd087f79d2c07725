"""Where the programs come from: `TIPHYS_LAB_BIN` (prebuilt, flat as envtest lays them out), else
the user's cache, which is filled by building each once from its Go module."""

import os
from pathlib import Path

from lab import errors
from lab.controlplane import states

PREBUILT = "TIPHYS_LAB_BIN"
ARGO_MODULE = "github.com/argoproj/argo-workflows"


def prebuilt() -> Path | None:
    """Return the folder that `TIPHYS_LAB_BIN` names, or None if it is not set."""
    chosen = os.environ.get(PREBUILT)
    return Path(chosen).expanduser().absolute() if chosen else None


def from_folder(folder: Path) -> states.Binaries:
    """Return the programs of a flat folder; raises `SetupError` naming all that are missing."""
    names = {field: field.replace("_", "-") for field in states.Binaries.__struct_fields__}
    del names["argo_manifests"]
    missing = [name for name in names.values() if not os.access(folder / name, os.X_OK)]
    manifests = folder / "manifests"
    if not (manifests / "crds" / "minimal").is_dir():
        missing.append("manifests/crds/minimal (Argo's CRDs)")
    if missing:
        raise errors.SetupError(
            f"{PREBUILT}={folder} lacks {', '.join(missing)}: put them there, "
            f"or unset {PREBUILT} and the lab builds its own"
        )
    paths = {field: str(folder / name) for field, name in names.items()}
    return states.Binaries(argo_manifests=str(manifests), **paths)


def find(asked: states.Asked) -> states.Binaries:
    """Return the programs for a lab."""
    if folder := prebuilt():
        return from_folder(folder)
    raise errors.SetupError(f"set {PREBUILT}")
