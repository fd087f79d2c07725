"""Values behind `{{…}}` as far as spec and status tell them; nothing is ever guessed.

A frame is one call of a template: its inputs lead to the arguments of its caller, and so on to the
Workflow.  Values are looked up when somebody asks, since most are never needed.
"""

import json
from collections.abc import Mapping

from tiphys.argo import documents, nodes

_DEEPEST = 40
"""Values that lead to values; Argo itself replaces once per call."""
LONGEST_TEXT = 1 << 20
MOST_EFFORT = 500_000
"""Tags that are replaced for one Workflow, long values and lists counting for more; then the rest
is not known.  A dozen parameters that each name the next one twice would otherwise never end."""
_LONG_TEXT = 1024
_LONG_VALUE = 128
_LONG_LIST = 16


class Frame:
    """What `{{…}}` means in one call of a template."""

    __slots__ = ("arguments", "caller", "inputs", "item", "run", "siblings")

    def __init__(
        self,
        run: "Run",
        *,
        caller: "Frame | None" = None,
        inputs: documents.Document = documents.EMPTY,
        arguments: documents.Document = documents.EMPTY,
        item: object = None,
    ) -> None:
        self.run = run
        self.caller = caller
        self.inputs = inputs
        self.arguments = arguments
        self.item = item
        """The element of a fan-out that the text stands in; None outside of one."""
        self.siblings: dict[str, str] = {}
        """Tasks or steps of this template by name, with the names of their nodes."""

    def with_item(self, item: object) -> "Frame":
        """Return the same frame inside of a fan-out."""
        frame = Frame(
            self.run,
            caller=self.caller,
            inputs=self.inputs,
            arguments=self.arguments,
            item=item,
        )
        frame.siblings = self.siblings
        return frame


class Run:
    """What is the same for all frames of a Workflow."""

    __slots__ = ("arguments", "effort", "gathered", "nodes", "outputs", "plain")

    def __init__(
        self,
        found: nodes.Nodes,
        *,
        arguments: documents.Document,
        outputs: documents.Document,
        plain: Mapping[str, str],
    ) -> None:
        self.nodes = found
        self.arguments = arguments
        self.outputs = outputs
        self.plain = plain
        """Values such as `workflow.name`."""
        self.effort = 0
        """As `MOST_EFFORT` counts."""
        self.gathered: dict[tuple[str, str], str | None] = {}
        """Outputs of fan-outs that were asked for, by node and what of them."""


def fill(text: str, frame: Frame, depth: int = 0) -> str | None:
    """Return `text` with every `{{…}}` replaced; None if one of them is not known."""
    run = frame.run
    run.effort += len(text) // _LONG_TEXT
    if run.effort > MOST_EFFORT:
        return None
    if "{{" not in text:
        return text
    parts: list[str] = []
    end = length = 0
    while (begin := text.find("{{", end)) >= 0 and (close := text.find("}}", begin + 2)) >= 0:
        run.effort += 1
        if run.effort > MOST_EFFORT:
            return None
        value = _value(text[begin + 2 : close].strip(), frame, depth + 1)
        if value is None:
            return None
        run.effort += len(value) // _LONG_VALUE
        length += len(value)
        if length > LONGEST_TEXT:
            return None
        parts += (text[end:begin], value)
        end = close + 2
    return "".join((*parts, text[end:]))


def _value(tag: str, frame: Frame, depth: int) -> str | None:
    if depth > _DEEPEST or not tag or tag[0] == "=":  # an expression: not evaluated here
        return None
    if tag == "item" or tag.startswith("item."):
        return _of_item(frame.item, tag[5:])
    first, _, rest = tag.partition(".")
    if tag.startswith("inputs.parameters."):
        return _input(tag[18:], frame, depth)
    if first == "workflow":
        return _of_workflow(tag, rest, frame.run)
    if first in ("steps", "tasks"):
        name, _, what = rest.partition(".")
        node = frame.siblings.get(name)
        return _output(node, what, frame.run) if node else None
    return None


def _of_workflow(tag: str, rest: str, run: Run) -> str | None:
    if rest.startswith("parameters."):
        return _given(_named(run, run.arguments, rest[11:]))
    if rest.startswith("outputs.parameters."):
        return _plain(_named(run, run.outputs, rest[19:]).get("value"))
    return run.plain.get(tag)


def _input(name: str, frame: Frame, depth: int) -> str | None:
    argument = _named(frame.run, frame.arguments, name)
    if frame.caller and argument:
        written = _given(argument)
        return None if written is None else fill(written, frame.caller, depth)
    written = _given(_named(frame.run, frame.inputs, name))
    return None if written is None else fill(written, frame, depth)


def _output(node_name: str, what: str, run: Run) -> str | None:
    """Return an output of a node, or the list of those of a fan-out's elements."""
    elements = run.nodes.fans.get(node_name)
    if elements:
        if (node_name, what) not in run.gathered:
            run.effort += len(elements)
            run.gathered[node_name, what] = _outputs(elements, what, run)
        return run.gathered[node_name, what]
    node = run.nodes.by_name.get(node_name)
    if node is None or not node.state.ended:
        return None
    outputs = documents.mapping(node.written, "outputs", "status.nodes")
    if what == "outputs.result":
        return _plain(outputs.get("result"))
    if what == "outputs.exitCode":
        return _plain(outputs.get("exitCode"))
    if what.startswith("outputs.parameters."):
        return _plain(_named(run, outputs, what[19:]).get("value"))
    return _plain(node.written.get("phase")) if what == "status" else None


def _outputs(elements: Mapping[int, str], what: str, run: Run) -> str | None:
    values: list[object] = []
    for place in sorted(elements):
        node = run.nodes.by_name[elements[place]]
        if not node.state.ended:
            return None
        outputs = documents.mapping(node.written, "outputs", "status.nodes")
        if what == "outputs.result":
            text = _plain(outputs.get("result"))
            values += [] if text is None else [_parsed(text)]
        elif what == "outputs.parameters":
            listed = documents.mappings(outputs, "parameters", "status.nodes")
            values.append({str(each.get("name")): _plain(each.get("value")) for each in listed})
        elif what.startswith("outputs.parameters."):
            text = _plain(_named(run, outputs, what[19:]).get("value"))
            values += [] if text is None else [text]
        else:
            return None
    return json.dumps(values)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _of_item(item: object, key: str) -> str | None:
    if not key:
        return item_text(item)
    return item_text(item.get(key)) if isinstance(item, dict) else None


def item_text(item: object) -> str | None:
    """Return what `{{item}}` becomes."""
    if isinstance(item, dict | list):
        return json.dumps(item, separators=(",", ":"), sort_keys=True)
    return _plain(item)


def _named(run: Run, parent: documents.Document, name: str) -> documents.Document:
    listed = documents.mappings(parent, "parameters", "parameters")
    run.effort += len(listed) // _LONG_LIST
    for parameter in listed:
        if parameter.get("name") == name:
            return parameter
    return documents.EMPTY


def _given(parameter: documents.Document) -> str | None:
    """Return a parameter's value, else its default."""
    value = _plain(parameter.get("value"))
    return _plain(parameter.get("default")) if value is None else value


def _plain(value: object) -> str | None:
    """Return a value as Argo's AnyString holds it; None for what is no plain value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return None
