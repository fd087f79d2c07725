"""What a lab answers to the chart's values, and how far a Deployment is."""

from typing import cast

import pytest

from lab import apis, errors
from lab.cli import installs
from lab.installs import charts, helms, rollouts


def test_values_of_a_person_win_key_by_key() -> None:
    """Maps are joined, lists and scalars replaced, and the originals stay as they were."""
    below = {"pods": {"annotations": {"a": "1"}, "env": [1]}, "disabled": False}
    above = {"pods": {"annotations": {"b": "2"}, "env": [2]}, "disabled": True}

    assert {
        "pods": {"annotations": {"a": "1", "b": "2"}, "env": [2]},
        "disabled": True,
    } == charts.merged(below, above)
    assert {"annotations": {"a": "1"}, "env": [1]} == below["pods"]


def a_deployment(**status: int) -> dict[str, object]:
    """Return a Deployment of two replicas that its controller has looked at."""
    return {
        "metadata": {"generation": 3},
        "spec": {"replicas": 2},
        "status": {"observedGeneration": 3, **status},
    }


def test_a_rollout_is_complete_when_all_replicas_are_new_and_ready() -> None:
    """Neither ready ones of an older template nor new ones that are not ready count."""
    complete = rollouts.read(a_deployment(replicas=2, updatedReplicas=2, readyReplicas=2))
    old_left = rollouts.read(a_deployment(replicas=3, updatedReplicas=2, readyReplicas=3))
    not_ready = rollouts.read(a_deployment(replicas=2, updatedReplicas=2, readyReplicas=1))

    assert complete is not None and complete.complete
    assert old_left is not None and not old_left.complete and 1 == old_left.left
    assert not_ready is not None and not not_ready.complete and 1 == not_ready.ready


def test_a_rollout_that_nobody_has_looked_at_says_nothing() -> None:
    """The status is of the generation before."""
    unseen = a_deployment(replicas=2, updatedReplicas=2, readyReplicas=2)
    unseen["metadata"] = {"generation": 4}

    assert rollouts.read(unseen) is None


def test_a_file_that_holds_no_values_is_refused_by_name(tmp_path) -> None:
    """A list is YAML too, and no values."""
    file = tmp_path / "values.yaml"
    file.write_text("- a\n")
    with pytest.raises(errors.UsageError, match=r"values\.yaml holds no values"):
        installs._read(file)
    file.write_text("a: [\n")
    with pytest.raises(errors.UsageError, match=r"values\.yaml is no YAML"):
        installs._read(file)
    file.write_text("")
    assert {} == installs._read(file)


def test_a_manifest_is_read_without_its_empty_documents() -> None:
    """Helm leaves some between the files."""
    assert [{"kind": "A"}, {"kind": "B"}] == helms.objects(
        "---\nkind: A\n---\n# none\n---\nkind: B\n"
    )


class Leaving:
    """An API server whose objects are there for a number of looks after they were deleted."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.deleted: list[str] = []

    async def delete(self, path: str) -> None:
        """Note what is to go."""
        self.deleted.append(path)

    async def get(self, path: str) -> dict[str, object]:
        """Return an object that is on its way, or that it is gone."""
        self.looks -= 1
        if self.looks < 0:
            raise apis.ApiError(status=404, reason="NotFound", message="", call=path)
        return {}


async def test_an_uninstallation_waits_until_its_namespaces_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the next installation is refused, as nothing can be made in them."""
    monkeypatch.setattr(charts, "LOOK_EVERY_S", 0.0)
    leaving = Leaving(looks=3)

    await charts.wipe(cast("apis.Api", leaving))

    assert leaving.looks < 0
    assert {f"/api/v1/namespaces/{name}" for name in (charts.NAMESPACE, "tiphys-release")} < set(
        leaving.deleted
    )


async def test_what_does_not_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A finalizer of somebody else may hold it."""
    monkeypatch.setattr(charts, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(charts, "GONE_WITHIN_S", 0.0)

    with pytest.raises(errors.LabError, match="is still there 0 s after it was deleted: `kubectl"):
        await charts.wipe(cast("apis.Api", Leaving(looks=1000)))
