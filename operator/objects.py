"""What the caches keep of each object, and how it is read from Kubernetes' JSON.

Little on purpose: thousands of pods are held by every replica, so nothing raw is kept but the
templates of Argo (few, and needed as they are written to resolve references).
"""

import dataclasses
import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from tiphys.argo import clocks as argo_clocks
from tiphys.argo import pods as argo_pods
from tiphys.argo import workflows as argo_workflows
from tiphys.models.domain import amounts, clusters, decisions, pods, workflows

Object = Mapping[str, Any]
OUR_PREFIX = "tiphys.dev/"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A pod, and what dispatch, recovery and `explain` need beside it."""

    pod: pods.Pod
    version: str
    """Its resourceVersion, for preconditions."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Ours only (`tiphys.dev/…`), sorted; signatures while it is on no node."""
    labels: tuple[tuple[str, str], ...] = ()
    """Ours only, sorted."""
    finalizers: tuple[str, ...] = ()
    unscheduled: str = ""
    """Message of its PodScheduled condition while that is False."""
    unscheduled_reason: str = ""
    """`SchedulingGated`, `Unschedulable`, or empty."""
    preferred: bool = False
    """Whether it has a preferred node affinity."""
    ran: bool = False
    """Whether any of its containers ever started."""
    ends: tuple["End", ...] = ()
    """How its containers ended."""
    reason: str = ""
    """The pod's own `status.reason`, such as `Evicted`."""
    clocks: tuple[argo_clocks.Clock, ...] = ()
    """Argo's limits that stand in the pod; read only while it waits behind our gate."""

    def annotation(self, name: str) -> str:
        """Return one annotation of ours, or an empty text."""
        return dict(self.annotations).get(name, "")

    @property
    def steered(self) -> bool:
        """Whether it is Tiphys' to change: stamped at its creation, or decided then.

        The guards of the chart hold our own accounts to the same (charts/tiphys, guards.yaml).
        """
        stamped = dict(self.labels).get(decisions.LABEL) == "true"
        return stamped or bool(self.annotation(decisions.ANNOTATION))

    @property
    def waits(self) -> bool:
        """Whether it waits behind a gate that is ours to open."""
        return self.pod.gated and self.pod.active and not self.pod.deleting and self.steered


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How one container ended."""

    container: str
    exit_code: int
    reason: str
    """`Completed`, `Error`, `OOMKilled`, …"""
    started_at: float | None
    ended_at: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Where an opt-in may stand: an object's annotations of ours."""

    name: str
    uid: str
    annotations: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    """All of its labels for a Namespace (policies select on them); else empty."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A WorkflowTemplate or ClusterWorkflowTemplate as it is written."""

    layer: Layer
    written: Object
    """The whole object without managedFields and status."""
    version: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A CronWorkflow: its opt-in, and when it runs."""

    layer: Layer
    written: Object
    """Its spec without the workflow."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A Workflow, and whom it takes its opt-in from."""

    workflow: workflows.Workflow
    annotations: tuple[tuple[str, str], ...] = ()
    template: str = ""
    """Key of the WorkflowTemplate that it is made of, or empty."""
    cluster_template: str = ""
    cron_workflow: str = ""
    """Key of the CronWorkflow that started it, or empty."""
    version: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A SchedulingPolicy: its spec as written and the generation that it is of."""

    name: str
    uid: str
    generation: int
    spec: Object
    status: Object


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A PolicyVersion."""

    name: str
    uid: str
    generation: int
    spec: Object
    status: Object


def key(obj: Object) -> str:
    """Return `namespace/name`, or the name alone."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def pod(obj: Object) -> Seen:
    """Read a pod."""
    meta, status = obj["metadata"], obj.get("status") or {}
    scheduled: Object = next(
        (c for c in status.get("conditions") or () if c.get("type") == "PodScheduled"), {}
    )
    bound = scheduled.get("status") != "False"
    states = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    found = argo_pods.read(obj)
    affinity = (obj["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    return Seen(
        pod=found,
        version=meta.get("resourceVersion", ""),
        annotations=ours(meta.get("annotations"), signed=not found.node),
        labels=ours(meta.get("labels")),
        finalizers=tuple(meta.get("finalizers") or ()),
        unscheduled="" if bound else scheduled.get("message", ""),
        unscheduled_reason="" if bound else scheduled.get("reason", ""),
        preferred=bool(affinity.get("preferredDuringSchedulingIgnoredDuringExecution")),
        ran=any(
            kind in (state.get(when) or {})
            for state in states
            for when in ("state", "lastState")
            for kind in ("running", "terminated")
        ),
        ends=tuple(_ends(states)),
        reason=status.get("reason", ""),
        clocks=argo_clocks.of_pod(obj, at=found.created_at) if found.gated else (),
    )


def node(obj: Object) -> clusters.Node:
    """Read a node; not Ready, cordoned or leaving ones are not schedulable."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
    return clusters.Node(
        name=meta["name"],
        labels=tuple(sorted((meta.get("labels") or {}).items())),
        taints=tuple(
            clusters.Taint(
                key=taint["key"],
                value=taint.get("value", ""),
                effect=taint.get("effect", "NoSchedule"),
            )
            for taint in spec.get("taints") or ()
        ),
        allocatable=amounts.Amounts.read(
            status.get("allocatable") or status.get("capacity"), where="status.allocatable"
        ),
        schedulable=ready and not spec.get("unschedulable") and "deletionTimestamp" not in meta,
    )


def namespace(obj: Object) -> Layer:
    """Read a namespace with all of its labels."""
    meta = obj["metadata"]
    return dataclasses.replace(layer(obj), labels=tuple(sorted((meta.get("labels") or {}).items())))


def layer(obj: Object) -> Layer:
    """Read an object as a place of opt-in."""
    meta = obj["metadata"]
    return Layer(
        name=meta["name"], uid=meta.get("uid", ""), annotations=ours(meta.get("annotations"))
    )


def template(obj: Object) -> Template:
    """Read a WorkflowTemplate or ClusterWorkflowTemplate."""
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    written = {name: value for name, value in obj.items() if name not in ("status", "metadata")}
    return Template(
        layer=layer(obj),
        written={**written, "metadata": meta},
        version=meta.get("resourceVersion", ""),
    )


def cron(obj: Object) -> Cron:
    """Read a CronWorkflow."""
    spec = {name: each for name, each in (obj.get("spec") or {}).items() if name != "workflowSpec"}
    return Cron(layer=layer(obj), written={"metadata": {}, "spec": spec})


def run(obj: Object, templates: Mapping[str, Mapping[str, object]]) -> Run:
    """Read a Workflow; `templates` resolves what it refers to."""
    meta, spec = obj["metadata"], obj.get("spec") or {}
    space = meta["namespace"]
    reference = spec.get("workflowTemplateRef") or {}
    name = reference.get("name", "")
    cron = (meta.get("labels") or {}).get("workflows.argoproj.io/cron-workflow", "")
    return Run(
        workflow=argo_workflows.read(obj, templates=templates),
        annotations=ours(meta.get("annotations")),
        template=f"{space}/{name}" if name and not reference.get("clusterScope") else "",
        cluster_template=name if reference.get("clusterScope") else "",
        cron_workflow=f"{space}/{cron}" if cron else "",
        version=meta.get("resourceVersion", ""),
    )


def policy(obj: Object) -> Policy:
    """Read a SchedulingPolicy."""
    return Policy(**_written(obj))


def version(obj: Object) -> Version:
    """Read a PolicyVersion."""
    return Version(**_written(obj))


def ours(listed: Mapping[str, str] | None, *, signed: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the annotations or labels that are Tiphys', sorted; with signatures where `signed`."""
    return tuple(
        sorted(
            (name, value)
            for name, value in (listed or {}).items()
            if name.startswith(OUR_PREFIX)
            and (signed or name not in (decisions.SIGNATURE, decisions.RELEASE_SIGNATURE))
        )
    )


def unix_s(text: str | None) -> float | None:
    """Return an RFC 3339 time as unix seconds."""
    return datetime.datetime.fromisoformat(text).timestamp() if text else None


def _written(obj: Object) -> dict[str, Any]:
    meta = obj["metadata"]
    return {
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "generation": int(meta.get("generation", 0)),
        "spec": obj.get("spec") or {},
        "status": obj.get("status") or {},
    }


def _ends(states: Sequence[Object]) -> list[End]:
    """Return how the containers with these statuses ended."""
    found = []
    for state in states:
        ended = (state.get("state") or {}).get("terminated")
        if ended:
            found.append(
                End(
                    container=state["name"],
                    exit_code=int(ended.get("exitCode", 0)),
                    reason=ended.get("reason", ""),
                    started_at=unix_s(ended.get("startedAt")),
                    ended_at=unix_s(ended.get("finishedAt")),
                )
            )
    return found
