"""When a CronWorkflow runs next, as Argo's library reads its schedules (robfig/cron v3).

Five fields, names of months and days, steps, lists, `@daily` and its like, `@every 1h`, time zones.
Where no zone is written Argo takes that of its controller, which is UTC in its images.
"""

import calendar
import dataclasses
import datetime
import functools
import re
import zoneinfo
from collections.abc import Mapping

from tiphys.argo import documents, moments
from tiphys.models.domain import durations, errors

FURTHEST_YEARS = 5
"""A schedule that matches no time for this long (30 February) has no next run."""
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = {name.lower(): place for place, name in enumerate(calendar.month_abbr) if name}
_DAYS = {
    name: place for place, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}
_FIELDS: tuple[tuple[str, int, int, Mapping[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_LONGEST = 400
_ZONE = re.compile(r"(?:CRON_)?TZ=(\S+)\s+(.*)")
_RANGE = re.compile(r"(?P<low>\*|\?|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>[0-9]{1,4}))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One schedule, read."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    any_day: bool = True
    """A star in one of both day fields: then both must match, else one is enough."""
    every_s: float | None = None
    """`@every`: seconds from one run to the next; then the rest means nothing."""
    zone: datetime.tzinfo = datetime.UTC


def read(written: str, *, zone: str = "") -> Schedule:
    """Return a schedule.  Raises `InputError`."""
    if len(written) > _LONGEST:
        raise errors.InputError(f"schedule {written!r:.80}: longer than {_LONGEST} characters")
    text = written.strip()
    if found := _ZONE.fullmatch(text):
        zone, text = found[1], found[2].strip()
    place = _zone(zone)
    if text.startswith("@every "):
        every_s = durations.read(text[7:], where=f"schedule {written!r:.80}")
        return Schedule(every_s=max(float(int(every_s)), 1.0), zone=place)
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise errors.InputError(
            f"schedule {written!r:.80}: expected minute, hour, day of month, month and day of week"
        )
    values: list[frozenset[int]] = []
    stars: list[bool] = []
    for field, (what, least, most, names) in zip(fields, _FIELDS, strict=True):
        found_values: set[int] = set()
        star = False
        for part in field.split(","):
            among, has_star = _range(part, what, least, most, names)
            found_values.update(among)
            star = star or has_star
        values.append(frozenset(found_values))
        stars.append(star)
    return Schedule(
        minutes=values[0],
        hours=values[1],
        days=values[2],
        months=values[3],
        weekdays=values[4],
        any_day=stars[2] or stars[4],
        zone=place,
    )


def following(schedule: Schedule, after: float, *, last: float | None = None) -> float | None:
    """Return the first run after `after` (unix seconds); None if there is none in five years.

    `@every` counts from `last`, the run before; without one from `after`.
    """
    if schedule.every_s is not None:
        begin = after if last is None or last > after else last
        return begin + schedule.every_s * ((after - begin) // schedule.every_s + 1)
    now = datetime.datetime.fromtimestamp(after, schedule.zone)
    day = now.date()
    for _ in range(366 * FURTHEST_YEARS):
        if _on(schedule, day):
            for hour in sorted(schedule.hours):
                at = _in_hour(schedule, day, hour, after)
                if at is not None:
                    return at
        day += datetime.timedelta(days=1)
    return None


def next_run(cron_workflow: Mapping[str, object], after: float) -> float | None:
    """Return when a CronWorkflow runs next after `after`; None if it does not.  Raises InputError.

    A stopped or suspended one does not; whether a `when` lets it run is not known here.
    """
    obj = documents.root(cron_workflow, "CronWorkflow")
    spec = documents.mapping(obj, "spec")
    status = documents.mapping(obj, "status")
    stopped = documents.text(status, "phase", "status") == "Stopped"
    if stopped or documents.switch(spec, "suspend", "spec"):
        return None
    zone = documents.text(spec, "timezone", "spec")
    last = moments.read(status, "lastScheduledTime", "status")
    written = documents.items(spec, "schedules", "spec")
    if older := documents.text(spec, "schedule", "spec"):  # before Argo v4
        written = [*written, older]
    runs = [following(_kept(str(each), zone), after, last=last) for each in written]
    return min((at for at in runs if at is not None), default=None)


@functools.lru_cache(maxsize=1024)
def _kept(written: str, zone: str) -> Schedule:
    return read(written, zone=zone)


def _zone(name: str) -> datetime.tzinfo:
    if name in ("", "UTC", "Local"):
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise errors.InputError(f"timezone {name!r:.60}: there is no such time zone here") from None


def _range(
    part: str, what: str, least: int, most: int, names: Mapping[str, int]
) -> tuple[range, bool]:
    """Return the values of one part of a field, and whether it is a star."""
    match = _RANGE.fullmatch(part)
    if match is None:
        raise errors.InputError(f"{what} {part!r:.40}: expected such as *, 5, 1-5, */10 or 5/10")
    step = 1 if match["step"] is None else int(match["step"])
    star = match["low"] in ("*", "?")
    low = least if star else _number(match["low"], what, names)
    high = most if star else low
    if match["high"] is not None and not star:
        high = _number(match["high"], what, names)
    elif match["step"] is not None:
        high = most
    if not least <= low <= high <= most or step < 1:
        raise errors.InputError(f"{what} {part!r:.40}: expected numbers from {least} to {most}")
    return range(low, high + 1, step), star and step == 1


def _number(text: str, what: str, names: Mapping[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if text.isascii() and text.isdigit() and len(text) < 5:
        return int(text)
    raise errors.InputError(f"{what} {text!r:.40}: expected a number or a name")


def _on(schedule: Schedule, day: datetime.date) -> bool:
    if day.month not in schedule.months:
        return False
    by_date = day.day in schedule.days
    by_weekday = day.isoweekday() % 7 in schedule.weekdays
    return (by_date and by_weekday) if schedule.any_day else (by_date or by_weekday)


def _in_hour(schedule: Schedule, day: datetime.date, hour: int, after: float) -> float | None:
    """Return the first run of an hour after `after`; with winter time an hour may come twice."""
    for fold in (0, 1):
        for minute in sorted(schedule.minutes):
            there = datetime.datetime.combine(
                day, datetime.time(hour, minute, fold=fold), schedule.zone
            )
            at = there.timestamp()
            back = datetime.datetime.fromtimestamp(at, schedule.zone)
            # With summer time an hour is left out, and then does not come back as it was.
            if at > after and (back.hour, back.minute) == (hour, minute):
                return at
    return None
