"""Argo's Workflows to the domain: one DAG of tasks from what is written and what has happened."""

from collections.abc import Mapping

from tiphys.argo import documents, moments, nodes, parameters, tasks, templates, walks
from tiphys.models.domain import durations, errors, optins, workflows

_ENDED = frozenset({"Succeeded", "Failed", "Error"})


def read(
    obj: Mapping[str, object], *, templates: templates.Objects | None = None
) -> workflows.Workflow:
    """Return a Workflow as its tasks; what is not known yet is named in `unknowns`.

    `templates` holds WorkflowTemplates and ClusterWorkflowTemplates by `argo.templates.key`; once
    a Workflow runs, its status has its own copies.  Raises `InputError` where the JSON has a shape
    that Argo could not read either.
    """
    try:
        return _read(documents.root(obj, "workflow"), templates or {})
    except RecursionError:
        raise errors.InputError("workflow: nested too deeply to be read") from None


def _read(obj: documents.Document, objects: templates.Objects) -> workflows.Workflow:
    metadata = documents.mapping(obj, "metadata")
    status = documents.mapping(obj, "status")
    written = documents.mapping(obj, "spec")
    namespace = documents.text(metadata, "namespace", "metadata")
    name = documents.text(metadata, "name", "metadata")
    unknowns: list[str] = []
    spec, scope = _executed(written, status, namespace, objects, unknowns)
    found = nodes.read(status, unknowns)
    phase = documents.text(status, "phase", "status")
    ended = phase in _ENDED
    created_at = moments.read(metadata, "creationTimestamp", "metadata") or 0.0
    started_at = moments.read(status, "startedAt", "status")
    entrypoint = documents.text(spec, "entrypoint", "spec")
    frame = parameters.Frame(_run(found, spec, metadata, status, name=name, namespace=namespace))
    collection = tasks.Collection(
        workflow=name, entrypoint=entrypoint, found=found, unknowns=unknowns
    )
    library = templates.Library(
        namespace=namespace,
        objects=objects,
        stored=documents.mapping(status, "storedTemplates", "status"),
        defaults=documents.mapping(spec, "templateDefaults", "spec"),
    )
    walk = walks.Walk(
        collection,
        library,
        retried=spec.get("retryStrategy") is not None,
        parallelism=spec.get("parallelism") is not None,
    )
    _follow(walk, spec, tasks.Call("", (), frame, scope, over=ended))
    collection.add_rest()
    limit_s = documents.whole(spec, "activeDeadlineSeconds", "spec")
    locks, waits_for = _locks(status, found)
    deadline_at = _deadline_at(metadata, created_at, unknowns)
    return workflows.Workflow(
        namespace=namespace,
        name=name,
        uid=documents.text(metadata, "uid", "metadata"),
        tasks=tuple(collection.tasks),
        unknowns=tuple(unknowns),
        priority=documents.whole(spec, "priority", "spec") or 0,
        created_at=created_at,
        deadline_at=deadline_at,
        ends_by_at=None if limit_s is None else (started_at or created_at) + limit_s,
        suspended=documents.switch(written, "suspend", "spec"),
        shutting_down=bool(documents.text(written, "shutdown", "spec")),
        ended=ended,
        locks=locks,
        waits_for=waits_for,
        source=scope.source,
    )


def _executed(
    written: documents.Document,
    status: documents.Document,
    namespace: str,
    objects: templates.Objects,
    unknowns: list[str],
) -> tuple[documents.Document, templates.Scope]:
    """Return the spec that Argo runs, and the scope of its own templates."""
    reference = documents.mapping(written, "workflowTemplateRef", "spec")
    if not reference:
        return written, templates.Scope(templates.digest(written), "", templates.listed(written))
    where = "spec.workflowTemplateRef"
    source = templates.key_of(
        namespace,
        documents.text(reference, "name", where),
        cluster_scope=documents.switch(reference, "clusterScope", where),
    )
    spec = documents.mapping(status, "storedWorkflowTemplateSpec", "status")
    if not spec:
        found = objects.get(source)
        if found is None:
            unknowns.append(f"the template {source} is not known here")
        base = documents.mapping(documents.root(found or {}, source), "spec", source)
        spec = _joined(written, base)
    return spec, templates.Scope(source, "", templates.listed(spec))


def _joined(own: documents.Document, base: documents.Document) -> documents.Document:
    """Return a Workflow's spec over that of its template, as Argo's JoinWorkflowSpec does."""
    joined = dict(templates.merge(base, own))
    for field, key in (("templates", "spec"), ("parameters", "spec.arguments")):
        mine, theirs = (
            documents.mappings(
                spec if field == "templates" else documents.mapping(spec, "arguments", "spec"),
                field,
                key,
            )
            for spec in (own, base)
        )
        taken = {documents.text(each, "name", key) for each in mine}
        both = [*mine, *(each for each in theirs if documents.text(each, "name", key) not in taken)]
        if field == "templates":
            joined[field] = both
        elif both:
            joined["arguments"] = {**documents.mapping(joined, "arguments"), field: both}
    return joined


def _run(
    found: nodes.Nodes,
    spec: documents.Document,
    metadata: documents.Document,
    status: documents.Document,
    *,
    name: str,
    namespace: str,
) -> parameters.Run:
    plain = {
        "workflow.namespace": namespace,
        "workflow.serviceAccountName": documents.text(spec, "serviceAccountName", "spec"),
        "workflow.mainEntrypoint": documents.text(spec, "entrypoint", "spec"),
        "workflow.priority": str(documents.whole(spec, "priority", "spec") or 0),
    }
    if name:
        plain["workflow.name"] = name
    if uid := documents.text(metadata, "uid", "metadata"):
        plain["workflow.uid"] = uid
    for kind in ("labels", "annotations"):
        for key, value in documents.mapping(metadata, kind, "metadata").items():
            if isinstance(value, str):
                plain[f"workflow.{kind}.{key}"] = value
    return parameters.Run(
        found,
        arguments=documents.mapping(spec, "arguments", "spec"),
        outputs=documents.mapping(status, "outputs", "status"),
        plain=plain,
    )


def _follow(walk: walks.Walk, spec: documents.Document, at: tasks.Call) -> None:
    """Walk the entry point, the hooks of the Workflow and its exit handler."""
    arguments = documents.mapping(spec, "arguments", "spec")
    entrypoint = documents.text(spec, "entrypoint", "spec")
    ends: tasks.Ids = ()
    if entrypoint:
        ends = walk.call({"template": entrypoint, "arguments": arguments}, at)
    hooks = documents.mapping(spec, "hooks", "spec")
    on_exit = documents.text(spec, "onExit", "spec")
    if hooks or on_exit:
        walk.hooks(hooks, on_exit, at, ends, arguments=arguments)


def _deadline_at(
    metadata: documents.Document, created_at: float, unknowns: list[str]
) -> float | None:
    written = documents.mapping(metadata, "annotations", "metadata").get(optins.DEADLINE)
    if written is None:
        return None
    try:
        return created_at + durations.read(written, where=f"annotation {optins.DEADLINE}")
    except errors.InputError as error:
        unknowns.append(str(error))
        return None


def _locks(
    status: documents.Document, found: nodes.Nodes
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the mutexes and semaphores that a Workflow holds, and those that it waits for."""
    holds: set[str] = set()
    waits: set[str] = set()
    where = "status.synchronization"
    synchronization = documents.mapping(status, "synchronization", "status")
    for kind in ("mutex", "semaphore"):
        lock = documents.mapping(synchronization, kind, where)
        for field, into in (("holding", holds), ("waiting", waits)):
            for each in documents.mappings(lock, field, f"{where}.{kind}"):
                into.add(documents.text(each, kind, f"{where}.{kind}.{field}"))
    for node in found.by_name.values():
        if "synchronizationStatus" in node.written and not node.state.ended:
            waiting = documents.mapping(node.written, "synchronizationStatus", "status.nodes")
            waits.add(documents.text(waiting, "waiting", "status.nodes.synchronizationStatus"))
    return tuple(sorted(holds - {""})), tuple(sorted(waits - {""}))
