"""Loaded by every Python of a container: `time.sleep` passes as fast as the lab runs."""

import os
import time

_sleep = time.sleep
_speed = float(os.environ.get("TIPHYS_LAB_SPEED") or 1)


def sleep(seconds: float, /) -> None:
    """Sleep `seconds` of the lab's time."""
    _sleep(float(seconds) / _speed)


time.sleep = sleep  # type: ignore[assignment]
