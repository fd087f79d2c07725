"""Points in time as people read them, in UTC."""

import datetime

NEAR_S = 12 * 3_600.0
"""Within so long the time of day alone says which day is meant."""


def words(at: float, now: float) -> str:
    """Return a unix second for people: `15:44:10 UTC`, or with its day where that is far away.

    A time of day stays true while it is read; `in 11 s` is wrong a second later.
    """
    form = "%H:%M:%S UTC" if abs(at - now) < NEAR_S else "%Y-%m-%d %H:%M UTC"
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime(form)
