import os
import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import errors
from lab.controlplane import ports


@pytest.fixture
def taken() -> Iterator[int]:
    """Yield a port that this process listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_free_ports_differ_and_can_be_listened_on() -> None:
    """Five at once, as a lab asks for them."""
    found = ports.free(5)

    assert 5 == len(set(found))
    assert all(ports.is_free(port) for port in found)


def test_who_needs_no_port_gets_none() -> None:
    """Not every component listens."""
    assert [] == ports.free(0)


def test_no_port_is_one_that_the_kernel_gives_to_clients() -> None:
    """Else a client that waits for a server could be connected to itself."""
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    low, high = (int(word) for word in text.split())

    assert [] == [port for port in ports.free(50) if low <= port <= high]


def test_a_port_that_somebody_listens_on_is_not_free(taken: int) -> None:
    """Whoever it is."""
    assert not ports.is_free(taken)


def test_the_holder_of_a_port_is_named(taken: int) -> None:
    """With pid and command line, so that a person knows what to end."""
    holder = ports.holder(taken)

    assert holder is not None
    assert os.getpid() == holder.pid
    assert f"process {os.getpid()} (" in str(holder)


def test_nobody_holds_a_free_port() -> None:
    """None, not an empty name."""
    assert None is ports.holder(ports.free(1)[0])


def test_when_no_port_is_free_the_error_says_what_to_do(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search ends after a while instead of going on for ever."""
    monkeypatch.setattr(ports, "_candidates", lambda: range(taken, taken + 1))

    with pytest.raises(errors.SetupError, match="end some of the programs that listen"):
        ports.free(1, chance=random.Random(0))


def test_a_port_that_we_may_not_use_is_told_from_one_that_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody listens there, so there is nothing to end."""
    (port,) = ports.free(1)
    monkeypatch.setattr(ports, "is_free", lambda _: False)

    with pytest.raises(errors.SetupError, match=r"may not be used by you .*: choose another with"):
        ports.refuse_taken(port)
