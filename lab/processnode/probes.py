"""Startup, liveness and readiness of one running container, by the thresholds of its probes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from lab import apis
from lab.processnode import actions


class Kind(StrEnum):
    """Which question a probe asks."""

    STARTUP = "startup"
    LIVENESS = "liveness"
    READINESS = "readiness"


class Verdict(StrEnum):
    """What the thresholds say after a look."""

    OPEN = "open"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Looks in a row with the same outcome."""

    ok: bool = True
    length: int = 0

    def then(self, ok: bool) -> "Count":
        """Return the count after one more look."""
        return Count(ok=ok, length=self.length + 1 if ok == self.ok else 1)

    def verdict(self, probe: apis.Object) -> Verdict:
        """Return what the count means to a probe."""
        enough = probe.get("successThreshold", 1) if self.ok else probe.get("failureThreshold", 3)
        if self.length < enough:
            return Verdict.OPEN
        return Verdict.GOOD if self.ok else Verdict.BAD


Look = Callable[[], Awaitable[actions.Outcome]]
Report = Callable[[Kind, str], None]
"""Told of each failed look: which probe, and what it saw."""


async def until_decided(kind: Kind, probe: apis.Object, look: Look, *, report: Report) -> bool:
    """Look until startup is decided either way, or liveness has failed; returns good or not."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    count = Count()
    while True:
        outcome = await look()
        if not outcome.ok:
            report(kind, outcome.message)
        count = count.then(outcome.ok)
        verdict = count.verdict(probe)
        if verdict is Verdict.BAD or (verdict is Verdict.GOOD and kind is Kind.STARTUP):
            return verdict is Verdict.GOOD
        await asyncio.sleep(probe.get("periodSeconds", 10))


async def for_ever(
    probe: apis.Object, look: Look, *, tell: Callable[[bool], None], report: Report
) -> None:
    """Look at readiness again and again, and tell each verdict."""
    await asyncio.sleep(probe.get("initialDelaySeconds", 0))
    count = Count()
    while True:
        outcome = await look()
        if not outcome.ok:
            report(Kind.READINESS, outcome.message)
        count = count.then(outcome.ok)
        verdict = count.verdict(probe)
        if verdict is not Verdict.OPEN:
            tell(verdict is Verdict.GOOD)
        await asyncio.sleep(probe.get("periodSeconds", 10))
