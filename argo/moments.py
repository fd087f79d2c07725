"""Times as Kubernetes writes them (RFC 3339) to unix seconds."""

import datetime

from tiphys.argo import documents
from tiphys.models.domain import errors


def read(parent: documents.Document, key: str, where: str = "") -> float | None:
    """Return the time at `key` in unix seconds; None if there is none or it is Go's zero time."""
    text = documents.text(parent, key, where)
    return parse(text, f"{where}.{key}" if where else key) if text else None


def parse(text: str, where: str = "") -> float | None:
    """Return a time in unix seconds; None for Go's zero time.  Raises `InputError`."""
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        at = moment.timestamp()
    except (ValueError, OverflowError):
        raise errors.InputError(
            f"{where}: expected a time such as 2026-11-30T08:00:00Z, got {text[:80]!r}"
        ) from None
    return at if at > 0 else None
