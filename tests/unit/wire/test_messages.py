"""Bodies of the decision API read back as they were written; everything else is refused."""

import dataclasses
import json

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.unit.wire.test_stamps import DECISIONS, a_decision
from tiphys.models.domain import decisions, errors
from tiphys.models.wire import messages

REQUEST = messages.Request(
    admission_uid="u", namespace="n", pod={"metadata": {"name": "a"}}, issued_at=1.5, nonce="x"
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def test_a_request_reads_back() -> None:
    """With the pod as it was."""
    assert REQUEST == messages.decode_request(messages.encode_request(REQUEST))


def test_a_request_in_another_script_takes_no_more_room_than_its_pod() -> None:
    """Else a pod that the API server takes is too long for the decision API."""
    request = dataclasses.replace(REQUEST, pod={"metadata": {"name": "é基" * 1000}})
    body = messages.encode_request(request)
    assert 5_500 > len(body)
    assert request == messages.decode_request(body)
    with pytest.raises(errors.InputError, match="cannot be written"):
        messages.encode_request(dataclasses.replace(REQUEST, pod={"name": "\ud800"}))


@hypothesis.given(DECISIONS)
def test_a_whole_decision_reads_back(decision: decisions.Decision) -> None:
    """Every field, also those that the stamp leaves out."""
    text = json.dumps(messages.encode_decision(decision))
    assert decision == messages.decode_decision(json.loads(text))


def test_a_response_reads_back_with_candidates_and_masks() -> None:
    """What `explain` shows comes over the wire."""
    decision = a_decision(
        candidates=(decisions.Candidate(group="fast", score=1.5, why="idle"),),
        masked=(decisions.Masked(group="gpu", why="taint"),),
        sizings=(
            decisions.Sizing(
                container="main",
                cpu_m=1,
                memory_bytes=2,
                original_cpu_m=3,
                original_memory_bytes=4,
            ),
        ),
        default="the first that fits",
    )
    response = messages.Response(
        admission_uid="u", nonce="n", decision=decision, stamp="{}", stamp_signature="a..b"
    )
    assert response == messages.decode_response(messages.encode_response(response))


@pytest.mark.parametrize("field", ["admissionUid", "namespace", "pod", "nonce", "kind"])
def test_a_request_without_a_field_is_refused(field: str) -> None:
    """The error names it."""
    found = json.loads(messages.encode_request(REQUEST))
    del found[field]
    with pytest.raises(errors.InputError, match=field):
        messages.decode_request(json.dumps(found).encode())


@hypothesis.given(JSON)
def test_any_json_is_read_or_refused(value: object) -> None:
    """Never another error than the one that callers expect."""
    body = json.dumps(value).encode()
    for decode in (messages.decode_request, messages.decode_response):
        with pytest.raises(errors.InputError):
            decode(body)
    if isinstance(value, dict):
        with pytest.raises(errors.InputError):
            messages.decode_decision(value)
