"""Tables and sentences about a lab, for people."""

from collections.abc import Sequence

import click
from rich import box, console, table, text

from lab import homes
from lab.controlplane import reviews, states
from tiphys.models.domain import quantities

COLOURS = {
    states.Phase.READY: "green",
    states.Phase.STARTING: "yellow",
    states.Phase.WAITING: "yellow",
    states.Phase.PAUSED: "yellow",
}


def show_state(home: homes.Home, review: reviews.Review) -> None:
    """Print components, then where things are, then the clocks."""
    state, times = review.state, review.times
    crashed = "" if review.running else ": it crashed"
    click.echo(f"lab {state.name}: {state.phase}{crashed}; Kubernetes {state.asked.kubernetes}")
    if state.error:
        click.echo(f"  {state.error}")
    grid = _table("component", "phase", "pid", "port", "version", "up", "CPU", "memory")
    for item in review.processes:
        component = item.component
        grid.add_row(
            component.name,
            text.Text(component.phase, style=COLOURS.get(component.phase, "red")),
            str(component.process.pid) if component.process else "",
            str(next(iter(component.ports.values()), "")),
            component.version,
            "" if item.uptime_s is None else span(item.uptime_s),
            "" if item.cpu_s is None else f"{item.cpu_s:.1f} s",
            "" if item.memory_bytes is None else f"{item.memory_bytes / 2**20:.0f} Mi",
        )
    console.Console().print(grid)
    for item in review.processes:
        component = item.component
        if component.crashes:
            click.echo(
                f"{component.name}: {counted(component.crashes, 'end')} that nobody commanded, "
                f"the last with {component.last_exit[:200]}"
            )
    click.echo(f"cluster     {state.asked.cluster}: {_nodes_in_words(review)}")
    click.echo(f"kubeconfig  {home.kubeconfig}")
    click.echo(f"logs        {home.logs}")
    so_far = f"; {span(times.simulated_s)} simulated so far" if review.running else ""
    click.echo(f"speed       {times.speed:g}{so_far}")
    for title, lines in (("scaled", times.scaled), ("set", times.chosen), ("wall", times.wall)):
        for index, line in enumerate(lines):
            click.echo(f"{title if index == 0 else '':10}  {line}")


def show_nodes(nodes: Sequence[reviews.NodeReview]) -> None:
    """Print one row per node."""
    grid = _table("node", "ready", "type", "rack", "pods", "CPU requested", "memory requested")
    for node in nodes:
        grid.add_row(
            node.name,
            text.Text("yes", style="green") if node.ready else text.Text("no", style="red"),
            node.instance_type,
            node.rack,
            str(node.pods),
            f"{node.requested_cpu_m / 1000:g} of {quantities.format_cpu_m(node.cpu_m)}",
            f"{node.requested_memory_bytes / 2**30:.1f} of {node.memory_bytes / 2**30:.1f} GiB",
        )
    console.Console().print(grid)


def _nodes_in_words(review: reviews.Review) -> str:
    """Return `5 nodes, 5 ready; 12 pods that have not ended`."""
    if not review.running:
        return f"{counted(review.state.nodes, 'node')}, of which none runs"
    if review.nodes is None:
        nodes = counted(review.state.nodes, "node")
        return f"{nodes}; the API server does not say how they are"
    ready = sum(node.ready for node in review.nodes)
    pods = sum(node.pods for node in review.nodes)
    ended = "has not ended" if pods == 1 else "have not ended"
    nodes = counted(len(review.nodes), "node")
    return f"{nodes}, {ready} ready; {counted(pods, 'pod')} that {ended}"


def counted(number: int, what: str) -> str:
    """Return `1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def span(seconds: float) -> str:
    """Return a length of time as `45 s`, `3m 20s`, `5h 02m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02}m"


def _table(*columns: str) -> table.Table:
    grid = table.Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        grid.add_column(column, no_wrap=True)
    return grid
