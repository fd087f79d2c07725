"""What the kubelet's command line means."""

import gc
from pathlib import Path

import pytest

from lab import errors
from lab.kubelet import __main__ as program


def test_flags_stand_in_for_a_lab(tmp_path: Path) -> None:
    """Any API server, any cluster, any speed; files below the given home."""
    asked = program.parse(
        [
            *("--kubeconfig", str(tmp_path / "kubeconfig"), "--home", str(tmp_path)),
            *("--cluster", "uniform", "--speed", "30", "--epoch", "1000", "--seed", "7"),
        ]
    )
    chosen = program.choose(asked)
    assert (30.0, 1000.0, 7, "uniform") == (
        chosen.clock.speed,
        chosen.clock.epoch,
        chosen.seed,
        chosen.cluster.name,
    )
    assert tmp_path / "data" / "kubelet.json" == chosen.state


def test_without_a_lab_there_is_nothing_to_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says how to start one."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    with pytest.raises(errors.UsageError, match="python -m lab up"):
        program.choose(program.parse(["--lab", "x"]))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lab", "x"], "is not running"),
        (["--kubeconfig", "/nowhere", "--cluster", "nope"], "no cluster 'nope'"),
        (["--kubeconfig", "/nowhere"], "no kubeconfig at /nowhere"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    flags: list[str],
    words: str,
) -> None:
    """As its command line is called; nothing is raised."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)
    assert 2 == program.main(["--home", str(tmp_path), *flags])
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line
