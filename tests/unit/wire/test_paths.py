"""The secret part of the webhook's paths: made from a key, used and honoured as long as it is."""

import dataclasses
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from tiphys.models.domain import errors
from tiphys.models.wire import keys, paths

NOON = 1796040000.0
HOUR_S = 3600.0


def a_key(from_s: float = -600.0, *, life_s: float = 24 * HOUR_S) -> keys.Key:
    """Return a new key that holds from `from_s` seconds after noon on."""
    return keys.generate(not_before=NOON + from_s, not_after=NOON + from_s + life_s)


def test_leader_and_webhook_make_the_same_segment_of_a_key() -> None:
    """Whatever version they are of: a rolling upgrade changes no path."""
    private = bytes(range(32))
    public = ed25519.Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    key = dataclasses.replace(a_key(), kid=keys.name(public), public=public, private=private)
    segment = paths.current(keys.Ring(keys=(key,)), NOON)
    assert "f93411a86a2bd0456976a55ae0c6db43e05e059f4fd88677" == segment


def test_a_segment_is_a_step_of_a_path_that_a_configuration_may_hold() -> None:
    """Small hexadecimal letters, 192 bits of them, and another for each key."""
    made = {paths.current(keys.Ring(keys=(a_key(),)), NOON) for _ in range(20)}
    assert 20 == len(made)
    for segment in made:
        assert 48 == len(segment)
        assert set(segment) <= set("0123456789abcdef")


def test_it_changes_with_the_key_and_both_are_honoured_while_both_hold() -> None:
    """The next one is not honoured before its key is, nor the last one after its end."""
    old, new = a_key(-600.0), a_key(12 * HOUR_S)
    ring = keys.Ring(keys=(old, new))
    first, second = paths.current(ring, NOON), paths.current(ring, NOON + 13 * HOUR_S)
    assert first != second
    assert paths.honours(ring, first, NOON)
    assert not paths.honours(ring, second, NOON)
    assert paths.honours(ring, first, NOON + 13 * HOUR_S)
    assert paths.honours(ring, second, NOON + 13 * HOUR_S)
    assert not paths.honours(ring, first, NOON + 25 * HOUR_S)


@pytest.mark.parametrize("segment", ["", "0", "é", "\udc80", "0" * 48, "x" * 100_000])
def test_everything_else_is_refused(segment: str) -> None:
    """Whatever bytes a path may bring along."""
    ring = keys.Ring(keys=(a_key(),))
    assert not paths.honours(ring, segment, NOON)
    assert not paths.honours(ring, paths.current(ring, NOON).upper() + segment, NOON)
    assert not paths.honours(ring, paths.current(ring, NOON)[:-1], NOON)


def test_the_public_half_makes_no_segment() -> None:
    """Everybody may read the public ring."""
    ring = keys.Ring(keys=(a_key(),))
    assert not paths.honours(ring.public(), paths.current(ring, NOON), NOON)
    with pytest.raises(errors.UnavailableError, match="no private key"):
        paths.current(ring.public(), NOON)


def test_every_key_is_compared_whole_whatever_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that time tells nothing: neither which key it was nor how much of it was right."""
    ring = keys.Ring(keys=(a_key(-600.0), a_key(-300.0), a_key(-100.0)))
    compared: list[int] = []
    compare = hmac.compare_digest

    def counted(one: bytes, other: bytes) -> bool:
        compared.append(len(one))
        return compare(one, other)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    first = paths.current(keys.Ring(keys=ring.keys[:1]), NOON)
    assert paths.honours(ring, first, NOON)
    assert not paths.honours(ring, "0" * 48, NOON)
    assert [48] * 6 == compared
