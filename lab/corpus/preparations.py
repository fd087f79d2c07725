"""What examples ask users to make first (`preparations.yaml`): objects, artifacts, settings."""

import asyncio
import functools
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lab import apis, errors, homes
from lab.corpus import examples
from lab.kubelet.behaviours import stores

FILE = Path(__file__).with_name("preparations.yaml")
WEB = Path(__file__).with_name("web.yaml")
EVERY_RUN = "every-run"
SETTINGS = "/api/v1/namespaces/argo/configmaps/workflow-controller-configmap"
SETTLE_S = 3.0
"""Wall seconds that Argo's controller takes to notice new settings."""
SERVED_WITHIN_S = 30.0
PATHS = {
    "ClusterWorkflowTemplate": "/apis/argoproj.io/v1alpha1/clusterworkflowtemplates",
    "ConfigMap": "/api/v1/namespaces/{namespace}/configmaps",
    "CronWorkflow": "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/cronworkflows",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolumeClaim": "/api/v1/namespaces/{namespace}/persistentvolumeclaims",
    "ResourceQuota": "/api/v1/namespaces/{namespace}/resourcequotas",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Workflow": "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows",
    "WorkflowEventBinding": (
        "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workfloweventbindings"
    ),
    "WorkflowTemplate": "/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflowtemplates",
}


class Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of the simulated object store."""

    location: dict[str, dict[str, str]]
    text: str


class Repository(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A git repository of the simulated internet, with one commit."""

    repo: str
    tag: str
    files: dict[str, str]


class Preparation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one kind of example needs."""

    files: tuple[str, ...] = ()
    objects: tuple[dict[str, Any], ...] = ()
    store: tuple[Stored, ...] = ()
    git: tuple[Repository, ...] = ()
    absent: tuple[str, ...] = ()
    """API paths of what an earlier run left and the example wants to create."""
    controller: dict[str, Any] = {}
    """Settings of Argo's controller; maps are added to what is there."""


@functools.cache
def load() -> dict[str, Preparation]:
    """Return the shipped preparations."""
    return msgspec.convert(yaml.safe_load(FILE.read_text()), dict[str, Preparation])


def path(kind: str, namespace: str, name: str = "") -> str:
    """Return the API path of an object, or of its collection."""
    collection = PATHS[kind].format(namespace=namespace)
    return f"{collection}/{name}" if name else collection


async def apply(api: apis.Api, body: apis.Object, namespace: str) -> None:
    """Apply one object; a CRD is waited for until it is served."""
    target = path(body["kind"], namespace, body["metadata"]["name"])
    await api.apply(target, body, manager="tiphys-lab-corpus")
    if body["kind"] != "CustomResourceDefinition":
        return
    until = time.monotonic() + SERVED_WITHIN_S
    while not _established(await api.get(target)):
        if time.monotonic() > until:
            raise errors.RunError(f"the API server does not serve {body['metadata']['name']}")
        await asyncio.sleep(0.1)


async def make(
    home: homes.Home,
    api: apis.Api,
    *,
    names: Iterable[str],
    found: Mapping[str, examples.Example],
    namespace: str,
) -> None:
    """Make everything that `names` stand for, in one namespace."""
    known = load()
    chosen = [known[name] for name in sorted({EVERY_RUN, *names})]
    home.root.joinpath("web.yaml").write_bytes(WEB.read_bytes())
    for preparation in chosen:
        for item in preparation.store:
            _store(home.artifacts, item)
        for repository in preparation.git:
            _commit(home.artifacts, repository)
        bodies = [*preparation.objects]
        for name in preparation.files:
            bodies += [item.body for key, item in found.items() if key.split("#")[0] == name]
            bodies += [found[name].body] if "#" in name else []
        for body in bodies:
            await apply(api, body, namespace)
        for pattern in preparation.absent:
            await api.delete(pattern.format(namespace=namespace))
    settings = [item.controller for item in chosen if item.controller]
    if settings and await _set(api, settings):
        await asyncio.sleep(SETTLE_S)


async def _set(api: apis.Api, settings: list[dict[str, Any]]) -> bool:
    """Add settings to the controller's; returns whether anything changed."""
    found = await api.get(SETTINGS)
    have = {key: yaml.safe_load(text) for key, text in (found.get("data") or {}).items()}
    want = dict(have)
    for part in settings:
        for key, value in part.items():
            old = want.get(key)
            both = isinstance(old, dict) and isinstance(value, dict)
            want[key] = {**old, **value} if both else value  # type: ignore[dict-item]
    if want == have:
        return False
    data = {key: yaml.safe_dump(value) for key, value in want.items() if value != have.get(key)}
    await api.patch(SETTINGS, {"data": data})
    return True


def _established(crd: apis.Object) -> bool:
    conditions = (crd.get("status") or {}).get("conditions") or []
    return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)


def _store(root: Path, item: Stored) -> None:
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(item.text)
        file.flush()
        stores.put(stores.place(root, item.location), Path(file.name))


def _commit(root: Path, repository: Repository) -> None:
    """Make a bare repository with one commit and a tag, where clones look for it."""
    target = stores.Place(bucket=root / "git" / "all", key=repository.repo).prefix
    if target.is_dir() or shutil.which("git") is None:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        work = Path(folder) / "work"
        work.mkdir()
        for name, text in repository.files.items():
            (work / name).write_text(text)
        identity = ("-c", "user.name=lab", "-c", "user.email=lab@tiphys.dev")
        for words in (
            ("init", "--quiet", "--initial-branch=main"),
            ("add", "."),
            (*identity, "commit", "--quiet", "--message=One commit"),
            ("tag", repository.tag),
            ("clone", "--quiet", "--bare", ".", str(Path(folder) / "bare")),
        ):
            subprocess.run(["git", *words], cwd=work, check=True, capture_output=True)
        (Path(folder) / "bare").rename(target)
