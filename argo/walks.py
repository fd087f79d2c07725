"""The walk from a Workflow's entry point down to its tasks, with the status laid over the spec.

Nodes get the names that Argo's controller gives them, so what already exists is found by its name,
and what does not exist yet stands beside it in one DAG.  Source: workflow/controller of Argo v4.0.5
(dag.go, steps.go, operator.go, hooks.go, exit_handler.go).

This file is longer than most because the calls of one walk share one state.
"""

import bisect
import dataclasses

from tiphys.argo import dependencies, documents, expansions, nodes, parameters, templates
from tiphys.models.domain import errors, quantities, workflows

MOST_CALLS = 20_000
"""Calls of templates that are followed; then the rest is one unknown.  Bounds time and memory
against specs that call themselves without end or double at each level."""
DEEPEST = 100
"""Calls within calls, as Argo's own limit."""
MOST_UNKNOWNS = 50
_NO_STATUS: dict[int, str] = {}
_EXIT = "exit"

Ids = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """One call of a template: where it stands and what is already certain of it."""

    path: str
    """Name of its node without the name of the Workflow in front."""
    parents: Ids
    frame: parameters.Frame
    """Of the caller: its arguments are filled here."""
    scope: templates.Scope
    depth: int = 0
    count: int | None = 1
    conditional: bool = False
    exit_handler: bool = False
    over: bool = False
    """What is around it has ended: what has not begun never will."""


class Walk:
    """Collects tasks, parents first, and what is not known."""

    def __init__(
        self,
        *,
        workflow: str,
        entrypoint: str,
        found: nodes.Nodes,
        library: templates.Library,
        unknowns: list[str],
        retried: bool,
        parallelism: bool,
    ) -> None:
        self.tasks: list[workflows.Task] = []
        self._unknowns = unknowns
        self._workflow = workflow
        self._entrypoint = entrypoint
        self._nodes = found
        self._library = library
        self._retried = retried
        self._parallelism = parallelism
        self._facts: dict[int, templates.Facts] = {}
        self._stack: list[int] = []
        self._calls = 0
        self._ids: set[str] = set()
        self._named: set[str] = set()
        self._names: list[str] | None = None

    def call(self, step: documents.Document, at: _Call) -> Ids:
        """Follow what a step or task runs; returns the ids of the tasks that end it."""
        self._calls += 1 + len(at.parents) // 64
        if self._calls > MOST_CALLS or at.depth > DEEPEST:
            self._unknown(f"more than {MOST_CALLS} calls of templates, or {DEEPEST} within another")
            return at.parents
        node = self._nodes.by_name.get(self._workflow + at.path)
        if node and (node.state is workflows.TaskState.SKIPPED or node.cached):
            return (self._skipped(step, at, node),)
        name = documents.text(step, "name", at.path)
        found = self._library.find(step, at.scope, f"'{name or self._display(at.path)}'")
        if isinstance(found, str):
            return self._from_status(at, found)
        facts = self._facts.get(id(found.template))
        if facts is None:
            facts = self._facts[id(found.template)] = templates.facts(found.template, found.name)
        if node is None and id(found.template) in self._stack:
            if not at.over:
                self._unknown(f"template '{found.name}' calls itself, how often is not known")
            return (self._leaf(at, found, facts, stands_for=None),)
        frame = parameters.Frame(
            at.frame.run,
            caller=at.frame,
            inputs=facts.inputs,
            arguments=documents.mapping(step, "arguments", f"'{name}'"),
        )
        self._stack.append(id(found.template))
        if facts.retried or self._retried:
            ends = self._attempts(at, found, facts, frame, node)
        else:
            ends = self._body(at, found, facts, frame)
        self._stack.pop()
        return ends

    def with_hooks(self, step: documents.Document, at: _Call) -> Ids:
        """Follow a step or task together with its exit handler and its other hooks."""
        ends = self.call(step, at)
        hooks = documents.mapping(step, "hooks", at.path)
        on_exit = documents.text(step, "onExit", at.path)
        return ends + self.hooks(hooks, on_exit, at, ends) if hooks or on_exit else ends

    def hooks(
        self,
        hooks: documents.Document,
        on_exit: str,
        at: _Call,
        ends: Ids,
        *,
        arguments: documents.Document = documents.EMPTY,
    ) -> Ids:
        """Follow the hooks around the call `at`, which `ends` end; returns what ends the hooks.

        `arguments` are given to an exit handler that stands as a template's name only.
        """
        found: list[str] = []
        node = self._nodes.by_name.get(self._workflow + at.path)
        gone = at.over or (node is not None and node.state is workflows.TaskState.SKIPPED)
        for name in hooks:
            hook = documents.mapping(hooks, name, f"hooks of '{self._display(at.path)}'")
            if name == _EXIT or not hook:
                continue
            passed = gone or (node is not None and node.state.ended)
            path = f"{at.path}.hooks.{name}"
            found += self.call(
                hook, dataclasses.replace(at, path=path, conditional=True, over=passed)
            )
        last = documents.mapping(hooks, _EXIT, f"hooks of '{self._display(at.path)}'")
        if last or on_exit:
            maybe = bool(documents.text(last, "expression", "hooks.exit"))
            around = dataclasses.replace(
                at,
                path=f"{at.path}.onExit",
                parents=ends,
                conditional=at.conditional or maybe,
                exit_handler=True,
                over=gone,
            )
            found += self.call(last or {"template": on_exit, "arguments": arguments}, around)
        return tuple(found)

    def rest(self) -> None:
        """Add what exists in the status although nothing in the spec leads there."""
        for node in self._nodes.by_name.values():
            if node.type in nodes.LEAVES and node.name not in self._named:
                self._add_node(node, parents=(), exit_handler=False)

    def _body(
        self,
        at: _Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> Ids:
        if facts.type == "dag":
            return self._dag(at, found, facts, frame)
        if facts.type == "steps":
            return self._steps(at, found, facts, frame)
        if facts.kind is None:
            self._unknown(f"template '{found.name}' has no type that is known here")
            return self._from_status(at, "")
        return (self._leaf(at, found, facts, stands_for=at.count, frame=frame),)

    def _attempts(
        self,
        at: _Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
        node: nodes.Node | None,
    ) -> Ids:
        """Follow the attempts so far, each after the one before; the first if there is none yet."""
        if node and node.type != "Retry":  # a Skipped one, or made otherwise
            return self._body(at, found, facts, frame)
        attempt, ends = 0, at.parents
        over = at.over or (node is not None and node.state.ended)
        while True:
            path = f"{at.path}({attempt})"
            if attempt and self._workflow + path not in self._nodes.by_name:
                return ends
            frame.siblings = {}
            ends = self._body(
                dataclasses.replace(at, path=path, parents=ends, over=over), found, facts, frame
            )
            attempt += 1

    def _steps(
        self,
        at: _Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> Ids:
        where = f"template '{found.name}'.steps"
        over = self._over(at)
        ends = at.parents
        for place, group in enumerate(documents.items(found.template, "steps", where)):
            following: list[str] = []
            for step in documents.mappings({"steps": group}, "steps", f"{where}[{place}]"):
                name = documents.text(step, "name", where)
                path = f"{at.path}[{place}].{name}"
                call = dataclasses.replace(
                    at,
                    path=path,
                    parents=ends,
                    frame=frame,
                    scope=found.scope,
                    depth=at.depth + 1,
                    conditional=at.conditional or bool(step.get("when")),
                    over=over,
                )
                following += self._fanned(step, call, facts)
            # Only now: steps of one group do not see one another.
            for step in documents.mappings({"steps": group}, "steps", where):
                name = documents.text(step, "name", where)
                frame.siblings[name] = f"{self._workflow}{at.path}[{place}].{name}"
            ends = _distinct(following) if following else ends
        return ends

    def _dag(
        self,
        at: _Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> Ids:
        where = f"template '{found.name}'.dag"
        dag = documents.mapping(found.template, "dag", where)
        listed: dict[str, documents.Document] = {}
        choosing: set[str] = set()
        waits: dict[str, Ids] = {}
        for task in documents.mappings(dag, "tasks", where):
            name = documents.text(task, "name", where)
            listed[name] = task
            waits[name], chooses = self._waits(task, where)
            if chooses or task.get("when"):
                choosing.add(name)
            frame.siblings[name] = f"{self._workflow}{at.path}.{name}"
        for name, needs in waits.items():
            if absent := [need for need in needs if need not in listed]:
                self._unknown(
                    f"task '{name}' of '{found.name}' waits for '{absent[0]}': no such task"
                )
                waits[name] = tuple(need for need in needs if need in listed)
        if written := documents.text(dag, "target", where):
            target = parameters.fill(written, frame)
            if target is None:
                self._unknown(
                    f"which tasks of '{found.name}' are wanted is not known: {written:.80}"
                )
            else:
                wanted = _upwards(target.split(), waits)
                waits = {name: needs for name, needs in waits.items() if name in wanted}
        order, cyclic = dependencies.ordered(waits)
        if cyclic:
            self._unknown(f"tasks of '{found.name}' wait for one another: {', '.join(cyclic[:5])}")
        over = self._over(at)
        ends_of: dict[str, Ids] = {}
        inner = {need for needs in waits.values() for need in needs}
        for name, needs in order:
            call = dataclasses.replace(
                at,
                path=f"{at.path}.{name}",
                parents=_union([ends_of[need] for need in needs]) if needs else at.parents,
                frame=frame,
                scope=found.scope,
                depth=at.depth + 1,
                conditional=at.conditional or name in choosing,
                over=over,
            )
            ends_of[name] = tuple(self._fanned(listed[name], call, facts))
        ends = _union([ends_of[name] for name, _ in order if name not in inner])
        return ends or at.parents

    def _waits(self, task: documents.Document, where: str) -> tuple[Ids, bool]:
        if depends := documents.text(task, "depends", where):
            return dependencies.read(depends)
        return _distinct(
            [str(each) for each in documents.items(task, "dependencies", where)]
        ), False

    def _fanned(
        self, step: documents.Document, at: _Call, facts: templates.Facts
    ) -> list[str] | Ids:
        """Follow a step or task, or each element of its fan-out."""
        if not any(step.get(field) for field in expansions.FIELDS):
            return self.with_hooks(step, at)
        node = self._nodes.by_name.get(self._workflow + at.path)
        if node and node.state is workflows.TaskState.SKIPPED:
            return self.with_hooks(step, at)
        shown = self._display(at.path)
        fan = expansions.read(step, at.frame, f"'{shown}'")
        if fan is None:
            return self.with_hooks(step, at)
        begun = self._nodes.fans.get(self._workflow + at.path, _NO_STATUS)
        over = at.over or (node is not None and node.type == "TaskGroup" and node.state.ended)
        ends: list[str] = []
        shown_items = dict(enumerate(fan.items))
        for place in sorted({*shown_items, *begun}):
            item = shown_items.get(place)
            name = begun.get(place)
            path = (
                name[len(self._workflow) :]
                if name
                else f"{at.path}({place}:{expansions.label(item)})"
            )
            ends += self.with_hooks(
                step, dataclasses.replace(at, path=path, frame=at.frame.with_item(item), over=over)
            )
        if fan.width is not None and fan.width > len(shown_items):
            left = fan.width - len(begun)
            if left > 0:
                ends += self._for_all(step, at, left)
        # Argo makes all elements at once, unless a limit on parallel pods stops it half way.
        halted = not begun or facts.parallelism or self._parallelism
        if fan.width is None and halted and not over:
            self._unknown(f"how wide '{shown}' becomes is not known: {fan.why}")
            ends += self._for_all(step, at, None)
        return ends or at.parents

    def _for_all(self, step: documents.Document, at: _Call, count: int | None) -> Ids:
        """Follow one element that stands for `count` of them."""
        several = None if count is None or at.count is None else at.count * count
        return self.with_hooks(step, dataclasses.replace(at, path=f"{at.path}(*)", count=several))

    def _leaf(
        self,
        at: _Call,
        found: templates.Found,
        facts: templates.Facts,
        *,
        stands_for: int | None,
        frame: parameters.Frame | None = None,
    ) -> str:
        frame = frame or at.frame
        node = self._nodes.by_name.get(self._workflow + at.path)
        image = facts.image
        if "{{" in image:
            image = parameters.fill(image, frame) or ""
        cpu_m, memory_bytes = facts.requests.cpu_m, facts.requests.memory_bytes
        if facts.patch and (patch := parameters.fill(facts.patch, frame)):
            patched_m, patched_bytes = templates.patched(patch)
            cpu_m = cpu_m if patched_m is None else patched_m
            memory_bytes = memory_bytes if patched_bytes is None else patched_bytes
        state = workflows.TaskState.SKIPPED if at.over else workflows.TaskState.UNSTARTED
        started_at = ended_at = None
        if node:
            state = node.state
            self._named.add(node.name)
            started_at, ended_at = node.started_at, node.ended_at
        task_id = self._new_id(node.id if node else self._display(at.path))
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self._display(at.path),
                kind=facts.kind or workflows.TaskKind.POD,
                template=found.name,
                identity=workflows.Identity(
                    source=found.scope.source, template=found.name, image=image
                ),
                parents=at.parents,
                state=state,
                cpu_m=cpu_m if facts.kind is workflows.TaskKind.POD else 0,
                memory_bytes=memory_bytes if facts.kind is workflows.TaskKind.POD else 0,
                input_bytes=_input_bytes(facts, frame),
                count=stands_for,
                conditional=node is None and (at.conditional or facts.memoized),
                exit_handler=at.exit_handler,
                daemon=facts.daemon,
                started_at=started_at,
                ended_at=ended_at,
            )
        )
        return task_id

    def _skipped(self, step: documents.Document, at: _Call, node: nodes.Node) -> str:
        """Add a task for something that did not run, whatever would have been inside of it."""
        self._named.add(node.name)
        task_id = self._new_id(node.id)
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self._display(at.path),
                template=documents.text(step, "template", at.path),
                parents=at.parents,
                state=workflows.TaskState.SKIPPED,
                exit_handler=at.exit_handler,
                started_at=node.started_at,
                ended_at=node.ended_at,
            )
        )
        return task_id

    def _from_status(self, at: _Call, why: str) -> Ids:
        """Return what the status has below a call whose template is not known."""
        if why and not at.over:
            self._unknown(why)
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
        task_id = self._new_id(self._display(at.path))
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=task_id,
                parents=at.parents,
                state=workflows.TaskState.SKIPPED if at.over else workflows.TaskState.UNSTARTED,
                count=None,
                conditional=at.conditional,
                exit_handler=at.exit_handler,
            )
        )
        return (task_id,)

    def _add_node(self, node: nodes.Node, parents: Ids, *, exit_handler: bool) -> str:
        self._named.add(node.name)
        task_id = self._new_id(node.id)
        name = node.name.removeprefix(self._workflow)
        self.tasks.append(
            workflows.Task(
                id=task_id,
                name=self._display(name),
                kind=nodes.LEAVES[node.type],
                template=documents.text(node.written, "templateName", "status.nodes"),
                parents=parents,
                state=node.state,
                exit_handler=exit_handler or ".onExit" in name,
                started_at=node.started_at,
                ended_at=node.ended_at,
            )
        )
        return task_id

    def _over(self, at: _Call) -> bool:
        """Say whether nothing new begins inside of a call any more."""
        node = self._nodes.by_name.get(self._workflow + at.path)
        return at.over or (node is not None and node.state.ended)

    def _display(self, path: str) -> str:
        return self._entrypoint + path

    def _new_id(self, wanted: str) -> str:
        """Return `wanted`, made different where broken input gave it twice."""
        task_id = wanted
        while task_id in self._ids:
            task_id = f"{wanted}#{len(self._ids)}"
        self._ids.add(task_id)
        return task_id

    def _unknown(self, why: str) -> None:
        if why not in self._unknowns and len(self._unknowns) < MOST_UNKNOWNS:
            self._unknowns.append(why)


def begin(frame: parameters.Frame, scope: templates.Scope, *, over: bool) -> _Call:
    """Return the call of the entry point."""
    return _Call(path="", parents=(), frame=frame, scope=scope, over=over)


def _input_bytes(facts: templates.Facts, frame: parameters.Frame) -> int | None:
    """Return how much a task reads, if its template's annotation or its raw artifacts tell."""
    if facts.input_bytes:
        filled = parameters.fill(facts.input_bytes, frame)
        try:
            return None if filled is None else max(quantities.memory_bytes(filled), 0)
        except (quantities.QuantityError, errors.InputError):
            return None
    return facts.raw_bytes or None


def _upwards(targets: list[str], waits: dict[str, Ids]) -> set[str]:
    """Return the targets of a DAG and all that they wait for."""
    wanted: set[str] = set()
    ahead = [name for name in targets if name in waits]
    while ahead:
        name = ahead.pop()
        if name not in wanted:
            wanted.add(name)
            ahead += waits[name]
    return wanted


def _distinct(found: list[str]) -> Ids:
    return tuple(dict.fromkeys(found))


def _union(lists: list[Ids]) -> Ids:
    if len(lists) == 1:
        return lists[0]
    return tuple(dict.fromkeys(each for ids in lists for each in ids))
