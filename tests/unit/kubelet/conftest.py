"""Which tests of the kubelet run in virtual time: those that open no sockets."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from tests.unit.kubelet import virtual_times

VIRTUAL = frozenset(
    {
        "test_computations.py",
        "test_events.py",
        "test_kubelets.py",
        "test_lifecycles.py",
        "test_resizes.py",
        "test_writers.py",
    }
)


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Choose the event loop of a test."""
    if item.path.name in VIRTUAL:
        return {"virtual": virtual_times.Loop}
    return {"real": asyncio.new_event_loop}
