"""Settings, pages and openings of the releaser, against an API server that takes notes."""

import contextlib
import http.client
import http.server
import json
import os
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.dispatching import builders
from tiphys.argo import patches
from tiphys.models.domain import errors
from tiphys.operator.releaser import connections, openings, pages, processes, settings


class Api:
    """Some gated pods; a patch opens, or is refused with a status."""

    def __init__(self, *names: str) -> None:
        self.pods = {name: _gated(name) for name in names}
        self.refused: dict[str, int] = {}
        self.opened: list[str] = []
        self.renewed = 0
        self.renews = False
        self.down = 0
        """Questions about Leases that get no answer yet."""
        self._lock = threading.Lock()

    def get(self, path: str, *, params: Any = None) -> dict[str, Any]:
        """Answer lists of pods and Leases, or one pod."""
        if path.endswith("/leases"):
            if self.down:
                self.down -= 1
                raise errors.UnavailableError("not now")
            self.renewed += self.renews
            return {"items": [_lease(str(self.renewed))]}
        if path == "/api/v1/pods":
            return {"items": [pod for name, pod in self.pods.items() if name not in self.opened]}
        name = path.rpartition("/")[2]
        if name not in self.pods:
            raise connections.CallError(404, "gone")
        return self.pods[name]

    def patch(self, path: str, body: Any) -> dict[str, Any]:
        """Open one."""
        name = path.rpartition("/")[2]
        if name in self.refused:
            raise connections.CallError(self.refused[name], "no")
        with self._lock:
            self.opened.append(name)
        return {}


def _gated(name: str) -> dict[str, Any]:
    priority = 100 if name.startswith("high") else 0
    return builders.a_raw_pod(metadata__name=name, spec__priority=priority)


def _lease(renewed: str) -> dict[str, Any]:
    spec = {"holderIdentity": "a", "renewTime": renewed}
    return {"metadata": {"name": "tiphys-operator"}, "spec": spec}


def an_opener(api: Api) -> openings.Opener:
    """One that opens one at a time, quickly."""
    return openings.Opener(api, per_second=1000, callers=1)  # type: ignore[arg-type]


def test_the_important_ones_open_first() -> None:
    """Then the old ones."""
    api = Api("a", "high", "b")
    opener = an_opener(api)
    assert (3, 0) == opener.open(opener.find(), goes_on=lambda: True)
    assert ["high", "a", "b"] == api.opened
    opener.close()


def test_gates_that_somebody_set_by_hand_are_left_alone() -> None:
    """Each try would be refused, and the floor would fail each minute for as long as they stand."""
    api = Api("a", "hand")
    api.pods["hand"]["metadata"]["annotations"] = {}
    del api.pods["hand"]["metadata"]["labels"]["tiphys.dev/steered"]
    opener = an_opener(api)
    assert ["a"] == [gate.path.rpartition("/")[2] for gate in opener.find()]
    api.pods["hand"]["metadata"]["labels"]["tiphys.dev/steered"] = "true"
    assert 2 == len(opener.find())
    opener.close()


@pytest.mark.parametrize(("status", "counted"), [(404, (2, 0)), (403, (1, 1)), (422, (1, 1))])
def test_a_refusal_stops_nobody_else(status: int, counted: tuple[int, int]) -> None:
    """One that is gone counts as open; one that is there and shut does not."""
    api = Api("a", "b")
    api.refused["a"] = status
    opener = an_opener(api)
    found = opener.find()
    if status == 404:
        del api.pods["a"]
    assert counted == opener.open(found, goes_on=lambda: True)
    assert ["b"] == api.opened
    opener.close()


def test_nothing_is_opened_once_an_operator_lives_again() -> None:
    """The question comes before each batch."""
    api = Api("a")
    opener = an_opener(api)
    assert (0, 0) == opener.open(opener.find(), goes_on=lambda: False)
    opener.close()


def quick(**changes: Any) -> settings.Settings:
    """Settings for tests that do not wait."""
    return settings.Settings(look_s=0.05, dead_after_s=0.2, leaderless_s=1.5, **changes)


def test_once_leaves_gates_alone_while_a_leader_renews() -> None:
    """Its second look proves it."""
    api = Api("a")
    api.renews = True
    assert 0 == processes.Releaser(api, quick()).once()  # type: ignore[arg-type]
    assert [] == api.opened


def test_once_opens_all_when_the_lease_stands_still() -> None:
    """After `deadAfter`; with a gate that stays shut the exit code says so."""
    api = Api("a", "b")
    assert 0 == processes.Releaser(api, quick()).once()  # type: ignore[arg-type]
    assert {"a", "b"} == set(api.opened)
    api = Api("a", "b")
    api.refused["a"] = 403
    assert 1 == processes.Releaser(api, quick()).once()  # type: ignore[arg-type]


def test_once_goes_on_after_a_question_without_an_answer() -> None:
    """The next run is a minute away; only who never gets an answer says so."""
    api = Api("a")
    api.down = 2
    assert 0 == processes.Releaser(api, quick()).once()  # type: ignore[arg-type]
    assert ["a"] == api.opened
    api.down = 1_000
    api.opened.clear()
    assert 3 == processes.Releaser(api, quick()).once()  # type: ignore[arg-type]


def test_once_leaves_the_rest_to_an_operator_that_came_back() -> None:
    """It is no failure of the floor then."""
    api = Api("a")
    releaser = processes.Releaser(api, quick())  # type: ignore[arg-type]

    def wakes(path: str, body: Any) -> dict[str, Any]:
        api.renews = True
        raise connections.CallError(409, "no")

    api.patch = wakes  # type: ignore[method-assign]
    assert 0 == releaser.once()
    assert [] == api.opened


def test_switched_off_once_opens_although_a_leader_renews_and_also_what_comes_late() -> None:
    """The operator of an installation that is being removed may live for some seconds."""
    api = Api("a")
    api.renews = True
    late = threading.Timer(0.1, lambda: api.pods.update(b=_gated("b")))
    late.start()
    assert 0 == processes.Releaser(api, quick(), disabled=True).once()  # type: ignore[arg-type]
    late.join()
    assert ["a", "b"] == api.opened


def test_many_gates_take_little_memory() -> None:
    """A pod as it was read takes fifty times as much, and its container has a limit."""
    crowd = 2_000

    class Crowd(Api):
        def get(self, path: str, *, params: Any = None) -> dict[str, Any]:
            begin = int(params.get("continue", 0))
            pods = [_gated(f"p{n}") for n in range(begin, min(begin + 100, crowd))]
            for pod in pods:
                pod["spec"]["containers"][0]["env"] = [{"value": os.urandom(8_000).hex()}]
            rest = begin + 100 < crowd
            return {"items": pods, "metadata": {"continue": str(begin + 100)} if rest else {}}

    opener = an_opener(Crowd())
    tracemalloc.start()
    found = opener.find()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert crowd == len(found)
    assert 12 * 2**20 > peak
    opener.close()


def test_huge_pods_are_read_a_few_at_a_time() -> None:
    """So nobody keeps everybody's gates shut by the size of their own pods."""
    asked: list[int] = []

    class Huge(Api):
        def get(self, path: str, *, params: Any = None) -> dict[str, Any]:
            asked.append(int(params["limit"]))
            if asked[-1] > 10:
                raise connections.TooLongError("more than enough")
            return super().get(path, params=params)

    opener = an_opener(Huge("a", "b"))
    assert 2 == len(opener.find())
    assert [openings.PAGE, 125, 31, 7] == asked
    opener.close()


@contextlib.contextmanager
def a_server(answer: bytes) -> Iterator[connections.Api]:
    """Serve one answer to everything, in plain HTTP; yield a client of it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answer)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Plain(connections.Api):
        def _connection(self, fresh: bool) -> Any:
            return http.client.HTTPConnection(self._address.hostname or "", self._address.port)

    class Login:
        context = ssl.create_default_context()

        def token(self, now_s: float) -> str:
            return ""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        login = Login()
        login.server = f"http://127.0.0.1:{server.server_port}"  # type: ignore[attr-defined]
        yield Plain(login)  # type: ignore[arg-type]
        server.shutdown()


def test_an_answer_without_end_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole ones are read as ever."""
    monkeypatch.setattr(connections, "LONGEST_ANSWER", 1024)
    with a_server(json.dumps({"a": "x" * 1_000}).encode()) as api:
        assert {"a": "x" * 1_000} == api.get("/x")
    with (
        a_server(json.dumps({"a": "x" * 2_000}).encode()) as api,
        pytest.raises(connections.TooLongError),
    ):
        api.get("/x")


def test_an_answer_that_is_no_json_is_none() -> None:
    """Cut off, or a page of whoever stands in between: it is tried again."""
    with a_server(b"<html>") as api, pytest.raises(errors.UnavailableError, match="no JSON"):
        api.get("/x")


def test_settings_name_what_is_wrong() -> None:
    """Unknown keys, contradictions, words for numbers."""
    for written in (
        {"x": 1},
        {"look": "9s"},
        {"callers": "many"},
        {"callers": 1.5},
        {"metricsPort": 9080.5},
        {"deadAfter": "30s"},
    ):
        with pytest.raises(errors.InputError, match=r"settings"):
            settings.read(written)
    assert 5.0 == settings.read({"look": "1s", "deadAfter": "5s"}).dead_after_s


def test_pages_tell_health_and_figures() -> None:
    """Ready only after a look; metrics with their names."""
    state = pages.State()
    assert 200 == state.answer("/healthz")[0]
    assert 503 == state.answer("/readyz")[0]
    state.looked_at = state.beat_at
    assert 200 == state.answer("/readyz")[0]
    assert "tiphys_releaser_operators_alive 1" in state.answer("/metrics")[1]
    assert 404 == state.answer("/other")[0]
    assert patches.opening(_gated("a"))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_pages_are_served_on_either_kind_of_address(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod may have an address of IPv6 alone; and who asks nothing is cut off."""
    monkeypatch.setattr(pages, "PATIENCE_S", 0.1)
    try:
        socket.create_server((host, 0), family=pages.family(host)).close()
    except OSError:
        pytest.skip(f"this machine has no address {host}")
    server = pages.serve(lambda path: (200, path), host, 0)
    try:
        with socket.create_connection((host, server.server_port), timeout=5) as asking:
            asking.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
            assert asking.makefile("rb").read().endswith(b"/healthz")
        with socket.create_connection((host, server.server_port), timeout=5) as silent:
            assert b"" == silent.recv(1)
    finally:
        server.shutdown()
        server.server_close()
