"""Admission reviews with something wrong in them: in the JSON's structure, its bytes, or both."""

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from tests.fakes import pods

JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    1e308,
    "",
    "x" * 300,
    "\x00",
    "\u2028é",
    [],
    {},
    [None],
    {"": None},
    {"name": 1},
    [{"name": "tiphys.dev/steer"}],
    "a..b",
    "{}",
)
OURS = (
    "tiphys.dev/decision",
    "tiphys.dev/signature",
    "tiphys.dev/release",
    "tiphys.dev/release-signature",
)


def bodies(seed: int, *, decided: dict[str, Any]) -> Iterator[bytes]:
    """Yield bodies for ever, the same for a seed; `decided` is a pod with a good decision."""
    chance = random.Random(seed)
    bases = [pods.a_review(), pods.a_review(decided)]
    while True:
        review = copy.deepcopy(chance.choice(bases))
        for _ in range(chance.choice((0, 1, 1, 2, 5))):
            _broken(review, chance)
        body = json.dumps(review).encode(errors="surrogatepass")
        yield _bitten(body, chance) if chance.random() < 0.3 else body


def _broken(review: dict[str, Any], chance: random.Random) -> None:
    """Change one place of the structure, chosen with more weight on what we read."""
    places = list(_places(review))
    if not places:
        return
    owner, key = chance.choice(places)
    kind = chance.randrange(6)
    if kind == 0:
        del owner[key]
    elif kind == 1:
        # Never many of something large, and never the same object twice: a change inside of one
        # would be one of all fifty, and five such changes make megabytes or gigabytes of a body.
        many = 50 if len(json.dumps(owner[key])) < 100 else 2
        owner[key] = [copy.deepcopy(owner[key]) for _ in range(chance.choice((1, many)))]
    elif kind == 2 and isinstance(owner, dict):
        owner[chance.choice((*OURS, "name", "uid", "spec", "metadata"))] = copy.deepcopy(
            chance.choice(JUNK)
        )
    elif kind == 3:
        owner[key] = json.loads("[" * 40 + "]" * 40)
    else:
        owner[key] = copy.deepcopy(chance.choice(JUNK))


def _places(found: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (owner, key or index) of a structure."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in list(items):
        yield found, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _bitten(body: bytes, chance: random.Random) -> bytes:
    """Cut, flip or insert bytes."""
    place = chance.randrange(len(body))
    kind = chance.randrange(4)
    if kind == 0:
        return body[:place]
    if kind == 1:
        return body[:place] + bytes([chance.randrange(256)]) + body[place + 1 :]
    if kind == 2:
        return body[:place] + chance.randbytes(chance.choice((1, 4, 100))) + body[place:]
    return body + body[:place]
