"""Quantities against apimachinery's answers (`quantities.json`, by `quantities.go`) and laws."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiphys.models.domain import quantities

ROWS = json.loads(Path(__file__).with_name("quantities.json").read_text())
READ = [row for row in ROWS if row[1] is not None]
REFUSED = [row[0] for row in ROWS if row[1] is None]
NANOS = st.integers(-(10**27), 10**27)


@pytest.mark.parametrize(("text", "cpu_m", "memory_bytes", "printed"), READ)
def test_reads_and_prints_as_apimachinery(
    text: str, cpu_m: int, memory_bytes: int, printed: str
) -> None:
    """Every row of the golden table gives the same numbers and the same canonical text."""
    expected = (cpu_m, memory_bytes, printed)
    assert expected == (
        quantities.cpu_m(text),
        quantities.memory_bytes(text),
        quantities.canonical(text),
    )


@pytest.mark.parametrize("text", REFUSED)
def test_refuses_what_apimachinery_refuses(text: str) -> None:
    """Text that the API server would not take is refused here too."""
    with pytest.raises(quantities.QuantityError):
        quantities.parse(text)


@pytest.mark.parametrize("text", ["+", "-", ".", "m", "Ki", "e3", "1e100", "1" * 65])
def test_refuses_text_without_a_sensible_number(text: str) -> None:
    """No digit, an exponent beyond use or endless digits are refused, unlike in apimachinery."""
    with pytest.raises(quantities.QuantityError):
        quantities.parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        ("1Ei", Fraction(2**60)),
        ("7Ei", Fraction(7 * 2**60)),
        (128, Fraction(128)),
        (0.1, Fraction(1, 10)),
        (1e-07, Fraction(1, 10**7)),
        (1e22, Fraction(10**22)),
    ],
)
def test_reads_the_exact_value(text: str | float, value: Fraction) -> None:
    """A lone E is a suffix, E before digits an exponent; YAML's floats mean what they print."""
    assert value == quantities.parse(text)


@pytest.mark.parametrize("value", [True, None, [], {}, float("nan"), float("inf")])
def test_refuses_what_is_no_number(value: object) -> None:
    """Booleans, nothing, containers and non-finite floats are refused, not guessed at."""
    with pytest.raises(quantities.QuantityError):
        quantities.parse(value)  # type: ignore[arg-type]


def test_says_what_where_and_how() -> None:
    """The error names the place, the text and the suffixes that may be written."""
    with pytest.raises(quantities.QuantityError) as caught:
        quantities.memory_bytes("12 GB", where="group 'a': memory")
    assert str(caught.value) == (
        "group 'a': memory: '12 GB' is no quantity; write a number and, if needed, one suffix of "
        "n u m k M G T P E Ki Mi Gi Ti Pi Ei or an exponent, such as 500m, 1.5Gi, 1e3"
    )


def test_shortens_long_text_in_errors() -> None:
    """A whole file given for a quantity still makes one readable line."""
    with pytest.raises(quantities.QuantityError) as caught:
        quantities.parse("x" * 10_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("cpu_m", "text"), [(0, "0"), (1, "1m"), (1500, "1500m"), (2000, "2"), (2_000_000, "2k")]
)
def test_prints_millicores(cpu_m: int, text: str) -> None:
    """Millicores become the shortest exact decimal text."""
    assert text == quantities.format_cpu_m(cpu_m)


@pytest.mark.parametrize(
    ("memory_bytes", "text"),
    [
        (0, "0"),
        (1000, "1k"),
        (1025, "1025"),
        (2**30, "1Gi"),
        (3 * 2**29, "1536Mi"),
        (-1024, "-1Ki"),
    ],
)
def test_prints_bytes(memory_bytes: int, text: str) -> None:
    """Bytes become binary text, below 1024 decimal text."""
    assert text == quantities.format_bytes(memory_bytes)


@given(NANOS)
def test_parse_undoes_print_for_decimals(nanos: int) -> None:
    """Whatever Kubernetes can store is read back exactly from its decimal text."""
    value = nanos * quantities.NANO
    assert value == quantities.parse(quantities.format_decimal(value))


@given(NANOS)
def test_parse_undoes_print_for_binaries(nanos: int) -> None:
    """The same for binary text, also where it falls back to decimal."""
    value = nanos * quantities.NANO
    assert value == quantities.parse(quantities.format_binary(value))


@given(st.integers(0, 10**9), st.integers(0, 2**60))
def test_units_survive_a_round_trip(cpu_m: int, memory_bytes: int) -> None:
    """Printing and reading whole millicores and bytes changes neither."""
    expected = (cpu_m, memory_bytes)
    assert expected == (
        quantities.cpu_m(quantities.format_cpu_m(cpu_m)),
        quantities.memory_bytes(quantities.format_bytes(memory_bytes)),
    )


@given(st.sampled_from([row[0] for row in READ]))
def test_canonical_text_is_stable(text: str) -> None:
    """Canonical text is its own canonical text."""
    once = quantities.canonical(text)
    assert once == quantities.canonical(once)
