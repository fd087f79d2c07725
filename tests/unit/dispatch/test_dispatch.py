"""The `tiphys` command: it lists, it loads only what was asked for, it explains a wrong name."""

import io
import sys
from importlib import metadata
from typing import NoReturn

import pytest

from tiphys.operator import dispatch

COMMANDS = [
    metadata.EntryPoint("greet", f"{__name__}:greet", dispatch.GROUP),
    metadata.EntryPoint("broken", "tests.unit.dispatch.absent:main", dispatch.GROUP),
]


def greet(arguments: list[str]) -> int:
    """Stand in for a subcommand; its exit code tells how many arguments it got."""
    return 40 + len(arguments)


def run(*arguments: str) -> tuple[int, str, str]:
    """Return exit code, output and errors of one dispatch."""
    out, err = io.StringIO(), io.StringIO()
    return dispatch.run(list(arguments), COMMANDS, out=out, err=err), out.getvalue(), err.getvalue()


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_help_lists_the_commands(arguments: tuple[str, ...]) -> None:
    """Help names every command in order and loads none of them, so a broken one does no harm."""
    code, out, err = run(*arguments)
    assert (0, "") == (code, err)
    assert "commands:\n  broken\n  greet\n" in out


def test_help_has_a_line_for_every_command_of_ours() -> None:
    """No more and no fewer than are registered, each beside its name, within a terminal's width."""
    ours = sorted(each.name for each in metadata.entry_points(group=dispatch.GROUP))
    assert ours == sorted(dispatch.WORDS)
    lines = dispatch.usage(ours).splitlines()
    for name, words in dispatch.WORDS.items():
        assert [words] == [line[2:].split(maxsplit=1)[1] for line in lines if f"  {name} " in line]
    assert 100 >= max(map(len, lines))


def test_the_rest_goes_to_the_command() -> None:
    """The command gets what follows its name, and its exit code is the program's."""
    assert (42, "", "") == run("greet", "--loud", "world")


def test_an_unknown_command_is_a_usage_error() -> None:
    """The sentence names the word that was wrong and where the right ones are listed."""
    expected = (2, "", "tiphys: no command 'gret'; `tiphys --help` lists the commands\n")
    assert expected == run("gret")


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("/usr/bin/kubectl-tiphys", "kubectl tiphys"),
        ("/usr/bin/tiphys", "tiphys"),
        ("/kubectl-plugins/tiphys", "tiphys"),
    ],
)
def test_a_plugin_of_kubectl_is_named_as_it_was_called(path: str, called: str) -> None:
    """In the usage, and where a word was wrong."""
    assert called == dispatch.program(path)
    assert f"usage: {called} COMMAND" in dispatch.usage([], called=called)
    err = io.StringIO()
    assert 2 == dispatch.run(["gret"], COMMANDS, out=io.StringIO(), err=err, called=called)
    assert f"`{called} --help` lists the commands" in err.getvalue()


@pytest.mark.parametrize(
    ("module", "extra"),
    [("tiphys.webhook.processes", "webhook"), ("tiphys.operator.commands.statuses", "operator")],
)
def test_a_command_without_its_libraries_names_what_installs_them(module: str, extra: str) -> None:
    """Each image has the extra of its role alone, and a person may have none."""

    class Needy(metadata.EntryPoint):
        def load(self) -> NoReturn:
            raise ModuleNotFoundError("No module named 'aiohttp'", name="aiohttp")

    out, err = io.StringIO(), io.StringIO()
    commands = [Needy("status", f"{module}:main", dispatch.GROUP)]
    assert 2 == dispatch.run(["status"], commands, out=out, err=err)
    assert err.getvalue() == (
        "tiphys status: there is no module 'aiohttp' here; install the libraries of this command: "
        f"pip install 'tiphys[{extra}]'\n"
    )


def test_a_module_of_ours_that_is_missing_is_no_matter_of_libraries() -> None:
    """A broken installation is shown as it is."""

    class Broken(metadata.EntryPoint):
        def load(self) -> NoReturn:
            raise ModuleNotFoundError("No module named 'tiphys.argo'", name="tiphys.argo")

    commands = [Broken("status", "tiphys.operator.commands.statuses:main", dispatch.GROUP)]
    with pytest.raises(ModuleNotFoundError, match=r"tiphys\.argo"):
        dispatch.run(["status"], commands, out=io.StringIO(), err=io.StringIO())


def test_the_version_is_the_installed_one() -> None:
    """`--version` reports the distribution's version."""
    assert (0, f"tiphys {metadata.version('tiphys')}\n", "") == run("--version")


def test_main_reads_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without arguments of its own, `main` takes the process's."""
    monkeypatch.setattr(sys, "argv", ["tiphys", "--version"])
    assert dispatch.main() == 0
    assert capsys.readouterr().out.startswith("tiphys ")


def test_no_command_at_all_is_said_so() -> None:
    """An installation without subcommands still explains itself."""
    assert "(none is installed yet)" in dispatch.usage([])
