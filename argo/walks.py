"""The walk from a Workflow's entry point down to its tasks, with the status laid over the spec.

Nodes get the names that Argo's controller gives them, so what already exists is found by its name,
and what does not exist yet stands beside it in one DAG.  Source: workflow/controller of Argo v4.0.5
(dag.go, steps.go, operator.go, hooks.go, exit_handler.go).
"""

from tiphys.argo import dependencies, documents, expansions, parameters, tasks, templates
from tiphys.models.domain import workflows

MOST_CALLS = 20_000
"""Calls of templates that are followed; then the rest is one unknown.  Bounds time and memory
against specs that call themselves without end or double at each level."""
DEEPEST = 100
"""Calls within calls, as Argo's own limit."""
LONGEST_PATH = 4096
"""Characters of a node's name; what stands deeper is not followed.  Nobody checks the names in a
spec before Argo does, and each task keeps its own."""
_LONG_PATH = 256
MOST_COUNT = 10**9
"""What one task stands for at most: fan-outs in fan-outs multiply beyond any float."""
_EXIT = "exit"
_GROUP = "TaskGroup"
_RETRY = "Retry"


class Walk:
    """Follows calls of templates and collects the tasks that they come to."""

    def __init__(
        self,
        collection: tasks.Collection,
        library: templates.Library,
        *,
        retried: bool,
        parallelism: bool,
    ) -> None:
        self._collection = collection
        self._library = library
        self._retried = retried
        """Whether the Workflow has a retry strategy, which then holds for all templates."""
        self._parallelism = parallelism
        self._facts: dict[int, templates.Facts] = {}
        self._stack: list[int] = []
        self._calls = 0

    def call(self, step: documents.Document, at: tasks.Call) -> tasks.Ids:
        """Follow what a step or task runs; returns the ids of the tasks that end it."""
        collection = self._collection
        self._calls += 1 + len(at.parents) // 64 + len(at.path) // _LONG_PATH
        if self._calls > MOST_CALLS or at.depth > DEEPEST or len(at.path) > LONGEST_PATH:
            collection.unknown(
                f"more than {MOST_CALLS} calls of templates, {DEEPEST} within another, or names "
                f"of more than {LONGEST_PATH} characters"
            )
            return at.parents
        node = collection.node(at.path)
        if node and (node.state is workflows.TaskState.SKIPPED or node.cached):
            return (collection.add_skipped(at, node, documents.text(step, "template", at.path)),)
        name = documents.text(step, "name", at.path)
        found = self._library.find(step, at.scope, f"'{name or collection.display(at.path)}'")
        if isinstance(found, str):
            if not at.over:
                collection.unknown(found)
            return collection.add_unseen(at)
        template_id = id(found.template)
        facts = self._facts.get(template_id)
        if facts is None:
            facts = self._facts[template_id] = templates.facts(found.template, found.name)
        if node is None and template_id in self._stack:
            if not at.over:
                collection.unknown(f"template '{found.name}' calls itself, how often is not known")
            return (collection.add(at, found, facts, at.frame, count=None),)
        frame = parameters.Frame(
            at.frame.run,
            caller=at.frame,
            inputs=facts.inputs,
            arguments=documents.mapping(step, "arguments", f"'{name}'"),
        )
        self._stack.append(template_id)
        # What exists without a retry node was made before the strategy, or could not be made.
        if (facts.retried or self._retried) and (node is None or node.type == _RETRY):
            ended = node is not None and node.state.ended
            ends = self._attempts(at, found, facts, frame, over=at.over or ended)
        else:
            ends = self._body(at, found, facts, frame)
        self._stack.pop()
        return ends

    def with_hooks(self, step: documents.Document, at: tasks.Call) -> tasks.Ids:
        """Follow a step or task together with its exit handler and its other hooks."""
        ends = self.call(step, at)
        hooks = documents.mapping(step, "hooks", at.path)
        on_exit = documents.text(step, "onExit", at.path)
        return ends + self.hooks(hooks, on_exit, at, ends) if hooks or on_exit else ends

    def hooks(
        self,
        hooks: documents.Document,
        on_exit: str,
        at: tasks.Call,
        ends: tasks.Ids,
        *,
        arguments: documents.Document = documents.EMPTY,
    ) -> tasks.Ids:
        """Follow the hooks around the call `at`, which `ends` end; returns what ends the hooks.

        `arguments` are given to an exit handler that stands as a template's name only.
        """
        found: list[str] = []
        where = f"hooks of '{self._collection.display(at.path)}'"
        node = self._collection.node(at.path)
        gone = at.over or (node is not None and node.state is workflows.TaskState.SKIPPED)
        passed = gone or (node is not None and node.state.ended)
        for name in hooks:
            hook = documents.mapping(hooks, name, where)
            if name != _EXIT and hook:
                beside = at.at(f"{at.path}.hooks.{name}", at.parents, over=passed)
                beside.conditional = True
                found += self.call(hook, beside)
        last = documents.mapping(hooks, _EXIT, where)
        if last or on_exit:
            after = at.at(f"{at.path}.onExit", ends, over=gone)
            after.conditional = at.conditional or bool(documents.text(last, "expression", where))
            after.exit_handler = True
            found += self.call(last or {"template": on_exit, "arguments": arguments}, after)
        return tuple(found)

    def _body(
        self,
        at: tasks.Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> tasks.Ids:
        if facts.type == "dag":
            return self._dag(at, found, facts, frame)
        if facts.type == "steps":
            return self._steps(at, found, facts, frame)
        if facts.kind is None:
            self._collection.unknown(f"template '{found.name}' has no type that is known here")
            return self._collection.add_unseen(at)
        return (self._collection.add(at, found, facts, frame, count=at.count),)

    def _attempts(
        self,
        at: tasks.Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
        *,
        over: bool,
    ) -> tasks.Ids:
        """Follow the attempts so far, each after the one before; the first if there is none yet."""
        attempt, ends = 0, at.parents
        while True:
            path = f"{at.path}({attempt})"
            if attempt and self._collection.node(path) is None:
                return ends
            frame.siblings = {}
            ends = self._body(at.at(path, ends, over=over), found, facts, frame)
            attempt += 1

    def _steps(
        self,
        at: tasks.Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> tasks.Ids:
        where = f"template '{found.name}'.steps"
        over = self._over(at)
        ends = at.parents
        for place, written in enumerate(documents.items(found.template, "steps", where)):
            group = documents.mappings({"group": written}, "group", f"{where}[{place}]")
            following: list[str] = []
            made: dict[str, str] = {}
            for step in group:
                if self._calls > MOST_CALLS:
                    break
                name = documents.text(step, "name", where)
                path = f"{at.path}[{place}].{name}"
                maybe = at.conditional or bool(step.get("when"))
                following += self._fanned(
                    step, self._inside(at, path, ends, frame, found, maybe=maybe, over=over), facts
                )
                made[name] = self._collection.name(path)
            frame.siblings |= made  # only now: steps of one group do not see one another
            ends = _distinct(following) if following else ends
        return ends

    def _dag(
        self,
        at: tasks.Call,
        found: templates.Found,
        facts: templates.Facts,
        frame: parameters.Frame,
    ) -> tasks.Ids:
        where = f"template '{found.name}'.dag"
        dag = documents.mapping(found.template, "dag", where)
        listed: dict[str, documents.Document] = {}
        choosing: set[str] = set()
        waits: dict[str, tasks.Ids] = {}
        for task in documents.mappings(dag, "tasks", where):
            name = documents.text(task, "name", where)
            listed[name] = task
            waits[name], chooses = _waits(task, where)
            if chooses or task.get("when"):
                choosing.add(name)
            frame.siblings[name] = self._collection.name(f"{at.path}.{name}")
        order = self._ordered(found.name, waits, documents.text(dag, "target", where), frame)
        over = self._over(at)
        ends_of: dict[str, tasks.Ids] = {}
        inner: set[str] = set()
        for name, needs in order:
            if self._calls > MOST_CALLS:
                break
            parents = _union([ends_of[need] for need in needs]) if needs else at.parents
            inner.update(needs)
            maybe = at.conditional or name in choosing
            path = f"{at.path}.{name}"
            ends_of[name] = self._fanned(
                listed[name],
                self._inside(at, path, parents, frame, found, maybe=maybe, over=over),
                facts,
            )
        ends = _union([ends for name, ends in ends_of.items() if name not in inner])
        return ends or at.parents

    def _ordered(
        self, template: str, waits: dict[str, tasks.Ids], written: str, frame: parameters.Frame
    ) -> list[tuple[str, tasks.Ids]]:
        """Return the tasks of a DAG that will run with what they wait for, parents first."""
        for name, needs in waits.items():
            if absent := [need for need in needs if need not in waits]:
                self._collection.unknown(
                    f"task '{name}' of '{template}' waits for '{absent[0]}': no such task"
                )
                waits[name] = tuple(need for need in needs if need in waits)
        target = parameters.fill(written, frame)
        if target is None:
            self._collection.unknown(
                f"which tasks of '{template}' are wanted is not known: {written:.80}"
            )
        elif target:
            wanted = _upwards(target.split(), waits)
            waits = {name: needs for name, needs in waits.items() if name in wanted}
        order, cyclic = dependencies.ordered(waits)
        if cyclic:
            self._collection.unknown(
                f"tasks of '{template}' wait for one another: {', '.join(cyclic[:5])}"
            )
        return order

    def _fanned(
        self, step: documents.Document, at: tasks.Call, around: templates.Facts
    ) -> tasks.Ids:
        """Follow a step or task, or each element of its fan-out; `around` is of its template."""
        if not any(step.get(field) for field in expansions.FIELDS):
            return self.with_hooks(step, at)
        node = self._collection.node(at.path)
        if node and node.state is workflows.TaskState.SKIPPED:
            return self.with_hooks(step, at)
        shown = self._collection.display(at.path)
        fan = expansions.read(step, at.frame, f"'{shown}'")
        if fan is None:
            return self.with_hooks(step, at)
        begun = self._collection.elements(at.path)
        over = at.over or (node is not None and node.type == _GROUP and node.state.ended)
        ends: list[str] = []
        known = dict(enumerate(fan.items))
        for place in sorted({*known, *begun}):
            if self._calls > MOST_CALLS:
                break
            item = known.get(place)
            path = begun.get(place) or f"{at.path}({place}:{expansions.label(item)})"
            element = at.at(path, at.parents, over=over)
            element.frame = at.frame.with_item(item)
            ends += self.with_hooks(step, element)
        # Argo makes all elements at once, unless a limit on parallel pods stops it half way.
        halted = not begun or around.parallelism or self._parallelism
        if fan.width is None and halted and not over:
            self._collection.unknown(f"how wide '{shown}' becomes is not known: {fan.why}")
            ends += self._for_all(step, at, None)
        elif fan.width is not None and fan.width > len(known) and fan.width > len(begun):
            ends += self._for_all(step, at, fan.width - len(begun))
        return _distinct(ends) or at.parents

    def _for_all(self, step: documents.Document, at: tasks.Call, count: int | None) -> tasks.Ids:
        """Follow one element that stands for `count` of them."""
        element = at.at(f"{at.path}(*)", at.parents, over=at.over)
        several = None if count is None or at.count is None else at.count * count
        element.count = None if several is None else min(several, MOST_COUNT)
        return self.with_hooks(step, element)

    def _inside(
        self,
        at: tasks.Call,
        path: str,
        parents: tasks.Ids,
        frame: parameters.Frame,
        found: templates.Found,
        *,
        maybe: bool,
        over: bool,
    ) -> tasks.Call:
        """Return the call of a step or task inside of the call `at` of its template."""
        return tasks.Call(
            path,
            parents,
            frame,
            found.scope,
            at.depth + 1,
            at.count,
            maybe,
            at.exit_handler,
            over,
        )

    def _over(self, at: tasks.Call) -> bool:
        """Say whether nothing new begins inside of a call any more."""
        node = self._collection.node(at.path)
        return at.over or (node is not None and node.state.ended)


def _waits(task: documents.Document, where: str) -> tuple[tasks.Ids, bool]:
    """Return what a task waits for, and whether that may leave it out."""
    if depends := documents.text(task, "depends", where):
        return dependencies.read(depends)
    listed = documents.items(task, "dependencies", where)
    return _distinct([str(each) for each in listed]), False


def _upwards(targets: list[str], waits: dict[str, tasks.Ids]) -> set[str]:
    """Return the targets of a DAG and all that they wait for."""
    wanted: set[str] = set()
    ahead = [name for name in targets if name in waits]
    while ahead:
        name = ahead.pop()
        if name not in wanted:
            wanted.add(name)
            ahead += waits[name]
    return wanted


def _distinct(found: list[str]) -> tasks.Ids:
    return tuple(dict.fromkeys(found))


def _union(lists: list[tasks.Ids]) -> tasks.Ids:
    """Return all ids once; one list stays the same object, so that wide stages share theirs."""
    if len(lists) == 1:
        return lists[0]
    return tuple(dict.fromkeys(each for ids in lists for each in ids))
