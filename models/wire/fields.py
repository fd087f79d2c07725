"""Fields of JSON from outside, read one by one; what is absent is the empty value of its kind.

Everything raises `errors.InputError` with the field's path, which is all that a sender needs.
"""

import enum
import sys
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tiphys.models.domain import decisions, errors

Choice = TypeVar("Choice", bound=enum.StrEnum)
LARGEST_WHOLE = 2**53 - 1
"""Beyond it JSON numbers are not exact (RFC 8785)."""


def mapping(value: object, *, where: str) -> Mapping[str, object]:
    """Return `value` if it is an object."""
    if not isinstance(value, dict):
        raise errors.InputError(f"{where}: expected an object")
    return value


def listed(found: Mapping[str, object], key: str, *, where: str) -> Sequence[object]:
    """Return the list under `key`."""
    value = found.get(key, [])
    if not isinstance(value, list):
        raise errors.InputError(f"{where}.{key}: expected a list")
    return value


def text(found: Mapping[str, object], key: str, *, where: str) -> str:
    """Return the text under `key`."""
    value = found.get(key, "")
    if not isinstance(value, str):
        raise errors.InputError(f"{where}.{key}: expected text")
    return value


def number(found: Mapping[str, object], key: str, *, where: str) -> float:
    """Return the finite number under `key`."""
    value = found.get(key, 0)
    # Written so that NaN and whole numbers beyond every float are outside as well.
    if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:  # type: ignore[arg-type]
        raise errors.InputError(f"{where}.{key}: expected a number")
    return float(value)  # type: ignore[arg-type]


def whole(found: Mapping[str, object], key: str, *, where: str) -> int:
    """Return the whole number under `key`."""
    value = found.get(key, 0)
    if type(value) is not int or abs(value) > LARGEST_WHOLE:
        raise errors.InputError(f"{where}.{key}: expected a whole number")
    return value


def flag(found: Mapping[str, object], key: str, *, where: str) -> bool:
    """Return the truth value under `key`."""
    value = found.get(key, False)
    if not isinstance(value, bool):
        raise errors.InputError(f"{where}.{key}: expected true or false")
    return value


def choice(
    found: Mapping[str, object],
    key: str,
    kind: type[Choice],
    *,
    where: str,
    default: Choice | None = None,
) -> Choice:
    """Return the member of `kind` that stands under `key`."""
    value = found.get(key, default)
    try:
        return kind(str(value))
    except ValueError as error:
        names = ", ".join(kind)
        raise errors.InputError(f"{where}.{key}: expected one of {names}") from error


def pairs(found: Mapping[str, object], key: str, *, where: str) -> tuple[tuple[str, str], ...]:
    """Return the object of texts under `key` as sorted pairs."""
    value = mapping(found.get(key, {}), where=f"{where}.{key}")
    return tuple((name, text(value, name, where=f"{where}.{key}")) for name in sorted(value))


def placement(found: Mapping[str, object], *, where: str) -> decisions.Placement:
    """Return a placement."""
    if unknown := set(found) - {"bind", "group", "selector"}:
        raise errors.InputError(f"{where}: unknown field {sorted(unknown)[0][:40]!r}")
    bind = text(found, "bind", where=where) or "prefer"
    if bind not in ("prefer", "require"):
        raise errors.InputError(f"{where}.bind: expected prefer or require")
    return decisions.Placement(
        group=text(found, "group", where=where),
        selector=pairs(found, "selector", where=where),
        bind=bind,
    )
