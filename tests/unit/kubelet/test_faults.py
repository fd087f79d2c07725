"""Commanding faults: words in, one JSON line to the kubelet, one sentence back."""

import asyncio
import contextlib
import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import errors, faults, homes, sockets
from lab.cli import groups
from lab.kubelet import controls


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[homes.Home]:
    """A lab's home below a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="tiphys-") as root:
        monkeypatch.setenv("TIPHYS_LAB_HOME", root)
        made = homes.home("x")
        made.root.mkdir()
        yield made


@contextlib.contextmanager
def a_kubelet(path: Path, *answers: bytes) -> Iterator[list[dict[str, object]]]:
    """Answer one command per connection; yields the commands."""
    heard: list[dict[str, object]] = []
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def answer() -> None:
        for line in answers:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                heard.append(json.loads(stream.readline()))
                stream.write(line)

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        yield heard
    finally:
        thread.join(5)
        listener.close()


def command(*words: str) -> int:
    """Run `python -m lab fault …` of lab x."""
    return groups.run(["fault", *words, "--name", "x"])


def test_a_command_reaches_the_kubelet(
    home: homes.Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Quantities become bytes; the answer is one line."""
    with a_kubelet(home.kubelet_socket, b'{"ok":true}\n') as heard:
        code = command("slow-disk", "ssd-0", "--bandwidth", "60M", "--iops", "2000")
    assert 0 == code
    (sent,) = heard
    assert {"fault": "slow-disk", "node": "ssd-0", "bandwidth": 6e7, "iops": 2000.0}.items() <= (
        sent.items()
    )
    assert "slow-disk ssd-0: done" in capsys.readouterr().out


def test_a_refusal_is_one_sentence_with_its_exit_code(
    home: homes.Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unknown node, say."""
    line = b'{"ok":false,"error":"no node \'x\': this lab simulates a","exit_code":2}\n'
    with a_kubelet(home.kubelet_socket, line):
        assert 2 == command("node-lost", "x")
    assert "error: no node 'x': this lab simulates a" in capsys.readouterr().err


def test_no_kubelet_is_said(home: homes.Home, capsys: pytest.CaptureFixture[str]) -> None:
    """The lab does not run, or runs without it."""
    assert 2 == command("not-ready", "a")
    assert "no simulated kubelet listens in lab 'x'" in capsys.readouterr().err


def test_a_kubelet_that_ends_before_it_answers_is_said(home: homes.Home) -> None:
    """The connection closes without a line."""
    with (
        a_kubelet(home.kubelet_socket, b""),
        pytest.raises(errors.LabError, match="ended before it answered"),
    ):
        faults.cause(home, controls.Command(fault="node-lost", node="a"))


def test_a_wrong_quantity_is_refused_before_anything_is_sent(home: homes.Home) -> None:
    """Click's exit code for a bad option."""
    assert 2 == command("slow-disk", "ssd-0", "--bandwidth", "fast")
    assert 2 == command("slow-disk", "ssd-0", "--iops", "0")


def test_no_restart_without_a_supervisor(
    home: homes.Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server is restarted by whoever started it; nothing is written to the journal."""
    assert 2 == command("restart", "etcd")
    assert "lab 'x' does not listen" in capsys.readouterr().err
    assert not home.journal.exists()


def test_a_kubelet_that_does_not_come_back_is_said(
    home: homes.Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The socket stays the old one."""
    monkeypatch.setattr(faults, "RESTARTED_WITHIN_S", 0.2)
    with (
        a_kubelet(home.kubelet_socket, b'{"ok":true}\n'),
        pytest.raises(errors.LabError, match="did not come back"),
    ):
        faults.restart(home, "kubelet")


async def test_the_kubelets_socket_answers_every_line(home: homes.Home) -> None:
    """A good one, a refused one, one that is no command, and one that finds a bug."""

    async def obey(command: controls.Command) -> None:
        match command.fault:
            case "refused":
                raise errors.UsageError("cannot be")
            case "bug":
                raise KeyError("oops")

    server = await sockets.serve(home.kubelet_socket, controls.Command, obey, who="the kubelet")
    assert 0o600 == home.kubelet_socket.stat().st_mode & 0o777
    reader, writer = await asyncio.open_unix_connection(home.kubelet_socket)
    answers = []
    for line in (b'{"fault":"fine"}', b'{"fault":"refused"}', b"{", b'{"fault":"bug"}'):
        writer.write(line + b"\n")
        answers.append(json.loads(await reader.readline()))
    writer.close()
    await writer.wait_closed()
    server.close()
    await asyncio.sleep(0.05)
    assert [True, False, False, False] == [answer["ok"] for answer in answers]
    assert {"ok": False, "error": "cannot be", "exit_code": 2} == answers[1]
    assert "not a command" in answers[2]["error"]
    assert "the kubelet failed: KeyError" in answers[3]["error"]
