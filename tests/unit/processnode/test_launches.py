"""Processes behind their shim: started as told, ended for sure, written down."""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from lab.processnode import launches, logs


@pytest.fixture
def spec(tmp_path):
    """Return what makes a launch order whose log is `tmp_path/main.log`."""
    (tmp_path / "stage").mkdir()

    def make(script, **parts):
        usual = {
            "command": ["/bin/sh", "-c", script],
            "environment": {"PATH": "/usr/bin:/bin"},
            "folder": "/",
            "stage": str(tmp_path / "stage"),
            "log": str(tmp_path / "main.log"),
            "log_bytes": 10**6,
        }
        return launches.Spec(**(usual | parts))

    return make


def said(tmp_path):
    """Return what the container wrote."""
    return logs.read(tmp_path / "main.log", logs.Wanted()).decode()


def alive(mark):
    """Return whether any process has `mark` in its command line."""
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if mark.encode() in line:
            return True
    return False


async def until(holds, *, within_s=5.0):
    """Wait until something holds; fails when it does not in time."""
    ends_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < ends_at
        await asyncio.sleep(0.02)


async def gone(mark, *, within_s=5.0):
    """Wait until no process has `mark` in its command line."""
    await until(lambda: not alive(mark), within_s=within_s)


@pytest.mark.parametrize(
    ("script", "expected"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
async def test_the_exit_code_is_that_of_the_first_process(spec, script, expected):
    """A signal counts 128 more, as a shell has it."""
    launched = launches.Launched(spec(script))
    assert 0 < await launched.started()
    assert expected == await launched.exited


async def test_both_streams_are_written_down_with_their_name(spec, tmp_path):
    """Also a last line that has no end."""
    await launches.Launched(spec("echo out; echo err >&2; printf half")).exited
    assert b"err\n" == logs.read(tmp_path / "main.log", logs.Wanted(stream="stderr"))
    assert b"out\nhalf" == logs.read(tmp_path / "main.log", logs.Wanted(stream="stdout"))


async def test_a_log_keeps_at_most_twice_its_limit(spec, tmp_path):
    """The newest lines are there."""
    script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"
    await launches.Launched(spec(script, log_bytes=10_000)).exited
    sizes = [path.stat().st_size for path in tmp_path.glob("main.log*")]
    assert 2 == len(sizes)
    assert max(sizes) <= 10_000
    assert said(tmp_path).endswith("line 1999\n")


async def test_a_program_that_is_not_there_is_named(spec):
    """With the PATH in which it was looked for."""
    launched = launches.Launched(spec("", command=["no-such-program"]))
    with pytest.raises(launches.StartError, match=r"no program 'no-such-program' in PATH"):
        await launched.started()
    assert launches.ENDED_ABNORMALLY == await launched.exited


async def test_a_signal_reaches_the_whole_group(spec, tmp_path):
    """And a polite program ends by itself."""
    launched = launches.Launched(spec("trap 'echo bye; exit 3' TERM; echo up; sleep 60 & wait"))
    await launched.started()
    await until(lambda: "up" in said(tmp_path))
    assert 3 == await launched.end(grace_s=5.0)
    assert "up\nbye\n" == said(tmp_path)


async def test_children_die_with_the_first_process_wherever_they_hid(spec):
    """In sessions of their own, as orphans of any depth."""
    mark = f"60.{time.time_ns()}"
    script = f"setsid sleep {mark} & (setsid sh -c 'sleep {mark} & sleep {mark}' &) ; sleep 0.2"
    launched = launches.Launched(spec(script))
    await launched.started()
    assert alive(mark)
    assert 0 == await launched.exited
    assert not alive(mark)


async def test_nothing_outlives_the_node(spec, tmp_path):
    """A process that starts a container and is killed leaves none of it."""
    mark = f"60.{time.time_ns()}"
    text = (
        "import asyncio, sys, msgspec\n"
        "from lab.processnode import launches\n"
        "async def main():\n"
        "    launched = launches.Launched(msgspec.json.decode(sys.argv[1], type=launches.Spec))\n"
        "    await launched.started()\n"
        "    print('started', flush=True)\n"
        "    await launched.exited\n"
        "asyncio.run(main())\n"
    )
    script = f"setsid sleep {mark} & sleep {mark} & sleep {mark}"
    node = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        text,
        msgspec.json.encode(spec(script)).decode(),
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    assert node.stdout is not None
    assert b"started\n" == await node.stdout.readline()
    assert alive(mark)
    node.send_signal(signal.SIGKILL)
    await node.wait()
    await gone(mark)


async def test_a_killed_shim_takes_its_container_along(spec):
    """The node hears of it as an end that nobody wished."""
    mark = f"60.{time.time_ns()}"
    launched = launches.Launched(spec(f"sleep {mark} & sleep {mark}"))
    pid = await launched.started()
    shim = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(shim, signal.SIGKILL)
    assert launches.ENDED_ABNORMALLY == await launched.exited
    await gone(mark)


async def test_mounts_appear_where_nothing_stood_and_nowhere_else(spec, tmp_path):
    """In new folders, over files, read-only where asked; the host sees none of it."""
    isolation, why = await launches.isolation(tmp_path)
    if isolation == "none":
        pytest.skip(f"mount namespaces are not permitted here: {why}")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a").write_text("content\n")
    (tmp_path / "hosts").write_text("127.9.9.9 somewhere\n")
    mounts = [
        launches.Mount(source=str(tmp_path / name), target=target, read_only=read_only)
        for name, target, read_only in (
            ("conf", "/new-in-root/deep", False),
            ("conf", "/etc/new-in-etc/conf", True),
            ("conf/a", "/var/run/new-file", False),
            ("hosts", "/etc/hosts", False),
        )
    ]
    script = (
        "cat /new-in-root/deep/a /etc/new-in-etc/conf/a /var/run/new-file; cat /etc/hosts; "
        "touch /etc/new-in-etc/conf/b 2>/dev/null || echo read-only; touch /new-in-root/deep/c; "
        "hostname; id -u; test -e /etc/passwd && test -e /proc/self && echo whole"
    )
    launched = launches.Launched(spec(script, isolation=isolation, hostname="pod-1", mounts=mounts))
    await launched.started()
    assert 0 == await launched.exited, said(tmp_path)
    expected = ["content"] * 3 + ["127.9.9.9 somewhere", "read-only", "pod-1", str(os.getuid())]
    assert [*expected, "whole"] == said(tmp_path).split("\n")[:-1]
    assert (tmp_path / "conf" / "c").exists()
    assert not Path("/new-in-root").exists() and not Path("/etc/new-in-etc").exists()


async def test_a_command_enters_a_running_container(spec, tmp_path):
    """It sees the container's files and name, and its output goes where it was told."""
    isolation, why = await launches.isolation(tmp_path)
    if isolation == "none":
        pytest.skip(f"mount namespaces are not permitted here: {why}")
    (tmp_path / "conf").mkdir()
    mount = launches.Mount(source=str(tmp_path / "conf"), target="/new-in-root", read_only=False)
    launched = launches.Launched(
        spec("exec sleep 60", isolation=isolation, hostname="pod-1", mounts=[mount])
    )
    pid = await launched.started()
    script = "hostname > /new-in-root/seen"
    inside = launches.Launched(spec(script, enter=pid, log="", isolation="none"))
    assert 0 == await inside.exited
    assert "pod-1\n" == (tmp_path / "conf" / "seen").read_text()
    launched.kill()
    await launched.exited
