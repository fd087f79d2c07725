"""A small asynchronous Kubernetes client: JSON in and out, errors as the core names them.

One connection pool, in-cluster credentials whose token is read again before it runs out, kubeconfig
for people. Objects are plain decoded JSON (docs/adr/0025-an-api-client-of-our-own.md). What the API
server refuses becomes a subclass of what `models.domain.errors` draws, so a caller sees what to do:

    InvalidError(InputError)          400, 422 and the like
    ForbiddenError(RefusedError)      401, 403: rights, quota, an admission policy
    NotFoundError(StaleError)         404
    ConflictError(StaleError)         409; also a `test` of a JSON patch that did not hold
    GoneError(StaleError)             410: list again
    UnreachableError(UnavailableError) 429, 5xx, broken connections, after all tries
"""

import asyncio
import contextlib
import random
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from tiphys.models.domain import errors
from tiphys.operator import credentials as logins

Object = dict[str, Any]
"""JSON that Kubernetes owns."""

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
IDLE_S = 60.0
"""How long a connection waits for its next call: less than the API server's 90 s, and a handshake
costs more than the call."""
RETRIED = frozenset({429, 500, 502, 503, 504})
BROKEN = (aiohttp.ClientError, ConnectionError, TimeoutError, ssl.SSLError)
PAGE = 500
"""Objects in one page of a list: what bounds the memory of reading a large one."""


class AnswerError(Exception):
    """What all refusals carry: the HTTP status (0 = no answer), Kubernetes' machine word, and the
    sentence that it said."""

    def __init__(self, text: str, *, status: int = 0, reason: str = "", said: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.said = said


class InvalidError(AnswerError, errors.InputError):
    """The object or call is not valid."""


class ForbiddenError(AnswerError, errors.RefusedError):
    """No right, no quota, or an admission policy says no."""


class NotFoundError(AnswerError, errors.StaleError):
    """There is no such object (any more)."""


class ConflictError(AnswerError, errors.StaleError):
    """It changed meanwhile, exists already, or the patch's `test` did not hold."""


class GoneError(AnswerError, errors.StaleError):
    """The version asked for is too old: list again."""


class UnreachableError(AnswerError, errors.UnavailableError):
    """The API server did not answer, or is overloaded."""


class Api:
    """One connection pool to one API server; use as `async with Api(login) as api`.

    `attempts` bounds the tries of one call; the pause between two doubles from 0.1 s to 3 s with
    jitter, unless the server names one (Retry-After).
    """

    def __init__(
        self,
        login: logins.Login,
        *,
        attempts: int = 5,
        connections: int = 64,
        timeout_s: float = 20.0,
        agent: str = "tiphys",
        headers: Sequence[tuple[str, str]] = (),
    ) -> None:
        """`headers` go with every call, such as those of impersonation; a name may come twice."""
        self._login = login
        self._headers = tuple(headers)
        self._attempts = attempts
        self._connections = connections
        self._timeout_s = timeout_s
        self._agent = agent
        self._session: aiohttp.ClientSession | None = None
        self.retries = 0
        """Calls that had to be repeated."""

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            base_url=self._login.server,
            connector=aiohttp.TCPConnector(
                ssl=self._login.context, limit=self._connections, keepalive_timeout=IDLE_S
            ),
            headers=(("Accept", JSON), ("User-Agent", self._agent), *self._headers),
            json_serialize=lambda value: orjson.dumps(value).decode(),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        params: Mapping[str, str] | None = None,
        attempts: int | None = None,
        timeout_s: float | None = None,
    ) -> Object:
        """Make one call and return the decoded answer; raises the errors of this module.

        Overload and broken connections are retried `attempts` times, so a create or a JSON patch
        that went through unheard may come back as `ConflictError`: read, then judge.
        `timeout_s` is for one try.
        """
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type, "Accept": accept}
        tries = attempts or self._attempts
        for attempt in range(tries):
            pause_s = min(3.0, 0.1 * 2**attempt) * random.uniform(0.7, 1.3)
            try:
                status, answer, after_s = await self._once(
                    method, path, data, headers, params, timeout_s or self._timeout_s
                )
            except BROKEN as error:
                refusal: Exception = UnreachableError(
                    f"{method} {path}: {type(error).__name__}: {error}"
                )
                refusal.__cause__ = error
            else:
                if status < 300:
                    return _decoded(answer)
                refusal = _refusal(answer, status, f"{method} {path}", content_type)
                if status not in RETRIED:
                    raise refusal
                pause_s = after_s or pause_s
            if attempt + 1 == tries:
                raise refusal
            self.retries += 1
            await asyncio.sleep(pause_s)
        raise AssertionError("unreachable: the last try returns or raises")

    async def get(
        self, path: str, *, params: Mapping[str, str] | None = None, timeout_s: float | None = None
    ) -> Object:
        """Read one object; with `timeout_s` once only."""
        attempts = None if timeout_s is None else 1
        return await self.call("GET", path, params=params, attempts=attempts, timeout_s=timeout_s)

    async def pages(
        self, path: str, *, params: Mapping[str, str] | None = None, accept: str = JSON
    ) -> AsyncIterator[Object]:
        """Yield a collection page by page, as lists; raises `GoneError` when it took too long."""
        query = {**(params or {}), "limit": str(PAGE)}
        while True:
            page = await self.call("GET", path, params=query, accept=accept)
            yield page
            if not (token := page["metadata"].get("continue")):
                return
            query["continue"] = token

    async def create(self, path: str, body: object) -> Object:
        """Create an object in the collection `path`."""
        return await self.call("POST", path, body=body)

    async def replace(self, path: str, body: object, *, timeout_s: float | None = None) -> Object:
        """Write a whole object; its resourceVersion decides a race."""
        return await self.call("PUT", path, body=body, timeout_s=timeout_s)

    async def patch(
        self,
        path: str,
        body: object,
        *,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, str] | None = None,
    ) -> Object:
        """Patch one object; `content_type` says in which patch language."""
        return await self.call("PATCH", path, body=body, content_type=content_type, params=params)

    async def apply(
        self,
        path: str,
        body: object,
        *,
        manager: str = "tiphys",
        timeout_s: float | None = None,
    ) -> Object:
        """Server-side apply of one object, forced; with `timeout_s` once only."""
        return await self.call(
            "PATCH",
            path,
            body=body,
            content_type=APPLY_PATCH,
            params={"fieldManager": manager, "force": "true"},
            attempts=None if timeout_s is None else 1,
            timeout_s=timeout_s,
        )

    async def delete(self, path: str, *, body: object | None = None) -> None:
        """Delete one object; `body` may hold DeleteOptions with preconditions."""
        await self.call("DELETE", path, body=body)

    async def text(self, path: str) -> str:
        """Read a path that answers plain text, such as `/readyz`."""
        session = self._opened()
        async with session.get(path, headers={"Accept": "*/*", **self._bearer()}) as response:
            answer = await response.read()
            if response.status >= 300:
                raise _refusal(answer, response.status, f"GET {path}", JSON)
            return answer.decode()

    async def stream(
        self, path: str, *, params: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[tuple[str, Object]]:
        """Yield (type, object) of one watch call until the server ends it.

        First comes one (`OPEN`, {}) when the server has accepted the watch. Raises `GoneError` for
        410 whether as status or as event, `UnreachableError` when cut or silent for `silence_s`.
        """
        query = {**params, "watch": "true", "allowWatchBookmarks": "true"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence_s)
        rest = b""
        try:
            async with self._opened().get(
                path, params=query, headers=self._bearer(), timeout=timeout
            ) as response:
                if response.status >= 300:
                    answer = await response.read()
                    raise _refusal(answer, response.status, f"WATCH {path}", JSON)
                yield "OPEN", {}
                async for chunk in response.content.iter_any():
                    *lines, rest = (rest + chunk).split(b"\n")
                    for line in lines:
                        event = orjson.loads(line)
                        if event["type"] == "ERROR":
                            said = event["object"]
                            code = int(said.get("code") or 500)
                            raise _refusal(orjson.dumps(said), code, f"WATCH {path}", JSON)
                        yield event["type"], event["object"]
        except (*BROKEN, orjson.JSONDecodeError) as error:
            raise UnreachableError(f"WATCH {path}: {type(error).__name__}: {error}") from error

    async def _once(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None,
        timeout_s: float,
    ) -> tuple[int, bytes, float]:
        """Return status, body and the pause that the server asks for, in seconds (0 = none)."""
        timeout = aiohttp.ClientTimeout(total=timeout_s)
        async with self._opened().request(
            method,
            path,
            data=data,
            params=params,
            headers={**headers, **self._bearer()},
            timeout=timeout,
        ) as response:
            after_s = 0.0
            with contextlib.suppress(KeyError, ValueError):
                after_s = min(5.0, float(response.headers["Retry-After"]))
            return response.status, await response.read(), after_s

    def _bearer(self) -> dict[str, str]:
        token = self._login.token(time.monotonic())
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _opened(self) -> aiohttp.ClientSession:
        assert self._session is not None, "use the client as `async with Api(...)`"
        return self._session


def _decoded(answer: bytes) -> Object:
    return orjson.loads(answer) if answer else {}


def _refusal(answer: bytes, status: int, call: str, content_type: str) -> AnswerError:
    """Return the error for a refused call."""
    reason, message = "", answer[:500].decode(errors="replace")
    details: Object = {}
    with contextlib.suppress(orjson.JSONDecodeError, AttributeError):
        decoded = orjson.loads(answer)
        reason, message = str(decoded.get("reason", "")), str(decoded.get("message", ""))
        details = decoded.get("details") or {}
    kind: type[AnswerError]
    if status in RETRIED or status >= 500:
        kind = UnreachableError
    elif status in (401, 403):
        kind = ForbiddenError
    elif status == 404:
        kind = NotFoundError
    elif status == 409 or (status == 422 and content_type == JSON_PATCH and not details):
        # A `test` that fails is 422 without details; an invalid object names what is wrong.
        kind = ConflictError
    elif status == 410:
        kind = GoneError
    else:
        kind = InvalidError
    text = f"{call}: {status} {reason}: {message}"
    return kind(text, status=status, reason=reason, said=message)
