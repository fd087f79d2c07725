"""Rings, authority, leaves and caBundles over years of simulated time, and TLS while it changes."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from tests.fakes import authorities, clocks, clusters
from tiphys.models.domain import errors
from tiphys.models.wire import keys as wire_keys
from tiphys.models.wire import paths
from tiphys.operator import (
    certificates,
    elections,
    exposures,
    keys,
    metrics,
    servers,
    settings,
    trusts,
)

AT = 1_796_000_000.0
DAY_S = 86400.0
KEYS = settings.Keys()
CERTIFICATES = settings.Certificates()
HOSTS = certificates.hosts("tiphys-operator", "tiphys-system")
SERVER_NAME = "tiphys-operator.tiphys-system.svc"


def test_a_new_ring_signs_at_once() -> None:
    """The first key holds from a little before now."""
    ring = keys.renewed(wire_keys.Ring(), AT, KEYS)
    assert 1 == len(ring.keys)
    assert ring.signing(AT).kid == ring.keys[0].kid
    assert ring is not keys.renewed(ring, AT + 60, KEYS)
    assert ring == keys.renewed(ring, AT + 60, KEYS)


def test_each_key_is_published_before_it_signs_and_honoured_after() -> None:
    """Over a week: 14 changes of key, each successor an hour in the ring before, no gap."""
    ring = keys.renewed(wire_keys.Ring(), AT, KEYS)
    seen: dict[str, float] = {key.kid: AT for key in ring.keys}
    signers: list[str] = []
    for minute in range(7 * 24 * 60):
        now = AT + minute * 60.0
        ring = keys.renewed(ring, now, KEYS)
        for key in ring.keys:
            seen.setdefault(key.kid, now)
        signer = ring.signing(now)
        if signer.kid not in signers:
            assert not signers or now - seen[signer.kid] >= KEYS.ahead_s - 60
            assert all(ring.named(kid) is not None for kid in signers[-1:]), (
                "the last key is still honoured when the next one takes over"
            )
            signers.append(signer.kid)
        assert 1 <= len(ring.keys) <= 3
    assert 14 == len(signers)


def test_a_ring_that_nobody_kept_is_made_anew() -> None:
    """After days without a leader a key that holds is there again."""
    ring = keys.renewed(wire_keys.Ring(), AT, KEYS)
    later = keys.renewed(ring, AT + 9 * DAY_S, KEYS)
    assert later.signing(AT + 9 * DAY_S).kid != ring.keys[0].kid


def test_authorities_overlap_and_leaves_follow() -> None:
    """Over three years: a root is trusted before it signs, and each leaf is by a trusted one."""
    root = certificates.authority({}, AT, CERTIFICATES)
    leaf: dict[str, bytes] = {}
    roots: set[bytes] = set()
    for hour in range(0, 3 * 365 * 24, 6):
        now = AT + hour * 3600.0
        before = root
        root = certificates.authority(root, now, CERTIFICATES)
        if root[certificates.CERTIFICATE] != before[certificates.CERTIFICATE]:
            assert root[certificates.CERTIFICATE].strip() in before[certificates.CA]
        leaf = certificates.leaf(leaf, root, now, CERTIFICATES, name="tiphys-operator", hosts=HOSTS)
        roots.add(root[certificates.CERTIFICATE])
        assert leaf[certificates.CA] == root[certificates.CA]
        assert certificates.ends_at(leaf[certificates.CERTIFICATE]) > now + 5 * DAY_S
    assert 5 == len(roots)


def test_a_leaf_stays_while_nothing_is_due() -> None:
    """The same bytes; another name of a host makes a new one."""
    root = certificates.authority({}, AT, CERTIFICATES)
    leaf = certificates.leaf({}, root, AT, CERTIFICATES, name="x", hosts=HOSTS)
    same = certificates.leaf(leaf, root, AT + DAY_S, CERTIFICATES, name="x", hosts=HOSTS)
    assert leaf == same
    other = certificates.leaf(leaf, root, AT, CERTIFICATES, name="x", hosts=("y",))
    assert ["y"] == certificates.names(other[certificates.CERTIFICATE])


@pytest.mark.parametrize("key", [None, b"", b"no PEM", "another"])
def test_an_authority_that_cannot_sign_is_refused_in_a_sentence(key: bytes | str | None) -> None:
    """Its key is gone, spoiled or another one's: what it signed would be trusted by nobody."""
    root = certificates.authority({}, AT, CERTIFICATES)
    other = certificates.authority({}, AT, CERTIFICATES)[certificates.KEY]
    spoiled = {**root, certificates.KEY: other if isinstance(key, str) else key}
    held = {name: value for name, value in spoiled.items() if value is not None}
    with pytest.raises(errors.InputError, match=r"^Secret tiphys-ca: tls\.key .*; delete it"):
        certificates.authority(held, AT + DAY_S, CERTIFICATES)


@pytest.mark.parametrize("key", [None, b"no PEM"])
def test_a_following_root_that_could_not_sign_is_made_anew(key: bytes | None) -> None:
    """The one that signs goes on, and a whole overlap begins again."""
    root = certificates.authority({}, AT, CERTIFICATES)
    late = AT + 300 * DAY_S
    following = certificates.authority(root, late, CERTIFICATES)
    held = {**following, certificates.NEXT_KEY: key}
    spoiled = {name: value for name, value in held.items() if value is not None}
    made = certificates.authority(spoiled, late + DAY_S, CERTIFICATES)
    assert root[certificates.CERTIFICATE] == made[certificates.CERTIFICATE]
    assert following[certificates.NEXT_CERTIFICATE] != made[certificates.NEXT_CERTIFICATE]
    early = {**root, certificates.NEXT_CERTIFICATE: b"no PEM"}
    assert root == certificates.authority(early, AT + DAY_S, CERTIFICATES)


def test_a_leaf_that_somebody_spoiled_is_made_anew() -> None:
    """No PEM, or a certificate without names."""
    root = certificates.authority({}, AT, CERTIFICATES)
    for spoiled in (b"no PEM", root[certificates.CERTIFICATE]):
        held = {certificates.CERTIFICATE: spoiled, certificates.KEY: b"?"}
        made = certificates.leaf(held, root, AT, CERTIFICATES, name="x", hosts=HOSTS)
        assert list(HOSTS) == certificates.names(made[certificates.CERTIFICATE])


@pytest.fixture
async def kept() -> AsyncIterator[tuple[clusters.Cluster, trusts.Keeper, clocks.Clock]]:
    """Return a keeper that leads, on a cluster with the webhook configurations."""
    clock = clocks.Clock(AT)
    async with clusters.serving() as (cluster, api):
        election = elections.Election(
            api, namespace="tiphys-system", identity="a", chosen=settings.Lease(), clock=clock
        )
        leading = asyncio.ensure_future(election.run(asyncio.Event().wait))  # type: ignore[arg-type]
        await clock.advance(1.0)
        keeper = trusts.Keeper(
            api,
            election,
            chosen=settings.OperatorSettings(namespace="tiphys-system"),
            clock=clock,
            measured=metrics.Metrics(),
        )
        yield cluster, keeper, clock
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)


async def test_the_leader_makes_everything_and_then_changes_nothing(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Five Secrets and one ConfigMap; a second look writes nothing."""
    cluster, keeper, _ = kept
    await keeper.once()
    names = {path.rpartition("/")[2] for path in cluster.objects if "/secrets/" in path}
    assert {*trusts.RINGS, *trusts.LEAVES, trusts.AUTHORITY} == names
    public = cluster.objects["/api/v1/namespaces/tiphys-system/configmaps/tiphys-public-keys"]
    ring = wire_keys.read(public["data"][wire_keys.OPERATOR_FIELD])
    assert all(key.private is None for key in ring.keys)
    version = cluster.version
    await keeper.once()
    assert version == cluster.version


SECRETS = "/api/v1/namespaces/tiphys-system/secrets"


async def test_a_secret_that_is_deleted_comes_back_as_it_was(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """What its keys signed stays honoured, and no certificate is made anew."""
    cluster, keeper, _ = kept
    await keeper.once()
    before = {path: each for path, each in cluster.objects.items() if "/secrets/" in path}
    for path in before:
        cluster.drop(path)
    await keeper.once()
    assert {path: each["data"] for path, each in before.items()} == {
        path: each["data"] for path, each in cluster.objects.items() if "/secrets/" in path
    }


@pytest.mark.parametrize("data", [{"tls.key": "AAAA"}, {"tls.crt": "AAAA"}])
async def test_a_secret_that_is_spoiled_and_deleted_comes_back_as_it_was_before(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock], data: dict[str, str]
) -> None:
    """What cannot be used is not remembered, so that to delete it helps, as the sentence says."""
    cluster, keeper, clock = kept
    await keeper.once()
    path = f"{SECRETS}/tiphys-ca"
    before = cluster.objects[path]
    cluster.put(path, {**before, "data": {**before["data"], **data}})
    with pytest.raises(errors.InputError, match="; delete"):
        await keeper.once()
    cluster.drop(path)
    await clock.advance(1.0)
    await keeper.once()
    assert before["data"] == cluster.objects[path]["data"]


async def test_a_new_leader_writes_back_the_ring_that_its_replica_held(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Also when the Secret went between two leaders; an empty ring is meant and gets new keys."""
    cluster, keeper, _ = kept
    path = f"{SECRETS}/tiphys-keys"
    await keeper.once()
    follower = trusts.Follower(
        keeper._api, namespace="tiphys-system", clock=keeper._clock, served=lambda files: None
    )
    follower._take_ring(cluster.objects[path])
    cluster.drop(path)
    second = trusts.Keeper(
        keeper._api,
        keeper._election,
        chosen=keeper._chosen,
        clock=keeper._clock,
        measured=metrics.Metrics(),
        remembered=follower.secrets,
    )
    await second.once()
    written = wire_keys.read(trusts.decoded(cluster.objects[path])[wire_keys.RING_FIELD])
    assert follower.ring == written
    empty = {wire_keys.RING_FIELD: base64.b64encode(b'{"keys":[]}').decode()}
    cluster.put(path, {**cluster.objects[path], "data": empty})
    await second.once()
    renewed = wire_keys.read(trusts.decoded(cluster.objects[path])[wire_keys.RING_FIELD])
    assert 1 == len(renewed.keys)
    assert renewed.keys[0].kid != written.keys[0].kid


ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SERVICE = {"name": "tiphys-webhook", "namespace": "tiphys-system", "port": 443}


def configured(cluster: clusters.Cluster, mode: str, client: clusters.Object) -> None:
    """Put both webhook configurations as the chart makes them."""
    for kind in trusts.CONFIGURATIONS:
        hook = {"name": "pods.tiphys.dev", "clientConfig": client}
        annotations = {paths.CLIENTS: mode}
        cluster.put(
            f"{ADMISSION}/{kind}/tiphys",
            {"metadata": {"annotations": annotations}, "webhooks": [hook]},
        )


def clients(cluster: clusters.Cluster) -> list[clusters.Object]:
    """Return the clientConfig of both configurations."""
    held = [cluster.objects[f"{ADMISSION}/{kind}/tiphys"] for kind in trusts.CONFIGURATIONS]
    return [each["webhooks"][0]["clientConfig"] for each in held]


def webhook_ring(cluster: clusters.Cluster) -> wire_keys.Ring:
    """Return the ring that the webhook reads."""
    secret = cluster.objects[f"/api/v1/namespaces/tiphys-system/secrets/{trusts.WEBHOOK_RING}"]
    return wire_keys.read(trusts.decoded(secret)[wire_keys.RING_FIELD])


async def test_the_leader_writes_no_path_where_certificates_are_shown(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """The caBundle alone; the chart's paths stay, and nobody is tried to be reached."""
    cluster, keeper, _ = kept
    configured(cluster, paths.REQUIRED, {"service": {**SERVICE, "path": "/mutate"}})
    keeper._reached = _never
    await keeper.once()
    for client in clients(cluster):
        assert client["caBundle"]
        assert {**SERVICE, "path": "/mutate"} == client["service"]


async def test_a_configuration_that_comes_late_is_not_left_alone_for_a_minute(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Helm makes the validating one last, and a leader may be there before it."""
    cluster, keeper, clock = kept
    keeper._election = Leader()
    configured(cluster, paths.REQUIRED, {"service": {**SERVICE, "path": "/mutate"}})
    late = f"{ADMISSION}/validatingwebhookconfigurations/tiphys"
    configuration = cluster.objects.pop(late)
    running = asyncio.ensure_future(keeper.run())
    try:
        await clock.advance(0.0)
        for _ in range(200):
            if f"{SECRETS}/tiphys-webhook-tls" in cluster.objects:
                break
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        cluster.put(late, configuration)
        await clock.advance(trusts.RETRY_S)
        for _ in range(200):
            if all("caBundle" in client for client in clients(cluster)):
                break
            await asyncio.sleep(0.05)
        assert all(client["caBundle"] for client in clients(cluster))
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Leader(elections.Election):
    """Leads whatever the clock says."""

    def __init__(self) -> None:
        """Needs nothing."""

    def fence(self) -> None:
        """Let everything pass."""


async def _never(host: str, port: int) -> bool:
    raise AssertionError(f"{host}:{port} was tried")


async def test_without_certificates_the_paths_end_in_what_the_webhook_honours(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Written once, and anew with each key of the ring, which still knows the last one's."""
    cluster, keeper, _ = kept
    clock = clocks.Clock(AT)
    keeper._clock, keeper._election = clock, Leader()
    tried: list[tuple[str, int]] = []

    async def unreached(host: str, port: int) -> bool:
        tried.append((host, port))
        return False

    keeper._reached = unreached
    configured(cluster, paths.NONE, {"service": SERVICE})
    await keeper.once()
    segment = paths.current(webhook_ring(cluster), clock.now())
    said = [client["service"]["path"] for client in clients(cluster)]
    assert [f"/mutate/{segment}", f"/validate/{segment}"] == said
    assert {("tiphys-webhook.tiphys-system.svc", 443)} == set(tried)
    version = cluster.version
    await keeper.once()
    assert version == cluster.version

    clock.jump(KEYS.rotate_s - KEYS.ahead_s + 60.0)
    await keeper.once()
    assert said == [client["service"]["path"] for client in clients(cluster)]
    clock.jump(KEYS.ahead_s)
    await keeper.once()
    renewed = [client["service"]["path"] for client in clients(cluster)]
    assert not set(said) & set(renewed)
    ring = webhook_ring(cluster)
    for path in (*said, *renewed):
        assert paths.honours(ring, path.rpartition("/")[2], clock.now())


async def test_in_a_url_only_the_path_is_replaced(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Host, port and what comes before stay, also the second time."""
    cluster, keeper, clock = kept
    keeper._reached = _exposed
    for kind, call in trusts.CONFIGURATIONS.items():
        hook = {"name": "x", "clientConfig": {"url": f"https://mutate.example:8443/a{call}"}}
        metadata = {"annotations": {paths.CLIENTS: paths.NONE}}
        cluster.put(f"{ADMISSION}/{kind}/tiphys", {"metadata": metadata, "webhooks": [hook]})
    for _ in range(2):
        await keeper.once()
        segment = paths.current(webhook_ring(cluster), clock.now())
        before = "https://mutate.example:8443/a"
        urls = [client["url"] for client in clients(cluster)]
        assert [f"{before}/mutate/{segment}", f"{before}/validate/{segment}"] == urls


async def _exposed(host: str, port: int) -> bool:
    return True


async def test_a_webhook_that_any_pod_reaches_is_noted_until_none_does(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """On the configurations, where `tiphys status` sees it, and as a metric."""
    cluster, keeper, _ = kept
    configured(cluster, paths.NONE, {"service": SERVICE})
    for reached in (_exposed, _unexposed):
        keeper._reached = reached
        await keeper.once()
        exposed = await reached("", 0)
        for kind in trusts.CONFIGURATIONS:
            annotations = cluster.objects[f"{ADMISSION}/{kind}/tiphys"]["metadata"]["annotations"]
            assert str(exposed).lower() == annotations[paths.EXPOSED]
            measured = keeper._measured.webhook_exposed.labels(kind)
            assert float(exposed) == measured._value.get()


async def test_what_was_measured_ends_with_the_mode_and_with_the_term(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Nobody tries any more, so an alert on the last value would never end."""
    cluster, keeper, _ = kept
    keeper._reached = _exposed
    kind = next(iter(trusts.CONFIGURATIONS))
    measured = keeper._measured.webhook_exposed.labels(kind)
    configured(cluster, paths.NONE, {"service": SERVICE})
    await keeper.once()
    assert 1.0 == measured._value.get()
    configured(cluster, paths.REQUIRED, {"service": {**SERVICE, "path": "/mutate"}})
    await keeper.once()
    assert 0.0 == measured._value.get()
    measured.set(1)
    running = asyncio.ensure_future(keeper.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert 0.0 == measured._value.get()


async def _unexposed(host: str, port: int) -> bool:
    return False


async def test_what_is_reached_is_what_takes_a_connection() -> None:
    """A port that listens is; one that does not, and a name that nobody knows, are not."""

    hung_up = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        hung_up.set()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await exposures.reached("127.0.0.1", port)
    # The kernel connects before the server has heard of it; closed then, it would lose the socket.
    await hung_up.wait()
    server.close()
    await server.wait_closed()
    assert not await exposures.reached("127.0.0.1", port)
    assert not await exposures.reached("no-such-host.invalid", port)


async def test_a_keeper_that_leads_no_more_writes_nothing(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """The fence is asked before each write."""
    cluster, keeper, clock = kept
    clock.jump(7.0)
    version = cluster.version
    with pytest.raises(errors.StaleError, match="leads no more"):
        await keeper.once()
    assert version == cluster.version


def files(leaf: authorities.Leaf, *roots: authorities.Authority) -> dict[str, bytes]:
    """Return the data of a Secret."""
    return {
        "tls.crt": leaf.certificate,
        "tls.key": leaf.key,
        "ca.crt": b"".join(root.pem for root in roots),
    }


@pytest.fixture
async def served() -> AsyncIterator[tuple[servers.Identity, int]]:
    """Return an identity that serves, without a certificate yet, and its port."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text=servers.caller(request))

    application = web.Application()
    application.router.add_get("/", hello)
    identity = servers.Identity()
    runner, port = await servers.start(application, "127.0.0.1", 0, tls=identity.listening)
    yield identity, port
    await runner.cleanup()


async def asked(port: int, context: ssl.SSLContext) -> str:
    """Return who the server thinks is calling."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/", ssl=context, server_hostname=SERVER_NAME
        ) as response,
    ):
        return await response.text()


async def test_certificate_and_roots_change_without_a_new_listener(
    served: tuple[servers.Identity, int],
) -> None:
    """Old callers are answered until their root goes, new ones from the moment it comes."""
    identity, port = served
    old, new = authorities.Authority("old"), authorities.Authority("new")
    client_old, client_new = servers.Identity(), servers.Identity()
    client_old.take(files(old.leaf("CN=tiphys-webhook"), old, new))
    client_new.take(files(new.leaf("CN=tiphys-webhook"), old, new))
    with pytest.raises(aiohttp.ClientError):
        await asked(port, client_old.calling)
    identity.take(files(old.leaf("CN=o", names=HOSTS), old))
    assert "tiphys-webhook" == await asked(port, client_old.calling)
    with pytest.raises(aiohttp.ClientError):
        await asked(port, client_new.calling)
    identity.take(files(old.leaf("CN=o", names=HOSTS), new, old))
    assert "tiphys-webhook" == await asked(port, client_old.calling)
    assert "tiphys-webhook" == await asked(port, client_new.calling)
    identity.take(files(new.leaf("CN=o", names=HOSTS), new))
    assert "tiphys-webhook" == await asked(port, client_new.calling)
    with pytest.raises(aiohttp.ClientError):
        await asked(port, client_old.calling)


async def test_strangers_are_not_answered(served: tuple[servers.Identity, int]) -> None:
    """No certificate, one that has expired, one of another authority: each is cut in TLS."""
    identity, port = served
    ours, theirs = authorities.Authority("ours"), authorities.Authority("theirs")
    identity.take(files(ours.leaf("CN=o", names=HOSTS), ours))
    nobody = ssl.create_default_context(cadata=ours.pem.decode())
    expired, foreign = servers.Identity(), servers.Identity()
    expired.take(files(ours.leaf("CN=tiphys-webhook", life_s=-60.0), ours))
    foreign.take(files(theirs.leaf("CN=tiphys-webhook"), ours))
    for context in (nobody, expired.calling, foreign.calling):
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await asked(port, context)


async def test_a_half_written_secret_changes_nothing(
    served: tuple[servers.Identity, int],
) -> None:
    """The error names it and the last good certificate goes on serving."""
    identity, port = served
    ours = authorities.Authority()
    good = files(ours.leaf("CN=tiphys-webhook", names=HOSTS), ours)
    identity.take(good)
    for bad in ({**good, "tls.crt": good["tls.crt"][:200]}, {**good, "tls.key": b""}, {}):
        with pytest.raises(errors.InputError, match="certificate cannot be used"):
            identity.take(bad)
    assert "tiphys-webhook" == await asked(port, identity.calling)


async def test_a_follower_takes_what_the_leader_makes(
    kept: tuple[clusters.Cluster, trusts.Keeper, clocks.Clock],
) -> None:
    """Ring, callers' ring and leaf come by watch; a spoiled ring keeps the last one in use."""
    cluster, keeper, clock = kept
    identity = servers.Identity()
    follower = trusts.Follower(
        keeper._api, namespace="tiphys-system", clock=clock, served=identity.take
    )
    task = asyncio.ensure_future(follower.run())
    await keeper.once()
    for _ in range(20):
        await clock.advance(0.2)
        if follower.ready:
            break
    assert follower.ready
    assert identity.version >= 1
    kid = follower.ring.keys[0].kid
    spoiled = {"data": {wire_keys.RING_FIELD: base64.b64encode(b"{").decode()}}
    cluster.put("/api/v1/namespaces/tiphys-system/secrets/tiphys-keys", spoiled)
    await clock.advance(0.5)
    assert kid == follower.ring.keys[0].kid
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
