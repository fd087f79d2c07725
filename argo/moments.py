"""Times as Kubernetes writes them (RFC 3339) to unix seconds."""

import datetime
import functools

from tiphys.argo import documents
from tiphys.models.domain import errors

MEMORISED = 4096
"""Times that are kept: they are whole seconds, and many objects share one."""
LONGEST_TEXT = 64
"""Python reads a million digits of a second; kept, they would fill the memory."""


def read(parent: documents.Document, key: str, where: str = "") -> float | None:
    """Return the time at `key` in unix seconds; None if there is none or it is Go's zero time."""
    text = documents.text(parent, key, where)
    return parse(text, where, key) if text else None


def parse(text: str, *place: str) -> float | None:
    """Return a time in unix seconds; None for Go's zero time.  Raises `InputError`.

    The parts of `place` name it in the error.
    """
    try:
        if len(text) > LONGEST_TEXT:
            raise ValueError(text)
        at = _unix(text)
    except (ValueError, OverflowError):
        raise errors.InputError(
            f"{'.'.join(part for part in place if part) or 'time'}: expected a time such as "
            f"2026-11-30T08:00:00Z, got {text[:80]!r}"
        ) from None
    return at if at > 0 else None


@functools.lru_cache(maxsize=MEMORISED)
def _unix(text: str) -> float:
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return moment.timestamp()
