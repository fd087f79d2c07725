"""A decision server that is good, slow, hung or a liar, behind real mutual TLS.

In a test: `async with deciders.serving(deciders.Decider(...), tls) as port`. As a process of its
own: `python -m tests.fakes.deciders FOLDER --behaviour good`, with the files of `write_folder`.
"""

import argparse
import asyncio
import base64
import contextlib
import dataclasses
import json
import secrets
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from aiohttp import web

from tests.fakes import authorities
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, messages, signatures, stamps

LIES = (
    "good",
    "slow",
    "hung",
    "closes",
    "garbage",
    "refuses",
    "fails",
    "foreign-key",
    "unsigned",
    "altered",
    "replayed",
    "uid",
    "expired",
    "other-pod",
    "no-workflow-uid",
    "other-stamp",
    "foreign-stamp",
)


@dataclasses.dataclass(kw_only=True)
class Decider:
    """What it answers, and what it was asked."""

    ring: keys.Ring
    behaviour: str = "good"
    verdict: decisions.Verdict = decisions.Verdict.GATE
    placement: decisions.Placement = dataclasses.field(default_factory=decisions.Placement)
    sizings: tuple[decisions.Sizing, ...] = ()
    delay_s: float = 0.0
    life_s: float = 30.0
    asked: list[messages.Request] = dataclasses.field(default_factory=list)
    signed_by: list[str] = dataclasses.field(default_factory=list)
    webhook_ring: keys.Ring | None = None
    """Checked when there is one."""
    kept: int = 1000
    last: messages.Response | None = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one question."""
        if request.path == "/healthz":
            return web.Response(text="ok")
        body = await request.content.read()
        now = time.time()
        if self.webhook_ring is not None:
            signature = request.headers[signatures.HEADER]
            self.signed_by.append(signatures.verify(self.webhook_ring, body, signature, now).kid)
        asked = messages.decode_request(body)
        if len(self.asked) < self.kept:
            self.asked.append(asked)
        if self.behaviour in ("slow", "hung"):
            await asyncio.sleep(self.delay_s if self.behaviour == "slow" else 3600)
        if self.behaviour == "closes":
            request.transport.abort()  # type: ignore[union-attr]
        if self.behaviour in ("refuses", "fails"):
            return web.Response(status=422 if self.behaviour == "refuses" else 500, text="no")
        response, ring = self._lied(asked, now)
        answer = messages.encode_response(response)
        if self.behaviour == "garbage":
            answer = b"{"
        headers = {signatures.HEADER: signatures.sign(ring, answer, now)}
        if self.behaviour == "altered":
            answer = answer.replace(b'"rank":1', b'"rank":2')
        return web.Response(body=answer, headers={} if self.behaviour == "unsigned" else headers)

    def decide(self, asked: messages.Request, now: float) -> decisions.Decision:
        """Return the honest decision."""
        about = _mapping(asked.pod["metadata"])
        owners = about.get("ownerReferences")
        owner = _mapping(owners[0]) if isinstance(owners, list) and owners else {}
        return decisions.Decision(
            id="d-" + base64.b32encode(secrets.token_bytes(13))[:20].decode().lower(),
            verdict=self.verdict,
            pod=f"{asked.namespace}/{about['name']}",
            admission_uid=asked.admission_uid,
            workflow=str(owner.get("name", "")),
            workflow_uid=str(owner.get("uid", "")),
            snapshot_version=7,
            snapshot_age_s=0.01,
            policy="builtin-srwf-wait-v1",
            placement=self.placement,
            sizings=self.sizings,
            rank=1,
            reason="waits for a fast node",
            issued_at=now,
            expires_at=now + self.life_s,
            nonce=asked.nonce,
        )

    def _lied(self, asked: messages.Request, now: float) -> tuple[messages.Response, keys.Ring]:
        """Return the response and the ring that signs its body."""
        decision = self.decide(asked, now)
        changed = {
            "expired": {"issued_at": now - 60, "expires_at": now - 30},
            "other-pod": {"pod": "elsewhere/other"},
            "no-workflow-uid": {"workflow_uid": ""},
            "uid": {"admission_uid": "another"},
        }
        decision = dataclasses.replace(decision, **changed.get(self.behaviour, {}))  # type: ignore[arg-type]
        foreign = a_ring() if self.behaviour.startswith("foreign") else self.ring
        stamped = decision
        if self.behaviour == "other-stamp":
            stamped = dataclasses.replace(decision, rank=2)
        stamp = stamps.encode(stamped)
        signer = foreign if self.behaviour == "foreign-stamp" else self.ring
        response = messages.Response(
            admission_uid=decision.admission_uid,
            nonce=asked.nonce,
            decision=decision,
            stamp=stamp.decode(),
            stamp_signature=signatures.sign(signer, stamp, now),
        )
        if self.behaviour == "replayed" and self.last is not None:
            response = self.last
        self.last = response
        return response, foreign if self.behaviour == "foreign-key" else self.ring


def a_ring(*, life_s: float = 3600.0) -> keys.Ring:
    """Return a ring of one new key that holds from ten minutes ago on."""
    now = time.time()
    return keys.Ring(keys=(keys.generate(not_before=now - 600, not_after=now + life_s),))


@contextlib.asynccontextmanager
async def serving(
    decider: Decider,
    leaf: authorities.Leaf,
    *,
    client_authority: bytes,
    address: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[int]:
    """Serve a decider with mutual TLS; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=client_authority.decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(leaf.certificate + leaf.key)
        file.flush()
        context.load_cert_chain(file.name)
    server = web.Server(decider.answer, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, address, port, ssl_context=context)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def write_folder(folder: Path, *, names: Sequence[str] = (authorities.OPERATOR,)) -> None:
    """Write what a webhook and a decider of their own processes need."""
    authority = authorities.Authority("tiphys test")
    operator = authority.leaf("CN=tiphys-operator", names=names)
    webhook = authority.leaf("CN=tiphys-webhook", names=[authorities.WEBHOOK, "127.0.0.1"])
    caller = authority.leaf("O=system:apiserver,CN=kube-apiserver")
    own, theirs = a_ring(), a_ring()
    files = {
        "ca.crt": authority.pem,
        "operator.crt": operator.certificate,
        "operator.key": operator.key,
        "webhook.crt": webhook.certificate,
        "webhook.key": webhook.key,
        "caller.pem": caller.certificate + caller.key,
        "webhook-ring.json": keys.write(own).encode(),
        "webhook-public.json": keys.write(own.public()).encode(),
        "operator-ring.json": keys.write(theirs).encode(),
        "operator-public.json": keys.write(theirs.public()).encode(),
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)


def write_settings(
    folder: Path,
    *,
    address: str,
    client_authority: Path | None = None,
    port: int = 0,
    more: Mapping[str, object] | None = None,
) -> Path:
    """Write the settings of a webhook that finds the files of `write_folder`; return the path."""
    found = {
        "listen": {"address": "127.0.0.1", "port": port, "healthPort": 0},
        "decisions": {"address": address},
        "files": {
            "certificate": str(folder / "webhook.crt"),
            "key": str(folder / "webhook.key"),
            "authority": str(folder / "ca.crt"),
            "clientAuthority": str(client_authority or folder / "ca.crt"),
            "ring": str(folder / "webhook-ring.json"),
            "operatorRing": str(folder / "operator-public.json"),
        },
        "drainS": 0,
        **(more or {}),
    }
    path = folder / "webhook.yaml"
    path.write_text(json.dumps(found))
    return path


async def ports_of(errors: asyncio.StreamReader) -> tuple[int, int]:
    """Return the ports of a webhook (calls, health) once its certificates are in use."""
    ports = (0, 0)
    async for line in errors:
        said = json.loads(line)
        if said["message"] == "webhook started":
            ports = (said["port"], said["health"])
        if said["message"] == "certificates in use":
            return ports
    raise AssertionError("the webhook ended before it served")


def caller_context(folder: Path) -> ssl.SSLContext:
    """Return TLS as the API server speaks it, with the files of `write_folder`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "ca.crt")
    context.load_cert_chain(folder / "caller.pem")
    return context


def _mapping(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value


async def _run(folder: Path, behaviour: str, port: int) -> None:
    decider = Decider(
        ring=keys.read((folder / "operator-ring.json").read_bytes()),
        webhook_ring=keys.read((folder / "webhook-public.json").read_bytes()),
        behaviour=behaviour,
        verdict=decisions.Verdict.GATE,
        kept=0,
    )
    leaf = authorities.Leaf(
        certificate=(folder / "operator.crt").read_bytes(),
        key=(folder / "operator.key").read_bytes(),
    )
    authority = (folder / "ca.crt").read_bytes()
    async with serving(decider, leaf, client_authority=authority, port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--behaviour", choices=LIES, default="good")
    parser.add_argument("--port", type=int, required=True)
    chosen = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(chosen.folder, chosen.behaviour, chosen.port))
