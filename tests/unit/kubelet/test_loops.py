"""The kubelet's event loop."""

import asyncio
import time

import pytest

from lab.kubelet import loops


@pytest.mark.parametrize("delay_s", [0.0002, 0.0014, 0.0106])
def test_a_timer_never_comes_early(delay_s: float) -> None:
    """Not by a part of a millisecond either; what is due then would have to be asked for again."""

    async def slept_s() -> float:
        began = time.monotonic()
        await asyncio.sleep(delay_s)
        return time.monotonic() - began

    with asyncio.Runner(loop_factory=loops.Loop) as runner:
        assert delay_s <= min(runner.run(slept_s()) for _ in range(20))
