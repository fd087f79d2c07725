"""A small API server over plain HTTP: lists in pages, watches, versions, and faults on demand.

It keeps what it is given and knows no schema. `async with clusters.serving() as cluster` gives it
with a client; a test changes objects through `put` and `drop`, and breaks it by the attributes.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from tests.fakes import patching
from tiphys.operator import apis, credentials

Object = dict[str, Any]


class Cluster:
    """Objects by path, their history, and what is broken."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        """By path of the object."""
        self.version = 100
        self.events: list[tuple[int, str, str, Object]] = []
        """(version, collection, type, object)."""
        self.oldest = 0
        """Watches from before it get 410."""
        self.failing: int | None = None
        """Status of every answer, instead of the right one."""
        self.calls: list[tuple[str, str]] = []
        self.port = 0
        self._changed = asyncio.Condition()
        self._cuts = 0

    def put(self, path: str, obj: Object) -> Object:
        """Keep an object at its path, as a new version."""
        known = self.objects.get(path)
        self.version += 1
        collection, _, name = path.rpartition("/")
        meta = {"uid": f"uid-{name}-{self.version}", **obj.get("metadata", {}), "name": name}
        if known is not None:
            meta["uid"] = known["metadata"]["uid"]
        meta["resourceVersion"] = str(self.version)
        if "/namespaces/" in collection and "namespace" not in meta:
            meta["namespace"] = collection.split("/namespaces/")[1].split("/")[0]
        kept = {**obj, "metadata": meta}
        self.objects[path] = kept
        self._tell(path, "MODIFIED" if known is not None else "ADDED", kept)
        return kept

    def drop(self, path: str) -> None:
        """Delete an object."""
        gone = self.objects.pop(path)
        self.version += 1
        last = {**gone["metadata"], "resourceVersion": str(self.version)}
        self._tell(path, "DELETED", {**gone, "metadata": last})

    def cut(self) -> None:
        """End every watch that is open now."""
        self._cuts += 1
        self._wake()

    def forget(self) -> None:
        """Compact: what happened until now can be watched no more."""
        self.oldest = self.version

    def _tell(self, path: str, kind: str, obj: Object) -> None:
        self.events.append((self.version, path, kind, obj))
        self._wake()

    def _wake(self) -> None:
        async def wake() -> None:
            async with self._changed:
                self._changed.notify_all()

        self._waking = asyncio.ensure_future(wake())

    def application(self) -> web.Application:
        """Return the application to serve."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.calls.append((request.method, path))
        if self.failing is not None:
            return _status(self.failing, "Broken")
        if request.query.get("watch") == "true":
            return await self._watch(request)
        if request.method == "GET":
            if path in self.objects:
                return web.json_response(self.objects[path])
            if _is_collection(path):
                return self._list(request)
            return _status(404, "NotFound")
        body = orjson.loads(await request.read() or b"{}")
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.objects:
                return _status(409, "AlreadyExists")
            return web.json_response(self.put(path, body), status=201)
        if request.method == "PATCH" and "apply" in request.content_type:
            return web.json_response(self.put(path, body))
        known = self.objects.get(path)
        if known is None:
            return _status(404, "NotFound")
        if request.method == "DELETE":
            self.drop(path)
            return web.json_response({})
        if request.method == "PUT":
            given = body["metadata"].get("resourceVersion")
            if given not in (None, known["metadata"]["resourceVersion"]):
                return _status(409, "Conflict")
            return web.json_response(self.put(path, body))
        if request.content_type == apis.MERGE_PATCH:
            return web.json_response(self.put(path, _merged(known, body)))
        if request.content_type == apis.JSON_PATCH:
            return web.json_response(self.put(path, patching.applied(known, body)))
        return _status(415, "UnsupportedMediaType")

    def _members(self, path: str) -> list[Object]:
        return [obj for kept, obj in sorted(self.objects.items()) if _of(kept, path)]

    def _list(self, request: web.Request) -> web.Response:
        members = self._members(request.path)
        start = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "500"))
        page = members[start : start + limit]
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(members):
            meta["continue"] = str(start + limit)
        return web.json_response({"metadata": meta, "items": page})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since, cuts = int(request.query.get("resourceVersion", "0")), self._cuts
        if since < self.oldest:
            return _status(410, "Expired")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while self._cuts == cuts and self.failing is None:
            for version, path, kind, obj in list(self.events):
                if version > since and _of(path, request.path):
                    line = orjson.dumps({"type": kind, "object": obj})
                    await response.write(line + b"\n")
                    since = version
            async with self._changed:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await self._changed.wait()
        return response


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[tuple[Cluster, apis.Api]]:
    """Serve a cluster and give a client of it."""
    cluster = Cluster()
    runner = web.AppRunner(cluster.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    cluster.port = runner.addresses[0][1]
    login = credentials.Person(
        server=f"http://127.0.0.1:{cluster.port}", context=ssl.create_default_context()
    )
    try:
        async with apis.Api(login, attempts=2) as api:
            yield cluster, api
    finally:
        cluster.cut()
        await runner.cleanup()


def _is_collection(path: str) -> bool:
    """Say whether a path names a collection and no object."""
    parts = path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[0] == "namespaces" and len(rest) > 1:
        rest = rest[2:]
    return len(rest) == 1


def _of(kept: str, collection: str) -> bool:
    """Say whether an object's path is in a collection, of one namespace or of all."""
    if kept.rpartition("/")[0] == collection:
        return True
    before, space, rest = kept.partition("/namespaces/")
    return bool(space) and f"{before}/{rest.partition('/')[2].rpartition('/')[0]}" == collection


def _status(code: int, reason: str) -> web.Response:
    return web.json_response(
        {"kind": "Status", "code": code, "reason": reason, "message": reason.lower()}, status=code
    )


def _merged(known: Object, change: Object) -> Object:
    merged = dict(known)
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merged(merged[key], value)
        elif value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged
