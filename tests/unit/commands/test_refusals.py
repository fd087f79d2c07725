"""What commands say where the API server says no or nothing, and how objects may be named."""

import socket
import ssl
from typing import Any

import aiohttp
import pytest

from tiphys.models.domain import errors
from tiphys.operator import apis
from tiphys.operator.commands import explanations, refusals, sessions, views

AT = "https://api:6443"


def a_silence(cause: BaseException) -> apis.UnreachableError:
    """Return the error of a call that a broken connection ended."""
    error = apis.UnreachableError("GET /x: raw")
    error.__cause__ = cause
    return error


def no_connection(why: OSError) -> aiohttp.ClientConnectorError:
    """Return what aiohttp raises where no connection comes about."""
    key: Any = None
    return aiohttp.ClientConnectorError(key, why)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            a_silence(no_connection(ConnectionRefusedError(111, "Connect call failed"))),
            f"the API server at {AT} does not answer (connection refused). Is that cluster up",
        ),
        (a_silence(TimeoutError()), "does not answer (it said nothing in time)"),
        (
            a_silence(no_connection(socket.gaierror(-2, "Name or service not known"))),
            "(its name leads nowhere: Name or service not known)",
        ),
        (a_silence(ssl.SSLCertVerificationError()), "(its certificate is not of the authority"),
        (a_silence(ssl.SSLError(1, "wrong version")), "(no TLS with it: "),
        (a_silence(aiohttp.ServerDisconnectedError()), "(Server disconnected)"),
        (
            apis.UnreachableError("GET /x: raw", status=503, said="it starts"),
            f"the API server at {AT} answers 503: it starts. Is that",
        ),
        (apis.ForbiddenError("GET /x: raw", status=401, said="no"), "does not know you (401)"),
        (apis.ForbiddenError("GET /x: raw", status=403, said="jo may not"), "not allowed: jo may"),
        (errors.InputError("write it so"), "write it so"),
    ],
)
def test_a_call_that_came_to_nothing_is_told_in_one_sentence(
    error: errors.TiphysError, said: str
) -> None:
    """Never with the method and path of the call, which nobody typed."""
    words = refusals.words(error, AT)
    assert said in words
    assert "raw" not in words


class Api:
    """Knows namespace red, and one pod and one Workflow `x` in it."""

    def __init__(self, *, argo: bool = True, spaces: bool = True) -> None:
        self._argo, self._spaces = argo, spaces

    async def get(self, path: str, **_: object) -> Any:
        """Return what is there, or raise as the client does."""
        if "argoproj" in path and not self._argo:
            raise apis.NotFoundError("GET: 404 : 404 page not found", status=404)
        if path.count("/") == 4 and not self._spaces:
            raise apis.ForbiddenError("you may not read namespaces")
        if path == "/api/v1/namespaces/red" or path.endswith(("/red/pods/x", "/red/workflows/x")):
            return {"path": path}
        raise apis.NotFoundError("GET: raw", status=404, reason="NotFound")


def a_session(namespace: str = "red", **more: bool) -> sessions.Session:
    """Return a session of that namespace."""
    api: Any = Api(**more)
    return sessions.Session(api=api, namespace=namespace, output="table", system="tiphys-system")


@pytest.mark.parametrize("name", ["x", "red/x", "pod/x", "pods/x", "po/x"])
async def test_a_pod_may_be_named_as_kubectl_writes_it(name: str) -> None:
    """`kubectl get pods -o name` says `pod/x`; `pod` is no namespace then."""
    assert (await views.pod(a_session(), name))["path"].endswith("/namespaces/red/pods/x")


@pytest.mark.parametrize(
    "name",
    ["x", "red/x", "workflow/x", "wf/x", "workflow.argoproj.io/x", "workflows.argoproj.io/x"],
)
async def test_a_workflow_may_be_named_as_kubectl_writes_it(name: str) -> None:
    """The same; its kind carries the group."""
    assert (await views.workflow(a_session(), name))["path"].endswith("/red/workflows/x")


async def test_an_object_of_another_kind_is_refused() -> None:
    """It is no namespace either."""
    with pytest.raises(errors.InputError, match="workflow/x names a workflow, and a pod is asked"):
        await views.pod(a_session(), "workflow/x")


@pytest.mark.parametrize(
    ("name", "more", "said"),
    [
        ("y", {}, "there is no pod y in namespace red; name another namespace with -n"),
        ("typo/x", {}, "there is no namespace typo in this cluster"),
        ("typo/x", {"spaces": False}, "there is no pod x in namespace typo; name another"),
    ],
)
async def test_what_is_not_there_is_named_with_where_it_was_looked_for(
    name: str, more: dict[str, bool], said: str
) -> None:
    """The pod, or the namespace itself where that may be read."""
    with pytest.raises(apis.NotFoundError, match=f"^{said}"):
        await views.pod(a_session(**more), name)


async def test_a_cluster_without_argo_is_told_so() -> None:
    """The API server knows no such path then, and says so in plain text."""
    with pytest.raises(apis.NotFoundError, match="Argo Workflows is not in it"):
        await views.workflow(a_session(argo=False), "x")


@pytest.mark.parametrize(
    ("typed", "asked"),
    [
        (("pod", "x"), ("pod", "x")),
        (("po", "red/x"), ("pod", "red/x")),
        (("wf", "x"), ("workflow", "x")),
        (("pod/x",), ("pod", "pod/x")),
        (("workflow.argoproj.io/x",), ("workflow", "workflow.argoproj.io/x")),
        (("pod", "pod/x"), ("pod", "pod/x")),
    ],
)
def test_explain_takes_kind_and_name_in_one_word_or_two(
    typed: tuple[str, ...], asked: tuple[str, str]
) -> None:
    """As kubectl does."""
    assert asked == explanations._asked(typed)


@pytest.mark.parametrize("typed", [[], ["pod"], ["x"], ["red/x"], ["job", "x"], ["pod", "x", "y"]])
def test_explain_without_a_kind_or_a_name_is_wrong_usage(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With both ways to write it."""
    assert 2 == explanations.main(typed)
    assert "write `explain pod NAME` or `explain workflow NAME`" in capsys.readouterr().err


def test_each_kind_has_a_help_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under the name by which it was called, with options in kubectl's order."""
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-tiphys", "explain"])
    said = {}
    for typed in ([], ["pod"], ["wf"]):
        assert 0 == explanations.main([*typed, "--help"])
        said[typed[0] if typed else ""] = capsys.readouterr().out
    assert said[""].startswith("Usage: kubectl tiphys explain [OPTIONS] pod|workflow")
    assert said["pod"].startswith("Usage: kubectl tiphys explain pod [OPTIONS] NAME")
    assert said["wf"].startswith("Usage: kubectl tiphys explain workflow [OPTIONS] NAME")
    assert "what kube-scheduler says" in " ".join(said["pod"].split())
    assert "those that wait in order" in " ".join(said["wf"].split())
    places = [said["pod"].index(f"  --{name} ") for name in ("as", "as-group", "as-uid")]
    assert sorted(places) == places
