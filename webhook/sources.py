"""Where keys and certificates come from: files that are looked at again, or the API by watch.

Both offer raw parts to a `materials.Keeper` for as long as the process runs. Secrets are watched
and not mounted, because a kubelet brings a mounted one up to date only after a minute or two.
"""

import asyncio
import base64
import binascii
import logging
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import orjson

from tiphys.models.domain import errors
from tiphys.models.wire import keys
from tiphys.webhook import materials, settings

_log = logging.getLogger(__name__)

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
REREAD_S = 30.0
"""A projected token is renewed long before its end; seconds between two readings of the files."""
RETRY_S = 1.0
WATCH_S = 240
"""The API server ends a watch after so many seconds, and it is begun anew."""
LONGEST_EVENT = 4 * 2**20
WENT_WRONG = (
    aiohttp.ClientError,
    OSError,
    TimeoutError,
    errors.UnavailableError,
    # Not what an API server answers, but perhaps whoever stands in front of it.
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What is tried again."""


async def follow_files(files: settings.Files, keeper: materials.Keeper, *, certified: bool) -> None:
    """Offer every part now and whenever a file has changed; for ever."""
    while True:
        read_files(files, keeper, certified=certified)
        await asyncio.sleep(files.poll_s)


def read_files(files: settings.Files, keeper: materials.Keeper, *, certified: bool) -> None:
    """Offer what the files hold now; one that cannot be read is as if it were empty."""
    if certified:
        keeper.offer("clients", {"ca.crt": _content(files.client_authority)})
    pair = {
        "tls.crt": _content(files.certificate),
        "tls.key": _content(files.key),
        "ca.crt": _content(files.authority),
    }
    keeper.offer("tls", pair)
    keeper.offer("ring", {keys.RING_FIELD: _content(files.ring)})
    keeper.offer("operator_ring", {keys.OPERATOR_FIELD: _content(files.operator_ring)})


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""


async def follow_cluster(
    chosen: settings.Cluster, keeper: materials.Keeper, account: "Account", *, certified: bool
) -> None:
    """Offer every part as the API has it, now and whenever it changes; for ever."""
    watched = [
        ("secrets", chosen.tls_secret, "tls"),
        ("secrets", chosen.ring_secret, "ring"),
        ("configmaps", chosen.public_config_map, "operator_ring"),
    ]
    if certified:
        watched.append(("configmaps", chosen.client_authority_config_map, "clients"))
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=WATCH_S + 30)
    async with (
        aiohttp.ClientSession(base_url=account.server, timeout=timeout) as session,
        asyncio.TaskGroup() as group,
    ):
        for kind, name, part in watched:
            path = f"/api/v1/namespaces/{chosen.namespace}/{kind}"
            group.create_task(_follow_object(session, account, path, name, part, keeper))


class Account:
    """The ServiceAccount of this pod.  Raises `errors.InputError` outside of a cluster."""

    def __init__(self, environ: Mapping[str, str], *, mount: Path = MOUNT) -> None:
        try:
            host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        except KeyError as error:
            raise errors.InputError(
                f"{error.args[0]} is not set: outside of a cluster name `files` in the settings"
            ) from error
        self.server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        self._mount = mount
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._authority = b""
        try:
            self._trust()
        except (OSError, ValueError) as error:
            raise errors.InputError(f"{mount / 'ca.crt'}: cannot be used ({error})") from error
        self._token, self._read_at = "", float("-inf")

    def headers(self) -> dict[str, str]:
        """Return the headers that say who calls; token and authority are read anew now and then."""
        now = time.monotonic()
        if now - self._read_at > REREAD_S:
            self._trust()
            self._token, self._read_at = (self._mount / "token").read_text().strip(), now
        return {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}

    def _trust(self) -> None:
        """Trust the cluster's authority as the file has it now, beside what it had before.

        A cluster renews it while we run, and a process that does not notice loses its keys.
        """
        authority = (self._mount / "ca.crt").read_bytes()
        if authority != self._authority:
            self.context.load_verify_locations(cadata=authority.decode("ascii"))
            self._authority = authority


async def _follow_object(
    session: aiohttp.ClientSession,
    account: Account,
    path: str,
    name: str,
    part: str,
    keeper: materials.Keeper,
) -> None:
    """Offer one object's data for ever; whatever goes wrong is tried again."""
    while True:
        try:
            async for found in _versions(session, account, path, name):
                keeper.offer(part, _data(found))
        except WENT_WRONG as error:
            _log.warning(
                "keys and certificates cannot be watched",
                extra={"values": {"object": f"{path}/{name}", "why": str(error)[:200]}},
            )
        await asyncio.sleep(RETRY_S)


async def _versions(
    session: aiohttp.ClientSession, account: Account, path: str, name: str
) -> AsyncIterator[Mapping[str, object]]:
    """Yield the object as it is, then after each change, until the watch ends.

    A list with a field selector, since rights on one name hold for such a list and watch alone.
    """
    params = {"fieldSelector": f"metadata.name={name}"}
    async with session.get(
        path, params=params, headers=account.headers(), ssl=account.context
    ) as response:
        listed = orjson.loads(await _whole(response))
    for item in listed.get("items") or []:
        yield item
    version = listed["metadata"]["resourceVersion"]
    more = {
        **params,
        "watch": "true",
        "resourceVersion": version,
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(WATCH_S),
    }
    async with session.get(
        path, params=more, headers=account.headers(), ssl=account.context
    ) as response:
        if response.status != 200:
            raise errors.UnavailableError(f"{response.status} for a watch")
        rest = b""
        async for chunk in response.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > LONGEST_EVENT:
                raise errors.UnavailableError("an event without an end")
            for line in lines:
                event = orjson.loads(line)
                if event.get("type") == "ERROR":
                    return
                if event.get("type") in ("ADDED", "MODIFIED"):
                    yield event["object"]


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    body = await response.read()
    if response.status != 200:
        raise errors.UnavailableError(f"{response.status} {body[:200].decode(errors='replace')}")
    return body


def _data(found: Mapping[str, object]) -> dict[str, bytes]:
    """Return a Secret's data decoded, or a ConfigMap's."""
    data = found.get("data")
    if not isinstance(data, Mapping):
        return {}
    if found.get("kind", "Secret") != "Secret" or "type" not in found:
        return {key: str(text).encode() for key, text in data.items()}
    try:
        return {key: base64.b64decode(str(text)) for key, text in data.items()}
    except binascii.Error:
        return {}
