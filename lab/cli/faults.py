"""`fault`: lost and unready nodes, slow disks, broken links, restarted servers."""

import click

from lab import faults, homes
from lab.cli import options
from lab.kubelet import controls
from tiphys.models.domain import quantities


class Bytes(click.ParamType[float]):
    """Bytes as Kubernetes writes them: `125M`, `2Gi`."""

    name = "bytes"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Parse one value."""
        try:
            return float(quantities.parse(str(value)))
        except quantities.QuantityError as error:
            self.fail(str(error), param, ctx)


@click.group()
def fault() -> None:
    """Cause a fault in a running lab, or end one."""


@fault.command("node-lost")
@click.argument("node")
@options.lab_name
def node_lost(node: str, name: str) -> None:
    """Switch NODE off: its tasks die, its statuses and leases stop.

    The node controller notices after 40 to 50 wall seconds.
    """
    _cause(name, controls.Command(fault="node-lost", node=node))


@fault.command("node-ready")
@click.argument("node")
@options.lab_name
def node_ready(node: str, name: str) -> None:
    """Switch NODE on again, or let it be ready after `not-ready`."""
    _cause(name, controls.Command(fault="node-ready", node=node))


@fault.command("not-ready")
@click.argument("node")
@options.lab_name
def not_ready(node: str, name: str) -> None:
    """Let NODE report that it is not ready; what runs on it goes on."""
    _cause(name, controls.Command(fault="not-ready", node=node))


@fault.command("slow-disk")
@click.argument("node")
@click.option("--bandwidth", type=Bytes(), help="Cap per second from now on, such as 60M.")
@click.option("--iops", type=click.FloatRange(min=0, min_open=True), help="Cap from now on.")
@options.lab_name
def slow_disk(node: str, bandwidth: float | None, iops: float | None, name: str) -> None:
    """Change the caps of NODE's disk, in mid-run; the old ones bring it back."""
    _cause(name, controls.Command(fault="slow-disk", node=node, bandwidth=bandwidth, iops=iops))


@fault.command("pcie-link-down")
@click.argument("node")
@click.option("--root", default=0, show_default=True, help="Which PCIe root complex.")
@options.lab_name
def pcie_link_down(node: str, root: int, name: str) -> None:
    """Take a PCIe link of NODE down: what talks over it hangs."""
    _cause(name, controls.Command(fault="pcie-link-down", node=node, root=root))


@fault.command("link-up")
@click.argument("node")
@click.option("--root", default=0, show_default=True, help="Which PCIe root complex.")
@options.lab_name
def link_up(node: str, root: int, name: str) -> None:
    """Bring a PCIe link of NODE back."""
    _cause(name, controls.Command(fault="link-up", node=node, root=root))


@fault.command("restart")
@click.argument("component")
@options.lab_name
def restart(component: str, name: str) -> None:
    """Restart a COMPONENT: kubelet, kube-apiserver, etcd, kube-scheduler, … (see `status`)."""
    faults.restart(homes.home(name), component)
    click.echo(f"restart {component}: done")


def _cause(name: str, command: controls.Command) -> None:
    faults.cause(homes.home(name), command)
    click.echo(f"{command.fault} {command.node}: done")
