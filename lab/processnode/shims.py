"""The process between the node and one container: namespaces, mounts, log, and a sure end.

Run as a plain file (`python -I -S shims.py FD`), so it imports the standard library only and starts
in some 20 ms. FD is a socket to the node. It reads one JSON line, the `Spec` of `lab.processnode
.launches`, answers `{"started": PID}` or `{"failed": TEXT}`, obeys `{"signal": NUMBER}`, and says
`{"exited": CODE}` when the last process of the container is gone. A socket that closes means that
the node died: then everything here is killed. The container's own end is sure twice over: its
first process dies with this one (PR_SET_PDEATHSIG), and orphans of any depth come back to this one
(PR_SET_CHILD_SUBREAPER), which ends only when it has no child left.

It is longer than most files here because it may import nothing of the lab.
"""

import ctypes
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import stat
import sys
import termios
import time
from pathlib import Path
from typing import Any

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWUSER = 0x20000, 0x4000000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
MS_RELATIME = 1 << 21
ST_RELATIME = 4096
KEPT_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: the same numbers in statvfs and mount."""
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

READ_BYTES = 65536
LONGEST_LINE = 16384
"""Longer lines are cut into parts tagged `P`, as container runtimes do."""
SCRATCH_OPTIONS = b"mode=0755,size=64m"

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run one container or one command in it, and stay until all of it is gone."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lines = _Lines()
    spec: dict[str, Any] | None = None
    while spec is None:
        received = control.recv(READ_BYTES)
        if not received:
            return 0
        spec = next(iter(lines.feed(received)), None)
    return _Shim(control, spec, lines).run()


class _Lines:
    """JSON lines out of a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> list[dict[str, Any]]:
        *whole, self._rest = (self._rest + received).split(b"\n")
        return [json.loads(line) for line in whole]


class _Shim:
    def __init__(self, control: socket.socket, spec: dict[str, Any], lines: _Lines) -> None:
        self._control = control
        self._spec = spec
        self._lines = lines
        self._pid = 0
        self._code: int | None = None

    def run(self) -> int:
        wake, wake_end = os.pipe()
        os.set_blocking(wake_end, False)
        os.set_blocking(wake, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_end, warn_on_full_buffer=False)
        log = _Log(Path(self._spec["log"]), self._spec["log_bytes"]) if self._spec["log"] else None
        pipes = {name: os.pipe() for name in ("stdout", "stderr")} if log else {}
        if not self._start(pipes):
            return 0
        streams = {read_end: _Stream(name) for name, (read_end, _) in pipes.items()}
        for read_end, write_end in pipes.values():
            os.close(write_end)
            os.set_blocking(read_end, False)
        poll = select.poll()
        for descriptor in (self._control.fileno(), wake, *streams):
            poll.register(descriptor, select.POLLIN)
        while self._code is None:
            for descriptor, _ in poll.poll():
                if descriptor == self._control.fileno():
                    if not self._obey():
                        self._kill_all()
                        return 0
                elif descriptor == wake:
                    os.read(wake, READ_BYTES)
                    self._reap(os.WNOHANG)
                elif log and not log.take(descriptor, streams[descriptor]):
                    poll.unregister(descriptor)
        self._kill_all()
        if log:
            for descriptor, stream in streams.items():
                while log.take(descriptor, stream):
                    pass
        self._tell({"exited": self._code})
        return 0

    def _start(self, pipes: dict[str, tuple[int, int]]) -> bool:
        """Fork the first process; returns whether its program runs."""
        failures, failures_end = os.pipe()
        shim = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                _become(self._spec, shim=shim, pipes=pipes)
            except BaseException as error:
                os.write(failures_end, f"{_sentence(error)}".encode())
            os._exit(127)
        os.close(failures_end)
        with os.fdopen(failures, "rb") as reader:
            failure = reader.read().decode(errors="replace")
        if failure:
            self._kill_all()
            self._tell({"failed": failure})
            return False
        self._tell({"started": self._pid})
        return True

    def _obey(self) -> bool:
        """Carry out what the node says; False when the node is gone."""
        try:
            received = self._control.recv(READ_BYTES)
        except OSError:
            return False
        for command in self._lines.feed(received):
            _kill_group(self._pid, command["signal"])
        return bool(received)

    def _tell(self, message: dict[str, Any]) -> None:
        try:
            self._control.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return  # the node is gone, and with it whoever wanted to know

    def _reap(self, options: int) -> bool:
        """Collect ended children; False when there is none left at all."""
        while True:
            try:
                pid, status = os.waitpid(-1, options)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._pid:
                code = os.waitstatus_to_exitcode(status)
                self._code = code if code >= 0 else 128 - code
            if not options:
                return True

    def _kill_all(self) -> None:
        """Kill what is left; orphans become our children one generation at a time."""
        while True:
            for pid in _children(os.getpid()):
                _kill(pid, signal.SIGKILL)
            if not self._reap(0):
                return


class _Stream:
    """One of the container's outputs, and its line that has not ended yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rest = b""


class _Log:
    """A file in the format of container runtimes: `TIME STREAM F|P TEXT`, two files at most."""

    def __init__(self, path: Path, limit_bytes: int) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def take(self, descriptor: int, stream: _Stream) -> bool:
        """Move what a pipe holds into the file; False when the pipe is at its end or empty."""
        try:
            received = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            received = b""
        *whole, rest = (stream.rest + received).split(b"\n")
        entries = [self._entry(stream, b"F", line) for line in whole]
        while len(rest) > LONGEST_LINE or (rest and not received):
            entries.append(self._entry(stream, b"P", rest[:LONGEST_LINE]))
            rest = rest[LONGEST_LINE:]
        stream.rest = rest
        if entries:
            self._write(entries)
        return bool(received)

    @staticmethod
    def _entry(stream: _Stream, tag: bytes, text: bytes) -> bytes:
        seconds, nanoseconds = divmod(time.time_ns(), 10**9)
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return f"{at}.{nanoseconds:09d}Z {stream.name} ".encode() + tag + b" " + text + b"\n"

    def _write(self, entries: list[bytes]) -> None:
        """Append entries; a file that would pass its limit makes room for a new one first."""
        fitting: list[bytes] = []
        for entry in entries:
            if self._size and self._size + len(entry) > self._limit_bytes:
                self._append(b"".join(fitting))
                fitting.clear()
                self._file.close()
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._file = self._path.open("ab", buffering=0)
                self._size = 0
            fitting.append(entry)
            self._size += len(entry)
        self._append(b"".join(fitting))

    def _append(self, text: bytes) -> None:
        try:
            self._file.write(text)
        except OSError:
            return  # a full disk must not end the container


def _become(spec: dict[str, Any], *, shim: int, pipes: dict[str, tuple[int, int]]) -> None:
    """Turn this forked process into the container's program; never returns but by an error."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()
    if spec["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for target, name in ((1, "stdout"), (2, "stderr")):
        if name in pipes:
            os.dup2(pipes[name][1], target)
    if spec["enter"]:
        _enter(spec["enter"])
    elif spec["isolation"] != "none":
        _isolate(spec)
    # Entering a user namespace clears this, so it comes after; then the shim may be gone already.
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != shim:
        os._exit(1)
    os.umask(0o022)
    os.chdir(spec["folder"])
    environment = spec["environment"]
    program = shutil.which(spec["command"][0], path=environment.get("PATH", os.defpath))
    if program is None:
        raise FileNotFoundError(
            f"no program {spec['command'][0]!r} in PATH ({environment.get('PATH')})"
        )
    os.execve(program, spec["command"], environment)


def _enter(pid: int) -> None:
    """Join the namespaces and the root of a running container."""
    root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
    for name in ("user", "mnt", "uts"):
        own, other = f"/proc/self/ns/{name}", f"/proc/{pid}/ns/{name}"
        if Path(own).stat().st_ino == Path(other).stat().st_ino:
            continue
        descriptor = os.open(other, os.O_RDONLY)
        _check(_libc.setns(descriptor, 0), f"join the {name} namespace of process {pid}")
        os.close(descriptor)
        if name == "mnt":
            os.fchdir(root)
            os.chroot(".")


def _isolate(spec: dict[str, Any]) -> None:
    """Enter a mount namespace of our own and lay the volumes over the host's files."""
    uid, gid = os.getuid(), os.getgid()
    flags = CLONE_NEWNS | CLONE_NEWUTS
    if spec["isolation"] == "user":
        flags |= CLONE_NEWUSER
    _check(_libc.unshare(flags), "make a mount namespace")
    if spec["isolation"] == "user":
        # Mapped to itself: the program keeps its user, and loses the rights here when it starts.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("none", "/", flags=MS_REC | MS_PRIVATE, what="make mounts private")
    hostname = spec["hostname"].encode()
    _check(_libc.sethostname(hostname, len(hostname)), "set the host name")
    # Symlinks are followed first: `/var/run` is `/run` on most systems, and outer places must come
    # before those inside them.
    mounts = [(Path(os.path.realpath(mount["target"])), mount) for mount in spec["mounts"]]
    laying = _Laying(Path(spec["stage"]))
    for place, mount in sorted(mounts, key=lambda item: len(item[0].parts)):
        laying.lay(mount["source"], place, read_only=mount["read_only"])


class _Laying:
    """Lays files and folders over a root that is the host's, also where nothing stands yet.

    A place below an existing folder that lacks it cannot be made on the host. That folder is
    covered by a small tmpfs in which everything it held is bound again: then there is room.
    """

    def __init__(self, stage: Path) -> None:
        self._stage = stage
        self._ours: set[Path] = set()
        """Folders on a tmpfs of ours, where making a place is harmless."""
        self._volumes: dict[Path, bool] = {}
        """Places laid so far, and whether they are read-only."""

    def lay(self, source: str, place: Path, *, read_only: bool) -> None:
        folder = Path(source).is_dir()
        if not place.exists():
            self._make(place, folder=folder)
        elif place.is_dir() != folder:
            kinds = "a folder over a file" if folder else "a file over a folder"
            raise OSError(errno.ENOTDIR, f"cannot mount {kinds}", str(place))
        what = f"mount {source} at {place}"
        _mount(source, str(place), flags=MS_BIND | MS_REC, what=what)
        if read_only:
            found = os.statvfs(place).f_flag
            flags = MS_REMOUNT | MS_BIND | MS_RDONLY | (found & KEPT_FLAGS)
            flags |= MS_RELATIME if found & ST_RELATIME else 0
            _mount("none", str(place), flags=flags, what=what + " read-only")
        self._volumes[place] = read_only

    def _make(self, place: Path, *, folder: bool) -> None:
        """Make the place for a mount, and room for it where needed."""
        ancestor = next(parent for parent in place.parents if parent.exists())
        volume = next((parent for parent in place.parents if parent in self._volumes), None)
        if volume is not None and self._volumes[volume]:
            raise OSError(
                errno.EROFS, "cannot make a mount point in a read-only volume", str(place)
            )
        if volume is None and ancestor not in self._ours:
            self._cover(ancestor)
            self._ours.add(ancestor)
        place.parent.mkdir(parents=True, exist_ok=True)
        made = place.parents[: len(place.parts) - len(ancestor.parts) - 1]
        self._ours.update(made)
        if folder:
            place.mkdir()
        else:
            place.touch()

    def _cover(self, covered: Path) -> None:
        _mount("tmpfs", str(self._stage), kind="tmpfs", options=SCRATCH_OPTIONS, what="make room")
        for entry in covered.iterdir():
            _rebind(entry, self._stage / entry.name)
        if covered == Path("/"):
            os.chroot(self._stage)
            os.chdir("/")
        else:
            self._stage.chmod(stat.S_IMODE(covered.stat().st_mode))
            _mount(str(self._stage), str(covered), flags=MS_MOVE, what=f"make room in {covered}")


def _rebind(old: Path, new: Path) -> None:
    """Show what stands at `old` at `new` too; what vanished or cannot be bound is left out."""
    try:
        mode = old.lstat().st_mode
        if stat.S_ISLNK(mode):
            new.symlink_to(old.readlink())
            return
        if stat.S_ISDIR(mode):
            new.mkdir()
        else:
            new.touch()
    except OSError:
        return
    try:
        _mount(str(old), str(new), flags=MS_BIND | MS_REC, what=f"keep {old}")
    except OSError:
        if stat.S_ISDIR(mode):
            new.rmdir()
        else:
            new.unlink()


def _kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _kill_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid:
                found.append(int(entry.name))
    return found


def _mount(
    source: str,
    target: str,
    *,
    flags: int = 0,
    kind: str = "",
    options: bytes = b"",
    what: str,
) -> None:
    arguments = (source.encode(), target.encode(), kind.encode() or None, flags, options or None)
    _check(_libc.mount(*arguments), what)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.strerror}: {error.filename}"
    return str(getattr(error, "strerror", None) or error or type(error).__name__)


if __name__ == "__main__":
    sys.exit(main())
