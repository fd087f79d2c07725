"""Typed access to JSON-like objects from outside; errors say where, what and how to write it."""

import math
import sys
from collections.abc import Collection, Mapping

from tiphys.models.domain import errors


def mapping(value: object, *, where: str, keys: Collection[str] | None = None) -> dict[str, object]:
    """Return an object's fields (None counts as empty); with `keys`, unknown ones are refused."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise errors.InputError(f"{where}: expected fields by name, got {value!r}")
    found = {str(key): item for key, item in value.items()}
    if keys is not None:
        unknown = sorted(set(found) - set(keys))
        if unknown:
            raise errors.InputError(
                f"{where}.{unknown[0]}: no such field; there are {', '.join(sorted(keys))}"
            )
    return found


def items(value: object, *, where: str) -> list[object]:
    """Return a list; None counts as empty."""
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise errors.InputError(f"{where}: expected a list, got {value!r}")
    return list(value)


def text(value: object, *, where: str) -> str:
    """Return text that is not empty."""
    if not isinstance(value, str) or not value:
        raise errors.InputError(f"{where}: expected text, got {value!r}")
    return value


def texts(value: object, *, where: str) -> tuple[str, ...]:
    """Return a list of texts."""
    return tuple(
        text(item, where=f"{where}[{place}]")
        for place, item in enumerate(items(value, where=where))
    )


def number(value: object, *, where: str, least: float, most: float = math.inf) -> float:
    """Return a finite number within both bounds."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and abs(value) <= sys.float_info.max
        and least <= value <= most
    ):
        return float(value)
    bounds = f"at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
    raise errors.InputError(f"{where}: expected a number {bounds}, got {value!r}")


def whole(value: object, *, where: str, least: int, most: int) -> int:
    """Return a whole number within both bounds."""
    found = number(value, where=where, least=least, most=most)
    if found != int(found):
        raise errors.InputError(
            f"{where}: expected a whole number from {least} to {most}, got {value!r}"
        )
    return int(found)


def choice(value: object, *, where: str, among: Collection[str]) -> str:
    """Return one of some words."""
    if isinstance(value, str) and value in among:
        return value
    raise errors.InputError(f"{where}: expected one of {', '.join(among)}, got {value!r}")
