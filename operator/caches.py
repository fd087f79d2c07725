"""Hot caches: what the cluster holds, as domain values by key, never as raw objects.

Watches (`watches`) and kopf (`reconcilers`) write; everybody else reads and may `subscribe`. All
runs in one event loop, so a reader that does not await sees one consistent picture. Keys are
`namespace/name`, or the name for what has no namespace.
"""

import dataclasses
import enum
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

from tiphys.models.domain import clusters, pods, workflows
from tiphys.operator import limits, objects

Value = TypeVar("Value")


class Kind(enum.StrEnum):
    """What is cached; also the closed label set of the metrics."""

    PODS = "pods"
    NODES = "nodes"
    NAMESPACES = "namespaces"
    QUOTAS = "quotas"
    LIMIT_RANGES = "limit_ranges"
    PRIORITY_CLASSES = "priority_classes"
    WORKFLOWS = "workflows"
    TEMPLATES = "templates"
    CLUSTER_TEMPLATES = "cluster_templates"
    CRON_WORKFLOWS = "cron_workflows"
    POLICIES = "policies"
    POLICY_VERSIONS = "policy_versions"


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One key of one cache changed; a value of None means that it is not there."""

    kind: Kind
    key: str
    before: object
    after: object


Listener = Callable[[Change], None]


class Cache(Generic[Value]):
    """The values of one kind by key."""

    def __init__(self, kind: Kind, owner: "Caches") -> None:
        self.kind = kind
        self._owner = owner
        self._values: dict[str, Value] = {}
        self.synced = False
        """Whether one complete list was read since the start."""
        self.heard_at: float | None = None
        """Monotonic second of the last proof that the picture is current; None = never."""
        self.current = False
        """Whether a watch is open and talks: then the picture is as old as what is under way."""

    def get(self, key: str) -> Value | None:
        """Return one value, or None."""
        return self._values.get(key)

    def values(self) -> Collection[Value]:
        """Return a live view of all values."""
        return self._values.values()

    def items(self) -> Collection[tuple[str, Value]]:
        """Return a live view of keys and values."""
        return self._values.items()

    def keys(self) -> Collection[str]:
        """Return a live view of the keys."""
        return self._values.keys()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def put(self, key: str, value: Value) -> None:
        """Keep a value; what equals the kept one changes nothing and tells nobody."""
        before = self._values.get(key)
        if before == value:
            return
        self._values[key] = value
        self._indexed(key, before, value)
        self._owner.tell(Change(self.kind, key, before, value))

    def drop(self, key: str) -> None:
        """Forget a value."""
        before = self._values.pop(key, None)
        if before is not None:
            self._indexed(key, before, None)
            self._owner.tell(Change(self.kind, key, before, None))

    def retain(self, keys: Collection[str]) -> None:
        """Forget what a complete list did not hold."""
        for key in [key for key in self._values if key not in keys]:
            self.drop(key)
        self.synced = True

    def age_s(self, now_s: float) -> float:
        """Return for how long nothing proves that this is current; infinity before a first list."""
        if self.heard_at is None or not self.synced:
            return float("inf")
        return 0.0 if self.current else max(0.0, now_s - self.heard_at)

    def _indexed(self, key: str, before: Value | None, after: Value | None) -> None:
        """Keep indexes; subclasses do."""


class Pods(Cache[objects.Seen]):
    """Pods, with indexes by Workflow uid, by node, and of those that wait behind our gate."""

    def __init__(self, owner: "Caches") -> None:
        super().__init__(Kind.PODS, owner)
        self._by_workflow: dict[str, set[str]] = {}
        self._by_node: dict[str, set[str]] = {}
        self._gated: dict[str, None] = {}

    def of_workflow(self, uid: str) -> list[objects.Seen]:
        """Return the pods that a Workflow controls, in no order."""
        return [self._values[key] for key in self._by_workflow.get(uid, ())]

    def count_of_workflow(self, uid: str) -> int:
        """Return how many pods a Workflow controls."""
        return len(self._by_workflow.get(uid, ()))

    def on_node(self, name: str) -> list[objects.Seen]:
        """Return the pods that are bound to a node, ended ones too, in no order."""
        return [self._values[key] for key in self._by_node.get(name, ())]

    def gated(self) -> list[objects.Seen]:
        """Return the pods that wait behind our gate, in the order in which they were seen."""
        return [self._values[key] for key in self._gated]

    def pod(self, key: str) -> pods.Pod | None:
        """Return the pod alone."""
        seen = self._values.get(key)
        return seen.pod if seen is not None else None

    def _indexed(self, key: str, before: objects.Seen | None, after: objects.Seen | None) -> None:
        _moved(
            self._by_workflow,
            key,
            before.pod.workflow_uid if before else "",
            after.pod.workflow_uid if after else "",
        )
        _moved(
            self._by_node,
            key,
            before.pod.node if before else "",
            after.pod.node if after else "",
        )
        if after is not None and after.waits:
            self._gated.setdefault(key)
        else:
            self._gated.pop(key, None)


class Workflows(Cache[objects.Run]):
    """Workflows, with an index by uid."""

    def __init__(self, owner: "Caches") -> None:
        super().__init__(Kind.WORKFLOWS, owner)
        self._by_uid: dict[str, str] = {}

    def of_uid(self, uid: str) -> objects.Run | None:
        """Return the Workflow with that uid; a namesake that came later is another one."""
        key = self._by_uid.get(uid)
        return self._values.get(key) if key is not None else None

    def workflow(self, key: str) -> workflows.Workflow | None:
        """Return the workflow alone."""
        run = self._values.get(key)
        return run.workflow if run is not None else None

    def _indexed(self, key: str, before: objects.Run | None, after: objects.Run | None) -> None:
        if before is not None and (after is None or after.workflow.uid != before.workflow.uid):
            self._by_uid.pop(before.workflow.uid, None)
        if after is not None:
            self._by_uid[after.workflow.uid] = key


class Caches:
    """All caches of one process."""

    def __init__(self) -> None:
        self.pods = Pods(self)
        self.nodes: Cache[clusters.Node] = Cache(Kind.NODES, self)
        self.namespaces: Cache[objects.Layer] = Cache(Kind.NAMESPACES, self)
        self.quotas: Cache[limits.Quota] = Cache(Kind.QUOTAS, self)
        self.limit_ranges: Cache[limits.LimitRange] = Cache(Kind.LIMIT_RANGES, self)
        self.priority_classes: Cache[limits.PriorityClass] = Cache(Kind.PRIORITY_CLASSES, self)
        self.workflows = Workflows(self)
        self.templates: Cache[objects.Template] = Cache(Kind.TEMPLATES, self)
        self.cluster_templates: Cache[objects.Template] = Cache(Kind.CLUSTER_TEMPLATES, self)
        self.cron_workflows: Cache[objects.Cron] = Cache(Kind.CRON_WORKFLOWS, self)
        self.policies: Cache[objects.Policy] = Cache(Kind.POLICIES, self)
        self.policy_versions: Cache[objects.Version] = Cache(Kind.POLICY_VERSIONS, self)
        self.version = 0
        """Rises with each change of any cache."""
        self._listeners: list[Listener] = []
        self.all: tuple[Cache[Any], ...] = tuple(
            value for value in vars(self).values() if isinstance(value, Cache)
        )
        self.deciding = tuple(cache for cache in self.all if cache.kind in NEEDED)
        """The caches without which no decision is made: what runs where, for whom, how."""

    @property
    def synced(self) -> bool:
        """Whether each cache that decisions need has been read once."""
        return all(cache.synced for cache in self.deciding)

    def age_s(self, now_s: float) -> float:
        """Return the age of the oldest cache that decisions need, at the monotonic second."""
        return max(cache.age_s(now_s) for cache in self.deciding)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each change, at once and in order; returns how to stop.

        It runs inside the write: it only notes what it saw, sets an event, and never awaits.
        """
        self._listeners.append(listener)

        def stop() -> None:
            self._listeners.remove(listener)

        return stop

    def tell(self, change: Change) -> None:
        """Count a change and pass it on; for caches."""
        self.version += 1
        for listener in tuple(self._listeners):
            listener(change)

    def templates_by_name(self, namespace: str) -> Mapping[str, Mapping[str, object]]:
        """Return the written templates that a Workflow of `namespace` may refer to.

        Keys are those of `workflows.Identity.source`: `wftmpl/NAMESPACE/NAME`, `cwftmpl/NAME`.
        """
        return Templates(self, namespace)


class Templates(Mapping[str, Mapping[str, object]]):
    """The caches of templates as the mapping that `argo.workflows.read` takes."""

    def __init__(self, caches: Caches, namespace: str) -> None:
        self._caches = caches
        self._namespace = namespace

    def __getitem__(self, key: str) -> Mapping[str, object]:
        kind, _, name = key.partition("/")
        found = (
            self._caches.templates if kind == "wftmpl" else self._caches.cluster_templates
        ).get(name)
        if found is None:
            raise KeyError(key)
        return found.written

    def __iter__(self) -> Iterator[str]:
        for key in self._caches.templates:
            if key.startswith(f"{self._namespace}/"):
                yield f"wftmpl/{key}"
        for key in self._caches.cluster_templates:
            yield f"cwftmpl/{key}"

    def __len__(self) -> int:
        return sum(1 for _ in self)


NEEDED = frozenset(
    {
        Kind.PODS,
        Kind.NODES,
        Kind.NAMESPACES,
        Kind.WORKFLOWS,
        Kind.QUOTAS,
        Kind.LIMIT_RANGES,
        # Without them the default would hold for whom a policy switched off.
        Kind.POLICIES,
    }
)


def _moved(index: dict[str, set[str]], key: str, before: str, after: str) -> None:
    """Move a key from one entry of an index to another; the empty entry is none."""
    if before == after:
        return
    if before:
        index[before].discard(key)
        if not index[before]:
            del index[before]
    if after:
        index.setdefault(after, set()).add(key)
