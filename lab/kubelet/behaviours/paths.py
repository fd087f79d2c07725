"""Reading values out of JSON by Argo's and kubectl's path languages, as far as templates need them.

`gjson`: what success and failure conditions use (`status.conditions.0.type`, `a.#`, `a.#.b`).
`jsonpath`: kubectl's templates (`{.metadata.name}`, `{.items[*].status.phase}`, `{.a['b.c']}`).
`jq`: only `.` and plain paths are done here, everything else by the machine's `jq`.
"""

import json
import re
import shutil
import subprocess
from typing import Any

Json = Any
MISSING = object()
STEP = re.compile(r"\.?\[\*\]|\.?\[(-?\d+)\]|\.?\['([^']+)'\]|\.([\w-]+)")
PLAIN_JQ = re.compile(r"\.|(\.\w+|\[\d+\])+")


class PathError(Exception):
    """The path is not one that can be read; the text says so."""


def gjson(document: Json, path: str) -> Json:
    """Return the value at a gjson path, or `MISSING`."""
    found = document
    steps = re.split(r"(?<!\\)\.", path)
    for index, raw in enumerate(steps):
        step = raw.replace("\\.", ".")
        if isinstance(found, list):
            if step == "#":
                rest = ".".join(steps[index + 1 :])
                if not rest:
                    return len(found)
                values = (gjson(item, rest) for item in found)
                return [value for value in values if value is not MISSING]
            if not step.isdigit() or int(step) >= len(found):
                return MISSING
            found = found[int(step)]
        elif isinstance(found, dict):
            if step not in found:
                return MISSING
            found = found[step]
        else:
            return MISSING
    return found


def gjson_text(value: Json) -> str:
    """Return a value as gjson prints it; empty for a missing one."""
    if value is MISSING or value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def jsonpath(document: Json, template: str) -> str:
    """Fill a kubectl jsonpath template; raises `PathError` for what is not understood."""
    text = template if "{" in template else f"{{{template}}}"
    return re.sub(r"\{([^}]*)\}", lambda match: _filled(document, match.group(1).strip()), text)


def _filled(document: Json, expression: str) -> str:
    if expression.startswith('"') and expression.endswith('"'):
        literal: str = json.loads(expression)
        return literal
    expression = expression.removeprefix("$")
    if expression and expression[0] not in ".[":
        expression = f".{expression}"
    found, position = [document], 0
    while position < len(expression) and expression != ".":
        match = STEP.match(expression, position)
        if match is None:
            raise PathError(f"unrecognized jsonpath {expression!r}")
        position = match.end()
        found = [value for item in found for value in _step(item, match)]
    return " ".join(gjson_text(value) for value in found)


def _step(item: Json, match: re.Match[str]) -> list[Json]:
    index, quoted, name = match.groups()
    if index is not None:
        whole = isinstance(item, list) and -len(item) <= int(index) < len(item)
        return [item[int(index)]] if whole else []
    if quoted is None and name is None:
        if isinstance(item, list):
            return list(item)
        return list(item.values()) if isinstance(item, dict) else []
    key = quoted or name
    return [item[key]] if isinstance(item, dict) and key in item else []


def jq(document: Json, program: str) -> str:
    """Run a jq filter: strings raw, everything else as compact JSON, one value a line."""
    if PLAIN_JQ.fullmatch(program):
        found = document
        for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", program):
            if index:
                found = found[int(index)] if isinstance(found, list) else None
            else:
                found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, str) else json.dumps(found, separators=(",", ":"))
    binary = shutil.which("jq")
    if binary is None:
        raise PathError(f"the jq filter {program!r} needs the program jq on this machine")
    done = subprocess.run(
        [binary, "--raw-output", "--compact-output", program],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if done.returncode:
        raise PathError(done.stderr.strip())
    return done.stdout.strip()
