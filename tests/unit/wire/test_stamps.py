"""Stamps: canonical, short, and the same when read back."""

import json

import hypothesis
import pytest
import rfc8785
from hypothesis import strategies as st

from tiphys.models.domain import decisions, errors
from tiphys.models.wire import stamps

SHORT = st.text(max_size=20)
AMOUNT = st.integers(min_value=0, max_value=2**50)
DECISIONS = st.builds(
    decisions.Decision,
    id=SHORT,
    verdict=st.sampled_from(decisions.Verdict),
    arm=st.sampled_from(decisions.Arm),
    pod=SHORT,
    workflow_uid=SHORT,
    snapshot_age_s=st.floats(min_value=0, max_value=1e6),
    sizings=st.lists(
        st.builds(
            decisions.Sizing,
            container=SHORT,
            cpu_m=AMOUNT,
            memory_bytes=AMOUNT,
            original_cpu_m=AMOUNT,
            original_memory_bytes=AMOUNT,
        ),
        max_size=2,
        unique_by=lambda sizing: sizing.container,
    ).map(tuple),
    placement=st.builds(
        decisions.Placement,
        group=SHORT,
        selector=st.dictionaries(SHORT, SHORT, max_size=2).map(lambda d: tuple(sorted(d.items()))),
        bind=st.sampled_from(["prefer", "require"]),
    ),
    rank=st.integers(min_value=0, max_value=10**6),
    reason=st.text(max_size=40).map(lambda text: text * 40),
    issued_at=st.floats(min_value=0, max_value=4e9),
)


def a_decision(**changes: object) -> decisions.Decision:
    """Return a decision with the fields that always stand in one."""
    values = {
        "id": "d-abcdefghijklmnopqrst",
        "verdict": decisions.Verdict.GATE,
        "pod": "genomics/exome-align-1",
        **changes,
    }
    return decisions.Decision(**values)  # type: ignore[arg-type]


@hypothesis.given(DECISIONS)
def test_every_decision_that_fits_reads_back(decision: decisions.Decision) -> None:
    """At most 1 KiB, canonical, and what is read is what was cut."""
    text = stamps.encode(decision)
    assert len(text) <= decisions.LONGEST_STAMP
    assert stamps.of(decision) == stamps.decode(text)
    assert text == stamps.encode(stamps.decode(text))


def test_only_the_reason_is_cut() -> None:
    """A long one fills what is left to the byte and ends in an ellipsis."""
    text = stamps.encode(a_decision(reason="why " * 1000, rank=3))
    assert 1020 <= len(text) <= 1024
    assert stamps.decode(text).reason.endswith("…")
    assert stamps.decode(text).rank == 3


def test_a_decision_that_cannot_be_short_is_refused() -> None:
    """Forty sizes are too many for one annotation; nothing is left out in silence."""
    sizes = tuple(
        decisions.Sizing(
            container=f"container-{n}",
            cpu_m=1000,
            memory_bytes=2**30,
            original_cpu_m=2000,
            original_memory_bytes=2**31,
        )
        for n in range(40)
    )
    with pytest.raises(errors.InputError, match="decide fewer sizes"):
        stamps.encode(a_decision(sizings=sizes))


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"verdict": "maybe"},
        {"extra": 1},
        {"rank": "1"},
        {"rank": 1.5},
        {"rank": True},
        {"issued": "now"},
        {"issued": 10**400},
        {"snapshotAge": float("nan")},
        {"sizes": {"main": [1, 2, 3]}},
        {"sizes": {"main": [1, 2, 3, 4.5]}},
        {"placement": {"bind": "hope"}},
        {"placement": {"bind": "prefer", "more": 1}},
        {"pod": 5},
    ],
)
def test_a_text_of_another_form_is_refused(change: dict[str, object]) -> None:
    """Unknown fields, kinds and versions are never guessed at."""
    found = {**json.loads(stamps.encode(a_decision())), **change}
    text = json.dumps(found, sort_keys=True, separators=(",", ":"))
    with pytest.raises(errors.InputError):
        stamps.decode(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "x" * 2000, "\ud800", '{"v":1}'])
def test_what_is_no_stamp_is_refused(text: str) -> None:
    """Never another error than the one that callers expect."""
    with pytest.raises(errors.InputError):
        stamps.decode(text)


def test_the_same_thing_written_in_another_way_is_refused() -> None:
    """One decision has one text, so that a signature can be checked by anybody."""
    text = stamps.encode(a_decision()).decode()
    for other in (" " + text, text.replace(":", ": "), text.replace("{", '{"id":"d-x",', 1)):
        with pytest.raises(errors.InputError):
            stamps.decode(other)


@hypothesis.given(DECISIONS)
def test_the_quick_text_is_that_of_rfc_8785(decision: decisions.Decision) -> None:
    """Byte for byte, whatever stands in a decision; numbers from far away too."""
    text = stamps.encode(decision)
    assert text == rfc8785.dumps(json.loads(text))
