"""The webhook in the test's own process, between a fake API server's client and a fake decider."""

import asyncio
import base64
import contextlib
import dataclasses
import io
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp

from tests.fakes import authorities, deciders, patching
from tiphys.models.wire import keys
from tiphys.webhook import processes, settings

SUBJECT = "O=system:apiserver,CN=kube-apiserver"


@dataclasses.dataclass(kw_only=True)
class World:
    """Everything around one webhook."""

    folder: Path
    authority: authorities.Authority
    """Signs the webhook's and the operator's certificates."""
    clients: authorities.Authority
    """Signs the API server's client certificate."""
    ring: keys.Ring
    decider: deciders.Decider
    process: processes.Process

    @property
    def url(self) -> str:
        """Return where the webhook listens."""
        return f"https://127.0.0.1:{self.process.listener.port}"

    def leaf(self, **changes: Any) -> authorities.Leaf:
        """Return a client certificate of the API server."""
        return self.clients.leaf(**{"subject": SUBJECT, **changes})

    def context(self, leaf: authorities.Leaf | None) -> ssl.SSLContext:
        """Return TLS as a client with `leaf` speaks it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.authority.pem.decode())
        if leaf is not None:
            with tempfile.NamedTemporaryFile() as file:
                file.write(leaf.certificate + leaf.key)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def session(
        self, leaf: authorities.Leaf | None = None, **changes: Any
    ) -> aiohttp.ClientSession:
        """Return a session as the API server has it: kept-alive connections, own certificate."""
        context = self.context(self.leaf() if leaf is None else leaf)
        connector = aiohttp.TCPConnector(ssl=context, **changes)
        return aiohttp.ClientSession(base_url=self.url, connector=connector)

    def metric(self, name: str, **labels: str) -> float:
        """Return a value of the webhook's registry."""
        value = self.process.health.metrics.registry.get_sample_value(name, labels)
        assert value is not None, f"no {name} {labels}"
        return value

    def write(self, **files: bytes) -> None:
        """Replace files of the webhook; a dot in a name is written `__`."""
        for name, content in files.items():
            (self.folder / name.replace("__", ".")).write_bytes(content)

    def write_webhook(self, leaf: authorities.Leaf) -> None:
        """Give the webhook another certificate."""
        self.write(tls__crt=leaf.certificate, tls__key=leaf.key)

    def own_leaf(self) -> authorities.Leaf:
        """Return a certificate for the webhook."""
        return self.authority.leaf(
            "CN=tiphys-webhook", names=[authorities.WEBHOOK, "127.0.0.1", "localhost"]
        )


@contextlib.asynccontextmanager
async def running(
    folder: Path,
    *,
    environ: dict[str, str] | None = None,
    deadline_s: float = 5.0,
    server_name: str = authorities.OPERATOR,
    client_authority: bytes = b"",
    **changes: Any,
) -> AsyncIterator[World]:
    """Run a decider and a webhook whose keys and certificates lie in `folder`, until ready.

    `client_authority` is who signs the callers' certificates, where that is not the world's own.
    """
    authority, clients = authorities.Authority(), authorities.Authority("clients")
    own, ring = deciders.a_ring(), deciders.a_ring()
    operator = authority.leaf("CN=tiphys-operator", names=[authorities.OPERATOR])
    decider = deciders.Decider(ring=ring, webhook_ring=own.public())
    names = ("tls.crt", "tls.key", "ca.crt", "clients.crt", "ring.json", "operator.json")
    paths = {name: str(folder / name) for name in names}
    async with deciders.serving(decider, operator, client_authority=authority.pem) as port:
        chosen = settings.Settings(
            listen=settings.Listen(address="127.0.0.1", port=0, health_port=0),
            decisions=settings.Decisions(
                address=f"127.0.0.1:{port}",
                deadline_s=deadline_s,
                probe_s=0.5,
                server_name=server_name,
            ),
            files=settings.Files(
                certificate=paths["tls.crt"],
                key=paths["tls.key"],
                authority=paths["ca.crt"],
                client_authority=paths["clients.crt"],
                ring=paths["ring.json"],
                operator_ring=paths["operator.json"],
                poll_s=0.01,
            ),
            drain_s=0.0,
        )
        chosen = dataclasses.replace(chosen, **changes)
        world = World(
            folder=folder,
            authority=authority,
            clients=clients,
            ring=ring,
            decider=decider,
            process=None,  # type: ignore[arg-type]
        )
        world.write_webhook(world.own_leaf())
        world.write(
            ca__crt=authority.pem,
            clients__crt=client_authority or clients.pem,
            ring__json=keys.write(own).encode(),
            operator__json=keys.write(ring.public()).encode(),
        )
        async with processes.running(chosen, environ or {}) as process:
            world.process = process
            await until(lambda: bool(process.health.state()["ready"]))
            yield world


async def until(holds: Callable[[], bool], *, within_s: float = 20.0) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def called(session: aiohttp.ClientSession, path: str, body: bytes) -> dict[str, Any]:
    """Make one admission call; return the answer's `response`."""
    async with session.post(path, data=io.BytesIO(body)) as response:
        text = await response.text()
        assert response.status == 200, text
        found = json.loads(text)
    assert found["apiVersion"] == "admission.k8s.io/v1"
    assert found["response"]["uid"] == json.loads(body)["request"]["uid"]
    answer: dict[str, Any] = found["response"]
    return answer


def patch_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the patch of an answer; empty without one."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response["patch"]))
    return patch


def patched(pod: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    """Return the pod as the API server goes on with it."""
    return patching.applied(pod, patch_of(response))
