"""Lengths of time as people write them (`90s`, `1h30m`, `250ms`) to seconds and back."""

import math
import re

from tiphys.models.domain import errors

_UNITS_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_PART = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>ms|[dhms])")


def read(written: object, *, where: str = "") -> float:
    """Return seconds from `1h30m` or from a bare number of seconds.  Raises `InputError`."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        if math.isfinite(written) and written >= 0:
            return float(written)
    elif isinstance(written, str):
        text = written.strip()
        if re.fullmatch(
            f"(?:{_PART.pattern.replace('?P<number>', '').replace('?P<unit>', '')})+", text
        ):
            return sum(
                float(part["number"]) * _UNITS_S[part["unit"]] for part in _PART.finditer(text)
            )
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
            return float(text)
    raise errors.InputError(
        f"{where or 'duration'}: expected a time such as 30s, 5m or 1h30m, got {written!r}"
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
