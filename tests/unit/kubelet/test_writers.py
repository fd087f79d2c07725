"""Writing statuses: the newest wins, refusals by overload are repeated, what is gone is let go."""

import asyncio
from typing import Any, cast

import pytest

from lab import apis
from lab.kubelet import pods, writers
from tests.unit.kubelet.builders import FakeApi, a_pod, refused


class Slate:
    """A status that changes."""

    def __init__(self) -> None:
        self.phase = "Pending"
        self.reachable = asyncio.Event()
        self.reachable.set()
        self.api = FakeApi()
        self.writer = writers.Writer(
            cast(apis.Api, self.api),
            pods.read(a_pod()),
            render=lambda: {"phase": self.phase},
            reachable=self.reachable,
        )

    def say(self, phase: str) -> None:
        """Change the status and publish it."""
        self.phase = phase
        self.writer.publish()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(writers, "PAUSE_S", 0.0)


async def test_what_is_overtaken_is_never_written() -> None:
    """Three changes in one go: one write, of the last."""
    slate = Slate()
    slate.say("Pending")
    slate.say("Running")
    slate.phase = "Succeeded"
    await slate.writer.flush()
    assert ["Succeeded"] == slate.api.phases


async def test_an_absent_api_server_is_waited_for() -> None:
    """Overload, a broken connection, rights that are not read yet: the status stands at last."""
    slate = Slate()
    slate.api.refusals = [refused(504), refused(0), refused(429), refused(403, "cannot patch")]
    slate.phase = "Running"
    await slate.writer.flush()
    assert ["Running"] == slate.api.phases


@pytest.mark.parametrize(
    "refusal",
    [refused(404), refused(409, "Precondition failed: UID in precondition: a, in object: b")],
)
async def test_an_object_that_is_gone_is_let_go(refusal: apis.ApiError) -> None:
    """Deleted, or another pod of that name: nothing is written any more."""
    slate = Slate()
    slate.api.refusals = [refusal]
    await slate.writer.flush()
    assert slate.writer.gone
    await slate.writer.flush()
    assert [] == slate.api.written


async def test_a_status_that_is_invalid_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A fault of ours: trying again would not help."""
    slate = Slate()
    slate.api.refusals = [refused(422, "spec.x is invalid")]
    await slate.writer.flush()
    assert "spec.x is invalid" in caplog.text


async def test_a_lost_node_writes_when_it_is_back() -> None:
    """Until then the API server hears nothing."""
    slate = Slate()
    slate.reachable.clear()
    slate.say("Failed")
    await asyncio.sleep(0.01)
    assert [] == slate.api.written
    slate.reachable.set()
    await slate.writer.flush()
    assert "Failed" == slate.api.phases[-1]


async def test_a_deletion_is_confirmed_with_the_uid() -> None:
    """Grace 0, and only of this very pod."""
    api, pod = FakeApi(), pods.read(a_pod())
    api.refusals = [refused(503)]
    await writers.delete(cast(apis.Api, api), pod)
    expected: Any = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}}
    assert [("DELETE", pod.path, expected)] == api.written
