"""Workflows as DAGs of tasks, from what is written and from what has happened so far."""

import dataclasses
import enum


class TaskKind(enum.StrEnum):
    """What runs when a task's turn comes."""

    POD = "pod"
    SUSPEND = "suspend"
    AGENT = "agent"
    """An http or plugin template: done by the workflow's one agent pod."""


class TaskState(enum.StrEnum):
    """Where a task stands."""

    UNSTARTED = "unstarted"
    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def ended(self) -> bool:
        """Say whether nothing more will happen to it."""
        return self in (TaskState.SUCCEEDED, TaskState.FAILED, TaskState.SKIPPED)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What makes two tasks "the same" over runs: never a generated name."""

    source: str
    """`wftmpl/NAMESPACE/NAME`, `cwftmpl/NAME`, or `spec/DIGEST` of the written spec."""
    template: str
    image: str = ""
    """Image with its digest or tag; empty when no container runs."""

    def __str__(self) -> str:
        """Return the text that stores and metrics use as key."""
        return f"{self.source}#{self.template}@{self.image}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One leaf of a workflow that will run, runs or ran."""

    id: str
    """Argo's node id once it exists, else the path from the entry point."""
    name: str
    """Display path: `main.align(3)`."""
    kind: TaskKind = TaskKind.POD
    template: str = ""
    identity: Identity | None = None
    parents: tuple[str, ...] = ()
    """Ids of the tasks that must end first."""
    state: TaskState = TaskState.UNSTARTED
    cpu_m: int = 0
    """Requested millicores of its pod; 0 when not visible yet."""
    memory_bytes: int = 0
    input_bytes: int | None = None
    """Size of its inputs when something visible tells it; None = not known."""
    count: int | None = 1
    """How many tasks this stands for: 1 = itself, None = a fan-out whose width is not known yet."""
    conditional: bool = False
    """A `when` or `depends` may skip it."""
    exit_handler: bool = False
    daemon: bool = False
    started_at: float | None = None
    ended_at: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """One run: its tasks in an order in which parents come first."""

    namespace: str
    name: str
    uid: str
    tasks: tuple[Task, ...] = ()
    unknowns: tuple[str, ...] = ()
    """In words, what the spec does not tell yet: `withParam of 'fan' waits for 'list'`."""
    priority: int = 0
    created_at: float = 0.0
    deadline_at: float | None = None
    """From the annotation `tiphys.dev/deadline`, counted from creation."""
    ends_by_at: float | None = None
    """When Argo itself will stop it: activeDeadlineSeconds."""
    suspended: bool = False
    shutting_down: bool = False
    ended: bool = False
    locks: tuple[str, ...] = ()
    """Mutexes and semaphores that it holds, by Argo's name."""
    waits_for: tuple[str, ...] = ()
    """Mutexes and semaphores that it waits for."""
    source: str = ""
    """As in `Identity.source`."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def children(self) -> dict[str, tuple[str, ...]]:
        """Return for each task's id the ids of those that wait for it."""
        found: dict[str, list[str]] = {task.id: [] for task in self.tasks}
        for task in self.tasks:
            for parent in task.parents:
                found.setdefault(parent, []).append(task.id)
        return {name: tuple(children) for name, children in found.items()}
