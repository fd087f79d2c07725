"""Fan-outs: the elements of withItems, withParam and withSequence, where they are known."""

import dataclasses
import json
import re
from collections.abc import Sequence

from tiphys.argo import documents, parameters
from tiphys.models.domain import errors

FIELDS = ("withItems", "withParam", "withSequence")
WIDEST = 2_000
"""Elements that are told apart; wider fan-outs are one task that stands for all."""
_FORMAT = re.compile(r"[^%]*%(?P<how>0?[0-9]{0,2})(?P<as>[dxXo])[^%]*")
_LONGEST_FORMAT = 256
_LONGEST_LABEL = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """What is known of a fan-out's elements."""

    width: int | None
    """How many; None = not known yet."""
    items: Sequence[object] = ()
    """The elements, unless there are more than `WIDEST` or each would be a long text."""
    why: str = ""
    """What the width waits for, if it is not known."""


def read(step: documents.Document, frame: parameters.Frame, where: str) -> Fan | None:
    """Return the fan-out of a step or task; None if it has none.  Raises `InputError`."""
    if listed := documents.items(step, "withItems", where):
        return _of(listed)
    if written := documents.text(step, "withParam", where):
        filled = parameters.fill(written, frame)
        if filled is None:
            return Fan(width=None, why=f"withParam {written.strip()[:80]}")
        try:
            found = json.loads(filled)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, list):
            return _of(found)
        return Fan(width=None, why=f"withParam is no JSON list: {filled.strip()[:80]!r}")
    if sequence := documents.mapping(step, "withSequence", where):
        return _sequence(sequence, frame, f"{where}.withSequence")
    return None


def label(item: object) -> str:
    """Return how an element is called in names: `a`, `3`, `group:dev,name:jo`."""
    if isinstance(item, dict):
        text = ",".join(
            sorted(f"{key}:{parameters.item_text(value)}" for key, value in item.items())
        )
    else:
        text = parameters.item_text(item) or ""
    return text.replace("(", "").replace(")", "")[:_LONGEST_LABEL]


def _of(found: list[object]) -> Fan:
    return Fan(width=len(found), items=found if len(found) <= WIDEST else ())


def _sequence(sequence: documents.Document, frame: parameters.Frame, where: str) -> Fan:
    bounds: dict[str, int | None] = {}
    for key in ("start", "end", "count"):
        written = sequence.get(key)
        if written is None:
            continue
        filled = parameters.fill(str(written), frame) if isinstance(written, str | int) else None
        if filled is None:
            return Fan(width=None, why=f"withSequence {key} {written!s:.80}")
        try:
            bounds[key] = int(filled)
        except ValueError:
            raise errors.InputError(
                f"{where}.{key}: expected a whole number, got {filled[:40]!r}"
            ) from None
    start = bounds.get("start") or 0
    end, count = bounds.get("end"), bounds.get("count")
    if end is None:
        if count is None:
            return Fan(width=None, why="withSequence has neither end nor count")
        if count == 0:
            return Fan(width=0)
        end = start + count - 1
    width = abs(end - start) + 1
    written = documents.text(sequence, "format", where)
    if width > WIDEST or len(written) > _LONGEST_FORMAT:
        return Fan(width=width)
    step = 1 if start <= end else -1
    written_as = _format(written)
    return Fan(width=width, items=[written_as % n for n in range(start, end + step, step)])


def _format(written: str) -> str:
    """Return Go's format for Python; `%d` where it is one that Python lacks."""
    return written if _FORMAT.fullmatch(written) else "%d"
