"""`component`: stop, start and disturb the processes of a lab."""

import click

from lab import homes
from lab.cli import options
from lab.controlplane import controls

EXPLAINED = {
    "start": "start it again after `stop`",
    "stop": "end it; it stays down until `start`",
    "restart": "end it and start it on the same ports",
    "kill": "SIGKILL; it comes back after a pause, as after a crash",
    "pause": "SIGSTOP: it hangs, its connections stay open",
    "resume": "SIGCONT after `pause`",
}
assert tuple(EXPLAINED) == controls.COMPONENT_COMMANDS


@click.command(
    epilog="\b\n" + "\n".join(f"{name:8} {text}" for name, text in EXPLAINED.items()),
)
@click.argument("action", type=click.Choice(controls.COMPONENT_COMMANDS))
@click.argument("component")
@options.lab_name
def component(action: str, component: str, name: str) -> None:
    """Stop, start or disturb one COMPONENT, such as `kube-apiserver` (see `status`).

    Returns when it is done: after `start` and `restart` the component is ready.
    """
    controls.send(homes.home(name), action, component)
    click.echo(f"{component}: {action} done")
