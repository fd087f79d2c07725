"""What pods do in tests: they sleep, go on for ever, or fail."""

import asyncio

from lab import truths
from lab.kubelet.behaviours import contracts


class Sleeper:
    """A behaviour that sleeps, and ends as it is told to."""

    def __init__(self, host: contracts.Host, truth: truths.Truth | None) -> None:
        self.host, self.truth = host, truth
        self.reported: list[contracts.Outcome] = []

    async def prepare(self) -> contracts.ContainerEnd:
        """Need nothing."""
        return contracts.ContainerEnd()

    async def run(self) -> contracts.Outcome:
        """Compute the truth, or sleep ten seconds."""
        if self.truth is not None:
            return await self.host.compute(self.truth)
        await self.host.sleep(10.0)
        return contracts.Outcome(phase="Succeeded")

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Take note."""
        self.reported.append(outcome)
        return outcome


class Steady(Sleeper):
    """Runs until it is stopped."""

    async def run(self) -> contracts.Outcome:
        """Wait for ever."""
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


class Failing(Sleeper):
    """Ends with exit code 3 after a second."""

    async def run(self) -> contracts.Outcome:
        """Fail."""
        await self.host.sleep(1.0)
        end = contracts.ContainerEnd(exit_code=3, reason="Error")
        return contracts.Outcome(phase="Failed", containers={"main": end})
