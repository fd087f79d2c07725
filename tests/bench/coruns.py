"""Loads that run together on this machine: in cgroups, with weights, in the same window of time."""

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).with_name("corun_loads.c")
V1 = Path("/sys/fs/cgroup/cpu")
V1_IO = Path("/sys/fs/cgroup/blkio")
V2 = Path("/sys/fs/cgroup")
DISK_BYTES_PER_S = 256 * 2**20
"""Of all loads together; far below what disks give, so that only the cap matters."""
WINDOW_S = 0.5
MARGIN_S = 0.15
"""Before and after the window the loads run already and still."""
NOTICE_S = 0.03
"""From the command to the begin, so that all loads know before any of them is busy."""
OURS_SHARES = 262_144
"""What all loads together weigh against the rest of the machine: the most that cgroup v1 has."""
READY_WITHIN_S = 60.0


class UnfitError(Exception):
    """This machine cannot run the bench; the sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One load in a run."""

    kind: str
    threads: int
    shares: int = 1024
    """1024 a core, as Kubernetes counts requests."""

    @property
    def name(self) -> str:
        """`spin x2`."""
        return f"{self.kind} x{self.threads}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a load did in one window."""

    units_per_s: float
    cores: float


class Groups:
    """A group of cgroups with CPU weights below one that outweighs all others."""

    def __init__(self, folder: Path) -> None:
        if os.geteuid() != 0:
            raise UnfitError("setting CPU weights needs root")
        if (V1 / "cpu.shares").exists() or (V1 / "cpu.stat").exists():
            self._v2, root = False, V1
        elif (V2 / "cgroup.controllers").exists():
            self._v2, root = True, V2
            if not {"cpu", "io"} <= set((V2 / "cgroup.controllers").read_text().split()):
                raise UnfitError("the cgroup root does not offer the controllers cpu and io")
        else:
            raise UnfitError("no cpu controller under /sys/fs/cgroup")
        self._base = root / f"tiphys-corun-{os.getpid()}"
        try:
            if self._v2:
                (root / "cgroup.subtree_control").write_text("+cpu +io")
            self._base.mkdir()
            if self._v2:
                (self._base / "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            raise UnfitError(f"cannot make a cgroup in {root}: {error}") from error
        self.weigh("", OURS_SHARES)
        self._disk: Path | None = None
        try:
            self._disk = self._cap_disk(folder)
        except UnfitError:
            self.remove()
            raise

    def join(self, name: str, pid: int) -> None:
        """Put a process into a group of its own, below the cap of the disk."""
        folder = self._base / name
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.procs").write_text(str(pid))
        if self._disk is not None:
            (self._disk / "cgroup.procs").write_text(str(pid))

    def _cap_disk(self, folder: Path) -> Path | None:
        """Give all loads together one disk of `DISK_BYTES_PER_S`, as provisioned volumes are.

        Returns the second group that processes have to join for that (v1), None for v2.
        """
        device = folder.stat().st_dev
        name = f"{os.major(device)}:{os.minor(device)}"
        block = Path("/sys/dev/block") / name
        if not block.exists():
            raise UnfitError(f"{folder} lies on no block device; set TMPDIR to a folder on a disk")
        if (block / "partition").exists():
            name = (block.resolve().parent / "dev").read_text().strip()
        try:
            if self._v2:
                (self._base / "io.max").write_text(f"{name} wbps={DISK_BYTES_PER_S}")
                return None
            disk = V1_IO / self._base.name
            disk.mkdir()
            (disk / "blkio.throttle.write_bps_device").write_text(f"{name} {DISK_BYTES_PER_S}")
        except OSError as error:
            raise UnfitError(f"cannot cap the disk of {folder}: {error}") from error
        return disk

    def weigh(self, name: str, shares: int) -> None:
        """Set a group's weight in shares."""
        folder = self._base / name
        if self._v2:
            # The mapping of the kubelet.
            (folder / "cpu.weight").write_text(str(1 + (shares - 2) * 9999 // 262_142))
        else:
            (folder / "cpu.shares").write_text(str(shares))

    def remove(self) -> None:
        """Remove all groups; their processes have ended."""
        disk = V1_IO / self._base.name
        for folder in (*self._base.iterdir(), self._base, disk):
            if folder.is_dir():
                folder.rmdir()


class Machine:
    """The loads of the bench, started once and idle between runs."""

    def __init__(self, groups: Groups, processes: dict[str, "subprocess.Popen[str]"]) -> None:
        self._groups, self._processes = groups, processes

    def run(self, parts: tuple[Part, ...]) -> list[Sample]:
        """Run one or two loads in the same window."""
        begin_ns = time.monotonic_ns() + int(NOTICE_S * 1e9)
        start_ns = begin_ns + int(MARGIN_S * 1e9)
        end_ns = start_ns + int(WINDOW_S * 1e9)
        stop_ns = end_ns + int(MARGIN_S * 1e9)
        running = []
        for slot, part in zip("ab", parts, strict=False):
            name = f"{part.kind}-{slot}"
            self._groups.weigh(name, part.shares)
            process = self._processes[name]
            assert process.stdin is not None
            process.stdin.write(f"{part.threads} {begin_ns} {start_ns} {end_ns} {stop_ns}\n")
            process.stdin.flush()
            running.append(process)
        samples = []
        for process in running:
            assert process.stdout is not None
            units, cpu_ns, window_ns = map(int, process.stdout.readline().split())
            samples.append(Sample(units_per_s=units / window_ns * 1e9, cores=cpu_ns / window_ns))
        return samples


@contextmanager
def machine(kinds: tuple[str, ...], *, threads: int, folder: Path) -> Iterator[Machine]:
    """Build and start two of each load; raises `UnfitError` where that cannot be done."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise UnfitError("no C compiler (cc) for the load programs")
    program = folder / "corun_loads"
    subprocess.run([compiler, "-O2", "-pthread", "-o", program, SOURCE], check=True)
    groups = Groups(folder)
    processes: dict[str, subprocess.Popen[str]] = {}
    try:
        for kind in kinds:
            for slot in "ab":
                process = subprocess.Popen(
                    [program, kind, str(threads), folder / f"{kind}-{slot}.bytes"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                processes[f"{kind}-{slot}"] = process
                groups.join(f"{kind}-{slot}", process.pid)
        for name, process in processes.items():
            assert process.stdout is not None and process.stderr is not None
            if process.stdout.readline() != "ready\n":
                raise UnfitError(f"load {name} did not start: {process.stderr.read().strip()}")
        yield Machine(groups, processes)
    finally:
        for process in processes.values():
            process.communicate()
        groups.remove()


def medians(samples: list[list[Sample]]) -> list[Sample]:
    """Return the median of each part over repeated runs."""
    return [
        Sample(
            units_per_s=statistics.median(one.units_per_s for one in part),
            cores=statistics.median(one.cores for one in part),
        )
        for part in zip(*samples, strict=True)
    ]
