"""Lengths of time as people write them (`90s`, `1h30m`, `250ms`) to seconds and back."""

import math
import re

from tiphys.models.domain import errors

_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>ms|[dhms])")
_WHOLE = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|[dhms]))+")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
LONGEST_TEXT = 64
LONGEST_S = 1e10
"""Three centuries: beyond it nobody means a time, and moments so far on cannot be written."""


def read(written: object, *, where: str = "") -> float:
    """Return seconds from `1h30m` or from a bare number of seconds.  Raises `InputError`."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        if 0 <= written <= LONGEST_S:
            return float(written)
    elif isinstance(written, str) and len(written) <= LONGEST_TEXT:
        text = written.strip()
        found_s = math.inf
        if _WHOLE.fullmatch(text):
            found_s = sum(
                float(part["number"]) * _UNITS_S[part["unit"]] for part in _PART.finditer(text)
            )
        elif _NUMBER.fullmatch(text):
            found_s = float(text)
        if found_s <= LONGEST_S:
            return found_s
    shown = repr(written)
    raise errors.InputError(
        f"{where or 'duration'}: expected a time such as 30s, 5m or 1h30m, got "
        f"{shown if len(shown) <= LONGEST_TEXT else shown[:LONGEST_TEXT] + '…'}"
    )


def words(length_s: float) -> str:
    """Return a length of time for people: `0.4 s`, `12 s`, `3 min 5 s`, `2 h 10 min`."""
    if length_s < 10:
        return f"{max(length_s, 0.0):.1f} s"
    whole = round(length_s)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, rest = divmod(whole, 3_600)
    minutes = rest // 60
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
