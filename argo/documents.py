"""Typed looks into JSON as Kubernetes holds it; whatever has another shape is a named InputError.

An absent field and `null` are the same.  Places are written as `spec.containers[1].image`.  This is
on the path of every admission, so nothing is copied and places are put together for errors only.
"""

from collections.abc import Mapping

from tiphys.models.domain import errors

Document = Mapping[str, object]
EMPTY: Document = {}
_NOTHING: list[object] = []
_NO_OBJECTS: list[Document] = []
_SHOWN = 80


def mapping(parent: Document, key: str, where: str = "") -> Document:
    """Return the object at `key`; an empty one if there is none."""
    value = parent.get(key)
    if value is None:
        return EMPTY
    if isinstance(value, dict):
        return value
    raise _wrong(where, key, "an object", value)


def items(parent: Document, key: str, where: str = "") -> list[object]:
    """Return the list at `key`; an empty one if there is none."""
    value = parent.get(key)
    if value is None:
        return _NOTHING
    if isinstance(value, list):
        return value
    raise _wrong(where, key, "a list", value)


def mappings(parent: Document, key: str, where: str = "") -> list[Document]:
    """Return the list of objects at `key`; an empty one if there is none."""
    values = parent.get(key)
    if values is None:
        return _NO_OBJECTS
    if not isinstance(values, list):
        raise _wrong(where, key, "a list", values)
    for value in values:
        if not isinstance(value, dict):
            raise _wrong(where, f"{key}[{values.index(value)}]", "an object", value)
    return values


def text(parent: Document, key: str, where: str = "") -> str:
    """Return the text at `key`; empty if there is none."""
    value = parent.get(key)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise _wrong(where, key, "text", value)


def texts(parent: Document, where: str, *keys: str) -> list[str]:
    """Return the texts at several keys, each as `text` does; one call is quicker than many."""
    found: list[str] = []
    for key in keys:
        value = parent.get(key)
        if value is None:
            found.append("")
        elif isinstance(value, str):
            found.append(value)
        else:
            raise _wrong(where, key, "text", value)
    return found


def whole(parent: Document, key: str, where: str = "") -> int | None:
    """Return the whole number at `key`; None if there is none."""
    value = parent.get(key)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63:
        return value
    raise _wrong(where, key, "a whole number", value)


def switch(parent: Document, key: str, where: str = "") -> bool:
    """Return the boolean at `key`; False if there is none."""
    value = parent.get(key)
    if value is None:
        return False
    if isinstance(value, bool):
        return value
    raise _wrong(where, key, "true or false", value)


def pairs(parent: Document, key: str, where: str = "") -> tuple[tuple[str, str], ...]:
    """Return the texts by name at `key`, sorted."""
    found = mapping(parent, key, where)
    if not found:
        return ()
    for name, value in found.items():
        if not isinstance(value, str) or not isinstance(name, str):
            raise _wrong(where, f"{key}.{name}", "text", value)
    return tuple(sorted(found.items()))  # type: ignore[arg-type]


def root(value: object, what: str) -> Document:
    """Return `value` if it is an object; `what` names it in the error."""
    if isinstance(value, dict):
        return value
    raise errors.InputError(f"{what}: expected an object, got {_shown(value)}")


def _wrong(where: str, key: str, wanted: str, value: object) -> errors.InputError:
    place = f"{where}.{key}" if where else key
    return errors.InputError(f"{place}: expected {wanted}, got {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return f"a {'list' if not isinstance(value, dict) else 'object'} of {len(value)}"
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
