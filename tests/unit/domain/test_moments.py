"""Times of day."""

import pytest

from tiphys.models.domain import moments

NOON = 1_796_040_000.0


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        (0.0, "12:00:00 UTC"),
        (70.4, "12:01:10 UTC"),
        (-70.0, "11:58:50 UTC"),
        (11 * 3_600.0, "23:00:00 UTC"),
        (13 * 3_600.0, "2026-12-01 01:00 UTC"),
    ],
)
def test_what_is_far_away_is_said_with_its_day(ahead_s: float, said: str) -> None:
    """What is near is said to the second."""
    assert said == moments.words(NOON + ahead_s, NOON)
