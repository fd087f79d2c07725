"""Where the lab keeps its files: a cache keyed by version, and one home per lab, never the repo."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lab import errors

NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def cache_root() -> Path:
    """Return the folder of built binaries (`XDG_CACHE_HOME`, else `~/.cache`), shared by labs."""
    return _folder(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "tiphys"


def labs_root() -> Path:
    """Return the folder with one home per lab (`TIPHYS_LAB_HOME`, else below `XDG_STATE_HOME`)."""
    if chosen := os.environ.get("TIPHYS_LAB_HOME"):
        return _folder(chosen)
    return _folder(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "tiphys" / "labs"


def _folder(setting: str) -> Path:
    """Return a folder as an absolute path: programs of a lab run in folders of their own."""
    return Path(setting).expanduser().absolute()


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """The files of one lab; every path below `root`, which `lab down --purge` may delete whole."""

    name: str
    root: Path

    @property
    def state(self) -> Path:
        """`state.json`: what `up` was asked for, versions, ports, times (see controlplane)."""
        return self.root / "state.json"

    @property
    def kubeconfig(self) -> Path:
        """Cluster-admin kubeconfig with absolute paths to its certificates."""
        return self.root / "kubeconfig"

    @property
    def pki(self) -> Path:
        """Certificates and keys of the cluster; mode 0700."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """One `NAME.log` per process."""
        return self.root / "logs"

    @property
    def data(self) -> Path:
        """etcd's data and what else must survive a restart of one component."""
        return self.root / "data"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log (JSON lines, metadata level; microsecond times)."""
        return self.root / "audit.log"

    @property
    def journal(self) -> Path:
        """The kubelet's own records (JSON lines, see `lab.journals`)."""
        return self.root / "journal.jsonl"

    @property
    def truths(self) -> Path:
        """Folder of truth files `RUN.jsonl` (see `lab.truths`); only the kubelet reads them."""
        return self.root / "truths"

    @property
    def artifacts(self) -> Path:
        """The simulated object store: one file per artifact key."""
        return self.root / "artifacts"

    @property
    def cluster(self) -> Path:
        """The cluster description that this lab was started with (a copy)."""
        return self.root / "cluster.yaml"

    @property
    def supervisor_socket(self) -> Path:
        """Unix socket on which the supervisor takes commands (JSON lines)."""
        return self.root / "supervisor.sock"

    @property
    def kubelet_socket(self) -> Path:
        """Unix socket on which the kubelet takes fault commands (JSON lines)."""
        return self.root / "kubelet.sock"


def names() -> list[str]:
    """Return the names of the labs that have a home, whether they run or not."""
    root = labs_root()
    found = root.iterdir() if root.is_dir() else ()
    return sorted(
        each.name for each in found if each.is_dir() and NAME_PATTERN.fullmatch(each.name)
    )


def home(name: str) -> Home:
    """Return the home of the lab `name`; raises `UsageError` where the name cannot be one."""
    if not NAME_PATTERN.fullmatch(name):
        raise errors.UsageError(
            f"{name!r} cannot name a lab: use 1 to 32 of a-z, 0-9 and '-', not at the ends"
        )
    return Home(name=name, root=labs_root() / name)
