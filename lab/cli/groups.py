"""The `lab` command and the table of its subcommands; each module is imported when it runs.

`python -m lab --help` loads click alone.
"""

import errno
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence

import click

from lab import errors, invocations

COMMANDS = {
    # name: (module: attribute, one line of help)
    "up": ("lab.cli.clusters:up", "Start a lab and wait until it is ready."),
    "down": ("lab.cli.clusters:down", "End a lab and everything that it started."),
    "status": ("lab.cli.clusters:status", "Show components, nodes, ports and clocks of a lab."),
    "kubeconfig": ("lab.cli.clusters:kubeconfig", "Print the path of the admin kubeconfig."),
    "logs": ("lab.cli.clusters:logs", "Show the log of one component."),
    "nodes": ("lab.cli.clusters:nodes", "List the nodes and what is requested of them."),
    "component": ("lab.cli.components:component", "Stop, start or disturb one component."),
    "build": ("lab.cli.builds:build", "Build the programs of a lab into the cache."),
    "install": ("lab.cli.installs:install", "Install Tiphys by its chart and wait until ready."),
    "uninstall": ("lab.cli.installs:uninstall", "Take Tiphys out of a lab again."),
    "run": ("lab.cli.runs:run", "Submit a mix of workflows and wait for their end."),
    "measure": ("lab.cli.measures:measure", "Judge a run and write its report."),
    "compare": ("lab.cli.compares:compare", "Compare two measured runs of one workload."),
    "workload": ("lab.cli.workloads:workload", "Make and look at workloads without running them."),
    "corpus": ("lab.cli.corpus:corpus", "Run Argo's own examples against the lab."),
    "fault": ("lab.cli.faults:fault", "Cause a fault: lost node, slow disk, restarted server."),
    "demo": ("lab.cli.demos:demo", "Run the demonstration from start to end."),
    "bench-demo": ("lab.cli.benches:bench_demo", "Measure Tiphys over loads and seeds; hours."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names, and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which a person meets them."""
        return [name for name, (target, _) in COMMANDS.items() if _exists(target)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands with the help of the table above, importing none."""
        rows = [(name, COMMANDS[name][1]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _exists(target: str) -> bool:
    """Whether the module of a command is part of this checkout."""
    return importlib.util.find_spec(target.partition(":")[0]) is not None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real Kubernetes control plane with Argo Workflows and simulated nodes, on this machine."""


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code that belongs to the error (see lab.errors)."""
    try:
        code = main.main(arguments, prog_name=invocations.lab(), standalone_mode=False)
    except errors.LabError as error:
        click.secho("error: ", err=True, nl=False, fg="red")
        click.echo(str(error), err=True)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read us, `head` say, has enough; Python would complain again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.LabError.exit_code
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        if error.filename is None and not full:
            raise
        click.secho("error: ", err=True, nl=False, fg="red")
        what = f"{error.filename} cannot be used" if error.filename else "a file cannot be written"
        remedy = "make room on that disk and repeat" if full else "choose another path"
        reason = (error.strerror or str(error)).lower()
        click.echo(f"{what}: {reason}; {remedy}", err=True)
        return errors.SetupError.exit_code
    except click.exceptions.Abort as error:
        click.echo(": ".join(filter(None, ("interrupted", str(error)))), err=True)
        return 130
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return code if isinstance(code, int) else 0
