"""Where the data pack is looked for, and what stands in for it."""

from pathlib import Path

import pytest

from lab import errors
from lab.workloads import packs


def test_the_path_given_goes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--data` beats the environment."""
    monkeypatch.setenv("TIPHYS_DATA", "/nowhere")
    assert packs.Pack(root=tmp_path) == packs.find(tmp_path)


def test_the_environment_goes_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`TIPHYS_DATA` beats the folder beside the repository."""
    monkeypatch.setenv("TIPHYS_DATA", str(tmp_path))
    assert packs.Pack(root=tmp_path) == packs.find()


@pytest.mark.parametrize("by_flag", [True, False])
def test_the_sample_stays_one_where_somebody_names_it(
    by_flag: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record must not say that its figures come from a data pack."""
    monkeypatch.setenv("TIPHYS_DATA", str(packs.SAMPLE))
    given = packs.SAMPLE.parent / "readers" / ".." / "sample" if by_flag else None
    assert packs.find(given).sample


@pytest.mark.parametrize("given", ["/nowhere/pack", None])
def test_a_path_that_is_no_folder_is_refused(
    given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who names a pack does not get the sample instead."""
    monkeypatch.setenv("TIPHYS_DATA", "/nowhere/pack")
    with pytest.raises(errors.UsageError, match=r"no data pack at /nowhere/pack"):
        packs.find(given)


def test_without_a_pack_the_sample_stands_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says that it is one."""
    monkeypatch.delenv("TIPHYS_DATA", raising=False)
    monkeypatch.setattr(packs, "DEFAULT", tmp_path / "absent")
    assert packs.Pack(root=packs.SAMPLE, sample=True) == packs.find()
