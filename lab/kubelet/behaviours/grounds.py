"""What all pods of one kubelet share: folders, the stand-ins, the network, caches of API look-ups.

Folders below the lab's home: `pods/UID` (volumes of a running pod, removed at its end),
`claims/UID` (contents of PersistentVolumeClaims), `standins` (programs that every container finds
in its PATH), `roots` (empty: where root file systems are mounted), `net` (one unix socket per
server that runs in a container; see `cells/standins/webs.py`).
"""

import asyncio
import functools
import logging
import marshal
import os
import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from lab import apis, clocks
from lab.kubelet.behaviours import contracts
from lab.kubelet.pods import CLOCK_ANNOTATION

logger = logging.getLogger(__name__)

CLAIMS = "claims"
CELLS = Path(__file__).with_name("cells")
REMEMBERED_S = 20.0
"""Wall seconds for which an API look-up is believed."""
LOG_BYTES = 1 << 20
LOGS = 4000
"""How many containers' logs are kept for `kubectl logs`; the oldest go first."""
STARTS = 6
"""Containers that may be starting at once; more would only slow each other down."""


@dataclass(slots=True, eq=False)
class Ground:
    """The shared part; one per lab home, found by `of`."""

    root: Path
    api: apis.Api
    clock: clocks.SimClock
    starting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STARTS))
    logs: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    """Output by namespace, pod and container."""
    _prepared: bool = False
    _permitted: str | None = None
    _looked_up: dict[str, tuple[float, object]] = field(default_factory=dict)

    @property
    def claims(self) -> Path:
        """Contents of PersistentVolumeClaims, by uid."""
        return self.root / CLAIMS

    @property
    def roots(self) -> Path:
        """Where containers' root file systems are mounted, each for itself alone."""
        return self.root / "roots"

    @property
    def net(self) -> Path:
        """Sockets of servers that run in containers."""
        return self.root / "net"

    @property
    def standins(self) -> Path:
        """Programs that containers find first in their PATH."""
        return self.root / "standins"

    def pod_folder(self, pod: apis.Object) -> Path:
        """Return the folder of a pod's volumes."""
        return self.root / "pods" / str(pod["metadata"]["uid"])

    def prepare(self) -> None:
        """Write the stand-ins and make the folders; once."""
        if self._prepared:
            return
        for folder in (self.claims, self.net, self.roots, self.standins):
            folder.mkdir(parents=True, exist_ok=True)
        for left in self.roots.iterdir():
            # Of containers that ended with an earlier kubelet.
            left.rmdir()
        write_standins(self.standins)
        self._prepared = True

    async def lookup(self, path: str) -> apis.Object | None:
        """Return an object of the API, believed for a while; None where there is none."""
        at, found = self._looked_up.get(path, (0.0, None))
        if time.monotonic() - at < REMEMBERED_S and found is not None:
            return found  # type: ignore[return-value]
        try:
            answer = await self.api.get(path)
        except apis.ApiError as error:
            if error.status != 404:
                raise
            return None
        self._looked_up[path] = (time.monotonic(), answer)
        return answer

    def speed(self, pod: apis.Object) -> float:
        """Return how much faster than the wall the sleeps of a pod's commands pass."""
        annotations = pod["metadata"].get("annotations") or {}
        return 1.0 if annotations.get(CLOCK_ANNOTATION) == "wall" else self.clock.speed

    async def refusal(self) -> str:
        """Return why this machine permits no containers; empty where it does. Tried once."""
        if self._permitted is None:
            self._permitted = await probe()
            if self._permitted:
                logger.warning(
                    "commands of pods are not run, their outputs are defaults: %s", self._permitted
                )
        return self._permitted

    def keep_log(self, pod: apis.Object, container: str, output: bytes) -> None:
        """Keep the end of a container's output for `kubectl logs`."""
        metadata = pod["metadata"]
        while len(self.logs) >= LOGS:
            self.logs.pop(next(iter(self.logs)))
        self.logs[metadata["namespace"], metadata["name"], container] = output[-LOG_BYTES:]


_grounds: dict[Path, Ground] = {}


def of(host: contracts.Host) -> Ground:
    """Return the ground of the lab that a pod's host belongs to."""
    root = host.artifacts.parent
    ground = _grounds.get(root)
    if ground is None or ground.api is not host.api:
        ground = _grounds[root] = Ground(root=root, api=host.api, clock=host.clock)
    return ground


def log(root: Path, namespace: str, pod: str, container: str) -> str:
    """Return what a container printed, as far as it is kept; empty for one that is not known."""
    ground = _grounds.get(root)
    output = ground.logs.get((namespace, pod, container), b"") if ground else b""
    return output.decode(errors="replace")


@functools.cache
def interpreter() -> Path:
    """Return the real Python (not that of a virtual environment, which lies elsewhere)."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (Path(sys.base_prefix) / "bin" / name, Path(sys.executable)):
        if path.exists():
            return path.resolve()
    return Path(sys.executable)


@functools.cache
def system_paths() -> tuple[str, ...]:
    """Return what a container sees of the machine: its programs and libraries, read-only."""
    paths = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"]
    prefix = interpreter().parents[1]
    if not prefix.is_relative_to("/usr"):
        paths.append(str(prefix))
    return tuple(path for path in paths if os.path.lexists(path))


def write_standins(folder: Path) -> None:
    """Write the stand-ins as programs: their text under a line that names the interpreter."""
    heads = {".sh": "#!/bin/sh", ".py": f"#!{interpreter()} -ES"}
    for source in sorted((CELLS / "standins").iterdir()):
        if source.suffix not in heads:
            continue
        name = source.stem
        if name == "jq" and shutil.which("jq", path="/usr/bin:/usr/local/bin"):
            continue
        target = folder / (source.name if name == "webs" else name)
        beside = target.with_name(f".{target.name}")
        beside.write_text(f"{heads[source.suffix]}\n{source.read_text()}")
        beside.chmod(0o755)
        beside.replace(target)
    links = {"python": interpreter(), "python3": interpreter()}
    # Programs behind /etc/alternatives are found here, since that folder is not in a container.
    for path in Path("/usr/bin").iterdir():
        if path.is_symlink() and str(path.readlink()).startswith("/etc/alternatives/"):
            links.setdefault(path.name, path.resolve())
    for name, path in links.items():
        link = folder / name
        if not link.exists() and not link.is_symlink():
            link.symlink_to(path)


async def probe() -> str:
    """Try to make an empty container; return what stands in the way, or an empty string."""
    process = await asyncio.create_subprocess_exec(
        str(interpreter()),
        "-ISc",
        "import sys; sys.path.insert(0, sys.argv[1]); import cell; cell.leave(dict(hostname='x'));"
        " cell.mount(None, '/', flags=cell.MS_REC | cell.MS_PRIVATE);"
        " cell.mount('probe', '/tmp', kind='tmpfs')",
        str(CELLS),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, problem = await process.communicate()
    if process.returncode == 0:
        return ""
    lines = problem.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"the probe ended with {process.returncode}"


def passwd() -> dict[str, str]:
    """Return the small files of a container's /etc that do not depend on the pod."""
    return {
        "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
        "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
        "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
        "/etc/resolv.conf": "",
        "/etc/os-release": Path("/etc/os-release").read_text()
        if Path("/etc/os-release").exists()
        else 'NAME="Tiphys lab"\n',
    }


def encode(plan: dict[str, object]) -> bytes:
    """Encode a plan for `cells/cell.py`, which the same interpreter runs."""
    return marshal.dumps(plan)
