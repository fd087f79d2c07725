import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec import structs

from lab import errors, homes
from lab.cli import demos, displays, groups, tables
from lab.controlplane import builds, components, labs, states
from lab.workloads import mixes
from tests.unit.controlplane import lab_states


def step(**changes: object) -> builds.Progress:
    """Return a step of the second of five builds."""
    return builds.Progress(
        **{
            "program": "kube-apiserver",
            "number": 2,
            "count": 5,
            "stage": builds.Stage.COMPILING,
            "packages": 312,
            "packages_at_most": 1948,
            "elapsed_s": 45.2,
            **changes,
        }
    )


def test_help_lists_the_commands_and_imports_none() -> None:
    """It answers at once: neither aiohttp nor numpy is loaded for it."""
    code = (
        "import sys\n"
        "from click.testing import CliRunner\n"
        "from lab.cli import groups\n"
        "print(CliRunner().invoke(groups.main, ['--help']).output)\n"
        "assert not {'aiohttp', 'numpy', 'rich', 'cryptography'} & set(sys.modules)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout

    lines = shown.partition("Commands:\n")[2].splitlines()
    assert list(groups.COMMANDS) == [line.split()[0] for line in lines if line[2:3].strip()]
    promised = "up down status kubeconfig logs run measure compare nodes workload build component"
    assert set(promised.split()) <= groups.COMMANDS.keys()


def test_the_help_of_run_names_the_mixes_and_the_variable_for_the_lab() -> None:
    """What a person needs for the first call."""
    shown = CliRunner().invoke(groups.main, ["run", "--help"]).output

    assert all(f"    {name} " in shown for name in mixes.MIXES)
    assert "TIPHYS_LAB;" in shown


@pytest.mark.parametrize("name", groups.COMMANDS)
def test_each_command_explains_itself(name: str) -> None:
    """With its options."""
    result = CliRunner().invoke(groups.main, [name, "--help"])

    assert 0 == result.exit_code
    assert "Usage:" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["status", "-n", "nowhere"], 2, "lab 'nowhere' is not running: start it with"),
        (["kubeconfig", "-n", "nowhere"], 2, "lab 'nowhere' is not running: start it with"),
        (["component", "kill", "etcd", "-n", "nowhere"], 2, "does not listen"),
        (["logs", "etcd", "-n", "nowhere"], 2, "no log of 'etcd' in lab 'nowhere'"),
        (["up", "-n", "No Name"], 2, "'No Name' cannot name a lab"),
        (["up", "--cluster", "nowhere"], 2, "no cluster 'nowhere': choose one of"),
        (["up", "--without", "etcd"], 2, "--without etcd: choose from"),
        (["up", "--speed", "0"], 2, "--speed 0.0: it must be a number above 0"),
        (["up", "--speed", "inf"], 2, "--speed inf: it must be a number above 0"),
        (["up", "--owner-pid", "4194303"], 2, "--owner-pid 4194303: there is no such process"),
        (["up", "--kubernetes", "v1.2.3"], 2, "'v1.2.3' is not one of"),
        (["up", "--api-port", "99999"], 2, "99999 is not in the range 1<=x<=65535"),
        (["fly"], 2, "No such command 'fly'"),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    said: str,
) -> None:
    """And nothing is written."""
    home = tmp_path / "labs"
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(home))

    assert code == groups.run(arguments)
    assert said in capsys.readouterr().err
    assert not home.exists()


def test_an_error_is_no_traceback(tmp_path: Path) -> None:
    """Also as a program of its own."""
    result = subprocess.run(
        [sys.executable, "-m", "lab", "status"],
        env={"TIPHYS_LAB_HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (2, 1) == (result.returncode, len(result.stderr.splitlines()))
    assert result.stderr.startswith("error: lab 'default' is not running")


def test_taking_down_what_is_down_is_no_error(tmp_path: Path) -> None:
    """A person who is not sure may simply say it."""
    result = CliRunner().invoke(groups.main, ["down"], env={"TIPHYS_LAB_HOME": str(tmp_path)})

    said = f"there is no lab 'default' in {tmp_path} (there: none): nothing to end\n"
    assert (0, said) == (result.exit_code, result.output)


def test_a_purge_says_what_it_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second one names a lab that is not there any more."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    homes.home("a").root.mkdir()
    (homes.home("a").root / "audit.log").write_bytes(b"x" * 2**21)

    assert 0 == groups.run(["down", "-n", "a", "--purge"])
    assert [
        "lab 'a' was down",
        f"deleted {tmp_path}/a (2.0 MiB: its logs, records, certificates and data)",
    ] == capsys.readouterr().out.splitlines()
    assert not homes.home("a").root.exists()
    assert 2 == groups.run(["down", "-n", "a", "--purge"])


def test_a_mistyped_name_is_answered_with_the_labs_that_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a lab that was there is not told to be a mistake when it is down."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    for name in ("default", "down", "old"):
        homes.home(name).root.mkdir()
    running = homes.home("default")
    states.write(running, lab_states.a_state(running))
    homes.home("old").state.write_text("{}")

    assert errors.UsageError.exit_code == groups.run(["status", "-n", "defalt"])
    assert errors.UsageError.exit_code == groups.run(["kubeconfig", "-n", "defalt"])
    said = capsys.readouterr().err.splitlines()
    assert all(line.endswith(", or name one that runs: default") for line in said)

    assert errors.UsageError.exit_code == groups.run(["down", "-n", "defalt"])
    assert (
        f"error: there is no lab 'defalt' in {tmp_path} (there: default, down, old): name one of "
        "these, or leave --name away\n" == capsys.readouterr().err
    )
    for _ in range(2):
        assert 0 == groups.run(["down", "-n", "down"])
    assert ["lab 'down' was down"] * 2 == capsys.readouterr().out.splitlines()


def test_the_help_of_up_names_what_may_be_chosen() -> None:
    """Clusters, and components to leave out."""
    shown = " ".join(CliRunner().invoke(groups.main, ["up", "--help"]).output.split())

    assert "genomics, gpu, mixed, uniform" in shown
    # Long words are broken at their hyphens.
    assert ", ".join(components.OPTIONAL) in shown.replace("- ", "-")


def test_an_interruption_says_what_it_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the demo: whoever ends it wants to know what it started, and how to go on."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demos.arms, "prepare", interrupt)

    assert 130 == groups.run(["demo"])
    assert (
        "interrupted: nothing stays running, and the same command starts anew"
        == capsys.readouterr().err.strip()
    )


def test_a_home_that_is_too_deep_for_sockets_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux cuts the path of a Unix socket at 107 bytes."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / ("x" * 120)))

    result = CliRunner().invoke(groups.main, ["up"])

    assert isinstance(result.exception, errors.UsageError)
    assert "choose a shorter TIPHYS_LAB_HOME" in str(result.exception)


def test_how_to_reach_a_lab_is_said_where_it_outlives_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The demo binds its labs to itself: their kubeconfig is gone before anybody can use it."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    monkeypatch.setattr(labs, "up", lambda *args, **options: labs.Outcome.RAN_ALREADY)
    monkeypatch.setattr(states, "load", lambda home: None)

    for more, said in (([], True), (["--owner-pid", str(os.getpid())], False)):
        result = CliRunner().invoke(groups.main, ["up", "--name", "a", *more])

        assert 0 == result.exit_code, result.output
        assert said == ("export KUBECONFIG=" in result.output)


def test_a_build_is_told_in_words() -> None:
    """Which program of how many, what it is at, how far, since when."""
    assert (
        "kube-apiserver (2 of 5): compiling, 312 packages of at most 1948, 45 s"
        == displays.in_words(step())
    )


def test_without_a_terminal_a_build_says_a_line_every_20_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plus one for each new program and each end."""
    now = 1000.0
    monkeypatch.setattr(displays.time, "monotonic", lambda: now)
    with displays.Builds(terminal=False) as shown:
        for _ in range(41):
            shown.report(step())
            now += 1
        shown.report(step(stage=builds.Stage.DONE))

    lines = capsys.readouterr().err.splitlines()
    assert 1 + 3 + 1 == len(lines)
    assert "building 5 programs" in lines[0]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(45.4, "45 s"), (200, "3m 20s"), (18_120, "5h 02m")]
)
def test_a_span_is_short(seconds: float, expected: str) -> None:
    """It must fit a column."""
    assert expected == tables.span(seconds)


def test_a_home_that_cannot_be_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file where the folder of all labs should be."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / "file"))

    assert 3 == groups.run(["up"])
    said = capsys.readouterr().err
    assert f"error: {tmp_path}/file" in said
    assert "cannot be used: not a directory; choose another path" in said


def test_an_interpreter_without_the_libraries_is_told_which_one_has_them() -> None:
    """The system's Python, say: `-S` hides what is installed."""
    result = subprocess.run(
        [sys.executable, "-S", "-m", "lab"], capture_output=True, text=True, check=False
    )

    assert 1 == result.returncode
    assert "has no module 'click': `make lab-up` sets up .venv" in result.stderr


def test_a_library_that_only_one_command_needs_is_named_as_well(tmp_path: Path) -> None:
    """Commands are imported late: click alone does not make an environment."""
    code = (
        "import runpy, sys\n"
        "sys.modules['msgspec'] = None\n"
        "sys.argv = ['lab', 'status']\n"
        "runpy.run_module('lab', run_name='__main__')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (1, 1) == (result.returncode, len(result.stderr.splitlines()))
    assert "has no module 'msgspec': `make lab-up` sets up .venv" in result.stderr


def test_a_lab_is_not_begun_where_it_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than to end in the panic of an etcd that cannot make its files."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path / "labs"))
    monkeypatch.setattr(labs, "ROOM_BYTES", 2**60)

    code = groups.run(["up", "--name", "a"])

    assert errors.SetupError.exit_code == code
    assert f"MiB are free in {tmp_path}/labs, and a lab needs" in capsys.readouterr().err
    assert not (tmp_path / "labs" / "a").exists()


def test_a_full_disk_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wherever it is met; a write does not know the name of its file."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(labs, "down", fail)

    assert 3 == groups.run(["down"])
    assert (
        "error: a file cannot be written: no space left on device; "
        "make room on that disk and repeat\n" == capsys.readouterr().err
    )


def test_a_reader_that_has_enough_gets_no_traceback() -> None:
    """`python -m lab … | head -1`."""
    shown = subprocess.run(
        f"{sys.executable} -m lab up --help | true",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )

    assert "" == shown.stderr


def test_a_start_that_takes_too_long_names_what_did_not_come_up(tmp_path: Path) -> None:
    """With the end of its log; of the supervisor's where it has none."""
    home = homes.Home(name="a", root=tmp_path)
    log = tmp_path / "kubelet.log"
    log.write_text("thinking\n")
    etcd, server = lab_states.a_state(home).components
    late = structs.replace(server, phase=states.Phase.STARTING, log=str(log))
    ready = structs.replace(etcd, phase=states.Phase.READY)
    state = lab_states.a_state(home, components=(ready, late))

    error = labs._late(home, state, log=tmp_path / "supervisor.log")

    assert "lab 'a' was not ready within 240 s: kube-apiserver is starting" in str(error)
    assert "thinking" == error.tail
    assert "within 240 s" in str(labs._late(home, None, log=tmp_path / "supervisor.log"))


def test_who_waits_for_another_command_is_told_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And waits a limited time."""
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(tmp_path))
    monkeypatch.setattr(labs, "LOCKED_WITHIN_S", 0.3)

    with (tmp_path / ".a.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert errors.LabError.exit_code == groups.run(["down", "--name", "a"])

    said = capsys.readouterr().err
    assert 1 == said.count("waiting for another `up` or `down` of lab 'a'")
    assert "error: another `up` or `down` of lab 'a' has been at work" in said
