"""Callers without certificates: the secret part of the path decides; nothing tells what it is."""

import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.fakes import deciders, pods, webhooks
from tiphys.models.domain import errors
from tiphys.models.wire import keys, paths
from tiphys.webhook import admissions, settings

NONE = settings.Clients(certificates=settings.Certificates.NONE)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[webhooks.World]:
    """Run a webhook that asks for no certificate."""
    async with webhooks.running(tmp_path, clients=NONE) as found:
        yield found


def segment(world: webhooks.World) -> str:
    """Return the secret part as the leader would write it now."""
    return paths.current(world.process.keeper.current.ring, time.time())


def a_stranger(world: webhooks.World) -> aiohttp.ClientSession:
    """Return a session of somebody without a certificate."""
    connector = aiohttp.TCPConnector(ssl=world.context(None))
    return aiohttp.ClientSession(base_url=world.url, connector=connector)


async def posted(world: webhooks.World, path: str) -> tuple[int, str]:
    """Make a call without a certificate; return the status and what was said."""
    async with a_stranger(world) as session, session.post(path, data=pods.a_body()) as response:
        return response.status, await response.text()


async def test_who_knows_the_path_is_answered(world: webhooks.World) -> None:
    """Both calls, as with a certificate."""
    async with a_stranger(world) as session:
        path = f"{paths.MUTATE}/{segment(world)}"
        answer = await webhooks.called(session, path, pods.a_body())
        assert "gated" == answer["auditAnnotations"]["outcome"]
        decided = webhooks.patched(pods.a_pod(), answer)
        path = f"{paths.VALIDATE}/{segment(world)}"
        answer = await webhooks.called(session, path, pods.a_body(decided))
        assert "held" == answer["auditAnnotations"]["outcome"]
    assert 0 == world.metric("tiphys_webhook_client_certificates_required")


async def test_who_does_not_is_told_nothing(world: webhooks.World) -> None:
    """The same words for the right path with a wrong secret and for a page that never was."""
    secret = segment(world)
    near = secret[:-1] + ("0" if secret[-1] != "0" else "1")
    wrong = ("/mutate", "/mutate/", f"/mutate/{near}", f"/validate/{'0' * 48}", "/mutate/%C3%A9")
    strange = (f"/{secret}", f"/mutate/{secret}/", f"/x/{secret}", f"/mutate/x/{secret}", "/")
    said = {await posted(world, path) for path in (*wrong, *strange)}
    assert {(404, "POST /mutate or /validate")} == said
    assert 4 == world.metric("tiphys_webhook_refused_calls_total", why="secret")
    assert 6 == world.metric("tiphys_webhook_refused_calls_total", why="path")
    assert [] == world.decider.asked


async def test_a_certificate_opens_nothing(world: webhooks.World) -> None:
    """None is asked for, so none counts."""
    async with world.session() as session, session.post("/mutate", data=pods.a_body()) as response:
        assert 404 == response.status


async def test_the_path_follows_the_keys(world: webhooks.World) -> None:
    """Old and new are answered while both keys are in the ring, the old one not after it."""
    before = segment(world)
    ring = world.process.keeper.current.ring
    added = deciders.a_ring()
    for wanted, expected in ((ring.joined(added), 200), (added, 404)):
        world.write(ring__json=keys.write(wanted).encode())
        await webhooks.until(lambda wanted=wanted: world.process.keeper.current.ring == wanted)  # type: ignore[misc]
        assert expected == (await posted(world, f"/mutate/{before}"))[0]
        now = paths.current(added, time.time())
        assert 200 == (await posted(world, f"/mutate/{now}"))[0]


async def test_no_log_names_the_path(
    world: webhooks.World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not even where a call fails by a fault of ours."""

    def broken(*_: object) -> bytes:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(admissions, "validate", broken)
    secret = segment(world)
    assert 500 == (await posted(world, f"/validate/{secret}"))[0]
    assert "call failed" in caplog.text
    assert secret[:8] not in caplog.text
    assert all(secret[:8] not in str(vars(record)) for record in caplog.records)


async def test_it_warns_when_it_starts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And says nothing where certificates are shown."""
    async with webhooks.running(tmp_path):
        assert "callers show no certificate" not in caplog.text
    async with webhooks.running(tmp_path, clients=NONE):
        assert "callers show no certificate" in caplog.text


def test_the_setting_is_one_of_two_words() -> None:
    """Anything else is no mode, least of all the weaker one."""
    found = settings.parse("clients: {certificates: none}", where="here")
    assert not found.clients.certified
    assert settings.Settings().clients.certified
    for wrong in ("no", '"false"', "None", '""', "[none]"):
        with pytest.raises(errors.InputError, match="expected required or none"):
            settings.parse(f"clients: {{certificates: {wrong}}}", where="here")
