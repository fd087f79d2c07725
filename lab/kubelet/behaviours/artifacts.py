"""What Argo's `init` does with input artifacts and `wait` with output artifacts and parameters.

Errors are `ExecutorError` with the words that Argo's executor leaves as termination message.
Source: argo-workflows v4.0.5, `workflow/executor/executor.go`.
"""

import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.kubelet.behaviours import archives, stores, templates, volumes

DEFAULT_LEVEL = 6
RESULT_BYTES = 256 << 10
"""Argo keeps the last 256 kB of a result."""
GIT = ("-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false")


class ExecutorError(Exception):
    """The executor could not do its part; the task ends in Error with this message."""


class MissingError(ExecutorError):
    """What was to be loaded or saved does not exist; an optional artifact may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of one pod as `init` and `wait` see them."""

    template: templates.Template
    volumes: volumes.Volumes
    store: Path
    """HOME/artifacts."""
    scratch: Path
    """A folder of the pod that no container sees."""

    # Inputs

    def load_inputs(self) -> None:
        """Load every input artifact to where the main container expects it."""
        for artifact in templates.input_artifacts(self.template):
            name = artifact["name"]
            if not templates.has_location_or_key(artifact):
                if artifact.get("optional"):
                    continue
                raise ExecutorError(f"required artifact '{name}' not supplied")
            try:
                self._load(artifact)
            except MissingError as error:
                if not artifact.get("optional"):
                    raise ExecutorError(f"artifact {name} failed to load: {error}") from error

    def _load(self, artifact: templates.Artifact) -> None:
        path = str(artifact["path"]).rstrip("/")
        target = self._input_target(artifact["name"], path)
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            fetched = Path(folder) / "artifact"
            self._fetch(artifact, fetched)
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            archive = artifact.get("archive") or {}
            try:
                if "none" in archive:
                    fetched.rename(target)
                elif "zip" in archive:
                    archives.unpack_zip(fetched, target)
                elif "tar" in archive or archives.is_tar(fetched):
                    archives.unpack_tar(fetched, target)
                else:
                    fetched.rename(target)
            except (tarfile.TarError, OSError) as error:
                raise ExecutorError(str(error)) from error
        if (mode := artifact.get("mode")) is not None:
            target.chmod(int(mode))
            if artifact.get("recurseMode"):
                for entry in target.rglob("*"):
                    entry.chmod(int(mode))

    def _input_target(self, name: str, path: str) -> Path:
        mount = templates.overlapping_mount(self.template, path)
        if mount is None:
            return self.volumes.folder("input-artifacts") / name
        return self._in_mount(mount, path)

    def _fetch(self, artifact: templates.Artifact, target: Path) -> None:
        try:
            whole = templates.relocated(artifact, self.template)
        except LookupError as error:
            raise ExecutorError(f"failed to load artifact '{artifact['name']}': {error}") from error
        kind, body = templates.location(whole) or ("", {})
        if kind == "raw":
            target.write_text(body["data"])
        elif kind == "git":
            clone(self.store, body, target)
        else:
            try:
                stores.get(stores.place(self.store, whole), target)
            except stores.NoSuchKeyError as error:
                raise MissingError(str(error)) from error

    # Outputs

    def save_parameters(self) -> list[dict[str, object]]:
        """Return the output parameters with their values."""
        found: list[dict[str, object]] = []
        for parameter in templates.parameters(self.template):
            source = parameter.get("valueFrom") or {}
            if path := source.get("path"):
                value = self._value(str(path), source.get("default"))
                parameter = {**parameter, "value": value.removesuffix("\n")}
            found.append(parameter)
        return found

    def _value(self, path: str, default: object) -> str:
        try:
            return self._output(path, "parameters").read_text(errors="replace")
        except (OSError, volumes.OutsideError) as error:
            if default is not None:
                return str(default)
            shown = f"/var/run/argo/outputs/parameters{path}"
            raise ExecutorError(f"open {shown}: no such file or directory") from error

    def save_artifacts(self) -> tuple[list[templates.Artifact], str]:
        """Store the output artifacts; returns those saved and what went wrong with the others."""
        saved, problems = [], []
        for artifact in templates.output_artifacts(self.template):
            try:
                saved.append(self._save(artifact))
            except MissingError as error:
                if not artifact.get("optional"):
                    problems.append(str(error))
            except ExecutorError as error:
                problems.append(str(error))
        return saved, "".join(f"{problem}; " for problem in problems)

    def save_logs(self, logs: dict[str, bytes]) -> list[templates.Artifact]:
        """Store the output of the main containers as artifacts."""
        found = []
        for container in templates.main_names(self.template):
            path = self.scratch / f"{container}.log"
            path.write_bytes(logs.get(container, b""))
            artifact: templates.Artifact = {"name": f"{container}-logs"}
            found.append(self._stored(artifact, path, name=path.name))
        return found

    def _save(self, artifact: templates.Artifact) -> templates.Artifact:
        path = str(artifact["path"]).rstrip("/")
        with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
            try:
                staged, name = self._staged(artifact, path, Path(folder))
            except (tarfile.TarError, volumes.OutsideError, OSError) as error:
                raise ExecutorError(str(error)) from error
            return self._stored(artifact, staged, name=name)

    def _staged(self, artifact: templates.Artifact, path: str, folder: Path) -> tuple[Path, str]:
        """Return the artifact as it is to be stored, and the file name for its key."""
        archive = artifact.get("archive") or {"tar": {}}
        in_image = self._is_in_image(path)
        source = self._output(path, "artifacts")
        if not source.exists():
            raise MissingError(f"stat {path}: no such file or directory")
        if in_image and "tar" in archive:
            return source, f"{artifact['name']}.tgz"
        if in_image:
            unpacked = folder / path.rsplit("/", 1)[-1]
            archives.unpack_tar(source, unpacked)
            source = unpacked
        if "none" in archive:
            return source, path.rsplit("/", 1)[-1]
        if "zip" in archive:
            target = folder / f"{artifact['name']}.zip"
            archives.pack_zip(source, target)
            return target, target.name
        level = (archive["tar"] or {}).get("compressionLevel")
        target = folder / f"{artifact['name']}.tgz"
        archives.pack_tar(source, target, level=DEFAULT_LEVEL if level is None else int(level))
        return target, target.name

    def _stored(
        self, artifact: templates.Artifact, source: Path, *, name: str
    ) -> templates.Artifact:
        try:
            keyed = templates.keyed(artifact, self.template, file=name)
            place = stores.place(self.store, templates.relocated(keyed, self.template))
        except LookupError as error:
            raise ExecutorError(str(error)) from error
        stores.put(place, source)
        return keyed

    def _is_in_image(self, path: str) -> bool:
        """Whether a path lies in the container's own file system, not in a volume."""
        if templates.overlapping_mount(self.template, path) is not None:
            return False
        for artifact in templates.input_artifacts(self.template):
            inside = str(artifact["path"]).rstrip("/")
            if path == inside:
                return bool(artifact.get("optional")) and not templates.has_location_or_key(
                    artifact
                )
            if path.startswith(f"{inside}/"):
                return False
        return True

    def _output(self, path: str, kind: str) -> Path:
        """Return where `wait` finds what the main container wrote to `path`."""
        path = path.rstrip("/")
        if self._is_in_image(path):
            suffix = ".tgz" if kind == "artifacts" else ""
            outputs = self.volumes.folder("var-run-argo")
            return volumes.within(outputs, f"outputs/{kind}{path}{suffix}")
        mount = templates.overlapping_mount(self.template, path)
        if mount is not None:
            return self._in_mount(mount, path)
        for artifact in templates.input_artifacts(self.template):
            inside = str(artifact["path"]).rstrip("/")
            if path == inside or path.startswith(f"{inside}/"):
                root = self.volumes.folder("input-artifacts")
                return volumes.within(root, artifact["name"] + path.removeprefix(inside))
        raise ExecutorError(f"{path} lies nowhere")

    def _in_mount(self, mount: dict[str, str], path: str) -> Path:
        rest = path.removeprefix(mount["mountPath"].rstrip("/"))
        return volumes.within(self.volumes.source(mount), rest)


def clone(store: Path, body: dict[str, object], target: Path) -> None:
    """Clone a repository of the simulated internet: a bare one at `git/URL` in the store."""
    place = stores.Place(bucket=store / "git" / "all", key=str(body["repo"]))
    if not place.prefix.is_dir():
        raise ExecutorError(f"failed to clone {body['repo']}: repository not found")
    revision = str(body.get("revision") or "")
    commands = [["git", *GIT, "clone", "--quiet", str(place.prefix), str(target)]]
    if revision:
        commands.append(["git", "-C", str(target), *GIT, "checkout", "--quiet", revision])
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ExecutorError(f"failed to clone {body['repo']}: {done.stderr.strip()}")


def result(stdout: bytes) -> str:
    """Return a container's output as the template's result: one newline cut, the last 256 kB."""
    text = stdout.decode(errors="replace").removesuffix("\n")
    return text.encode()[-RESULT_BYTES:].decode(errors="ignore")
