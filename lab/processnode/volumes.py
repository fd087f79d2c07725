"""The volumes of one pod: what stands in them, where a container sees them, and their updates.

Folders live in the pod's own folder on disk (mode 0700, so Secrets are the user's own); only their
mount points are as the pod says. Pure but for `Volumes`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import apis
from lab.processnode import environments, fields, payloads

DEFAULT_MODE = 0o644


class RefusedError(ValueError):
    """The pod asks for what it must not or cannot have; it will not come to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One place of a container's file tree that something is laid over."""

    source: Path
    target: str
    read_only: bool = False


Tokens = Callable[[apis.Object], str]
"""Returns the token for a `serviceAccountToken` projection; raises `MissingError` before there is
one."""


def content(
    pod: apis.Object,
    volume: apis.Object,
    *,
    sources: environments.Sources,
    place: fields.Place,
    tokens: Tokens,
) -> payloads.Payload | None:
    """Return the files of a volume, or None for a kind that is a plain folder.

    Raises `environments.MissingError` for what is not there yet, and `fields.UnknownError` for
    what never will be.
    """
    if (projected := volume.get("projected")) is not None:
        mode = projected.get("defaultMode", DEFAULT_MODE)
        listed = [
            _part(pod, kind, part, mode=mode, sources=sources, place=place, tokens=tokens)
            for source in projected.get("sources") or ()
            for kind, part in source.items()
        ]
        return {path: file for part in listed for path, file in part.items()}
    for kind in ("configMap", "secret", "downwardAPI"):
        if (part := volume.get(kind)) is not None:
            mode = part.get("defaultMode", DEFAULT_MODE)
            return _part(pod, kind, part, mode=mode, sources=sources, place=place, tokens=tokens)
    return None


def _part(
    pod: apis.Object,
    kind: str,
    part: apis.Object,
    *,
    mode: int,
    sources: environments.Sources,
    place: fields.Place,
    tokens: Tokens,
) -> dict[str, payloads.File]:
    if kind == "serviceAccountToken":
        return {part["path"]: (tokens(part).encode(), mode)}
    if kind == "downwardAPI":
        return {
            item["path"]: (_downward(pod, item, place=place).encode(), item.get("mode") or mode)
            for item in part.get("items") or ()
        }
    namespace = str(pod["metadata"]["namespace"])
    held = environments.read(namespace, kind, part, sources=sources, binary=True)
    items = part.get("items")
    if not items:
        return {key: (text, mode) for key, text in held.items()}
    chosen = {}
    for item in items:
        if item["key"] in held:
            chosen[item["path"]] = (held[item["key"]], item.get("mode") or mode)
        elif not part.get("optional"):
            name = part.get("name") or part.get("secretName")
            raise environments.MissingError(f"{kind} {name!r} has no key {item['key']!r}")
    return chosen


def _downward(pod: apis.Object, item: apis.Object, *, place: fields.Place) -> str:
    if reference := item.get("fieldRef"):
        return fields.field(pod, reference["fieldPath"], place=place)
    return fields.resource(pod, item["resourceFieldRef"], place=place)


class Volumes:
    """The folders of one pod's volumes."""

    def __init__(self, pod: apis.Object, *, folder: Path, host_root: Path) -> None:
        self._folder = folder
        self._host_root = host_root.resolve()
        self._shown: dict[str, payloads.Payload] = {}
        self._volumes: dict[str, apis.Object] = {
            item["name"]: item for item in pod["spec"].get("volumes") or ()
        }

    @property
    def token_projections(self) -> list[apis.Object]:
        """Every `serviceAccountToken` projection of the pod."""
        return [
            source["serviceAccountToken"]
            for volume in self._volumes.values()
            for source in (volume.get("projected") or {}).get("sources") or ()
            if "serviceAccountToken" in source
        ]

    def write(
        self,
        pod: apis.Object,
        *,
        sources: environments.Sources,
        place: fields.Place,
        tokens: Tokens,
    ) -> list[str]:
        """Make or update every volume; returns the names of those that changed.

        Raises as `content` does, and `RefusedError`, for the first volume that could not be made;
        the others are made all the same: a token must not wait for a ConfigMap that is gone.
        """

        def read(volume: apis.Object) -> payloads.Payload | None:
            return content(pod, volume, sources=sources, place=place, tokens=tokens)

        changed, problems = [], list[ValueError]()
        for name, volume in self._volumes.items():
            try:
                if self._write_one(name, volume, read):
                    changed.append(name)
            except (environments.MissingError, fields.UnknownError, RefusedError) as error:
                problems.append(error)
        if problems:
            raise problems[0]
        return changed

    def _write_one(
        self,
        name: str,
        volume: apis.Object,
        read: Callable[[apis.Object], payloads.Payload | None],
    ) -> bool:
        """Make or update one volume; returns whether it changed."""
        if "hostPath" in volume:
            self._host_path(volume)
            return False
        folder = self._folder / name
        if not folder.exists():
            folder.mkdir(parents=True)
            folder.chmod(0o777 if "emptyDir" in volume else 0o755)
        payload = read(volume)
        if payload is None or payload == self._shown.get(name):
            return False
        try:
            payloads.write(folder, payload)
        except ValueError as error:
            raise RefusedError(f"volume {name!r}: {error}") from error
        self._shown[name] = payload
        return True

    def mounts(self, container: apis.Object, environment: Mapping[str, str]) -> list[Mount]:
        """Return what to lay over a container's files; raises `RefusedError` or `MissingError`."""
        found = []
        for mount in container.get("volumeMounts") or ():
            volume = self._volumes[mount["name"]]
            root = self._host_path(volume) if "hostPath" in volume else self._folder / mount["name"]
            source = self._inside(root, mount, environment)
            plain = "emptyDir" in volume or "hostPath" in volume
            found.append(
                Mount(
                    source=source,
                    target=mount["mountPath"],
                    read_only=bool(mount.get("readOnly")) or not plain,
                )
            )
        return found

    def _inside(self, root: Path, mount: apis.Object, environment: Mapping[str, str]) -> Path:
        """Return the folder or file of a volume that a mount shows."""
        inner = mount.get("subPath") or environments.expand(
            mount.get("subPathExpr") or "", environment
        )
        if not inner:
            return root
        try:
            # A file behind `..data` is named by where it really is: it stays as it was.
            source = (root / payloads.checked(inner)).resolve()
        except ValueError as error:
            raise RefusedError(f"volume {mount['name']!r}: {error}") from error
        if not source.is_relative_to(root.resolve()):
            raise RefusedError(f"subPath {inner!r} of volume {mount['name']!r} leaves the volume")
        if not source.exists():
            if mount["name"] in self._shown:
                raise environments.MissingError(f"volume {mount['name']!r} has no {inner!r}")
            source.mkdir(parents=True)
        return source

    def _host_path(self, volume: apis.Object) -> Path:
        asked = volume["hostPath"]
        path = Path(os.path.realpath(asked["path"]))
        if not path.is_relative_to(self._host_root):
            raise RefusedError(
                f"volume {volume['name']!r} wants {asked['path']} of the host; "
                f"only folders below the lab's home {self._host_root} are given"
            )
        match asked.get("type") or "":
            case "DirectoryOrCreate":
                path.mkdir(parents=True, exist_ok=True)
            case "FileOrCreate":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
        if not path.exists():
            raise environments.MissingError(f"hostPath {asked['path']} does not exist")
        return path
