"""The pinned over-requests are what the data say; takes some seconds, needs the data pack."""

import pytest

from lab.workloads import packs, ratios
from lab.workloads.readers import cws

PACK = packs.find()
pytestmark = [
    pytest.mark.bench,
    pytest.mark.skipif(PACK.sample, reason="needs the data pack"),
]


def test_a_new_fit_gives_the_pinned_file() -> None:
    """537,350 task rows make the same bytes again."""
    fitted = ratios.fit(cws.usages(PACK))
    assert ratios.FILE.read_bytes() == ratios.encoded(fitted)
