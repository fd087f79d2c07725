"""The verbs of kubectl that templates and containers use, done with the lab's own client.

Answers and refusals have kubectl's words, because Argo shows them to people.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from lab import apis
from lab.kubelet.behaviours import grounds, paths

PATCH_TYPES = {
    "strategic": apis.STRATEGIC_PATCH,
    "merge": apis.MERGE_PATCH,
    "json": apis.JSON_PATCH,
}
TAKES_VALUE = {
    "-l": "selector",
    "--selector": "selector",
    "-n": "namespace",
    "--namespace": "namespace",
    "-o": "output",
    "--output": "output",
    "-c": "container",
    "--container": "container",
    "--field-manager": "ignored",
    "--validate": "validate",
    "--cascade": "cascade",
    "--grace-period": "grace",
}


class KubectlError(Exception):
    """The verb was refused; the text is kubectl's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One kind of object that the API server serves."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str, name: str = "") -> str:
        """Return the path of one object or of the collection."""
        prefix = "/apis" if "/" in self.group_version else "/api"
        scope = f"/namespaces/{namespace}" if self.namespaced else ""
        end = f"/{name}" if name else ""
        return f"{prefix}/{self.group_version}{scope}/{self.plural}{end}"


@dataclass(slots=True)
class Words:
    """kubectl's arguments: free words, and options by name."""

    free: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)


def parse(words: Sequence[str]) -> Words:
    """Sort arguments; an unknown flag is kept by its own name."""
    found, rest = Words(), list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in TAKES_VALUE and equals:
            found.options[TAKES_VALUE[name]] = value
        elif name in TAKES_VALUE and rest:
            found.options[TAKES_VALUE[name]] = rest.pop(0)
        elif word.startswith("-"):
            found.options[name.lstrip("-")] = value or "true"
        else:
            found.free.append(word)
    return found


class Kubectl:
    """kubectl as it behaves in a pod of `namespace`."""

    def __init__(self, ground: grounds.Ground, namespace: str) -> None:
        self._ground = ground
        self._api = ground.api
        self._namespace = namespace

    async def create(self, manifest: apis.Object, words: Words) -> apis.Object:
        """Create an object, validated strictly unless `--validate=false`."""
        resource = await self.resource_of(manifest)
        strict = words.options.get("validate") not in ("false", "ignore")
        path = resource.path(self._namespace_of(manifest))
        params = {"fieldValidation": "Strict" if strict else "Ignore"}
        return await self._called("POST", path, body=manifest, params=params, verb="creating")

    async def apply(self, manifest: apis.Object) -> apis.Object:
        """Create or change an object by server-side apply."""
        resource = await self.resource_of(manifest)
        name = (manifest.get("metadata") or {}).get("name")
        if not name:
            raise KubectlError("error: cannot use generate name with apply")
        path = resource.path(self._namespace_of(manifest), name)
        return await self._called(
            "PATCH",
            path,
            body=manifest,
            content_type=apis.APPLY_PATCH,
            params={"fieldManager": "kubectl", "force": "true"},
            verb="applying",
        )

    async def patch(self, target: tuple[str, str], body: object, *, kind: str) -> apis.Object:
        """Patch the object at (path, name); `kind` is `strategic`, `merge` or `json`."""
        return await self._called(
            "PATCH", target[0], body=body, content_type=PATCH_TYPES[kind], verb="patching"
        )

    async def get(self, target: tuple[str, str]) -> apis.Object:
        """Read the object at (path, name)."""
        return await self._called("GET", target[0], verb="getting")

    async def delete(self, manifest: apis.Object | None, words: Words) -> None:
        """Delete what the manifest or the words name; what is gone already is no error."""
        if words.options.get("selector"):
            resource = await self.named(words.free[0])
            path = resource.path(words.options.get("namespace", self._namespace))
            params = {"labelSelector": words.options["selector"]}
            await self._called("DELETE", path, params=params, verb="deleting")
            return
        path, _ = await self.target(manifest, words)
        await self._api.delete(path, params={"propagationPolicy": "Background"})

    async def target(self, manifest: apis.Object | None, words: Words) -> tuple[str, str]:
        """Return path and name of what the words (`pod NAME`, `pod/NAME`) or the manifest name."""
        if words.free:
            kind, _, name = words.free[0].partition("/")
            resource = await self.named(kind)
            name = name or (words.free[1] if len(words.free) > 1 else "")
            namespace = words.options.get("namespace", self._namespace)
        elif manifest and "kind" in manifest:
            resource = await self.resource_of(manifest)
            name, namespace = manifest["metadata"]["name"], self._namespace_of(manifest)
        else:
            raise KubectlError("error: must specify a resource and a name")
        return resource.path(namespace, name), name

    async def run(self, arguments: Sequence[str]) -> tuple[int, str, str]:
        """Do `get` or `logs` for a container; returns exit code, output and errors."""
        words = parse(arguments[1:])
        try:
            match arguments[:1]:
                case ["get"]:
                    return 0, await self._listed(words), ""
                case ["logs"]:
                    return 0, self._log(words), ""
                case _:
                    said = " ".join(arguments)
                    return 1, "", f"kubectl: {said!r} is more than this stand-in knows\n"
        except KubectlError as error:
            return 1, "", f"{error}\n"

    async def resource_of(self, manifest: apis.Object) -> Resource:
        """Return the resource of a manifest's kind."""
        version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
        for resource in await self._served(version):
            if resource.kind == kind:
                return resource
        raise KubectlError(
            "error: resource mapping not found for name: "
            f'"{(manifest.get("metadata") or {}).get("name", "")}" namespace: "" from '
            f'"/tmp/manifest.yaml": no matches for kind "{kind}" in version "{version}"\n'
            "ensure CRDs are installed first"
        )

    async def named(self, word: str) -> Resource:
        """Return the resource that a person calls `pod`, `po`, `configmap`, `workflow`, …"""
        versions = ["v1"]
        groups = await self._ground.lookup("/apis")
        versions += [item["preferredVersion"]["groupVersion"] for item in (groups or {})["groups"]]
        for version in versions:
            found = await self._ground.lookup(_discovery(version))
            for item in (found or {}).get("resources") or []:
                names = {item["name"], item.get("singularName"), *(item.get("shortNames") or [])}
                if "/" not in item["name"] and word.lower() in names | {item["kind"].lower()}:
                    return _resource(version, item)
        raise KubectlError(f'error: the server doesn\'t have a resource type "{word}"')

    async def _served(self, version: str) -> list[Resource]:
        found = await self._ground.lookup(_discovery(version)) if version else None
        items = (found or {}).get("resources") or []
        return [_resource(version, item) for item in items if "/" not in item["name"]]

    def _namespace_of(self, manifest: apis.Object) -> str:
        return str((manifest.get("metadata") or {}).get("namespace") or self._namespace)

    async def _called(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        body: object | None = None,
        content_type: str = apis.JSON,
        params: dict[str, str] | None = None,
    ) -> apis.Object:
        try:
            return await self._api.call(
                method, path, body=body, content_type=content_type, params=params
            )
        except apis.ApiError as error:
            text = str(error).partition(": ")[2]
            raise KubectlError(
                f'Error from server ({error.reason}): error when {verb} "/tmp/manifest.yaml": '
                f"{text}"
            ) from error

    async def _listed(self, words: Words) -> str:
        resource = await self.named(words.free[0].partition("/")[0])
        namespace = words.options.get("namespace", self._namespace)
        name = words.free[1] if len(words.free) > 1 else words.free[0].partition("/")[2]
        params = {}
        if "selector" in words.options:
            params["labelSelector"] = words.options["selector"]
        answer = await self._called(
            "GET", resource.path(namespace, name), params=params, verb="getting"
        )
        items = [answer] if name else answer["items"]
        output = words.options.get("output", "name")
        if output == "name":
            word = resource.kind.lower()
            return "".join(f"{word}/{item['metadata']['name']}\n" for item in items)
        if output.startswith("jsonpath="):
            return paths.jsonpath(answer, output.removeprefix("jsonpath="))
        if output == "yaml":
            return str(yaml.safe_dump(answer))
        return paths.jq(answer, ".") + "\n"

    def _log(self, words: Words) -> str:
        name = words.free[0].rpartition("/")[2]
        namespace = words.options.get("namespace", self._namespace)
        chosen = words.options.get("container")
        for (where, pod, container), output in self._ground.logs.items():
            if (where, pod) == (namespace, name) and chosen in (None, container):
                return output.decode(errors="replace")
        raise KubectlError(f"Error from server (NotFound): no log of pod {name!r} is known")


def _discovery(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _resource(version: str, item: dict[str, Any]) -> Resource:
    return Resource(
        group_version=version,
        plural=item["name"],
        kind=item["kind"],
        namespaced=item["namespaced"],
    )
