"""Whose annotations opt a workflow in, looked up in the caches."""

from tiphys.models.domain import optins
from tiphys.operator import caches, objects


def of(cached: caches.Caches, namespace: str, run: objects.Run | None) -> optins.OptIn:
    """Return what the annotations around a workflow come to; without `run` the namespace's."""
    layers: list[optins.Layer] = []

    def add(kind: optins.Kind, name: str, annotations: tuple[tuple[str, str], ...]) -> None:
        if annotations:
            layers.append(optins.Layer(kind=kind, name=name, annotations=dict(annotations)))

    space = cached.namespaces.get(namespace)
    if space is not None:
        add(optins.Kind.NAMESPACE, namespace, space.annotations)
    if run is not None:
        add(optins.Kind.WORKFLOW, run.workflow.key, run.annotations)
        cron = cached.cron_workflows.get(run.cron_workflow)
        if cron is not None:
            add(optins.Kind.CRON_WORKFLOW, run.cron_workflow, cron.layer.annotations)
        template = cached.templates.get(run.template)
        if template is not None:
            add(optins.Kind.WORKFLOW_TEMPLATE, run.template, template.layer.annotations)
        cluster = cached.cluster_templates.get(run.cluster_template)
        if cluster is not None:
            add(
                optins.Kind.CLUSTER_WORKFLOW_TEMPLATE,
                run.cluster_template,
                cluster.layer.annotations,
            )
    return optins.resolve(layers)


def listed(cached: caches.Caches, excluded: frozenset[str]) -> tuple[str, ...]:
    """Return the namespaces, sorted, with a workflow, template or cron that may opt in.

    An annotated namespace stands for itself and is not among them. A cluster template that opts in
    means every namespace in which a workflow of it lives.
    """
    found: set[str] = set()
    for key, template in cached.templates.items():
        if _opts_in(template.layer.annotations):
            found.add(key.partition("/")[0])
    for key, cron in cached.cron_workflows.items():
        if _opts_in(cron.layer.annotations):
            found.add(key.partition("/")[0])
    clusters = {
        name
        for name, template in cached.cluster_templates.items()
        if _opts_in(template.layer.annotations)
    }
    for run in cached.workflows.values():
        if run.workflow.ended:
            continue
        if _opts_in(run.annotations) or run.cluster_template in clusters:
            found.add(run.workflow.namespace)
    return tuple(sorted(found - excluded))


def annotated(cached: caches.Caches, excluded: frozenset[str]) -> tuple[str, ...]:
    """Return the namespaces, sorted, whose own annotation opts them in."""
    return tuple(
        sorted(
            name
            for name, space in cached.namespaces.items()
            if name not in excluded and _opts_in(space.annotations)
        )
    )


def _opts_in(annotations: tuple[tuple[str, str], ...]) -> bool:
    return dict(annotations).get(optins.ENABLED) == "true"
