"""What Argo makes of a Workflow with DAG templates: node names, templates and who waits for whom.

Written from Argo's naming rules, without looking at the plan: a task of a DAG is `BOUNDARY.TASK`, a
round of a loop `TASK(INDEX:ITEM)`. `lists` answers for `withParam`.
"""

import json
import re
from collections.abc import Callable
from typing import Any

Object = dict[str, Any]


def expanded(
    workflow: Object, *, lists: Callable[[str], str] = lambda expression: "[]"
) -> dict[str, tuple[str, frozenset[str]]]:
    """Return, by node name below the workflow, the template of each pod and the pods before it."""
    templates = {template["name"]: template for template in workflow["spec"]["templates"]}
    return _dag(templates[workflow["spec"]["entrypoint"]], templates, "", frozenset(), lists)


def _dag(
    template: Object,
    templates: dict[str, Object],
    boundary: str,
    before: frozenset[str],
    lists: Callable[[str], str],
) -> dict[str, tuple[str, frozenset[str]]]:
    """Expand one DAG; `before` are the pods that must end before it starts."""
    tasks = {task["name"]: task for task in template["dag"]["tasks"]}
    nodes: dict[str, tuple[str, frozenset[str]]] = {}
    last: dict[str, frozenset[str]] = {}

    def visit(name: str) -> None:
        if name in last:
            return
        task = tasks[name]
        needed = task.get("dependencies") or re.split(r" && ", task.get("depends", ""))
        waits = set()
        for other in filter(None, needed):
            visit(other)
            waits |= last[other]
        first = frozenset(waits) or before
        items = task.get("withItems")
        if "withParam" in task:
            items = json.loads(lists(task["withParam"]))
        rounds = [f"({number}:{item})" for number, item in enumerate(items)] if items else [""]
        ends: set[str] = set()
        for suffix in rounds:
            path = f"{boundary}{name}{suffix}"
            called = templates[task["template"]]
            if "dag" in called:
                inner = _dag(called, templates, f"{path}.", first, lists)
                nodes.update(inner)
                waited_for = {other for _, others in inner.values() for other in others}
                ends |= inner.keys() - waited_for
            else:
                nodes[path] = (task["template"], first)
                ends.add(path)
        last[name] = frozenset(ends)

    for name in tasks:
        visit(name)
    return nodes
