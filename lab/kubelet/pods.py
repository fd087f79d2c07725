"""What the kubelet reads from a pod object, as frozen values: one look at the JSON per pod."""

import functools
from dataclasses import dataclass, field, replace

from lab import apis
from tiphys.models.domain import quantities

NODE_NAME_ANNOTATION = "workflows.argoproj.io/node-name"
CLOCK_ANNOTATION = "tiphys.dev/lab-clock"
"""`wall` = the pod's deadline and the sleeps of its commands are wall time, not the lab's. Argo's
own time-outs always are, so whatever races one of them needs it."""
WORKFLOW_LABEL = "workflows.argoproj.io/workflow"
GPU_RESOURCE = "nvidia.com/gpu"
DEFAULT_GRACE_S = 30
MAIN = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Amounts of what nodes have; also what one container or pod asks for."""

    cpu_m: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    gpus: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            cpu_m=self.cpu_m + other.cpu_m,
            memory_bytes=self.memory_bytes + other.memory_bytes,
            storage_bytes=self.storage_bytes + other.storage_bytes,
            gpus=self.gpus + other.gpus,
        )

    def most(self, other: "Resources") -> "Resources":
        """Return the larger amount of each."""
        return Resources(
            cpu_m=max(self.cpu_m, other.cpu_m),
            memory_bytes=max(self.memory_bytes, other.memory_bytes),
            storage_bytes=max(self.storage_bytes, other.storage_bytes),
            gpus=max(self.gpus, other.gpus),
        )


NONE = Resources()
_cpu_m = functools.lru_cache(4096)(quantities.cpu_m)
_bytes = functools.lru_cache(4096)(quantities.memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container of a pod's spec."""

    name: str
    image: str
    requests: Resources = NONE
    limit_cpu_m: int | None = None
    limit_memory_bytes: int | None = None
    resources: dict[str, dict[str, str]] = field(default_factory=dict)
    """Requests and limits as they are written."""
    sidecar: bool = False
    """An init container that goes on running (restartPolicy Always)."""
    probe_s: float | None = None
    """Simulated seconds until its readiness probe succeeds; None without a probe."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """The parts of a pod that a kubelet works with; few of them change while it runs."""

    uid: str
    namespace: str
    name: str
    node: str
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    requests: Resources
    restart_policy: str
    grace_s: float
    deadline_s: float | None
    on_wall_clock: bool = False
    """Whether its deadline is wall time (see `CLOCK_ANNOTATION`)."""
    node_selector: dict[str, str]
    workflow: str
    """Name of the Argo Workflow, or empty."""
    argo_node: str
    """Argo's node name, or empty."""
    created_at: str
    owner_kind: str
    owner_name: str
    priority_class: str
    qos: str = "Burstable"

    @property
    def main(self) -> Container:
        """The container whose request and limit the task's work is held to."""
        for container in self.containers:
            if container.name == MAIN:
                return container
        return self.containers[0]

    @property
    def path(self) -> str:
        """Where the API server keeps it."""
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


def read(item: apis.Object) -> Pod:
    """Return what the kubelet needs of a pod object."""
    metadata, spec = item["metadata"], item["spec"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    containers = tuple(_container(raw) for raw in spec["containers"])
    init_containers = tuple(_container(raw) for raw in spec.get("initContainers") or ())
    owners = [ref for ref in metadata.get("ownerReferences") or () if ref.get("controller")]
    owner: apis.Object = owners[0] if owners else {}
    return Pod(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=spec["nodeName"],
        containers=containers,
        init_containers=init_containers,
        requests=_whole(requested(containers, init_containers), spec.get("resources"))
        + _amounts(spec.get("overhead")),
        restart_policy=spec.get("restartPolicy", "Always"),
        grace_s=spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE_S),
        deadline_s=spec.get("activeDeadlineSeconds"),
        on_wall_clock=annotations.get(CLOCK_ANNOTATION) == "wall",
        node_selector=spec.get("nodeSelector") or {},
        workflow=labels.get(WORKFLOW_LABEL, ""),
        argo_node=annotations.get(NODE_NAME_ANNOTATION, ""),
        created_at=metadata["creationTimestamp"],
        owner_kind=owner.get("kind", ""),
        owner_name=owner.get("name", ""),
        priority_class=spec.get("priorityClassName", ""),
        qos=item["status"].get("qosClass", "Burstable"),
    )


def awaits_kubelet(item: apis.Object) -> bool:
    """Whether the deletion of a pod waits for its kubelet.

    With a grace of 0 (a pod that had ended, or force) the API server removes the object itself.
    """
    metadata = item["metadata"]
    return "deletionTimestamp" in metadata and metadata.get("deletionGracePeriodSeconds") != 0


def slim(item: apis.Object) -> apis.Object:
    """Return what is still needed of the object of a pod that is over; there may be thousands."""
    kept = ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
    metadata = item["metadata"]
    return {
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "status": item["status"],
    }


def requested(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...]
) -> Resources:
    """Return what the scheduler counts: max(init in order with sidecars so far, all that stay)."""
    sidecars, first = NONE, NONE
    for container in init_containers:
        if container.sidecar:
            sidecars += container.requests
            first = first.most(sidecars)
        else:
            first = first.most(container.requests + sidecars)
    staying = sidecars
    for container in containers:
        staying += container.requests
    return staying.most(first)


def _whole(summed: Resources, raw: apis.Object | None) -> Resources:
    """Return what a pod requests: of CPU and memory what it says as a whole, where it does."""
    said = (raw or {}).get("requests") or {}
    return replace(
        summed,
        cpu_m=_cpu_m(said["cpu"]) if "cpu" in said else summed.cpu_m,
        memory_bytes=_bytes(said["memory"]) if "memory" in said else summed.memory_bytes,
    )


def _container(raw: apis.Object) -> Container:
    resources = raw.get("resources") or {}
    limits = resources.get("limits") or {}
    shown = {key: resources[key] for key in ("requests", "limits") if resources.get(key)}
    return Container(
        name=raw["name"],
        image=raw.get("image", ""),
        requests=_amounts(resources.get("requests")),
        limit_cpu_m=_cpu_m(limits["cpu"]) if "cpu" in limits else None,
        limit_memory_bytes=_bytes(limits["memory"]) if "memory" in limits else None,
        resources=shown,
        sidecar=raw.get("restartPolicy") == "Always",
        probe_s=_probe_s(raw.get("readinessProbe")),
    )


def _probe_s(probe: apis.Object | None) -> float | None:
    """Return when a probe has succeeded often enough, if it succeeds each time."""
    if probe is None:
        return None
    period_s = probe.get("periodSeconds", 10)
    first_s: float = probe.get("initialDelaySeconds", 0) + period_s * (
        probe.get("successThreshold", 1) - 1
    )
    return first_s


def _amounts(raw: apis.Object | None) -> Resources:
    if not raw:
        return NONE
    return Resources(
        cpu_m=_cpu_m(raw.get("cpu", 0)),
        memory_bytes=_bytes(raw.get("memory", 0)),
        storage_bytes=_bytes(raw.get("ephemeral-storage", 0)),
        gpus=int(raw.get(GPU_RESOURCE, 0)),
    )
