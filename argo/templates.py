"""Templates: where a reference leads, and what of a template matters for scheduling."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping

from tiphys.argo import documents, requests
from tiphys.models.domain import amounts, errors, pods, quantities, workflows

Objects = Mapping[str, Mapping[str, object]]
"""WorkflowTemplates and ClusterWorkflowTemplates as they are written, by `key`."""
INPUT_BYTES = "tiphys.dev/input-bytes"
"""Annotation in a template's metadata: how much it reads, as `3Gi` or `{{inputs.parameters.n}}`."""

KINDS = {
    "container": workflows.TaskKind.POD,
    "containerSet": workflows.TaskKind.POD,
    "steps": None,
    "dag": None,
    "script": workflows.TaskKind.POD,
    "resource": workflows.TaskKind.POD,
    "data": workflows.TaskKind.POD,
    "suspend": workflows.TaskKind.SUSPEND,
    "http": workflows.TaskKind.AGENT,
    "plugin": workflows.TaskKind.AGENT,
}
"""What a template may be, in the order in which Argo asks (`Template.GetType`)."""
_DIGEST_LENGTH = 16
MOST_MERGED = 500_000
"""Entries of `templateDefaults` that are copied into the templates of one Workflow; the templates
beyond stay as they are written.  Long defaults and many templates would fill the memory."""
LONGEST_PATCH = 16 * 1024
"""Characters of a `podSpecPatch`; a longer one stays unread, since it is read for each task."""


def key(obj: Mapping[str, object]) -> str:
    """Return the key of a (Cluster)WorkflowTemplate: `wftmpl/NAMESPACE/NAME` or `cwftmpl/NAME`."""
    metadata = documents.mapping(obj, "metadata")
    name = documents.text(metadata, "name", "metadata")
    namespace = documents.text(metadata, "namespace", "metadata")
    return key_of(namespace, name, cluster_scope=obj.get("kind") == "ClusterWorkflowTemplate")


def key_of(namespace: str, name: str, *, cluster_scope: bool) -> str:
    """Return the key of a template's object by its names."""
    return f"cwftmpl/{name}" if cluster_scope else f"wftmpl/{namespace}/{name}"


@dataclasses.dataclass(slots=True)
class Scope:
    """Where a template's own references by name are looked up."""

    source: str
    """As in `Identity.source`."""
    stored: str
    """How Argo calls it in `status.storedTemplates`; empty for the Workflow's own."""
    templates: dict[str, documents.Document]


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A template, its name, and the scope of what it calls in turn."""

    name: str
    template: documents.Document
    scope: Scope


class Library:
    """Finds what steps and tasks refer to."""

    def __init__(
        self,
        *,
        namespace: str,
        objects: Objects,
        stored: documents.Document,
        defaults: documents.Document,
    ) -> None:
        self._namespace = namespace
        self._objects = objects
        self._stored = stored
        self._defaults = defaults
        self._scopes: dict[tuple[str, bool], Scope] = {}
        self._merged: dict[int, documents.Document] = {}
        self._room = MOST_MERGED
        self._size = _entries(defaults)
        self._kept: list[documents.Document] = []

    def find(self, step: documents.Document, scope: Scope, where: str) -> Found | str:
        """Return what a step or task runs, or in words why that is not known."""
        if inline := documents.mapping(step, "inline", where):
            return Found(documents.text(step, "name", where), self._with_defaults(inline), scope)
        if reference := documents.mapping(step, "templateRef", where):
            return self._referred(reference, f"{where}.templateRef")
        name = documents.text(step, "template", where)
        template = scope.templates.get(name) or self._in_store(f"{scope.stored}/{name}", scope)
        if template is None:
            return f"template '{name}' of {where} is not there"
        return Found(name, self._with_defaults(template), scope)

    def _in_store(self, name: str, scope: Scope) -> documents.Document | None:
        if not scope.stored or name not in self._stored:
            return None
        return documents.mapping(self._stored, name, "status.storedTemplates")

    def _referred(self, reference: documents.Document, where: str) -> Found | str:
        name = documents.text(reference, "name", where)
        template_name = documents.text(reference, "template", where)
        cluster_scope = documents.switch(reference, "clusterScope", where)
        scope = self._scope(name, cluster_scope=cluster_scope)
        template = self._in_store(f"{scope.stored}/{template_name}", scope)
        template = template or scope.templates.get(template_name)
        if template is None:
            kind = "ClusterWorkflowTemplate" if cluster_scope else "WorkflowTemplate"
            return f"template '{template_name}' of {kind} '{name}' is not known here"
        return Found(template_name, self._with_defaults(template), scope)

    def _scope(self, name: str, *, cluster_scope: bool) -> Scope:
        found = self._scopes.get((name, cluster_scope))
        if found is None:
            source = key_of(self._namespace, name, cluster_scope=cluster_scope)
            spec = documents.mapping(self._object(source), "spec", source)
            found = Scope(
                source,
                f"{'cluster' if cluster_scope else 'namespaced'}/{name}",
                listed(spec, source),
            )
            self._scopes[name, cluster_scope] = found
        return found

    def _object(self, source: str) -> documents.Document:
        found = self._objects.get(source)
        return documents.EMPTY if found is None else documents.root(found, source)

    def _with_defaults(self, template: documents.Document) -> documents.Document:
        if not self._defaults:
            return template
        merged = self._merged.get(id(template))
        if merged is None:
            self._room -= self._size
            if self._room < 0:
                return template
            own = next((kind for kind in KINDS if template.get(kind) is not None), "")
            usable = {
                name: value
                for name, value in self._defaults.items()
                if name not in KINDS or name == own
            }
            merged = self._merged[id(template)] = merge(usable, template)
            self._kept.append(template)  # so that its id stays its own
        return merged


def _entries(obj: documents.Document) -> int:
    """Return how many fields an object has, with those of the objects in it."""
    return len(obj) + sum(_entries(each) for each in obj.values() if isinstance(each, dict))


def merge(defaults: documents.Document, own: documents.Document) -> documents.Document:
    """Return `own` with what only `defaults` has, object by object; lists are not mixed."""
    merged = {**defaults, **{name: value for name, value in own.items() if value is not None}}
    for name, value in own.items():
        below = defaults.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            merged[name] = merge(below, value)
    return merged


def listed(spec: documents.Document, where: str = "spec") -> dict[str, documents.Document]:
    """Return the templates of a spec by name; of equal names the first counts, as for Argo."""
    found: dict[str, documents.Document] = {}
    for template in documents.mappings(spec, "templates", where):
        found.setdefault(documents.text(template, "name", f"{where}.templates"), template)
    return found


def digest(spec: documents.Document) -> str:
    """Return `spec/DIGEST` of a written spec: equal for runs that do the same kinds of work.

    Only what pods do counts.  Steps, DAGs and arguments change from run to run where programs write
    Workflows, and names that Argo generates are no part of a spec.
    """
    work = {
        name: {
            kind: template[kind]
            for kind, of in KINDS.items()
            if of is not None and template.get(kind) is not None
        }
        for name, template in listed(spec).items()
    }
    written = json.dumps(work, sort_keys=True, separators=(",", ":")).encode()
    return f"spec/{hashlib.sha256(written).hexdigest()[:_DIGEST_LENGTH]}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What of a template matters for every call of it."""

    type: str
    """`container`, `dag`, …; empty = none that is known."""
    kind: workflows.TaskKind | None
    """None for steps and DAGs."""
    image: str
    """May hold `{{…}}`."""
    requests: amounts.Amounts
    """Of its pod as far as the template says; without Argo's own containers."""
    patch: str
    """`podSpecPatch`: may change the requests."""
    retried: bool
    memoized: bool
    daemon: bool
    parallelism: bool
    input_bytes: str
    """Annotation; may hold `{{…}}`."""
    raw_bytes: int
    """Bytes of input artifacts that stand in the template itself."""
    inputs: documents.Document


def facts(template: documents.Document, name: str) -> Facts:
    """Return what matters of a template.  Raises `InputError`."""
    where = f"template '{name}'"
    kind = next((kind for kind in KINDS if template.get(kind) is not None), "")
    containers, init_containers = _containers(template, kind, where)
    inputs = documents.mapping(template, "inputs", where)
    metadata = documents.mapping(template, "metadata", where)
    annotations = documents.mapping(metadata, "annotations", f"{where}.metadata")
    return Facts(
        type=kind,
        kind=KINDS.get(kind),
        image=_image(containers, kind),
        requests=requests.of_pod(containers, init_containers),
        patch=documents.text(template, "podSpecPatch", where),
        retried=template.get("retryStrategy") is not None,
        memoized=template.get("memoize") is not None,
        daemon=documents.switch(template, "daemon", where),
        parallelism=template.get("parallelism") is not None,
        input_bytes=documents.text(annotations, INPUT_BYTES, f"{where}.metadata.annotations"),
        raw_bytes=sum(
            len(documents.text(documents.mapping(each, "raw", where), "data", where).encode())
            for each in documents.mappings(inputs, "artifacts", f"{where}.inputs")
            if each.get("raw") is not None
        ),
        inputs=inputs,
    )


def _containers(
    template: documents.Document, kind: str, where: str
) -> tuple[list[pods.Container], list[pods.Container]]:
    mains: list[documents.Document] = []
    if kind in ("container", "script"):
        mains = [documents.mapping(template, kind, where)]
    elif kind == "containerSet":
        mains = documents.mappings(documents.mapping(template, kind, where), "containers", where)
    return (
        [_container(each, where) for each in mains]
        + [_container(each, where) for each in documents.mappings(template, "sidecars", where)],
        [_container(each, where) for each in documents.mappings(template, "initContainers", where)],
    )


def _container(container: documents.Document, where: str) -> pods.Container:
    try:
        asked, limits = requests.of_container(container, where)
    except errors.InputError:
        asked = limits = amounts.NOTHING  # `{{…}}` in a quantity, or one that the API will refuse
    return pods.Container(
        name=documents.text(container, "name", where),
        role=pods.ContainerRole.MAIN,
        image=documents.text(container, "image", where),
        requests=asked,
        limits=limits,
        restartable=container.get("restartPolicy") == "Always",
    )


def _image(containers: list[pods.Container], kind: str) -> str:
    """Return the image that does the work: of a set that of `main`, else of its first."""
    if kind not in ("container", "script", "containerSet") or not containers:
        return ""
    if kind == "containerSet":
        for container in containers:
            if container.name == "main":
                return container.image
    return containers[0].image


def patched(patch: str) -> tuple[int | None, int | None]:
    """Return millicores and bytes that a filled `podSpecPatch` gives `main`; None = untouched.

    Only JSON is read: a patch in YAML stays unread, and the template's own requests count.
    """
    if len(patch) > LONGEST_PATCH:
        return None, None
    try:
        written = json.loads(patch)
        for container in documents.mappings(documents.root(written, "podSpecPatch"), "containers"):
            if container.get("name") == "main":
                asked, _ = requests.of_container(container, "podSpecPatch")
                return asked.cpu_m or None, asked.memory_bytes or None
    except (ValueError, RecursionError, quantities.QuantityError):
        pass
    return None, None
