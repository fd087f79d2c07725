"""Tasks as they are collected on the walk through a Workflow: parents first, each with its id."""

import bisect
import dataclasses

from tiphys.argo import documents, nodes, parameters, templates
from tiphys.models.domain import quantities, workflows

MOST_UNKNOWNS = 50
LONGEST_UNKNOWN = 500
LONGEST_ENTRYPOINT = 256
"""Characters of it in the names of tasks, each of which begins with it."""
LONGEST_IMAGE = 1024
"""Characters of an image; no registry has longer ones, and each task may keep another."""
Ids = tuple[str, ...]


@dataclasses.dataclass(slots=True)
class Call:
    """One call of a template: where it stands and what is already certain of it."""

    path: str
    """Name of its node without the name of the Workflow in front."""
    parents: Ids
    frame: parameters.Frame
    """Of the caller: arguments are filled here."""
    scope: templates.Scope
    """Where the caller's references by name are looked up."""
    depth: int = 0
    count: int | None = 1
    """How many calls this stands for, as in `Task.count`."""
    conditional: bool = False
    exit_handler: bool = False
    over: bool = False
    """What is around it has ended: what has not begun never will."""

    def at(self, path: str, parents: Ids, *, over: bool) -> "Call":
        """Return the same call elsewhere."""
        return Call(
            path,
            parents,
            self.frame,
            self.scope,
            self.depth,
            self.count,
            self.conditional,
            self.exit_handler,
            over,
        )


class Collection:
    """The tasks of one Workflow so far, and what is not known of it."""

    def __init__(
        self, *, workflow: str, entrypoint: str, found: nodes.Nodes, unknowns: list[str]
    ) -> None:
        self.tasks: list[workflows.Task] = []
        self._workflow = workflow
        self._entrypoint = entrypoint[:LONGEST_ENTRYPOINT]
        self._nodes = found
        self._unknowns = unknowns
        self._ids: set[str] = set()
        self._named: set[str] = set()
        self._names: list[str] | None = None
        self._identities: dict[tuple[str, str, str], workflows.Identity] = {}

    def node(self, path: str) -> nodes.Node | None:
        """Return the node of the status at a path, if there is one."""
        return self._nodes.by_name.get(self._workflow + path)

    def name(self, path: str) -> str:
        """Return the name of the node at a path."""
        return self._workflow + path

    def elements(self, path: str) -> dict[int, str]:
        """Return the paths of the elements of a fan-out that exist, by index."""
        names = self._nodes.fans.get(self._workflow + path)
        if not names:
            return {}
        return {place: name[len(self._workflow) :] for place, name in names.items()}

    def display(self, path: str) -> str:
        """Return the path from the entry point, which outlives generated names."""
        return self._entrypoint + path

    def unknown(self, why: str) -> None:
        """Name something that is not known; once, and not without end."""
        why = why[:LONGEST_UNKNOWN]
        if why not in self._unknowns and len(self._unknowns) < MOST_UNKNOWNS:
            self._unknowns.append(why)

    def add(
        self,
        at: Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
        *,
        count: int | None,
    ) -> str:
        """Add the task that a call comes to; returns its id."""
        node = self.node(at.path)
        cpu_m, memory_bytes = _asked(facts, frame)
        image = facts.image if len(facts.image) <= LONGEST_IMAGE else ""
        if "{{" in image:
            image = parameters.fill(image, frame) or ""
            image = image if len(image) <= LONGEST_IMAGE else ""
        task_id = self._new_id(node.id if node else self.display(at.path))
        state = workflows.TaskState.SKIPPED if at.over else workflows.TaskState.UNSTARTED
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self.display(at.path),
                kind=facts.kind or workflows.TaskKind.POD,
                template=found.name,
                identity=self._identity(found.scope.source, found.name, image),
                parents=at.parents,
                state=node.state if node else state,
                cpu_m=cpu_m,
                memory_bytes=memory_bytes,
                input_bytes=_input_bytes(facts, frame),
                count=count,
                conditional=node is None and (at.conditional or facts.memoized),
                exit_handler=at.exit_handler,
                daemon=facts.daemon,
                started_at=node.started_at if node else None,
                ended_at=node.ended_at if node else None,
            )
        )
        if node:
            self._named.add(node.name)
        return task_id

    def add_skipped(self, at: Call, node: nodes.Node, template: str) -> str:
        """Add one task for what did not run, whatever would have been inside of it."""
        task_id = self._new_id(node.id)
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self.display(at.path),
                template=template,
                parents=at.parents,
                state=workflows.TaskState.SKIPPED,
                exit_handler=at.exit_handler,
                started_at=node.started_at,
                ended_at=node.ended_at,
            )
        )
        self._named.add(node.name)
        return task_id

    def add_unseen(self, at: Call) -> Ids:
        """Add what the status has below a call whose template is not known; at least one task."""
        if self._names is None:
            self._names = sorted(self._nodes.by_name)
        name = self._workflow + at.path
        ends = []
        for below in self._names[bisect.bisect_left(self._names, name) :]:
            if not below.startswith(name):
                break
            node = self._nodes.by_name[below]
            inside = below == name or below[len(name)] in ".[("
            if inside and node.type in nodes.LEAVES and below not in self._named:
                ends.append(self._add_node(node, at.parents, exit_handler=at.exit_handler))
        if ends:
            return tuple(ends)
        task_id = self._new_id(self.display(at.path))
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self.display(at.path),
                parents=at.parents,
                state=workflows.TaskState.SKIPPED if at.over else workflows.TaskState.UNSTARTED,
                count=None,
                conditional=at.conditional,
                exit_handler=at.exit_handler,
            )
        )
        return (task_id,)

    def add_rest(self) -> None:
        """Add what exists in the status although nothing in the spec leads there."""
        for node in self._nodes.by_name.values():
            if node.type in nodes.LEAVES and node.name not in self._named:
                self._add_node(node, (), exit_handler=False)

    def _add_node(self, node: nodes.Node, parents: Ids, *, exit_handler: bool) -> str:
        task_id = self._new_id(node.id)
        path = node.name.removeprefix(self._workflow)
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self.display(path),
                kind=nodes.LEAVES[node.type],
                template=documents.text(node.written, "templateName", "status.nodes"),
                parents=parents,
                state=node.state,
                exit_handler=exit_handler or ".onExit" in path,
                started_at=node.started_at,
                ended_at=node.ended_at,
            )
        )
        self._named.add(node.name)
        return task_id

    def _identity(self, source: str, template: str, image: str) -> workflows.Identity:
        """Return one object for all tasks that share an identity."""
        found = self._identities.get((source, template, image))
        if found is None:
            found = workflows.Identity(source=source, template=template, image=image)
            self._identities[source, template, image] = found
        return found

    def _new_id(self, wanted: str) -> str:
        """Return `wanted`, made different where broken input gave it twice."""
        task_id = wanted
        while task_id in self._ids:
            task_id = f"{wanted}#{len(self._ids)}"
        self._ids.add(task_id)
        return task_id


def _asked(facts: templates.Facts, frame: parameters.Frame) -> tuple[int, int]:
    """Return millicores and bytes of a task's pod, as far as its template tells."""
    if facts.kind is not workflows.TaskKind.POD:
        return 0, 0
    cpu_m, memory_bytes = facts.requests.cpu_m, facts.requests.memory_bytes
    short = facts.patch if len(facts.patch) <= templates.LONGEST_PATCH else ""
    if short and (patch := parameters.fill(short, frame)):
        patched_m, patched_bytes = templates.patched(patch)
        cpu_m = cpu_m if patched_m is None else patched_m
        memory_bytes = memory_bytes if patched_bytes is None else patched_bytes
    return cpu_m, memory_bytes


def _input_bytes(facts: templates.Facts, frame: parameters.Frame) -> int | None:
    """Return how much a task reads, if its template's annotation or its raw artifacts tell."""
    if facts.input_bytes:
        filled = parameters.fill(facts.input_bytes, frame)
        try:
            return None if filled is None else max(quantities.memory_bytes(filled), 0)
        except quantities.QuantityError:
            return None
    return facts.raw_bytes or None
