"""A small asynchronous Kubernetes client: JSON in and out, retries, and a watch that re-lists.

For programs of the lab that make thousands of calls a minute; a typed client would cost several
times the CPU of a pod (see docs/adr on the lab's client). Objects are plain decoded JSON.
"""

import asyncio
import contextlib
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
import yaml

from lab import errors, invocations

Object = dict[str, Any]
Reader = Callable[[bytes], tuple[str, Object]]
"""Decodes one line of a watch into the event's kind and its object."""

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
BRIEF = f"{JSON};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Asks for an answer with the object's metadata alone."""

IDLE_S = 60.0
"""How long a connection waits for its next call: less than the API server's 90 s, and a handshake
costs more CPU than the call."""
RETRIED = frozenset({429, 500, 502, 503, 504})
CONNECTION_ERRORS = (aiohttp.ClientError, ConnectionError, TimeoutError, ssl.SSLError)


def event(line: bytes) -> tuple[str, Object]:
    """Return the kind and the whole object of one line of a watch."""
    told = msgspec.json.decode(line)
    return told["type"], told["object"]


class ApiError(errors.LabError):
    """The API server refused a call; `status` is its HTTP code, `reason` its machine word."""

    def __init__(self, *, status: int, reason: str, message: str, call: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(f"{call}: {status} {reason}: {message}")


class Api:
    """One connection pool to the API server of a kubeconfig; use as `async with Api(path) as api`.

    `attempts` bounds the tries of one call; between two the pause doubles from 0.1 s to 3 s, with
    jitter, unless the server names one (Retry-After). `sure_of_rights` also repeats calls that are
    refused for lack of rights: an API server that has just started does not know its roles yet.
    """

    def __init__(
        self,
        kubeconfig: Path,
        *,
        attempts: int = 12,
        connections: int = 64,
        sure_of_rights: bool = False,
    ) -> None:
        self._server, self._context, self._token = _credentials(kubeconfig)
        self._attempts = attempts
        self._connections = connections
        self._sure_of_rights = sure_of_rights
        self._session: aiohttp.ClientSession | None = None
        self.retries = 0
        """Calls that had to be repeated, for status and metrics."""

    async def __aenter__(self) -> Self:
        headers = {"Accept": JSON, "User-Agent": "tiphys-lab"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        self._session = aiohttp.ClientSession(
            base_url=self._server,
            connector=aiohttp.TCPConnector(
                ssl=self._context, limit=self._connections, keepalive_timeout=IDLE_S
            ),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=40),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._session is not None
        await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content_type: str = JSON,
        params: Mapping[str, str] | None = None,
        brief: bool = False,
    ) -> Object:
        """Make one call and return the decoded answer; raises `ApiError` for a refusal.

        `brief` is for callers who do not look at the answer: the server sends little of it, and
        what comes back from here is empty.

        Overload (429, 5xx) and broken connections are retried. A create that is repeated after a
        broken connection, or a 5xx such as a time-out, may find its own object: then the object is
        read and returned.
        """
        assert self._session is not None, "use the client as `async with Api(...)`"
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": content_type, **({"Accept": BRIEF} if brief else {})}
        perhaps_done = False
        for attempt in range(self._attempts):
            last = attempt + 1 == self._attempts
            pause_s = min(3.0, 0.1 * 2**attempt) * random.uniform(0.7, 1.3)
            try:
                async with self._session.request(
                    method, path, data=data, params=params, headers=headers
                ) as response:
                    answer = await response.read()
                    status = response.status
                    with contextlib.suppress(KeyError, ValueError):
                        pause_s = min(5.0, float(response.headers["Retry-After"]))
            except CONNECTION_ERRORS as error:
                if last:
                    raise ApiError(
                        status=0,
                        reason=type(error).__name__,
                        message=str(error),
                        call=f"{method} {path}",
                    ) from error
                perhaps_done = True
            else:
                if status < 300:
                    return msgspec.json.decode(answer) if answer and not brief else {}
                if perhaps_done and status == 409 and method == "POST":
                    name = msgspec.json.decode(data or b"{}").get("metadata", {}).get("name")
                    if name:
                        return await self.call("GET", f"{path}/{name}")
                early = self._sure_of_rights and status == 403 and b" cannot " in answer
                if last or not (status in RETRIED or early):
                    raise _refusal(answer, status=status, call=f"{method} {path}")
                perhaps_done = perhaps_done or status >= 500
            self.retries += 1
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def get(self, path: str, *, params: Mapping[str, str] | None = None) -> Object:
        """Read one object or list."""
        return await self.call("GET", path, params=params)

    async def text(self, path: str) -> str:
        """Read a path that answers plain text, such as `/metrics` or `/readyz`."""
        assert self._session is not None
        async with self._session.get(path, headers={"Accept": "*/*"}) as response:
            answer = await response.text()
            if response.status >= 300:
                raise ApiError(
                    status=response.status, reason="", message=answer[:500], call=f"GET {path}"
                )
            return answer

    async def create(self, path: str, body: object) -> Object:
        """Create an object in the collection `path`."""
        return await self.call("POST", path, body=body)

    async def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
        brief: bool = False,
    ) -> Object:
        """Patch one object; `content_type` says in which patch language."""
        return await self.call(
            "PATCH", path, body=body, content_type=content_type, params=params, brief=brief
        )

    async def apply(self, path: str, body: object, *, manager: str = "tiphys-lab") -> Object:
        """Server-side apply of one object, forced."""
        params = {"fieldManager": manager, "force": "true"}
        return await self.patch(path, body, content_type=APPLY_PATCH, params=params)

    async def delete(self, path: str, *, params: Mapping[str, str] | None = None) -> None:
        """Delete one object; one that is gone already is no error."""
        try:
            await self.call("DELETE", path, params=params)
        except ApiError as error:
            if error.status != 404:
                raise

    async def watch(
        self, path: str, *, params: Mapping[str, str] | None = None, read: Reader = event
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (`ADDED` | `MODIFIED` | `DELETED` | `LISTED`, object) for ever.

        Starts with a list, whose items come as `ADDED`, then one `LISTED` (its object is the list
        with `uids` instead of items). After a cut it goes on from the last version seen; where that
        is too old it lists again, and whoever keeps a cache drops on `LISTED` what is not in it.
        `read` decodes what comes after the list, for callers who do not need the whole of it.
        """
        chosen = dict(params or {})
        while True:
            listed = await self._list(path, chosen)
            items = listed.get("items") or []
            for item in items:
                yield "ADDED", item
            uids = {item["metadata"].get("uid") for item in items}
            yield "LISTED", {"metadata": listed["metadata"], "uids": uids}
            version = listed["metadata"]["resourceVersion"]
            while version:
                async for kind, item in self._stream(path, version, chosen, read):
                    if kind == "ERROR":
                        version = ""
                        break
                    version = item["metadata"]["resourceVersion"]
                    if kind != "BOOKMARK":
                        yield kind, item
                else:
                    await asyncio.sleep(0.2)

    async def _list(self, path: str, params: Mapping[str, str]) -> Object:
        while True:
            try:
                return await self.get(path, params=params)
            except ApiError as error:
                if error.status and error.status not in RETRIED:
                    raise
                await asyncio.sleep(1.0)

    async def _stream(
        self, path: str, version: str, params: Mapping[str, str], read: Reader
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield the events of one watch call until the server or the network ends it."""
        assert self._session is not None
        query = {
            **params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_read=330)
        rest = b""
        try:
            async with self._session.get(path, params=query, timeout=timeout) as response:
                if response.status == 410:
                    yield "ERROR", {}
                    return
                if response.status >= 300:
                    await asyncio.sleep(0.5)
                    return
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        yield read(line)
        except (*CONNECTION_ERRORS, msgspec.DecodeError):
            self.retries += 1


def _refusal(answer: bytes, *, status: int, call: str) -> ApiError:
    try:
        decoded = msgspec.json.decode(answer)
        reason, message = str(decoded.get("reason", "")), str(decoded.get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        reason, message = "", answer.decode(errors="replace")[:500]
    return ApiError(status=status, reason=reason, message=message, call=call)


def _credentials(kubeconfig: Path) -> tuple[str, ssl.SSLContext, str | None]:
    """Read server, TLS context and bearer token of the current context."""
    try:
        config = yaml.safe_load(kubeconfig.read_text())
    except FileNotFoundError as error:
        raise errors.UsageError(
            f"no kubeconfig at {kubeconfig}: start a lab with `{invocations.lab()} up`"
        ) from error
    context = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], context["cluster"])["cluster"]
    user = _named(config["users"], context["user"])["user"]
    tls = ssl.create_default_context(cafile=cluster.get("certificate-authority"))
    if "client-certificate" in user:
        tls.load_cert_chain(user["client-certificate"], user["client-key"])
    return cluster["server"], tls, user.get("token")


def _named(items: list[Object], name: str) -> Object:
    return next(item for item in items if item["name"] == name)
