"""The operator as processes of this machine against a lab, and what asks it as the webhook does."""

import asyncio
import base64
import contextlib
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from lab import apis, homes
from tiphys.models.wire import keys, messages, signatures
from tiphys.operator import servers

NAMESPACE = "tiphys-system"
ROOT = Path(__file__).parents[2]
CRDS = ROOT / "charts" / "tiphys" / "crds"
SERVER_NAME = f"tiphys-operator.{NAMESPACE}.svc"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


class Operator:
    """One replica that runs."""

    def __init__(self, home: homes.Home, folder: Path, name: str) -> None:
        self.name = name
        self.decisions_port, self.metrics_port = free_port(), free_port()
        self.log = folder / f"{name}.log"
        self._settings = folder / f"{name}.yaml"
        self._settings.write_text(
            json.dumps(
                {
                    "namespace": NAMESPACE,
                    "listen": {
                        "host": "127.0.0.1",
                        "decisionsPort": self.decisions_port,
                        "metricsPort": self.metrics_port,
                    },
                    "history": {"url": f"sqlite:///{folder}/{name}.db", "publish": "1s"},
                }
            )
        )
        self._home = home
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, **environment: str) -> None:
        """Start it; `ready` waits until it answers."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("tiphys")),
                "operator",
                *("--settings", str(self._settings), "--kubeconfig", str(self._home.kubeconfig)),
                env={**os.environ, "POD_NAME": self.name, **environment},
                stdout=log,
                stderr=log,
            )

    async def ready(self, *, within_s: float = 40.0) -> None:
        """Wait until /readyz says ok."""
        end = time.monotonic() + within_s
        said = "nothing listens"
        while time.monotonic() < end:
            with contextlib.suppress(aiohttp.ClientError):
                status, said = await self.page("/readyz")
                if status == 200:
                    return
            assert self.process is not None
            assert self.process.returncode is None, self.log.read_text()[-2000:]
            await asyncio.sleep(0.1)
        raise AssertionError(f"{self.name} is not ready after {within_s} s: {said}")

    async def page(self, path: str) -> tuple[int, str]:
        """Return status and text of a page of the health port."""
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.metrics_port}{path}") as response,
        ):
            return response.status, await response.text()

    async def metric(self, name: str, **labels: str) -> float:
        """Return one value of /metrics; 0 when there is no such series."""
        _, text = await self.page("/metrics")
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(
                f'{key}="{each}"' in series for key, each in labels.items()
            ):
                return float(value)
        return 0.0

    async def end(self, how: signal.Signals = signal.SIGTERM) -> float:
        """Signal it and return how many seconds it took to end."""
        assert self.process is not None
        began = time.monotonic()
        if self.process.returncode is None:
            self.process.send_signal(how)
            try:
                async with asyncio.timeout(30):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()
                raise
        return time.monotonic() - began


class Webhook:
    """Asks for decisions with the webhook's own certificate and ring."""

    def __init__(self, port: int, ring: keys.Ring, identity: servers.Identity) -> None:
        self._port = port
        self.ring = ring
        self._identity = identity
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=64, ssl=identity.calling)
        )

    async def ask(
        self, pod: dict[str, Any], namespace: str, *, dry_run: bool = False
    ) -> messages.Response:
        """Return the answer to one question; raises for a refusal."""
        now = time.time()
        body = messages.encode_request(
            messages.Request(
                admission_uid=secrets.token_hex(16),
                namespace=namespace,
                pod=pod,
                dry_run=dry_run,
                issued_at=now,
                nonce=secrets.token_urlsafe(18),
            )
        )
        async with self._session.post(
            f"https://127.0.0.1:{self._port}{messages.PATH}",
            data=body,
            headers={signatures.HEADER: signatures.sign(self.ring, body, now)},
            server_hostname=SERVER_NAME,
        ) as response:
            answer = await response.read()
            assert 200 == response.status, answer.decode()
            return messages.decode_response(answer)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


@contextlib.asynccontextmanager
async def operators(
    home: homes.Home, folder: Path, count: int = 1
) -> AsyncIterator[tuple[apis.Api, list[Operator]]]:
    """Install the CRDs, make the namespace and start replicas; all of them end."""
    found = [Operator(home, folder, f"tiphys-operator-{place}") for place in range(count)]
    async with apis.Api(home.kubeconfig) as api:
        await install(api)
        try:
            for each in found:
                await each.start()
            for each in found:
                await each.ready()
            yield api, found
        finally:
            for each in found:
                if each.process is not None:
                    await each.end()


async def install(api: apis.Api) -> None:
    """Apply the chart's CRDs and make the namespace."""
    for path in sorted(CRDS.glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        name = crd["metadata"]["name"]
        await api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", crd)
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        await served(api, f"/apis/{group}/v1alpha1/{plural}")
    await api.apply(
        f"/api/v1/namespaces/{NAMESPACE}",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
    )


async def served(api: apis.Api, path: str) -> None:
    """Wait until a new kind is served."""
    for _ in range(100):
        with contextlib.suppress(apis.ApiError):
            await api.get(path)
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{path} is not served")


async def as_webhook(api: apis.Api, operator: Operator) -> Webhook:
    """Return a caller with what the leader made for the webhook."""
    ring = await data(api, "tiphys-webhook-keys")
    identity = servers.Identity()
    identity.take(await data(api, "tiphys-webhook-tls"))
    return Webhook(operator.decisions_port, keys.read(ring[keys.RING_FIELD]), identity)


async def data(api: apis.Api, name: str) -> dict[str, bytes]:
    """Return the decoded data of one of our Secrets."""
    secret = await api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
    return {key: base64.b64decode(text) for key, text in secret["data"].items()}


def free_port() -> int:
    """Return a port that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
