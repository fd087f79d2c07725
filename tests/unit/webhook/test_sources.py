"""Keys and certificates from the API: a list, a watch, a cut, rights on four names only."""

import asyncio
import base64
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.fakes import authorities, deciders, webhooks
from tiphys.models.domain import errors
from tiphys.models.wire import keys
from tiphys.webhook import materials, settings, sources

BROKEN = (
    (500, "etcd is away"),
    (200, "<html>please log in</html>"),
    (200, "[]"),
    (200, '{"items": []}'),
    (200, '{"items": [1], "metadata": {"resourceVersion": "1"}}'),
)
"""Answers of something that is no API server, or of one that is not well."""


class Cluster:
    """As much of an API server as the source needs; what it holds can be changed."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 1
        self.changed = asyncio.Condition()
        self.asked: list[str] = []
        self.tokens: set[str] = set()
        self.broken = 0
        self.cut = asyncio.Event()

    async def put(self, path: str, found: dict[str, Any]) -> None:
        """Write an object and wake the watches."""
        async with self.changed:
            self.version += 1
            self.objects[path] = {
                **found,
                "metadata": {"resourceVersion": str(self.version)},
            }
            self.changed.notify_all()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a list or a watch of one name."""
        self.tokens.add(request.headers["Authorization"])
        if self.broken:
            self.broken -= 1
            status, text = BROKEN[self.broken % len(BROKEN)]
            return web.Response(status=status, text=text)
        selector = request.query["fieldSelector"]
        assert selector.startswith("metadata.name=")
        path = f"{request.path}/{selector.removeprefix('metadata.name=')}"
        self.asked.append(path)
        if "watch" not in request.query:
            # A list's items name no kind, as in the real API.
            items = [self.objects[path]] if path in self.objects else []
            listed = {"metadata": {"resourceVersion": str(self.version)}, "items": items}
            return web.Response(body=json.dumps(listed).encode())
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query["resourceVersion"])
        while not self.cut.is_set():
            found = self.objects.get(path)
            if found and int(found["metadata"]["resourceVersion"]) > seen:
                seen = int(found["metadata"]["resourceVersion"])
                event = json.dumps({"type": "MODIFIED", "object": found}).encode() + b"\n"
                await response.write(event[:10])
                await response.write(event[10:])
            async with self.changed:
                try:
                    async with asyncio.timeout(0.05):
                        await self.changed.wait()
                except TimeoutError:
                    continue
        self.cut.clear()
        return response


def a_secret(**data: bytes) -> dict[str, Any]:
    """Return a Secret; a dot in a name is written `__`."""
    encoded = {k.replace("__", "."): base64.b64encode(v).decode() for k, v in data.items()}
    return {"type": "Opaque", "data": encoded}


async def test_parts_come_from_the_api_and_are_renewed(tmp_path: Path) -> None:
    """Also after an answer of 500, some that are no answers, and a watch that was cut."""
    authority = authorities.Authority()
    leaf = authority.leaf("CN=kubernetes", names=["127.0.0.1"])
    cluster, ring = Cluster(), deciders.a_ring()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(leaf.certificate + leaf.key)
        file.flush()
        context.load_cert_chain(file.name)
    runner = web.ServerRunner(web.Server(cluster.answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    (tmp_path / "token").write_text("t-1\n")
    environ = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": str(runner.addresses[0][1]),
    }
    account = sources.Account(environ, mount=tmp_path)
    refused: list[str] = []
    keeper = materials.Keeper(lambda _: None, lambda part, _: refused.append(part))
    cluster.broken = len(BROKEN)
    root = "/api/v1/namespaces/tiphys-system"
    own = authority.leaf("CN=tiphys-webhook", names=["a"])
    await cluster.put(
        f"{root}/secrets/tiphys-webhook-tls",
        a_secret(tls__crt=own.certificate, tls__key=own.key, ca__crt=authority.pem),
    )
    await cluster.put(
        f"{root}/secrets/tiphys-webhook-keys", a_secret(ring__json=keys.write(ring).encode())
    )
    await cluster.put(
        f"{root}/configmaps/tiphys-webhook-client-ca", {"data": {"ca.crt": authority.pem.decode()}}
    )
    task = asyncio.create_task(
        sources.follow_cluster(settings.Cluster(), keeper, account, certified=True)
    )
    try:
        await webhooks.until(
            lambda: keeper.current.serves(certified=True) and bool(keeper.current.ring.keys)
        )
        assert not keeper.current.operator_ring.keys
        public = f"{root}/configmaps/tiphys-public-keys"
        await cluster.put(public, {"data": {"operator.json": keys.write(ring)}})
        await webhooks.until(lambda: bool(keeper.current.operator_ring.keys))
        assert ring.public() == keeper.current.operator_ring
        cluster.cut.set()
        both = ring.joined(deciders.a_ring())
        await cluster.put(public, {"data": {"operator.json": keys.write(both.public())}})
        await webhooks.until(lambda: len(keeper.current.operator_ring.keys) == 2)
        await cluster.put(f"{root}/secrets/tiphys-webhook-keys", a_secret(ring__json=b"{"))
        await webhooks.until(lambda: "ring" in refused)
        assert ring == keeper.current.ring
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await runner.cleanup()
    assert {"Bearer t-1"} == cluster.tokens
    assert 4 == len(set(cluster.asked))


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "KUBERNETES_SERVICE_HOST is not set: outside of a cluster name `files`"),
        (
            {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"},
            r"ca\.crt: cannot be used",
        ),
    ],
)
def test_outside_of_a_cluster_it_says_what_to_do(
    tmp_path: Path, environ: dict[str, str], said: str
) -> None:
    """Before anything is opened."""
    with pytest.raises(errors.InputError, match=said):
        sources.Account(environ, mount=tmp_path)


def test_token_and_authority_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet renews both while the process runs; half of a file changes nothing."""
    monkeypatch.setattr(sources, "REREAD_S", -1.0)
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "1"}
    old, new = authorities.Authority("old"), authorities.Authority("new")
    (tmp_path / "ca.crt").write_bytes(old.pem)
    (tmp_path / "token").write_text("t-1")
    account = sources.Account(environ, mount=tmp_path)
    for token, pem, trusted in (
        ("t-1", old.pem, 1),
        ("t-2", old.pem + new.pem, 2),
        ("t-3", new.pem, 2),
    ):
        (tmp_path / "ca.crt").write_bytes(pem)
        (tmp_path / "token").write_text(token)
        assert f"Bearer {token}" == account.headers()["Authorization"]
        assert trusted == len(account.context.get_ca_certs())
    (tmp_path / "ca.crt").write_bytes(new.pem[:40])
    with pytest.raises(sources.WENT_WRONG):
        account.headers()
    assert 2 == len(account.context.get_ca_certs())
