"""Settings files that are no text: one sentence and exit code 2, whichever process reads them."""

from pathlib import Path

import pytest

from tiphys.operator import processes as operators
from tiphys.operator.releaser import processes as releasers
from tiphys.webhook import processes as webhooks

COMMANDS = [(operators, []), (webhooks, []), (releasers, ["--once"])]


@pytest.mark.parametrize(("process", "more"), COMMANDS)
def test_bytes_that_are_no_utf8_are_refused_in_one_sentence(
    process: object, more: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is named, nothing starts, and no traceback is shown."""
    path = tmp_path / "settings.yaml"
    path.write_bytes(b"logLevel: \xff\xfe\n")
    assert 2 == process.main([*more, "--settings", str(path)])  # type: ignore[attr-defined]
    said = capsys.readouterr().err
    assert 1 == len(said.splitlines())
    assert str(path) in said
    assert "utf-8" in said
