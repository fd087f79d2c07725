"""Key rings: what is read, what is refused, who signs when."""

import dataclasses
import json

import pytest

from tiphys.models.domain import errors
from tiphys.models.wire import keys

NOON = 1796040000.0


def a_key(from_s: float = -600.0, *, life_s: float = 3600.0) -> keys.Key:
    """Return a new key that holds from `from_s` seconds after noon on."""
    return keys.generate(not_before=NOON + from_s, not_after=NOON + from_s + life_s)


def test_a_ring_reads_back_as_it_was_written() -> None:
    """Text and value are the same thing, sorted by time, whatever order they came in."""
    ring = keys.Ring(keys=(a_key(-600), a_key(0)))
    assert ring == keys.read(keys.write(ring))
    backwards = {"keys": json.loads(keys.write(ring))["keys"][::-1]}
    assert ring == keys.read(json.dumps(backwards))


def test_a_public_ring_holds_no_private_half() -> None:
    """What goes into the ConfigMap cannot sign, and shows no secret in a log."""
    ring = keys.Ring(keys=(a_key(),))
    assert "private" not in keys.write(ring.public())
    assert "private" not in repr(ring)
    with pytest.raises(errors.UnavailableError, match="no private key"):
        ring.public().signing(NOON)


def test_the_newest_key_that_holds_signs() -> None:
    """The next key lies in the ring before its time and is not used before."""
    old, new = a_key(-600), a_key(60)
    ring = keys.Ring(keys=(old, new))
    assert old.kid == ring.signing(NOON).kid
    assert new.kid == ring.signing(NOON + 61).kid


def test_rings_join_and_forget() -> None:
    """Joining keeps private halves; a key goes once nobody honours it."""
    old, new = a_key(-7200), a_key()
    ring = keys.Ring(keys=(old,)).joined(keys.Ring(keys=(new,)).public())
    ring = ring.joined(keys.Ring(keys=(new,)))
    assert (old, new) == ring.keys
    assert (new,) == ring.without_expired(NOON).keys
    assert ring.honours(NOON)
    assert not keys.Ring(keys=(old,)).honours(NOON)


def test_no_key_lives_longer_than_a_day() -> None:
    """A ring with such a key is refused whole."""
    with pytest.raises(errors.InputError, match="86400 s"):
        a_key(life_s=24 * 3600 + 1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kid": "other"}, "kid: expected"),
        ({"public": "AAAA"}, "expected 32 bytes, got 3"),
        ({"public": "*"}, "no base64url"),
        ({"notAfter": "tomorrow"}, "expected a time"),
        ({"notAfter": "2027-01-01T00:00:00Z"}, "86400 s at most"),
        ({"more": "x"}, "expected the fields"),
        ({"kid": 5}, "every field is text"),
    ],
)
def test_a_bad_key_is_named(change: dict[str, object], said: str) -> None:
    """The error says where it stands and what was expected."""
    entry = json.loads(keys.write(keys.Ring(keys=(a_key(),))))["keys"][0]
    with pytest.raises(errors.InputError, match=said) as caught:
        keys.read(json.dumps({"keys": [{**entry, **change}]}))
    assert str(caught.value).startswith("ring.keys[0]")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"keys": 1}', '{"keys": [], "x": 1}', "[" * 9999])
def test_what_is_no_ring_is_refused(text: str) -> None:
    """Never another error than the one that callers expect."""
    with pytest.raises(errors.InputError):
        keys.read(text)


def test_halves_have_to_belong_together() -> None:
    """A private half of another key would sign what nobody can check."""
    key = dataclasses.replace(a_key(), private=a_key().private)
    with pytest.raises(errors.InputError, match="another key"):
        keys.read(keys.write(keys.Ring(keys=(key,))))
