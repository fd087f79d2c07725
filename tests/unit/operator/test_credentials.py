"""Whose name a person's kubeconfig speaks in, and for whom it asks to be taken."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import test_utils, web

from tiphys.models.domain import errors
from tiphys.operator import apis, credentials


def a_kubeconfig(folder: Path, server: str = "https://one", **user: Any) -> Path:
    """Write a kubeconfig with two contexts, `one` being the current one."""
    names = ("one", "two")
    written = {
        "current-context": "one",
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": "me", "namespace": f"of-{name}"}}
            for name in names
        ],
        "clusters": [
            {"name": "one", "cluster": {"server": server}},
            {"name": "two", "cluster": {"server": "https://two"}},
        ],
        "users": [{"name": "me", "user": {"token": "t", **user}}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(written))
    return path


def test_a_context_may_be_named(tmp_path: Path) -> None:
    """Server and namespace are its own; an unknown one is refused with those that there are."""
    path = a_kubeconfig(tmp_path)
    assert "https://one" == credentials.find(path).server
    found = credentials.find(path, context="two")
    assert isinstance(found, credentials.Person)
    assert ("https://two", "of-two") == (found.server, found.namespace)
    with pytest.raises(errors.InputError, match=r"no entry 'three'; there are: one, two"):
        credentials.find(path, context="three")


async def test_somebody_else_is_asked_for_with_every_call(tmp_path: Path) -> None:
    """Each group is a header of its own, and the bearer token stays the caller's."""
    met: list[tuple[str, list[str], str]] = []

    async def answer(request: web.Request) -> web.Response:
        about = request.headers
        groups = about.getall("Impersonate-Group", [])
        met.append((about.get("Impersonate-User", ""), groups, about["Authorization"]))
        return web.json_response({})

    application = web.Application()
    application.router.add_get("/api", answer)
    async with test_utils.TestServer(application) as server:
        path = a_kubeconfig(tmp_path, str(server.make_url("")), **{"as": "jo", "as-groups": ["a"]})
        login = credentials.person(path)
        typed = credentials.impersonation("jane", ("dev", "ops"))
        for headers in (login.impersonation, typed, ()):
            async with apis.Api(login, headers=headers) as api:
                await api.get("/api")
    bearer = "Bearer t"
    expected = [("jo", ["a"], bearer), ("jane", ["dev", "ops"], bearer), ("", [], bearer)]
    assert expected == met


def test_a_group_alone_is_nobody() -> None:
    """The API server would refuse each call; it is said once, before any."""
    with pytest.raises(errors.InputError, match="name one"):
        credentials.impersonation("", ("dev",))
