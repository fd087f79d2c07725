"""Kubernetes quantities: text such as `500m`, `1.5Gi` or `12e6` to exact numbers and back.

The grammar and the canonical text are those of apimachinery's `resource.Quantity`: one decimal
number, then nothing, a decimal suffix (n u m k M G T P E), a binary suffix (Ki Mi Gi Ti Pi Ei), or
an exponent (`e3`, `E-2`). `1E` is 10^18; `1E3` is 1000. Numbers stay exact (`Fraction`) until a
caller asks for a whole unit; those are rounded away from zero, as Kubernetes does. Two differences,
on purpose: text without any digit is refused, and nothing is capped at 2^63 - 1.
"""

import math
import re
from fractions import Fraction

DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
"""Powers of 1000, from 1000^-3 on."""
BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
"""Powers of 1024, from 1024^0 on."""
LONGEST_TEXT = 64
LARGEST_EXPONENT = 99
NANO = Fraction(1, 10**9)
"""The finest step that Kubernetes keeps."""

_SHAPE = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?:[eE](?P<exponent>[+-]?[0-9]+)|(?P<suffix>[A-Za-z]*))"
)
_FACTORS = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(DECIMAL_SUFFIXES, start=-3)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(BINARY_SUFFIXES)},
}


class QuantityError(ValueError):
    """The value is no Kubernetes quantity; `str()` says what, where and how to write it."""


def parse(text: str | int | float, *, where: str = "") -> Fraction:
    """Return the exact value of a quantity; `where` names its place in errors.

    Numbers are taken as YAML and JSON read them: a float means the shortest decimal that prints it.
    Raises `QuantityError`.
    """
    return _read(text, where=where)[0]


def cpu_m(text: str | int | float, *, where: str = "") -> int:
    """Return CPU in millicores, rounded away from zero; `0.5`, `500m` and `0.4999` are all 500."""
    return _rounded(parse(text, where=where) * 1000)


def memory_bytes(text: str | int | float, *, where: str = "") -> int:
    """Return memory or storage in bytes, rounded away from zero."""
    return _rounded(parse(text, where=where))


def canonical(text: str | int | float, *, where: str = "") -> str:
    """Return the text that the API server prints for the same value, in the format as given."""
    value, style = _read(text, where=where)
    if style == "binary":
        return format_binary(value)
    plain = format_decimal(value)
    if style == "decimal" or plain[-1].isdigit():
        return plain
    return f"{plain[:-1]}e{3 * (DECIMAL_SUFFIXES.index(plain[-1]) - 3)}"


def format_cpu_m(cpu_m: int) -> str:
    """Return millicores as canonical text: 1500 is `1500m`, 2000 is `2`."""
    return format_decimal(Fraction(cpu_m, 1000))


def format_bytes(memory_bytes: int) -> str:
    """Return bytes as canonical binary text: 1073741824 is `1Gi`, 1000 is `1k`."""
    return format_binary(Fraction(memory_bytes))


def format_decimal(value: Fraction) -> str:
    """Return `value` with the largest decimal suffix that leaves a whole number.

    Finer than `NANO` is rounded away from zero.
    """
    count = _rounded(value / NANO)
    power = 0
    while count and count % 1000 == 0 and power + 1 < len(DECIMAL_SUFFIXES):
        count //= 1000
        power += 1
    return f"{count}{DECIMAL_SUFFIXES[power]}" if count else "0"


def format_binary(value: Fraction) -> str:
    """Return `value` with the largest binary suffix that leaves a whole number.

    What is below 1024, or no whole number, is shown as decimal, as apimachinery does.
    """
    if abs(value) < 1024 or value.denominator != 1:
        return format_decimal(value)
    count = value.numerator
    power = 0
    while count % 1024 == 0 and power + 1 < len(BINARY_SUFFIXES):
        count //= 1024
        power += 1
    return f"{count}{BINARY_SUFFIXES[power]}"


def _read(text: str | int | float, *, where: str) -> tuple[Fraction, str]:
    """Return the value and how it was written: `decimal`, `binary` or `exponent`."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise _refusal(text, where=where)
    # repr() of a float is the shortest decimal that reads back as the same float.
    written = repr(float(text)) if isinstance(text, float) else str(text)
    match = _SHAPE.fullmatch(written) if len(written) <= LONGEST_TEXT else None
    if match is None or not (match["whole"] or match["part"]):
        raise _refusal(text, where=where)
    suffix = match["suffix"] or ""
    exponent = int(match["exponent"] or 0)
    if suffix not in _FACTORS or abs(exponent) > LARGEST_EXPONENT:
        raise _refusal(text, where=where)
    part = match["part"] or ""
    value = Fraction(int((match["whole"] or "") + part), 10 ** len(part))
    value *= _FACTORS[suffix] * Fraction(10) ** exponent
    style = "exponent" if match["exponent"] else "binary" if suffix.endswith("i") else "decimal"
    return (-value if match["sign"] == "-" else value), style


def _rounded(value: Fraction) -> int:
    """Return the whole number at `value` or next to it, away from zero."""
    return math.ceil(value) if value >= 0 else math.floor(value)


def _refusal(text: object, *, where: str) -> QuantityError:
    """Return the error for `text`, shortened so that it stays one readable line."""
    shown = repr(text[: LONGEST_TEXT + 1] if isinstance(text, str) else text)
    if len(shown) > LONGEST_TEXT:
        shown = shown[:LONGEST_TEXT] + "…"
    return QuantityError(
        f"{where}{': ' if where else ''}{shown} is no quantity; write a number and, if needed, "
        "one suffix of n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent, such as 500m, 1.5Gi, 1e3"
    )
