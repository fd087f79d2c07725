"""Pods, their parts and stand-ins for what the process node reads, as small as they can be."""

from collections.abc import Mapping
from typing import Any

from lab import apis
from lab.processnode import fields, settings

PLACE = fields.Place(
    pod_ip="127.20.128.1", node="process-0", node_ip="127.20.255.1", allocatable={"cpu": "64"}
)


def a_pod(*containers: apis.Object, name: str = "web", **spec: Any) -> apis.Object:
    """Return a marked pod in namespace `demo`."""
    return {
        "metadata": {
            "name": name,
            "namespace": "demo",
            "uid": f"uid-{name}",
            "labels": {"app": "web"},
            "annotations": {settings.MARK: settings.MARKED},
        },
        "spec": {"containers": list(containers) or [a_container()], **spec},
        "status": {},
    }


def a_container(name: str = "main", **parts: Any) -> apis.Object:
    """Return a container."""
    return {"name": name, "image": "none", **parts}


class Sources:
    """ConfigMaps and Secrets of namespace `demo` that a test names."""

    def __init__(self, **held: Mapping[str, bytes]) -> None:
        self.held = held

    def config_map(self, namespace: str, name: str, *, binary: bool) -> Mapping[str, bytes] | None:
        """Return what the test gave under this name; of bytes that are no text, if asked to."""
        held = self.secret(namespace, name)
        if held is None or binary:
            return held
        return {key: text for key, text in held.items() if text.isascii()}

    def secret(self, namespace: str, name: str) -> Mapping[str, bytes] | None:
        """Return what the test gave under this name."""
        return self.held.get(name) if namespace == "demo" else None
