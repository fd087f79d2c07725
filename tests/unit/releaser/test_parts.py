"""Settings, pages and openings of the releaser, against an API server that takes notes."""

import threading
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
        self._lock = threading.Lock()

    def get(self, path: str, *, params: Any = None) -> dict[str, Any]:
        """Answer lists of pods and Leases, or one pod."""
        if path.endswith("/leases"):
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
    assert ["a"] == [pod["metadata"]["name"] for pod in opener.find()]
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
    return settings.Settings(look_s=0.02, dead_after_s=0.2, leaderless_s=0.3, **changes)


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
