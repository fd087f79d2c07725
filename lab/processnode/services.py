"""What Services mean on one machine: which address and port leads where, and which name to whom.

Pure: Services and the pods of this node in, listeners and lines of `/etc/hosts` out. Endpoints are
the node's own pods; EndpointSlices cannot hold loopback addresses (the API server refuses them).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lab import apis
from lab.processnode import addresses, pods

Address = tuple[str, int]
DOMAIN = "svc.cluster.local"
LOCALHOST = ("127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One pod of this node, as Services see it."""

    pod: apis.Object
    address: str
    ready: bool

    @property
    def namespace(self) -> str:
        """Namespace of the pod."""
        return str(self.pod["metadata"]["namespace"])

    def matches(self, service: apis.Object) -> bool:
        """Whether the Service selects the pod."""
        selector = service["spec"].get("selector")
        labels = self.pod["metadata"].get("labels") or {}
        same = self.namespace == service["metadata"]["namespace"]
        return bool(same and selector and selector.items() <= labels.items())

    def port(self, wanted: int | str) -> int | None:
        """Return the number of a target port, which may be the name of a container's port."""
        numbers = (pods.port(item, wanted) for item in pods.every_container(self.pod))
        return next((number for number in numbers if number is not None), None)


def listeners(
    services: Iterable[apis.Object],
    endpoints: Sequence[Endpoint],
    *,
    server: Address | None = None,
) -> dict[Address, tuple[Address, ...]]:
    """Return for each cluster IP and port the pods behind it, sorted; none: nothing listens.

    `server` stands behind the Service `default/kubernetes`. Only TCP, only cluster IPs on loopback.
    """
    found: dict[Address, tuple[Address, ...]] = {}
    for service in services:
        cluster_ip = service["spec"].get("clusterIP") or ""
        if not addresses.is_loopback(cluster_ip):
            continue
        own = server is not None and pods.name(service) == "default/kubernetes"
        for port in service["spec"].get("ports") or ():
            if port.get("protocol", "TCP") != "TCP":
                continue
            behind = [server] if own and server else _behind(service, port, endpoints)
            if behind:
                found[cluster_ip, port["port"]] = tuple(sorted(behind))
    return found


def _behind(
    service: apis.Object, port: apis.Object, endpoints: Sequence[Endpoint]
) -> list[Address]:
    matching = [item for item in endpoints if item.matches(service)]
    leaving = {id(item) for item in matching if item.pod["metadata"].get("deletionTimestamp")}
    anyway = service["spec"].get("publishNotReadyAddresses")
    usable = [item for item in matching if item.ready or anyway]
    # Pods on their way out serve on only where nobody else does, as kube-proxy has it.
    staying = [item for item in usable if id(item) not in leaving]
    target = port.get("targetPort") or port["port"]
    pairs = [(item.address, item.port(target)) for item in staying or usable]
    return [(address, number) for address, number in pairs if number is not None]


def hosts(
    services: Iterable[apis.Object], endpoints: Sequence[Endpoint], *, namespace: str
) -> list[str]:
    """Return the lines of `/etc/hosts` that make names of Services known in a namespace."""
    lines = []
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        names = _names(metadata["name"], metadata["namespace"], near=namespace)
        cluster_ip = spec.get("clusterIP") or ""
        if cluster_ip and cluster_ip != "None":
            lines.append(f"{cluster_ip} {' '.join(names)}")
            continue
        anyway = spec.get("publishNotReadyAddresses")
        for item in endpoints:
            if item.matches(service) and (item.ready or anyway):
                own = _own_names(item, service, near=namespace)
                lines.append(f"{item.address} {' '.join([*own, *names])}")
    return sorted(lines)


def _names(name: str, namespace: str, *, near: str) -> list[str]:
    short = [name] if namespace == near else []
    return [
        f"{name}.{namespace}.{DOMAIN}",
        f"{name}.{namespace}.svc",
        f"{name}.{namespace}",
        *short,
    ]


def _own_names(item: Endpoint, service: apis.Object, *, near: str) -> list[str]:
    """Return the names of one pod behind a headless Service (`hostname` and `subdomain`)."""
    spec = item.pod["spec"]
    if not spec.get("hostname") or spec.get("subdomain") != service["metadata"]["name"]:
        return []
    return _names(f"{spec['hostname']}.{spec['subdomain']}", item.namespace, near=near)


def hosts_file(pod: apis.Object, address: str, *, lines: Sequence[str]) -> bytes:
    """Return the whole `/etc/hosts` of a pod."""
    aliases = [
        f"{alias['ip']} {' '.join(alias.get('hostnames') or ())}"
        for alias in pod["spec"].get("hostAliases") or ()
    ]
    own = f"{address} {pods.hostname(pod)}"
    return ("\n".join([*LOCALHOST, own, *aliases, *lines]) + "\n").encode()


def changes(
    now: Mapping[Address, tuple[Address, ...]], wanted: Mapping[Address, tuple[Address, ...]]
) -> tuple[list[Address], list[Address]]:
    """Return which listeners to close and which to open."""
    return sorted(now.keys() - wanted.keys()), sorted(wanted.keys() - now.keys())
