"""Options that several commands share."""

import click

lab_name = click.option(
    "--name",
    "-n",
    default="default",
    show_default=True,
    envvar="TIPHYS_LAB",
    show_envvar=True,
    help="Which lab; several run side by side.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
