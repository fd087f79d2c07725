"""The programs that the lab is made of: which Go module, which version, built with which flags.

Each tool has a module of its own below `lab/tools/`, whose `go.sum` fixes every byte that goes in;
their dependencies contradict one another, so they cannot share one. The `go` line of each is that
of its upstream, because Go derives a program's runtime defaults (GODEBUG) from it.
"""

import hashlib
import platform
from dataclasses import dataclass
from pathlib import Path

from lab import errors

FOLDER = Path(__file__).parents[1] / "tools"
FLAGS = ("-trimpath",)
STRIPPED = "-s -w"

ETCD_VERSION = "v3.6.16"
ARGO_VERSION = "v4.0.5"
HELM_VERSION = "v3.22.0"
KUBERNETES_VERSIONS = ("v1.36.3", "v1.34.4")
ARGO_MODULE = "github.com/argoproj/argo-workflows/v4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One executable."""

    name: str
    package: str
    ask_version: tuple[str, ...] = ("--version",)
    """Arguments with which it prints its version and ends."""
    from_copy: bool = False
    """Whether the module must be copied out first: `cmd/argo` embeds web pages that the module
    does not carry, and Go refuses to lay files over its module cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One Go module and what is built from it."""

    name: str
    version: str
    programs: tuple[Program, ...]
    optional: tuple[Program, ...] = ()
    """Built on demand only."""
    stamps: tuple[tuple[str, str], ...] = ()
    """Variables that the linker sets: without them Kubernetes calls itself 0.0.0."""

    @property
    def module(self) -> Path:
        """Folder with its `go.mod` and `go.sum`."""
        return FOLDER / f"{self.name}-{self.version}"

    @property
    def linker_flags(self) -> str:
        """What `-ldflags` gets."""
        return " ".join([STRIPPED, *(f"-X {name}={value}" for name, value in self.stamps)])

    @property
    def go_line(self) -> str:
        """The least Go version that its module asks for, such as `1.26.0`."""
        for line in (self.module / "go.mod").read_text().splitlines():
            if line.startswith("go "):
                return line.split()[1]
        raise errors.LabError(f"{self.module / 'go.mod'} has no `go` line")

    def program(self, name: str) -> Program:
        """Return one of its programs."""
        return next(item for item in (*self.programs, *self.optional) if item.name == name)

    def key(self, go_version: str) -> str:
        """Return the name of its cache folder: it changes with all that goes into the bytes."""
        digest = hashlib.sha256()
        parts = (
            (self.module / "go.mod").read_bytes(),
            (self.module / "go.sum").read_bytes(),
            " ".join((*FLAGS, self.linker_flags)).encode(),
            f"{go_version} {platform.system()} {platform.machine()}".encode(),
        )
        for part in parts:
            digest.update(hashlib.sha256(part).digest())
        return f"{self.name}-{self.version}-{digest.hexdigest()[:12]}"


def etcd() -> Tool:
    """Return etcd."""
    program = Program(name="etcd", package="go.etcd.io/etcd/server/v3")
    return Tool(name="etcd", version=ETCD_VERSION, programs=(program,))


def kubernetes(version: str) -> Tool:
    """Return one version of Kubernetes; raises `UsageError` if the lab does not know it."""
    if version not in KUBERNETES_VERSIONS:
        raise errors.UsageError(
            f"no Kubernetes {version}: choose one of {', '.join(KUBERNETES_VERSIONS)}"
        )
    stamp = "k8s.io/component-base/version"
    major, minor, _ = version.removeprefix("v").split(".")
    servers = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return Tool(
        name="kubernetes",
        version=version,
        programs=tuple(
            Program(name=name, package=f"k8s.io/kubernetes/cmd/{name}") for name in servers
        ),
        optional=(
            Program(
                name="kubectl",
                package="k8s.io/kubernetes/cmd/kubectl",
                ask_version=("version", "--client"),
            ),
        ),
        stamps=(
            (f"{stamp}.gitVersion", version),
            (f"{stamp}.gitMajor", major),
            (f"{stamp}.gitMinor", minor),
            (f"{stamp}.gitTreeState", "clean"),
        ),
    )


def argo() -> Tool:
    """Return Argo Workflows."""
    return Tool(
        name="argo",
        version=ARGO_VERSION,
        programs=(
            Program(
                name="workflow-controller",
                package=f"{ARGO_MODULE}/cmd/workflow-controller",
                ask_version=("version",),
            ),
        ),
        optional=(
            Program(
                name="argo",
                package=f"{ARGO_MODULE}/cmd/argo",
                ask_version=("version",),
                from_copy=True,
            ),
        ),
        stamps=((f"{ARGO_MODULE}.version", ARGO_VERSION),),
    )


def helm() -> Tool:
    """Return Helm, which installs charts; no lab needs it."""
    module = "helm.sh/helm/v3"
    return Tool(
        name="helm",
        version=HELM_VERSION,
        programs=(),
        optional=(Program(name="helm", package=f"{module}/cmd/helm", ask_version=("version",)),),
        stamps=((f"{module}/internal/version.version", HELM_VERSION),),
    )


def known() -> tuple[Tool, ...]:
    """Return every tool of every version that a lab may have."""
    return (etcd(), *(kubernetes(version) for version in KUBERNETES_VERSIONS), argo(), helm())


def needed(kubernetes_version: str) -> tuple[Tool, ...]:
    """Return the tools of a lab, the quickest to build first."""
    return (etcd(), kubernetes(kubernetes_version), argo())
