"""One pod's place on this machine: folder, address, volumes kept current, and launch orders."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import apis
from lab.processnode import (
    actions,
    environments,
    events,
    fields,
    images,
    launches,
    logs,
    pods,
    settings,
    sources,
    tokens,
    volumes,
)

MOUNTS_VARIABLE = "TIPHYS_LAB_MOUNTS"
"""Only where mount namespaces are not permitted: a folder below which every mount path leads to the
real place, as in `$TIPHYS_LAB_MOUNTS/var/run/secrets/…`."""
TERMINATION_LOG = "/dev/termination-log"
HOSTS = "/etc/hosts"
RETRY_S = 5.0

LATER = (environments.MissingError, apis.ApiError)
"""What may be there soon."""
NEVER = (volumes.RefusedError, fields.UnknownError, images.UnknownImageError, OSError)
"""What a person has to change first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What every pod here stands on."""

    api: apis.Api
    settings: settings.Settings
    sources: sources.Sources
    events: events.Events
    isolation: launches.Isolation
    allocatable: Mapping[str, str]
    server: tuple[str, int]
    """Host and port of the API server."""
    hosts: Callable[[apis.Object, str], bytes]
    """Returns `/etc/hosts` of a pod with an address."""
    on_change: Callable[[], None]
    """Called when an endpoint may have come or gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How one run of a container is started, and where it leaves what."""

    spec: launches.Spec
    log: Path
    last_words: Path
    """The file behind `terminationMessagePath`."""


class Room:
    """The folder of one pod, from its volumes to its end."""

    def __init__(self, ground: Ground, pod: apis.Object, *, address: str) -> None:
        self.ground = ground
        self.pod = pod
        self.place = fields.Place(
            pod_ip=address,
            node=ground.settings.node,
            node_ip=ground.settings.block.node,
            allocatable=ground.allocatable,
        )
        self.logs = logs.folder(ground.settings.logs, pod)
        self._folder = ground.settings.pods / pods.uid(pod)
        self._hosts = self._folder / "hosts"
        self._hosts_shown = b""
        self._wake = asyncio.Event()
        self._tokens = tokens.Tokens(ground.api, refresh=ground.settings.token_refresh)
        self._volumes = volumes.Volumes(
            pod, folder=self._folder / "volumes", host_root=ground.settings.root
        )

    async def furnish(self, tell: Callable[[str], None]) -> None:
        """Make all volumes; `tell` hears what is missing, for as long as something is."""
        await self.ground.sources.hold(self.pod["metadata"]["namespace"])
        for folder in (self._folder, self._folder / "stage"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.show_hosts(self.ground.hosts(self.pod, self.place.pod_ip))
        while True:
            self._wake.clear()
            try:
                await self._refresh()
                return
            except (*LATER, *NEVER) as error:
                tell(str(error))
            await self._sleep(self.ground.settings.config_retry_s)

    async def keep_current(self) -> None:
        """Bring changes of ConfigMaps, Secrets, labels and tokens to the files, for ever."""
        while True:
            due_at = self._tokens.due_at()
            await self._sleep(None if due_at is None else max(0.05, due_at - time.time()))
            self._wake.clear()
            try:
                await self._refresh()
            except (*LATER, *NEVER) as error:
                # What is mounted stays as it was, as kubelets do it.
                self.ground.events.warning(self.pod, "FailedMount", str(error))
                await asyncio.sleep(RETRY_S)

    def show_hosts(self, content: bytes) -> None:
        """Write `/etc/hosts` of the pod, in place: containers hold the file itself."""
        if not self._folder.exists() or content == self._hosts_shown:
            return
        descriptor = os.open(self._hosts, os.O_WRONLY | os.O_CREAT, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.truncate()
        self._hosts_shown = content

    def look_again(self) -> None:
        """Something that a volume shows may have changed."""
        self._wake.set()

    def order(self, container: apis.Object) -> Order:
        """Return how to start a container now; raises one of `LATER` or `NEVER`."""
        ground, isolation = self.ground, self.ground.isolation
        own = self._folder / "containers" / container["name"]
        shutil.rmtree(own, ignore_errors=True)
        home = own / "home"
        home.mkdir(parents=True)
        words = own / "termination-log"
        words.touch(mode=0o666)
        base = self._base(home)
        if isolation == "none":
            base[MOUNTS_VARIABLE] = str(own / "tree")
        environment = environments.resolve(
            self.pod, container, base=base, sources=ground.sources, place=self.place
        )
        command = images.command(container, table=images.read_table(ground.settings.images))
        target = container.get("terminationMessagePath") or TERMINATION_LOG
        mounts = [
            *self._volumes.mounts(container, environment),
            volumes.Mount(source=words, target=target),
        ]
        if not any(mount.target == HOSTS for mount in mounts):
            mounts.append(volumes.Mount(source=self._hosts, target=HOSTS))
        _keep_interpreter(mounts)
        if isolation == "none":
            _plant(own / "tree", mounts)
        log = self.logs / f"{container['name']}.log"
        logs.begin(log)
        return Order(
            spec=launches.Spec(
                command=[environments.expand(word, environment) for word in command],
                environment=environment,
                folder=actions.working_folder(container, home),
                isolation=isolation,
                hostname=pods.hostname(self.pod),
                stage=str(self._folder / "stage"),
                mounts=[
                    launches.Mount(
                        source=str(mount.source), target=mount.target, read_only=mount.read_only
                    )
                    for mount in mounts
                ],
                log=str(log),
                log_bytes=ground.settings.log_bytes,
            ),
            log=log,
            last_words=words,
        )

    def clear(self) -> None:
        """Delete the pod's folder; its logs stay."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def leave(self) -> None:
        """Watch the namespace no longer; to be called once, after `furnish` was begun."""
        self.ground.sources.release(self.pod["metadata"]["namespace"])

    async def _refresh(self) -> None:
        refused: apis.ApiError | None = None
        try:
            await self._tokens.renew(self.pod, self._volumes.token_projections)
        except apis.ApiError as error:
            refused = error  # what else changed is shown first
        try:
            self._volumes.write(
                self.pod,
                sources=self.ground.sources,
                place=self.place,
                tokens=self._tokens.current,
            )
        finally:
            if refused is not None:
                raise refused  # not that there is no token, but why

    async def _sleep(self, limit_s: float | None) -> None:
        try:
            async with asyncio.timeout(limit_s):
                await self._wake.wait()
        except TimeoutError:
            return

    def _base(self, home: Path) -> dict[str, str]:
        """Return what each container finds in its environment before the pod's own variables."""
        host, port = self.ground.server
        return {
            "PATH": settings.search_path(),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "HOSTNAME": pods.hostname(self.pod),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": str(port),
            "KUBERNETES_SERVICE_PORT_HTTPS": str(port),
            **launches.marker(),
        }


def _keep_interpreter(mounts: list[volumes.Mount]) -> None:
    """Refuse what would hide the programs that containers run: the host's files are their image."""
    for mount in mounts:
        for needed in {sys.prefix, sys.base_prefix}:
            if Path(needed).is_relative_to(os.path.realpath(mount.target)):
                raise volumes.RefusedError(
                    f"mountPath {mount.target} would hide {needed}, where Python is on this "
                    "machine: mount the volume at another path"
                )


def _plant(tree: Path, mounts: list[volumes.Mount]) -> None:
    """Make the folder in which every mount path is a symlink to the real place."""
    for mount in mounts:
        place = tree / mount.target.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.is_symlink():
            place.symlink_to(mount.source)
