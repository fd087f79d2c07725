"""Which keys a ring shall hold: one in use, the next one published before it is used."""

from tiphys.models.wire import keys
from tiphys.operator import settings

BACKDATED_S = 30.0
"""A verifier whose clock is behind must honour the very first key."""


def renewed(ring: keys.Ring, at: float, chosen: settings.Keys) -> keys.Ring:
    """Return the ring for `at` (unix seconds); the same ring when nothing is due.

    A key is used for `rotate_s`; its successor stands in the ring `ahead_s` before and holds from
    the moment at which it takes over. What is honoured no more goes.
    """
    kept = ring.without_expired(at)
    own = [key for key in kept.keys if key.private is not None]
    if not any(key.holds(at) for key in own):
        start = at - BACKDATED_S
        return kept.joined(
            keys.Ring(keys=(keys.generate(not_before=start, not_after=start + chosen.life_s),))
        )
    newest = own[-1]
    takes_over_at = newest.not_before + chosen.rotate_s
    if at < takes_over_at - chosen.ahead_s:
        return kept
    # Late (nobody led for a while): the successor is published just as long before its use.
    start = max(takes_over_at, at + min(chosen.ahead_s, newest.not_after - at) / 2)
    return kept.joined(
        keys.Ring(keys=(keys.generate(not_before=start, not_after=start + chosen.life_s),))
    )
