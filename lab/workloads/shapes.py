"""From the graph of a trace to the DAG that a person would have written for it.

A person writes one template per program, a loop where siblings are equal, and a nested DAG where
each round of the loop is a chain. The dependencies stay exactly those of the trace: a loop is only
formed where all its rounds have the same parents and the same children.
"""

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from lab.workloads import plans, traces

ROOT = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """DAG templates, and where each task of the trace ends up."""

    graphs: tuple[plans.Graph, ...]
    paths: tuple[str, ...]
    """Node name below the workflow of each task, in the order of the trace."""
    templates: tuple[str, ...]
    """Program template of each task."""
    listed: dict[int, tuple[str, ...]]
    """Tasks that list the items of a loop, and the items: their output `items`."""


def slug(program: str) -> str:
    """Return a template name: `SAMTOOLS_SORT` is `samtools-sort`.

    A name without any letter that Kubernetes knows is `task`; `main` is the entrypoint's, not a
    program's.
    """
    split = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "-", program)
    name = re.sub(r"[^a-z0-9]+", "-", split.lower()).strip("-")[:40].strip("-")
    return "main-task" if name == ROOT else name or "task"


def shaped(tasks: Sequence[traces.TraceTask], *, word: str, lists_items: bool) -> Shape:
    """Return the DAG of the tasks; `word` names what differs between equal ones (`sample`).

    With `lists_items` a loop whose rounds all wait for one task alone takes its items from that
    task's output, as people do who split their input at run time.
    """
    chains = _chains(tasks)
    children = _children(tasks)
    loops = _loops(chains, tasks, children)
    return _written(chains, loops, tasks=tasks, word=word, lists_items=lists_items)


def _children(tasks: Sequence[traces.TraceTask]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in tasks]
    for index, task in enumerate(tasks):
        for parent in task.parents:
            children[parent].append(index)
    return children


def _chains(tasks: Sequence[traces.TraceTask]) -> list[tuple[int, ...]]:
    """Return the tasks as chains: a link where an only child has an only parent."""
    children = _children(tasks)
    follows = {
        index: children[index][0]
        for index in range(len(tasks))
        if len(children[index]) == 1 and len(tasks[children[index][0]].parents) == 1
    }
    heads = [index for index in range(len(tasks)) if index not in set(follows.values())]
    chains = []
    for head in heads:
        chain = [head]
        while chain[-1] in follows:
            chain.append(follows[chain[-1]])
        chains.append(tuple(chain))
    return chains


def _loops(
    chains: Sequence[tuple[int, ...]],
    tasks: Sequence[traces.TraceTask],
    children: Sequence[Sequence[int]],
) -> list[list[int]]:
    """Return the chains (by place) grouped into loops; a loop of one is no loop."""
    alike: defaultdict[object, list[int]] = defaultdict(list)
    for place, chain in enumerate(chains):
        programs = tuple((tasks[index].program, tasks[index].part) for index in chain)
        signature = (programs, tasks[chain[0]].parents, tuple(children[chain[-1]]))
        alike[signature].append(place)
    return sorted(alike.values())


def _written(
    chains: Sequence[tuple[int, ...]],
    loops: Sequence[Sequence[int]],
    *,
    tasks: Sequence[traces.TraceTask],
    word: str,
    lists_items: bool,
) -> Shape:
    paths = [""] * len(tasks)
    templates = [slug(task.program) for task in tasks]
    names = _Names({*templates, ROOT})
    drafts: list[tuple[plans.Step, list[int]]] = []
    """(step without dependencies, tasks that it waits for)."""
    graphs: list[plans.Graph] = []
    numbers: defaultdict[str, int] = defaultdict(int)
    for loop in loops:
        chain = chains[loop[0]]
        waits = list(tasks[chain[0]].parents)
        if len(loop) > 1:
            items = tuple(f"{word}-{number:02d}" for number in range(len(loop)))
            template = templates[chain[0]]
            below: tuple[str, ...] = ("",)
            if len(chain) > 1:
                below = _unique([templates[index] for index in chain])
                template = names.template(f"{templates[chain[0]]}-to-{templates[chain[-1]]}")
                graphs.append(_lane(template, chain, below, templates=templates, word=word))
                below = tuple(f".{name}" for name in below)
            step = names.step(templates[chain[0]] if len(chain) == 1 else f"each-{word}")
            for number, place in enumerate(loop):
                for index, end in zip(chains[place], below, strict=True):
                    paths[index] = f"{step}({number}:{items[number]}){end}"
            draft = plans.Step(
                name=step, template=template, items=items, arguments=((word, "{{item}}"),)
            )
            drafts.append((draft, waits))
            continue
        for position, index in enumerate(chain):
            step = names.step(templates[index])
            numbers[templates[index]] += 1
            paths[index] = step
            value = f"{word}-{numbers[templates[index]] - 1:02d}"
            draft = plans.Step(name=step, template=templates[index], arguments=((word, value),))
            drafts.append((draft, [chain[position - 1]] if position else waits))
    listed: dict[int, tuple[str, ...]] = {}
    steps = []
    for draft, waits in drafts:
        needed = _unique_in_order([_step_name(index, paths) for index in waits])
        items_from = None
        if lists_items and draft.items and len(waits) == 1 and "(" not in paths[waits[0]]:
            if waits[0] not in listed:
                listed[waits[0]] = draft.items
            if listed[waits[0]] == draft.items:
                items_from = (needed[0], "items")
        steps.append(
            plans.Step(
                name=draft.name,
                template=draft.template,
                dependencies=needed,
                arguments=draft.arguments,
                items=draft.items,
                items_from=items_from,
            )
        )
    root = plans.Graph(name=ROOT, steps=tuple(steps))
    return Shape(
        graphs=(root, *graphs), paths=tuple(paths), templates=tuple(templates), listed=listed
    )


def _lane(
    name: str,
    chain: Sequence[int],
    below: Sequence[str],
    *,
    templates: Sequence[str],
    word: str,
) -> plans.Graph:
    """Return the nested DAG of one round: its programs one after the other."""
    steps = tuple(
        plans.Step(
            name=step,
            template=templates[index],
            dependencies=(below[position - 1],) if position else (),
            arguments=((word, f"{{{{inputs.parameters.{word}}}}}"),),
        )
        for position, (index, step) in enumerate(zip(chain, below, strict=True))
    )
    return plans.Graph(name=name, steps=steps, parameters=(word,))


def _step_name(index: int, paths: Sequence[str]) -> str:
    """Return the step of the root graph that a task lies in."""
    return re.split(r"[(.]", paths[index], maxsplit=1)[0]


def _unique(wanted: Sequence[str]) -> tuple[str, ...]:
    seen: defaultdict[str, int] = defaultdict(int)
    found = []
    for name in wanted:
        seen[name] += 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return tuple(found)


def _unique_in_order(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


class _Names:
    """Hands out names of steps and templates, each once."""

    def __init__(self, templates: set[str]) -> None:
        self._templates = set(templates)
        self._steps: set[str] = set()

    def step(self, wanted: str) -> str:
        return _taken(wanted, self._steps)

    def template(self, wanted: str) -> str:
        return _taken(wanted, self._templates)


def _taken(wanted: str, taken: set[str]) -> str:
    """Return the name, with a number where it is taken, and take it."""
    name, count = wanted, 1
    while name in taken:
        count += 1
        name = f"{wanted}-{count}"
    taken.add(name)
    return name


def items_json(items: Sequence[str]) -> str:
    """Return items as the output parameter that Argo's `withParam` reads."""
    return json.dumps(list(items))
