"""Whose annotations opt a workflow in, looked up in the caches."""

import functools

from tiphys.models.domain import optins
from tiphys.operator import caches, objects

Written = tuple[optins.Kind, str, tuple[tuple[str, str], ...]]
"""Kind, key and annotations of one layer."""


def of(cached: caches.Caches, namespace: str, run: objects.Run | None) -> optins.OptIn:
    """Return what the annotations around a workflow come to; without `run` the namespace's."""
    layers: list[Written] = []
    space = cached.namespaces.get(namespace)
    if space is not None:
        layers.append((optins.Kind.NAMESPACE, namespace, space.annotations))
    if run is not None:
        layers.append((optins.Kind.WORKFLOW, run.workflow.key, run.annotations))
        cron = cached.cron_workflows.get(run.cron_workflow)
        if cron is not None:
            kind = optins.Kind.CRON_WORKFLOW
            layers.append((kind, run.cron_workflow, cron.layer.annotations))
        template = cached.templates.get(run.template)
        if template is not None:
            kind = optins.Kind.WORKFLOW_TEMPLATE
            layers.append((kind, run.template, template.layer.annotations))
        cluster = cached.cluster_templates.get(run.cluster_template)
        if cluster is not None:
            kind = optins.Kind.CLUSTER_WORKFLOW_TEMPLATE
            layers.append((kind, run.cluster_template, cluster.layer.annotations))
    return _resolved(tuple(layer for layer in layers if layer[2]))


@functools.lru_cache(maxsize=4096)
def _resolved(layers: tuple[Written, ...]) -> optins.OptIn:
    """Resolve once what hundreds of pods of one workflow ask for."""
    return optins.resolve(
        optins.Layer(kind=kind, name=name, annotations=dict(annotations))
        for kind, name, annotations in layers
    )


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
