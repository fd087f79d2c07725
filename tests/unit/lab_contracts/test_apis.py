"""The client against a small server: it retries what may be retried and loses no event."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from lab import apis, errors

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[str, str, Handler], Awaitable[apis.Api]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Serve one handler over HTTP and return an open client for it."""
    opened: list[apis.Api] = []
    servers: list[TestServer] = []

    async def start(method: str, path: str, handler: Handler) -> apis.Api:
        application = web.Application()
        application.router.add_route(method, path, handler)
        server = TestServer(application)
        await server.start_server()
        servers.append(server)
        client = apis.Api(kubeconfig_for(str(server.make_url("")), folder=tmp_path), attempts=4)
        opened.append(await client.__aenter__())
        return client

    yield start
    for client in opened:
        await client.__aexit__(None, None, None)
    for server in servers:
        await server.close()


def kubeconfig_for(server: str, *, folder: Path) -> Path:
    """Write a kubeconfig without credentials."""
    authority = folder / "ca.crt"
    authority.write_text("")
    path = folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    return path


async def test_overload_is_retried_until_it_passes(serve: Serve) -> None:
    """Two refusals with 429, then the answer."""
    calls: list[int] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(len(calls))
        if len(calls) < 3:
            return web.json_response({"reason": "TooManyRequests"}, status=429)
        return web.json_response({"kind": "Pod"})

    client = await serve("GET", "/x", handler)
    assert await client.get("/x") == {"kind": "Pod"}
    assert len(calls) == 3
    assert client.retries == 2


async def test_a_refusal_is_raised_with_its_words(serve: Serve) -> None:
    """A 422 is final and carries reason and message."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"reason": "Invalid", "message": "spec: bad"}, status=422)

    client = await serve("POST", "/x", handler)
    with pytest.raises(apis.ApiError, match="POST /x: 422 Invalid: spec: bad") as caught:
        await client.create("/x", {})
    assert caught.value.status == 422


@pytest.mark.parametrize("first", [504, None])
async def test_a_create_that_was_carried_out_unheard_is_no_conflict(
    serve: Serve, first: int | None
) -> None:
    """The answer was a time-out, or none at all: the second try finds the object of the first."""
    calls: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        calls.append(request.method)
        if request.method == "GET":
            return web.json_response({"metadata": {"name": "a", "uid": "u"}})
        if len(calls) > 1:
            return web.json_response({"reason": "AlreadyExists"}, status=409)
        if first is None:
            assert request.transport is not None
            request.transport.close()
        return web.json_response({"reason": "Timeout"}, status=first or 200)

    client = await serve("*", "/x{name:.*}", handler)

    made = await client.create("/x", {"metadata": {"name": "a"}})

    assert made["metadata"]["uid"] == "u"
    assert calls == ["POST", "POST", "GET"]


async def test_a_conflict_after_overload_is_one(serve: Serve) -> None:
    """With 429 the server has done nothing, so the object is somebody else's."""
    statuses = [429, 409]

    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"reason": "No"}, status=statuses.pop(0))

    client = await serve("POST", "/x", handler)
    with pytest.raises(apis.ApiError, match="409"):
        await client.create("/x", {"metadata": {"name": "a"}})


async def test_deleting_what_is_gone_is_no_error(serve: Serve) -> None:
    """404 on delete is the wished state."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response({"reason": "NotFound"}, status=404)

    client = await serve("DELETE", "/x", handler)
    await client.delete("/x")


async def test_a_watch_survives_a_cut_and_an_expired_version(serve: Serve) -> None:
    """After a cut it resumes; after 410 it lists again; objects come in order."""
    asked: list[str | None] = []

    def item(version: str) -> dict[str, object]:
        return {"metadata": {"name": f"p{version}", "resourceVersion": version}}

    async def handler(request: web.Request) -> web.StreamResponse:
        version = request.query.get("resourceVersion")
        asked.append(version)
        if "watch" not in request.query:
            first = "1" if len(asked) == 1 else "9"
            return web.json_response(
                {"metadata": {"resourceVersion": first}, "items": [item(first)]}
            )
        if version == "2":
            return web.json_response({}, status=410)
        events = {"1": item("2"), "9": item("10")}
        response = web.StreamResponse()
        await response.prepare(request)
        line = json.dumps({"type": "ADDED", "object": events[str(version)]}).encode() + b"\n"
        await response.write(line[:10])
        await response.write(line[10:])
        return response

    client = await serve("GET", "/pods", handler)
    seen = []
    async for kind, thing in client.watch("/pods"):
        seen.append((kind, thing["metadata"].get("name")))
        if thing["metadata"].get("name") == "p10":
            break
    assert [
        ("ADDED", "p1"),
        ("LISTED", None),
        ("ADDED", "p2"),
        ("ADDED", "p9"),
        ("LISTED", None),
        ("ADDED", "p10"),
    ] == seen
    assert asked == [None, "1", "2", None, "9"]


def test_a_missing_kubeconfig_says_how_to_get_one(tmp_path: Path) -> None:
    """The remedy stands in the sentence."""
    with pytest.raises(errors.UsageError, match=r"start a lab with `.*python -m lab up`"):
        apis.Api(tmp_path / "none")
