"""Whose name a person's kubeconfig speaks in, and for whom it asks to be taken."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import test_utils, web

from tiphys.models.domain import errors
from tiphys.operator import apis, credentials

CA = "certificate-authority-data"


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
    with pytest.raises(errors.InputError, match=r"no context 'three'; there are: one, two"):
        credentials.find(path, context="three")


def test_several_kubeconfigs_are_one(tmp_path: Path) -> None:
    """As kubectl has it: the first entry of a name counts, what is not there is passed over."""
    first = tmp_path / "first"
    first.mkdir()
    path = a_kubeconfig(first)
    about = {"name": "mine", "context": {"cluster": "two", "user": "file"}}
    user = {"name": "file", "user": {"tokenFile": "token"}}
    written = {"current-context": "mine", "contexts": [about], "users": [user]}
    (tmp_path / "own").write_text(yaml.safe_dump(written))
    (tmp_path / "token").write_text("from-file\n")
    listed = ":".join(map(str, (tmp_path / "own", tmp_path / "nothing", path)))
    found = credentials.find(None, {"KUBECONFIG": listed})
    assert ("https://two", "from-file") == (found.server, found.token(0.0))
    assert "https://one" == credentials.find(None, {"KUBECONFIG": listed}, context="one").server


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"users: \xff\xfe", " is no kubeconfig that can be used: UnicodeDecodeError"),
        (b"[1]", " is no kubeconfig that can be used: AttributeError"),
        (b"contexts: [{name: a, context: {}}]\ncurrent-context: a", "'cluster' is missing in it"),
        (b"{contexts: [], current-context: one}", ": there is no context 'one'; there are: none"),
        (b"{}", r": no context is chosen there; name one \(--context\)"),
    ],
)
def test_a_spoiled_kubeconfig_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    """In one sentence, whatever is wrong with it."""
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(errors.InputError, match=f"^{path}.*{said}"):
        credentials.find(path)


def test_a_kubeconfig_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    """Commands hint at where one may come from; a file of it that is gone is named too."""
    with pytest.raises(credentials.AbsentError, match=f"^there is no kubeconfig {tmp_path}/gone$"):
        credentials.find(tmp_path / "gone")
    path = a_kubeconfig(tmp_path, tokenFile="token")
    with pytest.raises(errors.InputError, match=f"used: {tmp_path}/token: No such file"):
        credentials.find(path)


@pytest.mark.parametrize("cluster", [{}, {"server": "https://one", CA: "no base64"}])
def test_a_cluster_that_cannot_be_called_is_refused(
    tmp_path: Path, cluster: dict[str, str]
) -> None:
    """It has no address, or an authority that is none."""
    path = a_kubeconfig(tmp_path)
    written = yaml.safe_load(path.read_text())
    written["clusters"][0]["cluster"] = cluster
    path.write_text(yaml.safe_dump(written))
    with pytest.raises(errors.InputError, match="is no kubeconfig that can be used"):
        credentials.find(path)


def test_a_program_may_give_the_token(tmp_path: Path) -> None:
    """It stands beside the kubeconfig, is told what is asked, and what it says is taken."""
    program = tmp_path / "login"
    program.write_text(
        "#!/bin/sh\n"
        """echo '{"kind": "ExecCredential", "status": {"token": "'$1-$WHO'"}}'\n"""
        "case $KUBERNETES_EXEC_INFO in *ExecCredential*) ;; *) exit 1 ;; esac\n"
    )
    program.chmod(0o755)
    asked: dict[str, Any] = {"command": "./login", "args": ["of"]}
    asked["env"] = [{"name": "WHO", "value": "jo"}]
    assert "of-jo" == credentials.person(a_kubeconfig(tmp_path, exec=asked)).token(0.0)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-program-here", "there is no program no-such-program-here; get it"),
        ("false", "returned non-zero exit status 1"),
        ("true", "true printed no ExecCredential"),
    ],
)
def test_a_program_that_gives_nothing_is_named(tmp_path: Path, command: str, said: str) -> None:
    """With the hint that the kubeconfig has for it."""
    path = a_kubeconfig(tmp_path, exec={"command": command, "installHint": "get it"})
    with pytest.raises(errors.InputError, match=said):
        credentials.person(path)


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
