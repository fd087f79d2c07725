"""The part of expr-lang that http and data templates use, evaluated over JSON values.

Literals, members and indices, `+ - * / % < <= > >= == !=`, `and or not && || !`, `?:`, `in`,
`contains`, `startsWith`, `endsWith`, `matches`, the closures `{# …}` of `filter`, `map`, `any`,
`all`, and a few functions. Grammar: https://expr-lang.org/docs/language-definition.
"""

import json
import operator
import re
from collections.abc import Callable
from typing import Any

Value = Any
TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)|(?P<text>\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*')"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<sign>==|!=|<=|>=|&&|\|\||\?\.|[-+*/%<>!?:.,()\[\]{}#]))"
)
LEVELS = (
    {"or", "||"},
    {"and", "&&"},
    {"==", "!=", "<", ">", "<=", ">=", "in", "contains", "startsWith", "endsWith", "matches"},
    {"+", "-"},
    {"*", "/", "%"},
)
"""Binary operators, the weakest first."""
CLOSURES = {"filter", "map", "any", "all", "none", "count"}


class ExpressionError(Exception):
    """The expression is not understood or does not fit the values."""


BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": operator.mod,
    "in": lambda one, many: one in many,
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "endsWith": lambda text, part: text.endswith(part),
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
}
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "len": len,
    "int": int,
    "asInt": int,
    "float": float,
    "asFloat": float,
    "string": str,
    "toJson": json.dumps,
    "lower": str.lower,
    "upper": str.upper,
    "trim": str.strip,
}


def evaluate(text: str, scope: dict[str, Value]) -> Value:
    """Evaluate an expression; raises `ExpressionError`."""
    parser = _Parser(_tokens(text))
    node = parser.expression()
    if parser.peek() is not None:
        raise ExpressionError(f"unexpected {parser.peek()!r} in {text!r}")
    try:
        return node(scope)
    except (TypeError, ValueError, ArithmeticError, AttributeError, re.error) as error:
        raise ExpressionError(f"{text!r}: {error}") from error


Node = Callable[[dict[str, Value]], Value]


def _tokens(text: str) -> list[tuple[str, str]]:
    found, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ExpressionError(f"cannot read {text[position:]!r}")
        found.append((match.lastgroup, match.group(match.lastgroup)))
        position = match.end()
    return found


class _Parser:
    """Turns tokens into functions of the scope, by precedence climbing."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._position = 0

    def peek(self) -> str | None:
        """Return the next token that is not a literal text; None at the end."""
        if self._position >= len(self._tokens):
            return None
        kind, text = self._tokens[self._position]
        return text if kind != "text" else '"'

    def take(self, expected: str | None = None) -> tuple[str, str]:
        """Return the next token and go past it."""
        if self._position >= len(self._tokens):
            raise ExpressionError("the expression ends too early")
        token = self._tokens[self._position]
        if expected is not None and self.peek() != expected:
            raise ExpressionError(f"expected {expected!r}, found {token[1]!r}")
        self._position += 1
        return token

    def expression(self) -> Node:
        """Parse a whole expression, a choice at most."""
        condition = self.binary(0)
        if self.peek() != "?":
            return condition
        self.take()
        then = self.expression()
        self.take(":")
        otherwise = self.expression()
        return lambda scope: then(scope) if condition(scope) else otherwise(scope)

    def binary(self, level: int) -> Node:
        """Parse operators of one level and above."""
        if level == len(LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.peek() in LEVELS[level] or (self.peek() == "not" and level == 2):
            negated = self.peek() == "not"
            if negated:
                self.take()
            _, sign = self.take()
            left = _joined(sign, left, self.binary(level + 1), negated=negated)
        return left

    def unary(self) -> Node:
        """Parse `not`, `!`, `-` and what they stand before."""
        if self.peek() in ("not", "!"):
            self.take()
            inner = self.unary()
            return lambda scope: not inner(scope)
        if self.peek() == "-":
            self.take()
            inner = self.unary()
            return lambda scope: -inner(scope)
        return self.postfix(self.primary())

    def primary(self) -> Node:
        """Parse a literal, a name, a call, a list, or something in parentheses."""
        kind, text = self.take()
        if kind == "number":
            number = float(text) if "." in text else int(text)
            return lambda scope: number
        if kind == "text":
            literal = re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])
            return lambda scope: literal
        if text == "(":
            inner = self.expression()
            self.take(")")
            return inner
        if text == "[":
            items = self.arguments("]")
            return lambda scope: [item(scope) for item in items]
        if text == "#":
            return lambda scope: scope["#"]
        if kind == "name":
            if text in _CONSTANTS:
                constant = _CONSTANTS[text]
                return lambda scope: constant
            if self.peek() == "(":
                self.take()
                return self.closure(text) if text in CLOSURES else self.call(text)
            return lambda scope: _variable(scope, text)
        raise ExpressionError(f"unexpected {text!r}")

    def call(self, name: str) -> Node:
        """Parse a function's arguments."""
        items = self.arguments(")")
        if name not in FUNCTIONS:
            raise ExpressionError(f"unknown function {name!r}")
        return lambda scope: FUNCTIONS[name](*(item(scope) for item in items))

    def closure(self, name: str) -> Node:
        """Parse `filter(list, {# …})` and its kin."""
        source = self.expression()
        self.take(",")
        braces = self.peek() == "{"
        if braces:
            self.take()
        body = self.expression()
        if braces:
            self.take("}")
        self.take(")")

        def run(scope: dict[str, Value]) -> Value:
            values = list(source(scope))
            results = [body({**scope, "#": value}) for value in values]
            if name == "map":
                return results
            if name == "filter":
                return [value for value, kept in zip(values, results, strict=True) if kept]
            if name == "count":
                return sum(bool(result) for result in results)
            return {"any": any, "all": all}.get(name, lambda found: not any(found))(results)

        return run

    def arguments(self, end: str) -> list[Node]:
        """Parse expressions up to `end`."""
        found: list[Node] = []
        while self.peek() != end:
            found.append(self.expression())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return found

    def postfix(self, node: Node) -> Node:
        """Parse members and indices."""
        while self.peek() in (".", "[", "?."):
            _, sign = self.take()
            if sign == "[":
                index = self.expression()
                self.take("]")
            else:
                index = _constant(self.take()[1])
            node = _indexed(node, index)
        return node


_CONSTANTS = {"true": True, "false": False, "nil": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def _constant(value: Value) -> Node:
    return lambda scope: value


def _indexed(node: Node, index: Node) -> Node:
    return lambda scope: _member(node(scope), index(scope))


def _joined(sign: str, left: Node, right: Node, *, negated: bool = False) -> Node:
    if sign in ("and", "&&"):
        return lambda scope: left(scope) and right(scope)
    if sign in ("or", "||"):
        return lambda scope: left(scope) or right(scope)
    function = BINARY[sign]
    if negated:
        return lambda scope: not function(left(scope), right(scope))
    return lambda scope: function(left(scope), right(scope))


def _variable(scope: dict[str, Value], name: str) -> Value:
    if name not in scope:
        raise ExpressionError(f"unknown name {name}")
    return scope[name]


def _member(value: Value, index: Value) -> Value:
    if isinstance(value, dict):
        return value.get(index)
    if isinstance(value, list) and isinstance(index, int) and -len(value) <= index < len(value):
        return value[index]
    raise ExpressionError(f"cannot fetch {index!r} from {type(value).__name__}")
