"""The environment and command line of a container: everything resolved, `$(VAR)` replaced."""

import re
from collections.abc import Mapping
from typing import Protocol

from lab import apis
from lab.processnode import fields

_REFERENCE = re.compile(r"\$(\$|\(([^()]*)\))")


class MissingError(ValueError):
    """A ConfigMap, a Secret or a key of it is absent; `str()` names it. May come to be."""


class Sources(Protocol):
    """Where ConfigMaps and Secrets are read."""

    def config_map(self, namespace: str, name: str, *, binary: bool) -> Mapping[str, bytes] | None:
        """Return the keys of a ConfigMap, with `binaryData` if asked to; None: there is none."""
        ...

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return the keys of a Secret, or None if there is none."""
        ...


def resolve(
    pod: apis.Object,
    container: apis.Object,
    *,
    base: Mapping[str, str],
    sources: Sources,
    place: fields.Place,
) -> dict[str, str]:
    """Return the environment of a container over `base`.

    Raises `MissingError` or `fields.UnknownError`.
    """
    namespace = str(pod["metadata"]["namespace"])
    found = dict(base)
    for entry in container.get("envFrom") or ():
        prefix = entry.get("prefix", "")
        for kind in ("configMapRef", "secretRef"):
            if reference := entry.get(kind):
                content = read(namespace, kind.removesuffix("Ref"), reference, sources=sources)
                found |= {prefix + key: _text(content, key) for key in content}
    for variable in container.get("env") or ():
        value = _value(pod, container, variable, found, sources=sources, place=place)
        if value is not None:
            found[variable["name"]] = value
    return found


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace `$(NAME)` by its value; `$$` is `$`, and what is not known stays as it is."""

    def replaced(match: re.Match[str]) -> str:
        whole, name = match.groups()
        return "$" if whole == "$" else environment.get(name, match.group())

    return _REFERENCE.sub(replaced, text)


def read(
    namespace: str, kind: str, reference: apis.Object, *, sources: Sources, binary: bool = False
) -> Mapping[str, bytes]:
    """Return what a reference (`name`, `optional`) to a `configMap` or `secret` holds.

    `binary`: with `binaryData`, which files show and variables never do.
    """
    name = str(reference.get("name") or reference.get("secretName") or "")
    if kind == "configMap":
        content = sources.config_map(namespace, name, binary=binary)
    else:
        content = sources.secret(namespace, name)
    if content is None:
        if reference.get("optional"):
            return {}
        raise MissingError(f"{kind} {name!r} not found in namespace {namespace!r}")
    return content


def _value(
    pod: apis.Object,
    container: apis.Object,
    variable: apis.Object,
    found: Mapping[str, str],
    *,
    sources: Sources,
    place: fields.Place,
) -> str | None:
    """Return the value of one `env` entry; None where an optional source lacks it."""
    origin = variable.get("valueFrom")
    if not origin:
        return expand(variable.get("value", ""), found)
    if reference := origin.get("fieldRef"):
        return fields.field(pod, reference["fieldPath"], place=place)
    if reference := origin.get("resourceFieldRef"):
        return fields.resource(pod, reference, container=container["name"], place=place)
    for kind in ("configMap", "secret"):
        if reference := origin.get(f"{kind}KeyRef"):
            namespace = str(pod["metadata"]["namespace"])
            content = read(namespace, kind, reference, sources=sources)
            if reference["key"] in content:
                return _text(content, reference["key"])
            if reference.get("optional"):
                return None
            raise MissingError(f"{kind} {reference['name']!r} has no key {reference['key']!r}")
    raise fields.UnknownError(
        f"variable {variable['name']!r} takes its value from {', '.join(origin)}, "
        "which this node does not know"
    )


def _text(content: Mapping[str, bytes], key: str) -> str:
    """Return one key as the text of a variable; raises `fields.UnknownError` where it is none."""
    try:
        return content[key].decode()
    except UnicodeDecodeError as error:
        raise fields.UnknownError(
            f"key {key!r} is not UTF-8 text, so no variable can hold it: mount it as a file"
        ) from error
