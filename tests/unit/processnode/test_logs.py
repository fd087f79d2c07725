"""Logs as they are read."""

import asyncio

import pytest

from lab.processnode import logs

TEXT = """\
2026-11-30T00:00:01.000000001Z stdout F one
2026-11-30T00:00:02.000000001Z stderr F two
2026-11-30T00:00:03.000000001Z stdout P thr
2026-11-30T00:00:03.000000002Z stdout F ee
"""


@pytest.fixture
def log(tmp_path):
    """Return a log with three lines, the last in two parts."""
    path = tmp_path / "main.log"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, b"one\ntwo\nthree\n"),
        ({"stream": "stderr"}, b"two\n"),
        ({"tail_lines": 2}, b"three\n"),
        ({"tail_lines": 0}, b""),
        ({"limit_bytes": 5}, b"one\nt"),
        ({"since": "2026-11-30T00:00:02"}, b"two\nthree\n"),
        ({"stream": "stderr", "timestamps": True}, b"2026-11-30T00:00:02.000000001Z two\n"),
    ],
)
def test_a_part_of_a_log_can_be_asked_for(log, wanted, expected):
    """The options of `kubectl logs`; a line in parts comes out whole."""
    assert expected == logs.read(log, logs.Wanted(**wanted))


def test_a_rotated_file_is_read_before_the_one_that_goes_on(log):
    """Nothing is lost by it while at most two files are needed."""
    log.with_name("main.log.1").write_text("2026-11-30T00:00:00Z stdout F zero\n")
    assert b"zero\none\n" == logs.read(log, logs.Wanted(stream="stdout"))[:9]


def test_a_new_run_makes_the_old_one_previous(log):
    """With its rotated part; the run before that is gone."""
    log.with_name("main.log.1").write_text("2026-11-30T00:00:00Z stdout F zero\n")
    logs.begin(log)
    assert not log.exists()
    assert logs.read(logs.previous(log), logs.Wanted()).startswith(b"zero\none\n")
    log.write_text("2026-11-30T00:00:09Z stdout F nine\n")
    logs.begin(log)
    assert b"nine\n" == logs.read(logs.previous(log), logs.Wanted())


async def test_following_sees_what_is_written_later_also_after_rotation(log):
    """Every line once, in order, and then the end."""
    over = False
    seen = []

    async def follow():
        async for text in logs.follow(log, logs.Wanted(), over=lambda: over):
            seen.append(text)

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.05)
    with log.open("a") as file:
        file.write("2026-11-30T00:00:04Z stdout F four\n2026-11-30T00:00:05Z std")
        file.flush()
        await asyncio.sleep(logs.FOLLOW_PAUSE_S * 1.5)
        file.write("out F five\n")
    log.replace(log.with_name("main.log.1"))
    log.write_text("2026-11-30T00:00:06Z stdout F six\n")
    await asyncio.sleep(logs.FOLLOW_PAUSE_S * 2)
    over = True
    await following
    assert b"one\ntwo\nthree\nfour\nfive\nsix\n" == b"".join(seen)


def test_old_folders_go_and_those_in_use_stay(tmp_path, monkeypatch):
    """The newest are kept."""
    monkeypatch.setattr(logs, "KEPT_FOLDERS", 1)
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    logs.prune(tmp_path, in_use=[folders[0]])
    assert folders[0].exists()
    assert 2 == len(list(tmp_path.iterdir()))
