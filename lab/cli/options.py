"""Options that several commands share."""

from collections.abc import Callable
from typing import Any

import click

from lab.controlplane import tools


def lab(*names: str) -> Callable[[Any], Any]:
    """Return the option that says which lab, under the given names."""
    return click.option(
        *names,
        default="default",
        show_default=True,
        envvar="TIPHYS_LAB",
        show_envvar=True,
        help="Which lab; several run side by side.",
    )


lab_name = lab("--name", "-n")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
kubernetes = click.option(
    "--kubernetes",
    type=click.Choice(tools.KUBERNETES_VERSIONS),
    default=tools.KUBERNETES_VERSIONS[0],
    show_default=True,
    envvar="TIPHYS_KUBERNETES",
    show_envvar=True,
    help="Version of the control plane.",
)
