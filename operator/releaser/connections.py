"""Calls to the API server with the standard library: JSON in and out, one connection a thread."""

import contextlib
import http.client
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, Protocol

from tiphys.models.domain import errors

Object = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
BRIEF = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Asks for an answer with the object's metadata alone."""
TIMEOUT_S = 8.0
LONGEST_ANSWER = 8 * 2**20
"""Bytes; read, they take five times as many. One object has 3 MiB at most."""


class Login(Protocol):
    """Whose name the releaser speaks in; `credentials` has both kinds."""

    @property
    def server(self) -> str:
        """`https://host:port`."""

    @property
    def context(self) -> ssl.SSLContext:
        """TLS with the cluster's CA and, where there is one, the caller's certificate."""

    def token(self, now_s: float) -> str:
        """Return the bearer token; empty = none."""


class CallError(errors.TiphysError):
    """The API server refused; `status` is the HTTP code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class TooLongError(errors.UnavailableError):
    """An answer has more bytes than are taken: ask for less at a time."""


class Api:
    """A client whose threads keep a connection each."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._address = urllib.parse.urlsplit(login.server)
        self._local = threading.local()

    def get(self, path: str, *, params: Mapping[str, str] | None = None) -> Object:
        """Read an object or a list; raises `TooLongError` too."""
        query = f"?{urllib.parse.urlencode(params)}" if params else ""
        return self._call("GET", f"{path}{query}", None)

    def patch(self, path: str, body: object) -> Object:
        """Apply a JSON patch; returns the object's metadata."""
        return self._call("PATCH", path, json.dumps(body).encode())

    def _call(self, method: str, path: str, body: bytes | None) -> Object:
        """Make one call; raises `CallError` for a refusal, `UnavailableError` without an answer."""
        headers = {"Accept": "application/json", "User-Agent": "tiphys-releaser"}
        if body is not None:
            headers |= {"Content-Type": JSON_PATCH, "Accept": BRIEF}
        token = self._login.token(time.monotonic())
        if token:
            headers["Authorization"] = f"Bearer {token}"
        for fresh in (False, True):
            connection = self._connection(fresh)
            try:
                connection.request(method, path, body=body, headers=headers)
                response = connection.getresponse()
                answer = response.read(LONGEST_ANSWER + 1)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # A kept connection may have been closed meanwhile; a new one that fails says more.
                if fresh or not isinstance(
                    error, http.client.RemoteDisconnected | ConnectionError | BrokenPipeError
                ):
                    raise errors.UnavailableError(f"{method} {path}: {error!r}") from error
                continue
            if len(answer) > LONGEST_ANSWER:
                connection.close()
                raise TooLongError(f"{method} {path}: more than {LONGEST_ANSWER} bytes")
            if response.status >= 300:
                raise CallError(response.status, f"{method} {path}: {_said(answer)}")
            try:
                decoded: Object = json.loads(answer)
            except ValueError as error:
                # Cut off, or by somebody who stands in between.
                raise errors.UnavailableError(f"{method} {path}: no JSON ({error})") from error
            return decoded
        raise AssertionError("unreachable: the second try returns or raises")

    def _connection(self, fresh: bool) -> http.client.HTTPSConnection:
        kept = getattr(self._local, "connection", None)
        if kept is None or fresh:
            kept = self._local.connection = http.client.HTTPSConnection(
                self._address.hostname or "",
                self._address.port or 443,
                timeout=TIMEOUT_S,
                context=self._login.context,
            )
        return kept


def _said(answer: bytes) -> str:
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(answer).get("message", ""))[:300]
    return answer[:300].decode(errors="replace")
