"""A pod's volumes as folders of this machine, and which of them a container sees where.

emptyDir is a folder of the pod; a PersistentVolumeClaim is one of the lab, by its uid; ConfigMaps,
Secrets and the downward API are written out. hostPath and other kinds are empty folders: nothing
of the machine is ever mounted writable.
"""

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path

from lab import apis
from lab.kubelet.behaviours import environments, grounds, pods

TOKENS = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where pods find their token; not mounted, because containers reach no API server."""


class OutsideError(Exception):
    """A path of a container leads out of its volume, by links."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """A folder or file of this machine that a container sees at `path`."""

    source: Path
    path: str
    read_only: bool = False


class Volumes:
    """The volumes of one pod; `make` them before use, `remove` is the owner's business."""

    def __init__(self, ground: grounds.Ground, pod: apis.Object, *, address: str) -> None:
        self._ground = ground
        self._pod = pod
        self._address = address
        self._folder = ground.pod_folder(pod) / "volumes"
        self._sources: dict[str, Path] = {}

    async def make(self) -> None:
        """Make or fill every volume; raises `MissingReferenceError` like a kubelet that waits."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for volume in self._pod["spec"].get("volumes") or []:
            try:
                self._sources[volume["name"]] = await self._made(volume)
            except environments.MissingReferenceError as error:
                message = f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}'
                raise environments.MissingReferenceError(message) from error

    def folder(self, name: str) -> Path:
        """Return the folder of a volume."""
        return self._sources[name]

    def has(self, name: str) -> bool:
        """Whether the pod has such a volume."""
        return name in self._sources

    def mounts(self, container: apis.Object) -> list[Mount]:
        """Return what a container sees, as its volumeMounts say."""
        found = []
        for mount in container.get("volumeMounts") or []:
            if mount["mountPath"].rstrip("/") == TOKENS or mount["name"] not in self._sources:
                continue
            found.append(
                Mount(
                    source=self.source(mount),
                    path=posixpath.normpath(mount["mountPath"]),
                    read_only=bool(mount.get("readOnly")),
                )
            )
        return found

    def source(self, mount: apis.Object) -> Path:
        """Return the folder or file behind one volumeMount; a missing subPath becomes a folder."""
        source = self._sources[mount["name"]]
        if sub_path := mount.get("subPath"):
            source = within(source, sub_path)
            if not source.exists():
                source.mkdir(parents=True)
        return source

    async def _made(self, volume: apis.Object) -> Path:
        folder = self._folder / volume["name"]
        if reference := volume.get("persistentVolumeClaim"):
            return await self._claim(reference["claimName"])
        folder.mkdir(exist_ok=True)
        if volume.get("emptyDir") is not None:
            folder.chmod(0o777)
        for kind in ("configMap", "secret"):
            if reference := volume.get(kind):
                await self._fill(folder, kind, reference)
        for item in (volume.get("downwardAPI") or {}).get("items") or []:
            if field := item.get("fieldRef"):
                value = environments.pod_field(self._pod, field["fieldPath"], address=self._address)
            else:
                api, reference = self._ground.api, item["resourceFieldRef"]
                value = await environments.resource_field(api, self._pod, reference)
            _write(within(folder, item["path"]), value.encode())
        for source in (volume.get("projected") or {}).get("sources") or []:
            for kind in ("configMap", "secret"):
                # The token's own volume: its CA is of no use without a way to the API server.
                if (reference := source.get(kind)) and reference["name"] != "kube-root-ca.crt":
                    await self._fill(folder, kind, reference)
        return folder

    async def _claim(self, name: str) -> Path:
        namespace, _ = pods.key(self._pod)
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
        claim = await self._ground.lookup(path)
        if claim is None:
            raise environments.MissingReferenceError(f'persistentvolumeclaim "{name}" not found')
        folder = self._ground.claims / str(claim["metadata"]["uid"])
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        return folder

    async def _fill(self, folder: Path, kind: str, reference: apis.Object) -> None:
        data = await environments.contents(
            self._ground.api, self._pod, kind, reference, binary=True
        )
        if data is None:
            return
        items = reference.get("items")
        chosen = {item["key"]: item["path"] for item in items} if items else {k: k for k in data}
        for key, path in chosen.items():
            if key not in data:
                if reference.get("optional"):
                    continue
                name = reference.get("name") or reference.get("secretName")
                raise environments.MissingReferenceError(
                    f'references non-existent key "{key}" in {kind} "{name}"'
                )
            _write(within(folder, path), data[key])


def within(folder: Path, path: str) -> Path:
    """Return `path` below `folder` with all links followed; raises `OutsideError` if they leave it.

    What a container wrote is read by the lab itself afterwards, so a link must lead nowhere else.
    """
    found = Path(os.path.realpath(folder / path.lstrip("/")))
    if not found.is_relative_to(os.path.realpath(folder)):
        raise OutsideError(f"{path} leads out of its volume")
    return found


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
