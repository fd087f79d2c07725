"""What is cached is what is there, whatever the watch did in between."""

import asyncio

import pytest

from lab import apis
from lab.processnode import caches, kubelets


def an_object(name):
    """Return an object of namespace `demo`."""
    return {"metadata": {"namespace": "demo", "name": name}}


class Server:
    """An API server whose watch says what a test wrote down; `there` is what a list shows."""

    def __init__(self, *script, there=()):
        self.script = list(script)
        self.there = there

    async def get(self, path, *, params=None):
        """List what is there."""
        return {"items": [an_object(name) for name in self.there]}

    async def watch(self, path, *, params=None):
        """Say one line after the other, then nothing more."""
        while self.script:
            kind, name = self.script.pop(0)
            if kind == "REFUSED":
                raise apis.ApiError(status=403, reason="Forbidden", message="", call=path)
            yield kind, an_object(name)
        await asyncio.Event().wait()


async def followed(server, *, on_change=lambda key, item: None):
    """Return a cache that has heard everything that the server says."""
    cache = caches.Cache(server, "/x", key=caches.full_name, on_change=on_change)
    task = asyncio.create_task(cache.run())
    async with asyncio.timeout(5):
        while server.script:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
    task.cancel()
    return cache


async def test_what_went_while_nobody_watched_is_dropped_at_the_next_list():
    """Its end is told, though no event ever says so."""
    told = []
    server = Server(
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("LISTED", ""),
        ("ADDED", "c"),
        ("ADDED", "b"),
        ("LISTED", ""),
        there=("b", "c"),
    )
    cache = await followed(server, on_change=lambda key, item: told.append((key, bool(item))))
    assert {"demo/b", "demo/c"} == set(cache.items)
    assert ("demo/a", False) == told[-1]


async def test_a_refusal_and_a_fault_of_a_listener_are_survived(monkeypatch):
    """It begins anew; one bad object does not end the watch for all."""
    monkeypatch.setattr(caches, "RETRY_S", 0.01)
    heard = []

    def listen(key, item):
        heard.append(key)
        if heard == ["demo/bad"]:
            raise ValueError(key)

    server = Server(
        ("REFUSED", ""), ("ADDED", "bad"), ("ADDED", "good"), ("LISTED", ""), there=("good",)
    )
    cache = await followed(server, on_change=listen)
    assert ["demo/bad", "demo/good"] == heard
    assert cache.ready.is_set()


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ((("commonName", "kube-apiserver-kubelet-client"),), True),
        ((("organizationName", "system:masters"), ("commonName", "x")), True),
        ((("commonName", "system:masters"),), False),
        ((("organizationName", "system:nodes"), ("commonName", "kubelet")), False),
        ((), False),
    ],
)
def test_only_the_api_server_may_ask_for_logs(subject, expected):
    """By the subject of the certificate that TLS has checked."""
    peer = {"subject": tuple((pair,) for pair in subject)}
    assert expected == kubelets.is_trusted(peer)
    assert not kubelets.is_trusted(None)
