"""The listener over real TLS: strangers stay out, renewal drops nothing, slow and large are cut."""

import asyncio
import contextlib
import io
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest

from tests.fakes import authorities, pods, webhooks
from tiphys.models.domain import errors
from tiphys.webhook import healths, processes, servers, settings


async def posted(session: aiohttp.ClientSession, body: bytes, path: str = "/mutate") -> int:
    """Make a call; return the status."""
    async with session.post(path, data=io.BytesIO(body)) as response:
        await response.read()
        return response.status


STRANGERS: dict[str, Callable[[webhooks.World], authorities.Leaf]] = {
    "another authority": lambda _: authorities.Authority().leaf(webhooks.SUBJECT),
    "the operator's authority": lambda world: world.authority.leaf(webhooks.SUBJECT),
    "expired": lambda world: world.leaf(life_s=-60.0),
}


@pytest.mark.parametrize("make", STRANGERS.values(), ids=STRANGERS)
async def test_a_stranger_does_not_get_through_the_handshake(
    world: webhooks.World, make: Callable[[webhooks.World], authorities.Leaf]
) -> None:
    """The API server would count it and let the pod in."""
    async with world.session(make(world)) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await posted(session, pods.a_body())
    assert [] == world.decider.asked


async def test_nobody_without_a_certificate_gets_through(world: webhooks.World) -> None:
    """TLS refuses, before any HTTP."""
    connector = aiohttp.TCPConnector(ssl=world.context(None))
    async with aiohttp.ClientSession(base_url=world.url, connector=connector) as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await posted(session, pods.a_body())


@pytest.mark.parametrize(
    "subject", ["CN=kube-apiserver", "O=system:apiserver,CN=other", "O=other,CN=kube-apiserver"]
)
async def test_a_certificate_with_another_subject_may_not_call(
    world: webhooks.World, subject: str
) -> None:
    """The authority may sign others too: the whole subject counts."""
    async with world.session(world.leaf(subject=subject)) as session:
        assert 403 == await posted(session, pods.a_body())
    assert 1 == world.metric("tiphys_webhook_refused_calls_total", why="subject")


async def test_the_client_sees_a_certificate_of_ours(world: webhooks.World) -> None:
    """Against another authority it hangs up."""
    context = world.context(world.leaf())
    other = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    other.load_verify_locations(cadata=authorities.Authority().pem.decode())
    for trusted, expected in ((context, 200), (other, None)):
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(base_url=world.url, connector=connector) as session:
            if expected:
                assert expected == await posted(session, pods.a_body())
            else:
                with pytest.raises(aiohttp.ClientConnectorCertificateError):
                    await posted(session, pods.a_body())


async def test_connections_are_kept(world: webhooks.World) -> None:
    """One handshake serves many calls."""
    async with world.session(limit=1) as session:
        for _ in range(5):
            assert 200 == await posted(session, pods.a_body())
        assert 1 == world.process.listener.connections


async def test_certificates_rotate_under_load_without_a_dropped_call(
    world: webhooks.World,
) -> None:
    """Ten leaves and an authority of clients change while eight callers go on."""
    statuses: list[int] = []
    done = asyncio.Event()
    next_clients = authorities.Authority("next clients")
    both = world.clients.pem + next_clients.pem

    async def keep_calling(session: aiohttp.ClientSession) -> None:
        while not done.is_set():
            statuses.append(await posted(session, pods.a_body(None, operation="DELETE")))

    async with world.session() as session, asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(keep_calling(session))
        for number in range(10):
            before = world.metric("tiphys_webhook_reloads_total")
            answered = len(statuses)
            world.write_webhook(world.own_leaf())
            if number == 5:
                world.write(clients__crt=both)
            await webhooks.until(
                lambda before=before: world.metric("tiphys_webhook_reloads_total") > before  # type: ignore[misc]
            )
            await webhooks.until(
                lambda answered=answered: len(statuses) > answered + 20, within_s=60
            )  # type: ignore[misc]
        done.set()
    assert {200} == set(statuses)
    assert 0 == world.metric("tiphys_webhook_refused_materials_total", part="ring")


async def test_an_authority_that_was_withdrawn_is_gone_after_one_more_call(
    world: webhooks.World,
) -> None:
    """A kept connection is answered once more, with `Connection: close`."""
    async with world.session(limit=1) as session:
        assert 200 == await posted(session, pods.a_body())
        world.write(clients__crt=authorities.Authority("next").pem)
        reloads = world.metric("tiphys_webhook_reloads_total")
        await webhooks.until(lambda: world.metric("tiphys_webhook_reloads_total") > reloads)
        async with asyncio.timeout(10):
            with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
                while True:
                    assert 200 == await posted(session, pods.a_body())


async def test_half_of_a_file_changes_nothing(world: webhooks.World) -> None:
    """The last good pair stays, the refusal is counted, and the whole file is taken later."""
    leaf = world.own_leaf()
    half = leaf.certificate[: len(leaf.certificate) // 2]
    parts = {
        "tls__crt": (half, "tls"),
        "tls__key": (leaf.key[:50], "tls"),
        "clients__crt": (b"", "clients"),
        "ring__json": (b'{"keys": [', "ring"),
        "operator__json": (b"nonsense", "operator_ring"),
    }
    held = world.process.keeper.current
    for name, (content, part) in parts.items():
        before = world.metric("tiphys_webhook_refused_materials_total", part=part)
        world.write(**{name: content})
        await webhooks.until(
            lambda part=part, before=before: (  # type: ignore[misc]
                world.metric("tiphys_webhook_refused_materials_total", part=part) > before
            )
        )
    assert held == world.process.keeper.current
    async with world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body())
        assert answer["auditAnnotations"]["outcome"] == "gated"
    world.write_webhook(leaf)
    await webhooks.until(lambda: (world.process.keeper.current.tls or held.tls) != held.tls)


MALFORMED = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "another kind": b'{"apiVersion":"admission.k8s.io/v1","kind":"Pod"}',
    "an old version": b'{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}',
    "no request": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
    "no uid": b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}',
    "not UTF-8": b"\xff\xfe",
    "nested": b"[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_review_is_answered(world: webhooks.World, body: bytes) -> None:
    """With 400 and a sentence; the connection and the process go on."""
    async with world.session(limit=1) as session:
        assert 400 == await posted(session, body)
        assert 200 == await posted(session, pods.a_body())


async def test_a_large_pod_is_taken_and_a_larger_one_cut(world: webhooks.World) -> None:
    """3 MiB is the bound, said before or not."""
    pod = pods.a_pod()
    pod["spec"]["containers"][0]["args"] = ["x" * (3 * 2**20 - 4096)]

    async with world.session() as session:
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
        assert answer["auditAnnotations"]["outcome"] == "gated"
        assert 413 == await posted(session, b"x" * (3 * 2**20 + 1))
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):
            async with session.post("/mutate", data=_chunks(4 * 2**20)) as response:
                assert 413 == response.status
    assert 2 == world.metric("tiphys_webhook_refused_calls_total", why="too-large")


async def test_large_pods_are_taken_a_few_at_a_time(tmp_path: Path) -> None:
    """A hundred of them at once are more than the container's memory; those beyond pass."""
    large = pods.a_body(pods.a_pod(metadata__annotations__large="x" * 60_000))
    limits = settings.Limits(bodies_bytes=130_000)
    async with webhooks.running(tmp_path, limits=limits) as world, world.session() as session:
        world.decider.behaviour, world.decider.delay_s = "slow", 1.0
        statuses = await asyncio.gather(*(posted(session, large) for _ in range(5)))
        assert [200, 200, 503, 503, 503] == sorted(statuses)
        assert 3 == world.metric("tiphys_webhook_refused_calls_total", why="crowded")
        world.decider.behaviour = "good"
        assert [200] * 5 == [await posted(session, large) for _ in range(5)]


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65536):
        yield b"x" * 65536


@pytest.mark.parametrize(("method", "path"), [("GET", "/mutate"), ("POST", "/"), ("POST", "/x")])
async def test_only_two_paths_are_served(world: webhooks.World, method: str, path: str) -> None:
    """Everything else is 404."""
    async with world.session() as session, session.request(method, path) as response:
        assert 404 == response.status


async def test_slow_clients_are_cut(tmp_path: Path) -> None:
    """One that never ends its body, one that never ends its head, one that never says hello."""
    limits = settings.Limits(read_s=0.2, handshake_s=0.2, idle_s=0.3)
    head = b"POST /mutate HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n"
    async with webhooks.running(tmp_path, limits=limits) as world:
        port = world.process.listener.port
        context = world.context(world.leaf())
        for sent, expected in ((head + b"\r\n{", b"HTTP/1.1 408"), (head, b"")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.write(sent)
            async with asyncio.timeout(10):
                assert (await reader.read()).startswith(expected)
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(10):
            assert b"" == await reader.read()
        writer.close()
        assert 1 == world.metric("tiphys_webhook_refused_calls_total", why="slow")


async def test_it_drains(tmp_path: Path) -> None:
    """Calls are answered while it drains, each with `Connection: close`, and then it is gone."""
    async with contextlib.AsyncExitStack() as stack:
        inner = webhooks.running(tmp_path, drain_s=0.5)
        world = await inner.__aenter__()
        session = await stack.enter_async_context(world.session())
        assert 200 == await posted(session, pods.a_body())
        ending = asyncio.create_task(inner.__aexit__(None, None, None))
        await webhooks.until(lambda: world.process.health.draining)
        async with session.post("/mutate", data=pods.a_body()) as response:
            assert (200, "close") == (response.status, response.headers["Connection"])
        assert not world.process.health.state()["ready"]
        await ending
        with pytest.raises(aiohttp.ClientConnectorError):
            await posted(session, pods.a_body())


@pytest.mark.parametrize("turns", range(4))
async def test_a_renewal_that_is_cut_leaves_no_listener(tmp_path: Path, turns: int) -> None:
    """However far it came: nobody listens once the webhook has ended."""
    async with webhooks.running(tmp_path) as world:
        listener = world.process.listener
        port, context = listener.port, listener._context
        assert context is not None
        renewing = asyncio.create_task(listener.adopt(context))
        for _ in range(turns):
            await asyncio.sleep(0)
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)


async def test_a_renewal_that_fails_is_tried_again_and_closes_nothing(
    world: webhooks.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No descriptor was left, say: connections are kept meanwhile, and no other change comes."""
    loop, listener, failed = asyncio.get_running_loop(), world.process.listener, asyncio.Event()
    before, make = listener._context, loop.create_server

    async def out_of_descriptors(*_: object, **__: object) -> asyncio.Server:
        failed.set()
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(processes, "AGAIN_S", 0.2)
    monkeypatch.setattr(loop, "create_server", out_of_descriptors)
    world.write_webhook(world.own_leaf())
    async with world.session(limit=1) as session:
        await failed.wait()
        await asyncio.sleep(0)
        assert before is listener._context
        assert [200, 200] == [await posted(session, pods.a_body()) for _ in range(2)]
        assert 1 == listener.connections
        monkeypatch.setattr(loop, "create_server", make)
        await webhooks.until(lambda: listener._context is not before)
        assert 200 == await posted(session, pods.a_body())


async def test_a_call_on_its_way_is_answered_before_the_end(tmp_path: Path) -> None:
    """The end waits for it."""
    inner = webhooks.running(tmp_path)
    world = await inner.__aenter__()
    world.decider.behaviour, world.decider.delay_s = "slow", 0.3
    async with world.session() as session:
        call = asyncio.create_task(webhooks.called(session, "/mutate", pods.a_body()))
        await webhooks.until(lambda: bool(world.decider.asked))
        await inner.__aexit__(None, None, None)
        assert (await call)["auditAnnotations"]["outcome"] == "gated"


async def test_a_taken_port_is_said(world: webhooks.World) -> None:
    """In one sentence that names it."""
    listener = servers.Listener(
        None,  # type: ignore[arg-type]
        subjects=(),
        segment_holds=None,
        limits=settings.Limits(),
        counted=world.process.health.metrics,
    )
    with pytest.raises(errors.UnavailableError, match=r"127\.0\.0\.1:\d+: Address already"):
        listener.bind("127.0.0.1", world.process.listener.port)


async def test_the_plain_pages(world: webhooks.World) -> None:
    """Metrics, life and readiness."""
    base = f"http://127.0.0.1:{world.process.health_port}"
    async with aiohttp.ClientSession(base_url=base) as session:
        pages = {}
        for path in ("/metrics", "/healthz", "/readyz", "/x"):
            async with session.get(path) as response:
                pages[path] = (response.status, await response.text())
    assert [200, 200, 200, 404] == [status for status, _ in pages.values()]
    assert 'tiphys_webhook_mutations_total{outcome="gated"} 0.0' in pages["/metrics"][1]
    assert '"decisions":"reachable"' in pages["/readyz"][1]


async def test_who_asks_the_plain_pages_nothing_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any pod may come there, and each connection takes memory."""
    monkeypatch.setattr(healths, "IDLE_S", 0.2)
    async with webhooks.running(tmp_path) as world:
        for sent in (b"", b"GET /healthz HTTP/1.1\r\n"):
            port = world.process.health_port
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            async with asyncio.timeout(10):
                assert b"" == await reader.read()
            writer.close()


@pytest.mark.parametrize("text", ["", "CN", "CN=", "=x", "O=a,,CN=b"])
def test_a_subject_that_cannot_be_read_is_refused(text: str) -> None:
    """Before anything is served."""
    with pytest.raises(errors.InputError, match="expected KEY=VALUE"):
        servers.subject(text)
