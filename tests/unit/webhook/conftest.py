"""One webhook with a good decider around it, over real TLS on loopback."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fakes import webhooks


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[webhooks.World]:
    """Run a webhook until the test is over."""
    async with webhooks.running(tmp_path) as found:
        yield found
