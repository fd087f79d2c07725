"""docs/wire.md: every example on it is read, signed or made by the code that it describes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import patching, pods
from tiphys.argo import patches
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, messages, signatures, stamps

PAGE = (Path(__file__).parents[3] / "docs" / "wire.md").read_text()
EXAMPLES = dict(re.findall(r"```json (\w+)\n(.*?)\n```", PAGE, re.DOTALL))


def gated() -> dict[str, Any]:
    """Return the example's pod with the decision of the example's response."""
    response = messages.decode_response(EXAMPLES["response"].encode())
    pod = pods.a_pod(metadata__uid=json.loads(EXAMPLES["stamp"])["podUid"])
    patch = patches.create(pod, response.decision, stamp="STAMP", signature="SIGNATURE")
    assert json.loads(EXAMPLES["patch"]) == patch
    return patching.applied(pod, patch)


def test_the_ring_is_a_ring_that_signs() -> None:
    """With the name that its public half gives."""
    ring = keys.read(EXAMPLES["ring"])
    at = ring.keys[0].not_before + 1
    text = EXAMPLES["stamp"].encode()
    assert ring.keys[0] == signatures.verify(ring, text, signatures.sign(ring, text, at), at)


def test_the_request_is_read() -> None:
    """And written again it is the same."""
    request = messages.decode_request(EXAMPLES["request"].encode())
    assert json.loads(EXAMPLES["request"]) == json.loads(messages.encode_request(request))


def test_the_response_shows_every_field_and_its_own_stamp() -> None:
    """The stamp in it is the one that the decision gives."""
    response = messages.decode_response(EXAMPLES["response"].encode())
    assert json.loads(EXAMPLES["response"]) == json.loads(messages.encode_response(response))
    assert stamps.encode(response.decision).decode() == response.stamp


def test_the_stamp_is_canonical_and_makes_the_release() -> None:
    """From the pod as the first patch left it."""
    stamp = stamps.decode(EXAMPLES["stamp"])
    patch = patches.release(gated(), stamp, stamp="STAMP", signature="SIGNATURE")
    assert json.loads(EXAMPLES["release"]) == patch


@pytest.mark.parametrize("name", [*decisions.WRITTEN, decisions.GATED_LABEL, signatures.HEADER])
def test_every_name_is_on_the_page(name: str) -> None:
    """As it is written on a pod or in a header."""
    assert name in PAGE or name.replace("/", "~1") in PAGE
