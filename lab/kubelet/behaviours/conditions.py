"""Success and failure conditions of resource templates: label selectors over a resource's JSON.

Source: argo-workflows v4.0.5 `matchConditions`; apimachinery `labels.Parse`.
"""

import re
from dataclasses import dataclass

from lab.kubelet.behaviours import paths

SET = re.compile(r"(?P<key>\S+)\s+(?P<not>not)?in\s*\((?P<values>[^)]*)\)")
COMPARISON = re.compile(r"(?P<key>[^\s=!<>]+)\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>\S*)")
KEY = re.compile(r"(?P<not>!)?\s*(?P<key>[^\s=!<>,()]+)")


class ConditionError(Exception):
    """The condition is not a selector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One part of a selector; parts are joined by AND."""

    key: str
    operator: str
    """`exists`, `!`, `in`, `notin`, `=`, `!=`, `>`, `<`."""
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        if self.operator in ("exists", "!"):
            return ("!" if self.operator == "!" else "") + self.key
        return f"{self.key}{self.operator}{self.values[0]}"

    def matches(self, document: paths.Json) -> bool:
        """Whether a resource fulfils it; a missing value only ever fulfils a negation."""
        found = paths.gjson(document, self.key)
        present, text = found is not paths.MISSING, paths.gjson_text(found)
        match self.operator:
            case "exists":
                return present
            case "!":
                return not present
            case "=" | "in":
                return present and text in self.values
            case "!=" | "notin":
                return not present or text not in self.values
        try:
            have, limit = int(text), int(self.values[0])
        except ValueError:
            return False
        return have > limit if self.operator == ">" else have < limit


def parse(text: str) -> list[Requirement]:
    """Parse a selector; raises `ConditionError`."""
    return [_requirement(part.strip()) for part in _split(text) if part.strip()]


def _requirement(part: str) -> Requirement:
    if match := SET.fullmatch(part):
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(
            key=match["key"], operator="notin" if match["not"] else "in", values=values
        )
    if match := COMPARISON.fullmatch(part):
        operator = "=" if match["operator"] == "==" else match["operator"]
        return Requirement(key=match["key"], operator=operator, values=(match["value"],))
    if match := KEY.fullmatch(part):
        return Requirement(key=match["key"], operator="!" if match["not"] else "exists")
    raise ConditionError(f"unable to parse requirement: {part!r}")


def _split(text: str) -> list[str]:
    """Split at commas that stand outside parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
