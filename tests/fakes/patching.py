"""RFC 6902, as much of it as the API server is sent: add, replace in objects, remove, test."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any


class TestFailedError(Exception):
    """A `test` operation did not hold."""

    __test__ = False


def applied(document: Mapping[str, Any], patch: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document with a patch applied; a missing parent raises, as in the API server."""
    changed = copy.deepcopy(dict(document))
    for operation in patch:
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~")
            for part in operation["path"].removeprefix("/").split("/")
        ]
        owner: Any = changed
        for part in parents:
            owner = owner[int(part)] if isinstance(owner, list) else owner[part]
        if isinstance(owner, list):
            _in_list(owner, last, operation)
        else:
            _in_object(owner, last, operation)
    return changed


def _in_list(owner: list[Any], last: str, operation: Mapping[str, Any]) -> None:
    if operation["op"] == "add":
        owner.insert(len(owner) if last == "-" else int(last), copy.deepcopy(operation["value"]))
    elif operation["op"] == "remove":
        del owner[int(last)]
    elif owner[int(last)] != operation["value"]:
        raise TestFailedError(operation["path"])


def _in_object(owner: dict[str, Any], last: str, operation: Mapping[str, Any]) -> None:
    if operation["op"] == "add" or (operation["op"] == "replace" and last in owner):
        owner[last] = copy.deepcopy(operation["value"])
    elif operation["op"] == "remove":
        del owner[last]
    elif owner.get(last) != operation["value"]:
        raise TestFailedError(operation["path"])
