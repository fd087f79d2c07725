"""Builds the lab's programs once each into the user's cache, and says how far it is.

A program is built beside its place, started once to see that it runs, and renamed: what stands in
the cache is whole. A lock per tool makes several builds at once safe; the second finds the work
done. An interrupted build goes on where it was, since Go keeps every package that it compiled.
"""

import contextlib
import fcntl
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from lab import errors, homes
from lab.controlplane import extracts, processes, toolchains, tools

STARTS_WITHIN_S = 60.0
LOCKED_WITHIN_S = 3600.0
"""The longest program takes a third of it to build on two cores."""
DISK_FULL = ("no space left on device", "disk quota exceeded")
NO_MODULES = (
    "dial tcp",
    "no such host",
    "connection refused",
    "i/o timeout",
    "TLS handshake",
    "proxyconnect",
    "403 Forbidden",
    "404 Not Found",
    "502 Bad Gateway",
    "module lookup disabled",
)
DOWNLOADING = "go: downloading "
HEARTBEAT_S = 1.0


class Stage(StrEnum):
    """What a build is at."""

    WAITING = "waiting for another build"
    READING = "reading modules"
    DOWNLOADING = "downloading modules"
    COMPILING = "compiling"
    LINKING = "linking"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a build is, reported at each step and at least once a second."""

    program: str
    number: int
    """Which program this is, from 1."""
    count: int
    """Programs to build in all."""
    stage: Stage
    packages: int = 0
    """Packages compiled so far."""
    packages_at_most: int = 0
    """Packages that it consists of; those that Go has in its cache are not compiled again."""
    elapsed_s: float = 0.0


Report = Callable[[Progress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One program, the tool that it belongs to, and where it is or will be."""

    tool: tools.Tool
    program: tools.Program
    toolchain: toolchains.Toolchain

    @property
    def folder(self) -> Path:
        """The cache folder of its tool."""
        return homes.cache_root() / "bin" / self.tool.key(self.toolchain.version)

    @property
    def path(self) -> Path:
        """The executable."""
        return self.folder / self.program.name


def target(tool: tools.Tool, program: tools.Program) -> Target:
    """Return the target for a program of a tool; raises `SetupError` without a fit Go."""
    return Target(tool=tool, program=program, toolchain=toolchains.find(tool))


def build(targets: Sequence[Target], *, report: Report = lambda progress: None) -> None:
    """Build what is not in the cache yet.

    Raises `SetupError`: disk full, no way to the modules, a program that does not start, anything
    that Go complains about. Nothing half-built is ever left under its final name.
    """
    missing = [item for item in targets if not _complete(item)]
    for number, item in enumerate(missing, start=1):
        first = Progress(
            program=item.program.name, number=number, count=len(missing), stage=Stage.WAITING
        )
        tell = _teller(first, report)
        try:
            with _locked(item.folder, tell):
                if not _complete(item):
                    _build(item, tell)
        except OSError as error:
            raise _explain(item, str(error)) from error
        tell(Stage.DONE)


def argo_data() -> Path:
    """Return a folder with Argo's manifests and examples, of the version that the lab knows.

    One of the cache, whichever Go its key names; else what is taken out of the module now, which
    needs Go and, if Go has not fetched the module before, a way to it. Raises `SetupError`.
    """
    tool = tools.argo()
    kept = (homes.cache_root() / "bin").glob(f"{tool.name}-{tool.version}-*/{extracts.MANIFESTS}")
    if found := sorted(kept):
        return found[0].parent
    item = target(tool, tool.program("workflow-controller"))

    def tell(stage: Stage, packages: int = 0, at_most: int = 0) -> None:
        """A minute at most; `build` is for what takes long."""

    try:
        with _locked(item.folder, tell):
            extracts.copy_data(_module_folder(item, tell), item.folder)
    except OSError as error:
        raise _explain(item, str(error)) from error
    return item.folder


Tell = Callable[..., None]


def _teller(first: Progress, report: Report) -> Tell:
    """Return what turns a stage of one program into a report, with the time since now."""
    began = time.monotonic()

    def tell(stage: Stage, packages: int = 0, at_most: int = 0) -> None:
        elapsed_s = time.monotonic() - began
        done = replace(first, packages=packages, packages_at_most=at_most, elapsed_s=elapsed_s)
        report(replace(done, stage=stage))

    return tell


def _complete(item: Target) -> bool:
    """Whether the program is there, and with Argo also what the cluster needs of its module."""
    furnished = item.tool.name != "argo" or (item.folder / extracts.MANIFESTS).is_dir()
    return furnished and os.access(item.path, os.X_OK)


def _build(item: Target, tell: Tell) -> None:
    for left in item.folder.glob(".[!l]*"):
        # A killed build's; whoever holds the lock is alone here.
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    source = item.tool.module
    if item.tool.name == "argo":
        module = _module_folder(item, tell)
        extracts.copy_data(module, item.folder)
        if item.program.from_copy:
            source = extracts.copy_source(module, item.folder)
    partial = item.folder / f".{item.program.name}.{os.getpid()}"
    command = ["build", *tools.FLAGS, "-v", "-ldflags", item.tool.linker_flags]
    try:
        packages = _go(item, ["list", "-deps", item.program.package], source, tell=tell)
        at_most = len(packages.splitlines())
        command += ["-o", str(partial), item.program.package]
        _go(item, command, source, tell=tell, at_most=at_most)
        _check_starts(item, partial)
        partial.replace(item.path)
    finally:
        partial.unlink(missing_ok=True)
        if source != item.tool.module:
            shutil.rmtree(source, ignore_errors=True)


def _go(item: Target, arguments: list[str], folder: Path, *, tell: Tell, at_most: int = 0) -> str:
    """Run Go, report what it prints on the way, and return its standard output."""
    stage = Stage.COMPILING if at_most else Stage.READING
    compiled, complaints = 0, list[str]()
    with (
        tempfile.TemporaryFile("w+", dir=item.folder) as sink,
        subprocess.Popen(
            [item.toolchain.program, *arguments],
            cwd=folder,
            env={**os.environ, "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.PIPE,
            preexec_fn=processes.dying_with(processes.current()),
            # A group of its own: Go's compilers must end with it, and only our word ends it.
            process_group=0,
        ) as process,
    ):
        try:
            for line in _lines(process):
                if line is None:
                    pass
                elif line.startswith(DOWNLOADING):
                    stage = Stage.DOWNLOADING
                elif at_most and " " not in line and not line.startswith(("#", "\t")):
                    compiled += 1
                    last = line == item.program.package
                    stage = Stage.LINKING if last else Stage.COMPILING
                else:
                    complaints.append(line)
                tell(stage, compiled, at_most)
        except BaseException:
            # Not reaped yet, so the group is still Go's.
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.wait() != 0:
            raise _explain(item, "\n".join(complaints))
        sink.seek(0)
        return sink.read()


def _lines(process: "subprocess.Popen[bytes]") -> Iterator[str | None]:
    """Yield each line that the process complains with, and None each second without one."""
    assert process.stderr is not None
    rest = b""
    while True:
        if not select.select([process.stderr], [], [], HEARTBEAT_S)[0]:
            yield None
            continue
        chunk = os.read(process.stderr.fileno(), 65536)
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines if chunk else [*lines, rest]:
            if line:
                yield line.decode(errors="replace")
        if not chunk:
            return


def _check_starts(item: Target, path: Path) -> None:
    """Start a fresh program once; raises `SetupError` if it cannot say its version."""
    _, problem = says(item.program, path)
    if problem:
        raise errors.SetupError(
            f"{item.program.name} was built but does not start ({problem}): remove what is in the "
            "way and repeat; `go clean -cache` makes Go forget what it built"
        )


def says(program: tools.Program, path: Path) -> tuple[str, str]:
    """Ask a program for its version; returns (what it prints, why it does not start or nothing)."""
    try:
        answer = subprocess.run(
            [path, *program.ask_version],
            capture_output=True,
            text=True,
            timeout=STARTS_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    said = (answer.stdout + answer.stderr).strip()
    if answer.returncode == 0:
        return said, ""
    return said, ": ".join([f"exit code {answer.returncode}", *said.splitlines()[-1:]])


def _explain(item: Target, complaint: str) -> errors.SetupError:
    """Return what went wrong with a build and what to do, in one sentence."""
    what = f"building {item.program.name} ({item.tool.name} {item.tool.version})"
    lowered = complaint.lower()
    if any(sign in lowered for sign in DISK_FULL):
        free = shutil.disk_usage(item.folder).free / 2**30
        return errors.SetupError(
            f"the disk filled up while {what}: {free:.1f} GiB are free in {item.folder}, and a "
            "first build needs about 15 GiB in all (GOCACHE, GOMODCACHE, TMPDIR and that folder); "
            "make room and repeat, what was compiled is kept"
        )
    lines = [line for line in complaint.splitlines() if not line.startswith("#")]
    first = lines[0].strip() if lines else "Go gave no reason"
    if any(sign.lower() in lowered for sign in NO_MODULES):
        proxy = os.environ.get("GOPROXY", "Go's default")
        return errors.SetupError(
            f"the Go modules for {what} could not be fetched through GOPROXY={proxy} ({first}): "
            "check the network, set GOPROXY to a mirror that you can reach, "
            "or point TIPHYS_LAB_BIN to prebuilt programs"
        )
    return errors.SetupError(
        f"{what} failed: {first} (all of it: `go build` in {item.tool.module})"
    )


def _module_folder(item: Target, tell: Tell) -> Path:
    """Return where Go keeps the tool's own module, after fetching it."""
    # Not `-json`, which would say where it is at once, but why it is not among that, not on stderr.
    _go(item, ["mod", "download", tools.ARGO_MODULE], item.tool.module, tell=tell)
    where = ["list", "-m", "-f", "{{.Dir}}", tools.ARGO_MODULE]
    return Path(_go(item, where, item.tool.module, tell=tell).strip())


@contextlib.contextmanager
def _locked(folder: Path, tell: Tell) -> Iterator[None]:
    """Hold the lock of one cache folder; tells once a second while another build has it.

    Raises `SetupError` when another has had it for `LOCKED_WITHIN_S`. The file names its holder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + LOCKED_WITHIN_S
    path = folder / ".lock"
    with path.open("a") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > until:
                    pid = path.read_text().strip()
                    holder = f"process {pid}" if pid else "another process"
                    raise errors.SetupError(
                        f"{holder} has built in {folder} for {LOCKED_WITHIN_S:.0f} s: wait for it "
                        f"or end it, and repeat (`fuser {path}` lists who has the lock open)"
                    ) from error
                tell(Stage.WAITING)
                time.sleep(HEARTBEAT_S)
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
