"""Kubernetes' pods to the domain: whose they are, what each container is for, what they ask for."""

from collections.abc import Mapping

from tiphys.argo import constraints, documents, moments, names, requests
from tiphys.models.domain import amounts, pods

_TEMPLATE_NAME = '{"name":"'
"""How Go begins to write a template; its name is the first field."""
_CONTAINER_SET = '"containerSet":{'
"""A key of that template: inside of texts the quotes would be escaped."""
_OWNERS = "metadata.ownerReferences"
_MAIN_ROLES = {
    pods.PodRole.AGENT: pods.ContainerRole.AGENT,
    pods.PodRole.ARTIFACT_GC: pods.ContainerRole.ARTIFACT_GC,
}
_WORKERS = frozenset(
    {
        pods.ContainerRole.MAIN,
        pods.ContainerRole.MEMBER,
        pods.ContainerRole.AGENT,
        pods.ContainerRole.ARTIFACT_GC,
    }
)
_PHASES = {phase.value: phase for phase in pods.Phase}


def read(obj: Mapping[str, object]) -> pods.Pod:
    """Return a pod as scheduling sees it; raises `InputError` where its JSON has another shape.

    Works at admission (no status, perhaps no name or uid) and later.  A pod is Argo's only if a
    Workflow controls it and Argo's marks are on it; one that a resource template made is foreign.
    """
    obj = documents.root(obj, "pod")
    metadata = documents.mapping(obj, "metadata")
    spec = documents.mapping(obj, "spec")
    status = documents.mapping(obj, "status")
    name, namespace, uid = documents.texts(metadata, "metadata", "name", "namespace", "uid")
    annotations = documents.mapping(metadata, "annotations", "metadata")
    owner = _owner(metadata)
    labels = documents.mapping(metadata, "labels", "metadata")
    role = _role(owner, labels, annotations) if owner else pods.PodRole.FOREIGN
    workflow = workflow_uid = node_id = node_name = template = ""
    is_set = False
    if role is pods.PodRole.ARTIFACT_GC:
        workflow = documents.text(labels, names.LABEL_WORKFLOW, "metadata.labels")
    elif role is not pods.PodRole.FOREIGN and owner:
        workflow, workflow_uid = documents.texts(owner, _OWNERS, "name", "uid")
        if role is not pods.PodRole.AGENT:
            node_id, node_name = documents.texts(
                annotations, "metadata.annotations", names.NODE_ID, names.NODE_NAME
            )
            written = written_template(spec)
            is_set = _CONTAINER_SET in written
            template = _template_name(written) or names.template_of_pod_name(name, workflow)
    containers = _containers(spec, role, is_set=is_set)
    init_containers = _init_containers(spec, role)
    started_at, ended_at, phase = _times(status, containers)
    return pods.Pod(
        namespace=namespace,
        name=name,
        uid=uid,
        role=role,
        workflow=workflow,
        workflow_uid=workflow_uid,
        node_id=node_id,
        task=node_name,
        template=template,
        attempt=names.attempt(node_name) if node_name else 0,
        containers=containers,
        init_containers=init_containers,
        requests=_effective(spec, status, containers, init_containers),
        constraints=constraints.read(spec),
        priority=documents.whole(spec, "priority", "spec") or 0,
        preempts=documents.text(spec, "preemptionPolicy", "spec") != "Never",
        gates=tuple(
            documents.text(gate, "name", "spec.schedulingGates")
            for gate in documents.mappings(spec, "schedulingGates", "spec")
        ),
        node=documents.text(spec, "nodeName", "spec"),
        phase=phase,
        created_at=moments.read(metadata, "creationTimestamp", "metadata") or 0.0,
        bound_at=_bound_at(status),
        started_at=started_at,
        ended_at=ended_at,
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def _owner(metadata: documents.Document) -> documents.Document | None:
    """Return the reference to what of Argo controls the pod."""
    for reference in documents.mappings(metadata, "ownerReferences", "metadata"):
        if (
            reference.get("controller") is True
            and reference.get("kind") in (names.KIND, names.KIND_ARTIFACT_GC)
            and documents.text(reference, "apiVersion", _OWNERS).startswith(names.GROUP)
        ):
            return reference
    return None


def _role(
    owner: documents.Document, labels: documents.Document, annotations: documents.Document
) -> pods.PodRole:
    if owner.get("kind") == names.KIND_ARTIFACT_GC:
        return pods.PodRole.ARTIFACT_GC
    if labels.get(names.LABEL_COMPONENT) == names.COMPONENT_AGENT:
        return pods.PodRole.AGENT
    if names.NODE_ID not in annotations:
        return pods.PodRole.FOREIGN
    if labels.get(names.LABEL_ON_EXIT) == "true":
        return pods.PodRole.EXIT_HANDLER
    return pods.PodRole.TASK


def written_template(spec: documents.Document) -> str:
    """Return the template as Argo wrote it into the environment of its own containers, if any."""
    for field in ("initContainers", "containers"):
        for container in documents.mappings(spec, field, "spec"):
            if container.get("name") not in names.EXECUTORS:
                continue
            for variable in documents.mappings(container, "env", f"spec.{field}"):
                if variable.get("name") == names.ENV_TEMPLATE:
                    return documents.text(variable, "value", f"spec.{field}.env")
    return ""


def _template_name(written: str) -> str:
    if not written.startswith(_TEMPLATE_NAME):
        return ""
    return written[len(_TEMPLATE_NAME) : written.find('"', len(_TEMPLATE_NAME))]


def _containers(
    spec: documents.Document, role: pods.PodRole, *, is_set: bool
) -> tuple[pods.Container, ...]:
    listed = documents.mappings(spec, "containers", "spec")
    argos = role is not pods.PodRole.FOREIGN
    # The template may have gone to a ConfigMap: then only the lack of a `main` tells a set.
    is_set = is_set or (argos and all(each.get("name") != names.MAIN for each in listed))
    return tuple(
        _container(
            each,
            f"spec.containers[{place}]",
            _container_role(each, role, is_set=is_set) if argos else pods.ContainerRole.MAIN,
        )
        for place, each in enumerate(listed)
    )


def _container_role(
    container: documents.Document, role: pods.PodRole, *, is_set: bool
) -> pods.ContainerRole:
    name = documents.text(container, "name", "spec.containers")
    if name == names.WAIT:
        return pods.ContainerRole.WAIT
    if name == names.SUPERVISOR:
        return pods.ContainerRole.SUPERVISOR
    if name.startswith(names.PLUGIN_SIDECAR):
        return pods.ContainerRole.ARTIFACT_PLUGIN
    if role in _MAIN_ROLES:
        return _MAIN_ROLES[role] if name == names.MAIN else pods.ContainerRole.SIDECAR
    if is_set:
        return pods.ContainerRole.MEMBER
    return pods.ContainerRole.MAIN if name == names.MAIN else pods.ContainerRole.SIDECAR


def _init_containers(spec: documents.Document, role: pods.PodRole) -> tuple[pods.Container, ...]:
    listed = documents.mappings(spec, "initContainers", "spec")
    argos = role is not pods.PodRole.FOREIGN
    return tuple(
        _container(each, f"spec.initContainers[{place}]", _init_role(each, argos=argos))
        for place, each in enumerate(listed)
    )


def _init_role(container: documents.Document, *, argos: bool) -> pods.ContainerRole:
    if container.get("restartPolicy") == "Always":
        return pods.ContainerRole.SIDECAR
    name = documents.text(container, "name", "spec.initContainers")
    if argos and name == names.INIT:
        return pods.ContainerRole.INIT
    if argos and name.startswith(names.PLUGIN_INIT):
        return pods.ContainerRole.ARTIFACT_PLUGIN
    return pods.ContainerRole.USER_INIT


def _container(
    container: documents.Document, where: str, role: pods.ContainerRole
) -> pods.Container:
    asked, limits = requests.of_container(container, where)
    name, image = documents.texts(container, where, "name", "image")
    return pods.Container(
        name=name,
        role=role,
        image=image,
        requests=asked,
        limits=limits,
        restartable=container.get("restartPolicy") == "Always",
    )


def _effective(
    spec: documents.Document,
    status: documents.Document,
    containers: tuple[pods.Container, ...],
    init_containers: tuple[pods.Container, ...],
) -> amounts.Amounts:
    resources = documents.mapping(spec, "resources", "spec")
    return requests.of_pod(
        containers,
        init_containers,
        resized=requests.in_place(containers, status, "containerStatuses")
        | requests.in_place(init_containers, status, "initContainerStatuses"),
        overhead=requests.amounts_at(spec, "overhead", "spec"),
        pod_level=requests.amounts_at(resources, "requests", "spec.resources"),
        pod_level_names=documents.mapping(resources, "requests", "spec.resources"),
    )


def _bound_at(status: documents.Document) -> float | None:
    for condition in documents.mappings(status, "conditions", "status"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return moments.read(condition, "lastTransitionTime", "status.conditions")
    return None


def _times(
    status: documents.Document, containers: tuple[pods.Container, ...]
) -> tuple[float | None, float | None, pods.Phase]:
    """Return when the work began, when the pod ended (unix seconds), and its phase.

    Work is what containers other than Argo's and sidecars do; start-up lies before it.
    """
    phase = _PHASES.get(documents.text(status, "phase", "status"), pods.Phase.PENDING)
    over = phase in (pods.Phase.SUCCEEDED, pods.Phase.FAILED)
    working = {each.name for each in containers if each.role in _WORKERS}
    begun: list[float] = []
    ends: list[float] = []
    for state in documents.mappings(status, "containerStatuses", "status"):
        now = documents.mapping(state, "state", "status.containerStatuses")
        for kind in ("running", "terminated"):
            times = documents.mapping(now, kind, "status.containerStatuses.state")
            if not times:
                continue
            at = moments.read(times, "startedAt", "status.containerStatuses.state")
            if at is not None and documents.text(state, "name", "status") in working:
                begun.append(at)
            until = moments.read(times, "finishedAt", "status.containerStatuses.state")
            if until is not None:
                ends.append(until)
    if over and not ends:  # rejected or evicted before anything ran: its conditions tell when
        ends = [
            at
            for condition in documents.mappings(status, "conditions", "status")
            if (at := moments.read(condition, "lastTransitionTime", "status.conditions"))
        ]
    return min(begun, default=None), max(ends, default=None) if over else None, phase
