"""Tells people of annotations that cannot be read: once, by a Warning Event, and as a metric.

`tiphys.dev/enabled: "yes"` steers nobody, and no pod would ever say so. An Event is noted when an
object is first seen with such a value, or with another one; a new leader notes it again under the
same name, so that no second one comes. What nobody reads, `tiphys.dev/enable`, is told as well.
"""

import asyncio
from collections.abc import Iterator

from tiphys.models.domain import optins
from tiphys.operator import caches, events, objects, tallies

REASON = "AnnotationUnreadable"
KINDS = {
    caches.Kind.NAMESPACES: optins.Kind.NAMESPACE,
    caches.Kind.WORKFLOWS: optins.Kind.WORKFLOW,
    caches.Kind.TEMPLATES: optins.Kind.WORKFLOW_TEMPLATE,
    caches.Kind.CLUSTER_TEMPLATES: optins.Kind.CLUSTER_WORKFLOW_TEMPLATE,
    caches.Kind.CRON_WORKFLOWS: optins.Kind.CRON_WORKFLOW,
}
"""Kinds that may carry annotations of ours, by cache."""
Annotations = tuple[tuple[str, str], ...]


class Teller:
    """Looks at what comes and changes; runs on the leader."""

    def __init__(
        self,
        cached: caches.Caches,
        recorder: events.Recorder,
        *,
        excluded: frozenset[str],
        counted: tallies.Tallies,
    ) -> None:
        """In `excluded` namespaces nothing is steered and nothing is told."""
        self._caches = cached
        self._events = recorder
        self._excluded = excluded
        self._counted = counted
        self._wrong: dict[caches.Kind, dict[str, Annotations]] = {kind: {} for kind in KINDS}
        """What was told, by kind and key."""

    async def run(self) -> None:
        """Tell until cancelled."""
        stop = self._caches.subscribe(self._changed)
        try:
            for cache in self._caches.all:
                for key, value in list(cache.items()):
                    self._changed(caches.Change(cache.kind, key, None, value))
            await asyncio.Event().wait()
        finally:
            stop()
            for kind in KINDS:
                self._counted.unreadable_annotations.labels(kind).set(0)

    def _changed(self, change: caches.Change) -> None:
        if change.kind not in KINDS:
            return
        wrong = self._wrong[change.kind]
        known, written = wrong.get(change.key), _annotations(change.after)
        if known == written or not (known or written):
            return
        kind = KINDS[change.kind]
        said = " ".join(_problems(kind, change.key, written)) if written else ""
        about = _about(kind, change.key, change.after)
        if not said or about is None or (about.namespace or about.name) in self._excluded:
            wrong.pop(change.key, None)
        else:
            wrong[change.key] = written
            self._events.note(about, REASON, said, warns=True)
        self._counted.unreadable_annotations.labels(change.kind).set(len(wrong))


def _annotations(value: object) -> Annotations:
    if isinstance(value, objects.Run):
        return value.annotations
    layer = _layer(value)
    return layer.annotations if layer is not None else ()


def _layer(value: object) -> objects.Layer | None:
    if isinstance(value, objects.Template | objects.Cron):
        return value.layer
    return value if isinstance(value, objects.Layer) else None


def _problems(kind: optins.Kind, key: str, written: Annotations) -> Iterator[str]:
    """Yield what is wrong with the annotations of one object, a sentence each."""
    found = optins.resolve([optins.Layer(kind=kind, name=key, annotations=dict(written))])
    for error in found.errors:
        yield f"{error}. Nothing is steered by it until then."
    unknown = optins.unread(name for name, _ in written)
    if unknown:
        listed = ", ".join(optins.KEYS)
        yield f"Nobody reads {', '.join(unknown)}; there are {listed}."


def _about(kind: optins.Kind, key: str, value: object) -> events.About | None:
    if isinstance(value, objects.Run):
        uid = value.workflow.uid
    else:
        layer = _layer(value)
        if layer is None:
            return None
        uid = layer.uid
    space, _, name = key.rpartition("/")
    # A Namespace's Events stand in itself, where its people look.
    space = name if kind is optins.Kind.NAMESPACE else space
    return events.About(kind=kind.word, namespace=space, name=name, uid=uid)
