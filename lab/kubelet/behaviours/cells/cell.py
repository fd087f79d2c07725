"""The first process of a container: a throw-away root of its own, then the container's command.

Started as `python -I -S cell.py FD`; reads a `Plan`, marshalled, from file descriptor FD.
It leaves the machine's namespaces (mounts, processes, network, IPC, names; users too when it is
not root), builds a root file system in memory whose programs are the machine's own, read-only,
runs the command, and does what Argo's emissary does afterwards: it copies the output files of the
main container below `/var/run/argo`. It exits with the command's exit code, 128 + N after signal N.

It keeps scripts from touching the machine by accident; it is no jail for hostile code: the kernel
is shared and no system call is filtered. It starts once per container, so only modules that cost
nothing are imported: pathlib, json, socket, signal and typing would triple the time to start.
"""

import _signal as signal  # type: ignore[import-not-found]
import ctypes
import errno
import fcntl
import marshal
import os
import resource
import struct
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT = 1, 2, 4, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
AF_INET, SOCK_DGRAM, SIOCSIFFLAGS, IFF_UP = 2, 2, 0x8914, 1
KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 10, 18, 31})
"""chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, sys_chroot, setfcap:
what container runtimes leave, without mknod and raw sockets."""
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
LAST_CAPABILITY = 63
EMISSARY_FAILED = 64
"""Exit code of Argo's emissary when it fails itself, such as for a command that does not exist."""
MISSING = 65
"""Exit code of this program when the machine permits no namespaces; no container ends so, because
whoever starts it probes first."""

libc = ctypes.CDLL(None, use_errno=True)

Plan = dict
"""What to run and in which surroundings, as `lab.kubelet.behaviours.sandboxes` encodes it."""


def check(result: int, what: str) -> None:
    """Raise `OSError` for a system call that returned -1."""
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(
    source: str | None,
    target: str,
    *,
    kind: str | None = None,
    flags: int = 0,
    options: str | None = None,
) -> None:
    """Mount; arguments as in mount(2)."""
    words = [None if text is None else text.encode() for text in (source, target, kind, options)]
    check(libc.mount(*words[:3], flags, words[3]), f"mount {source} on {target}")


def leave(plan: Plan) -> None:
    """Leave the machine's namespaces."""
    flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS
    user, group = os.getuid(), os.getgid()
    if user != 0:
        flags |= CLONE_NEWUSER
    check(libc.unshare(flags), "unshare")
    if user != 0:
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"0 {user} 1")
        write("/proc/self/gid_map", f"0 {group} 1")
    name = plan["hostname"][:63].encode()
    check(libc.sethostname(name, len(name)), "sethostname")


def write(path: str, text: str) -> None:
    """Write a small file."""
    with open(path, "w") as file:
        file.write(text)


def build(plan: Plan) -> None:
    """Mount the root file system and step into it; the old root is gone afterwards."""
    root = plan["root"]
    mount(None, "/", flags=MS_REC | MS_PRIVATE)
    size = plan["limits"]["files_bytes"]
    mount("container", root, kind="tmpfs", flags=MS_NOSUID, options=f"size={size},mode=755")
    for path in plan["system"]:
        if os.path.islink(path):
            os.makedirs(root + os.path.dirname(path), exist_ok=True)
            os.symlink(os.readlink(path), root + path)
        elif os.path.exists(path):
            bind(path, root + path, read_only=True)
    for folder in ("proc", "dev", "tmp", "root", "run", "mnt", "work", "src", "var/tmp", ".old"):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    os.chmod(f"{root}/tmp", 0o1777)
    os.chmod(f"{root}/var/tmp", 0o1777)
    if not os.path.lexists(f"{root}/var/run"):
        os.symlink("/run", f"{root}/var/run")
    for path, content in plan["files"].items():
        os.makedirs(root + os.path.dirname(path), exist_ok=True)
        write(root + path, content)
    devices(root)
    try:
        mount("proc", f"{root}/proc", kind="proc", flags=MS_NOSUID | MS_NODEV)
    except OSError:
        # A machine that is a container itself may hide parts of /proc and then forbids a new one.
        bind("/proc", f"{root}/proc", read_only=False)
    # Parents first, so that a volume below another volume ends up inside it.
    for entry in sorted(plan["mounts"], key=lambda entry: entry["path"].count("/")):
        bind(entry["source"], inside(root, entry["path"]), read_only=entry["read_only"])
    number = SYS_PIVOT_ROOT[os.uname().machine]
    check(libc.syscall(number, root.encode(), f"{root}/.old".encode()), "pivot_root")
    os.chdir("/")
    check(libc.umount2(b"/.old", MNT_DETACH), "umount")
    os.rmdir("/.old")


def inside(root: str, path: str) -> str:
    """Return where `path` of the container lies now; links of the container are followed there."""
    parts, walked = path.strip("/").split("/"), root
    for part in parts:
        walked = f"{walked}/{part}"
        if os.path.islink(walked):
            link = os.readlink(walked)
            walked = root + link if link.startswith("/") else f"{os.path.dirname(walked)}/{link}"
    return walked


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show `source` at `target` too."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.exists(target):
            write(target, "")
    mount(source, target, flags=MS_BIND | MS_REC)
    if read_only:
        flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID
        try:
            mount(None, target, flags=flags)
        except OSError:
            # In a user namespace the flags that the mount had already must be kept.
            mount(None, target, flags=flags | MS_NODEV | 1024)


def devices(root: str) -> None:
    """Make a /dev with the devices that every container has."""
    for name in DEVICES:
        bind(f"/dev/{name}", f"{root}/dev/{name}", read_only=False)
    os.makedirs(f"{root}/dev/shm", exist_ok=True)
    os.chmod(f"{root}/dev/shm", 0o1777)
    for name, target in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        os.symlink(target, f"{root}/dev/{name}")


def loopback() -> None:
    """Bring the loopback interface up, as in every pod."""
    probe = libc.socket(AF_INET, SOCK_DGRAM, 0)
    check(probe, "socket")
    try:
        fcntl.ioctl(probe, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    finally:
        os.close(probe)


def confine(limits: dict[str, int]) -> None:
    """Give up what a container's process may not do, just before it runs."""
    for capability in range(LAST_CAPABILITY + 1):
        if capability not in KEPT_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    cpu_s = limits["cpu_s"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = limits["files_bytes"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def find(name: str, environment: dict[str, str]) -> str | None:
    """Return the path of a command, looked up in the container's PATH."""
    if "/" in name:
        return name if os.access(name, os.X_OK) else None
    for folder in environment.get("PATH", "").split(":"):
        path = f"{folder}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    return None


def run(plan: Plan) -> int:
    """Run the command as a child, forward signals to it, and return its exit code."""
    command, environment = plan["command"], plan["environment"]
    path = find(command[0], environment)
    if path is None:
        sys.stderr.write(
            f'failed to find name in PATH: exec: "{command[0]}": executable file not found in'
            " $PATH\n"
        )
        return EMISSARY_FAILED
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            os.makedirs(plan["folder"], exist_ok=True)
            os.chdir(plan["folder"])
            confine(plan["limits"])
            os.execve(path, command, environment)
        except OSError as error:
            sys.stderr.write(f"failed to start command: {error}\n")
        finally:
            os._exit(EMISSARY_FAILED)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: signalled(child, number))
    return reap(child)


def signalled(child: int, number: int) -> None:
    """Pass a signal on to the command and all that it started."""
    for target in (-child, child):
        try:
            os.kill(target, number)
        except ProcessLookupError:
            continue
        return


def reap(child: int) -> int:
    """Wait for the command; collect whatever else ends before."""
    while True:
        try:
            ended, status = os.wait()
        except InterruptedError:
            continue
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def save(plan: Plan) -> None:
    """Copy output files to where the `wait` container reads them, as Argo's emissary does."""
    for path in plan["parameters"]:
        if os.path.isfile(path):
            target = f"/var/run/argo/outputs/parameters/{path.lstrip('/')}"
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(path, "rb") as source, open(target, "wb") as file:
                file.write(source.read(plan["limits"]["files_bytes"]))
    for path in plan["artifacts"]:
        if os.path.exists(path):
            pack(path.rstrip("/"))


def pack(path: str) -> None:
    """Write one artifact as a gzipped tar whose top entry is the path's last part."""
    import gzip
    import tarfile

    target = f"/var/run/argo/outputs/artifacts{path}.tgz"
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with (
        gzip.open(target, "wb", compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        archive.add(path, arcname=os.path.basename(path), filter=plain)


def plain(member):  # type: ignore[no-untyped-def]  # tarfile is imported only where needed
    """Keep what Argo's untar understands: files, folders and links."""
    return member if member.isreg() or member.isdir() or member.issym() else None


def first(plan: Plan) -> int:
    """Be process 1 of the container, from here to its end."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    build(plan)
    try:
        loopback()
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EACCES):
            raise
    code = EMISSARY_FAILED
    for attempt in range(plan["retries"] + 1):
        if attempt:
            time.sleep(plan["pause_s"])
        code = run(plan)
        if code == 0:
            break
    save(plan)
    return code


def main() -> int:
    """Read the plan, leave the namespaces, start process 1 and pass signals and its end on."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with os.fdopen(int(sys.argv[1]), "rb") as file:
        plan = marshal.load(file)
    try:
        leave(plan)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return MISSING
    pending: list[int] = []
    target = [0]

    def forward(number: int, _: object) -> None:
        if target[0]:
            os.kill(target[0], number)
        else:
            pending.append(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, forward)
    child = os.fork()
    if child == 0:
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
        code = EMISSARY_FAILED
        try:
            code = first(plan)
        except OSError as error:
            sys.stderr.write(f"the container could not start: {error}\n")
        finally:
            sys.stderr.flush()
            os._exit(code)
    target[0] = child
    for number in pending:
        os.kill(child, number)
    while True:
        try:
            _, status = os.waitpid(child, 0)
        except InterruptedError:
            continue
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
