"""Logs of components: their last lines, and what is added while somebody looks."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.controlplane import children


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a log of five lines; whoever follows it does not pause."""
    monkeypatch.setattr(children, "LOOK_EVERY_S", 0.0)
    path = tmp_path / "etcd.log"
    path.write_text("".join(f"line {number}\n" for number in range(5)))
    return path


def followed(log: Path, *events: Callable[[], object], within_bytes: int = 1000) -> str:
    """Return all that is shown while one event after the other happens, and then the lab ends."""
    left = iter(events)

    def over() -> bool:
        event = next(left, None)
        if event is not None:
            event()
        return event is None

    shown: Iterator[str] = children.follow(log, lines=2, within_bytes=within_bytes, over=over)
    return "".join(shown)


def test_every_line_that_is_added_is_shown_once(log: Path) -> None:
    """Also one that is written between the last lines and the first look for more."""
    shown = children.follow(log, lines=2, within_bytes=1000, over=lambda: True)
    first = next(shown)
    with log.open("a") as file:
        file.write("line 5\nline ")

    assert "line 3\nline 4\n" == first
    assert "line 5\nline " == "".join(shown)


def test_what_is_written_before_the_end_is_shown(log: Path) -> None:
    """In pieces, of which one ends within a character."""
    word = "wörter\n".encode()

    def add(part: bytes) -> Callable[[], object]:
        def event() -> None:
            with log.open("ab") as file:
                file.write(part)

        return event

    assert "line 3\nline 4\nwörter\n" == followed(log, add(word[:2]), add(word[2:]))


def test_a_log_that_begins_anew_is_followed_from_its_beginning(log: Path) -> None:
    """As after `down` and `up`; what the old one still got comes first."""

    def anew() -> None:
        with log.open("a") as file:
            file.write("the last\n")
        log.rename(log.with_suffix(".old"))
        log.write_text("the first\n")

    assert "line 3\nline 4\nthe last\nthe first\n" == followed(log, anew)


def test_a_log_that_is_deleted_is_read_to_its_end(log: Path) -> None:
    """`down --purge` takes the folder away while somebody looks."""
    assert "line 3\nline 4\n" == followed(log, log.unlink)


def test_the_last_lines_are_looked_for_within_bounds(log: Path) -> None:
    """A log of gigabytes is not read for its last lines."""
    assert "e 4\n" == followed(log, within_bytes=4)
