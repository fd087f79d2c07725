"""The node's side of the containers' network: names, the internet, and kubectl, on one socket.

`HOME/net/node` takes one JSON line per connection (see `ask` in `cells/standins/webs.py`) and
answers with one. Names are resolved as the cluster's DNS would: Services, to the addresses of the
ready pods behind them.
"""

import asyncio
import logging
import os
import urllib.parse
from typing import Any

import msgspec

from lab import apis
from lab.kubelet.behaviours import grounds, kubectls, webs

logger = logging.getLogger(__name__)

_servers: dict[grounds.Ground, asyncio.Task[None]] = {}


def open_node(ground: grounds.Ground) -> None:
    """Serve the node's socket from now on; once for each ground."""
    if ground not in _servers or _servers[ground].done():
        ground.prepare()
        _servers[ground] = asyncio.create_task(_serve(ground))


async def _serve(ground: grounds.Ground) -> None:
    path = ground.net / "node"
    path.unlink(missing_ok=True)
    # The socket's path may be longer than the kernel takes (108); the folder's number is not.
    folder = os.open(ground.net, os.O_RDONLY | os.O_DIRECTORY)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            question = msgspec.json.decode(await reader.readline())
            writer.write(msgspec.json.encode(await answer(ground, question)) + b"\n")
            await writer.drain()
        except (OSError, msgspec.DecodeError, KeyError, apis.ApiError) as error:
            logger.warning("a container's question got no answer: %s", error)
        finally:
            writer.close()

    try:
        server = await asyncio.start_unix_server(serve, f"/proc/self/fd/{folder}/node")
        path.chmod(0o777)
        async with server:
            await server.serve_forever()
    finally:
        os.close(folder)


async def answer(ground: grounds.Ground, question: dict[str, Any]) -> dict[str, Any]:
    """Answer one question of a container."""
    namespace = str(question["namespace"])
    if question["op"] == "kubectl":
        kubectl = kubectls.Kubectl(ground, namespace)
        code, out, err = await kubectl.run([str(word) for word in question["words"]])
        return {"code": code, "out": out, "err": err}
    if question["op"] == "http":
        url = str(question["url"])
        found = webs.answer(webs.sites(ground.root / "web.yaml"), url)
        if found is not None:
            return {"status": found.status, "body": found.body}
        host = urllib.parse.urlsplit(url).hostname or ""
        return {"addresses": await addresses(ground, host, namespace=namespace)}
    raise KeyError(question["op"])


async def addresses(ground: grounds.Ground, name: str, *, namespace: str) -> list[str]:
    """Return the addresses of the ready pods that a Service selects; empty without such a Service.

    Not read from EndpointSlices: in a lab those are kept for the process node's pods only.
    """
    service, _, rest = name.partition(".")
    namespace = rest.split(".")[0] if rest else namespace
    path = f"/api/v1/namespaces/{namespace}"
    try:
        found = await ground.api.get(f"{path}/services/{service}")
        selector = (found.get("spec") or {}).get("selector") or {}
        if not selector:
            return []
        labels = ",".join(f"{key}={value}" for key, value in selector.items())
        listed = await ground.api.get(f"{path}/pods", params={"labelSelector": labels})
    except apis.ApiError:
        return []
    return [item["status"]["podIP"] for item in listed["items"] if _ready(item)]


def _ready(pod: apis.Object) -> bool:
    status = pod.get("status") or {}
    conditions = status.get("conditions") or []
    return bool(status.get("podIP")) and any(
        item["type"] == "Ready" and item["status"] == "True" for item in conditions
    )
