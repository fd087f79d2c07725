"""`python -m lab.kubelet --lab NAME`: runs the kubelets of all simulated nodes of one lab.

Started by the lab's supervisor. With `--kubeconfig` it serves any other API server, for tests.
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import time
from pathlib import Path

from lab import apis, catalogs, clocks, errors, homes, sockets
from lab.controlplane import certificates, configurations, states
from lab.kubelet import controls, kubelets, ledgers, nodes, settings, streams
from lab.kubelet.behaviours import chooser, grounds, provisioners
from lab.kubelet.exporters import servers

VERSION = "v1.36.3"
"""What nodes report as kubeletVersion to an API server that is no lab's."""
CONNECTIONS = 24
"""To the API server; each new one costs a TLS handshake, which is dearer than a call."""
GARBAGE = (50_000, 20, 50)
"""Thresholds of Python's garbage collector."""


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # A line for each HTTP request would cost more than the request.
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    # Decoded pods are trees without cycles: looking for garbage among them often costs more CPU
    # than anything that is found.
    gc.freeze()
    gc.set_threshold(*GARBAGE)
    try:
        chosen = choose(parse(arguments))
        again = asyncio.run(serve(chosen))
    except errors.LabError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - this is the command line
        return error.exit_code
    if again:
        # The same process begins anew, so whoever watches it by its id sees no end.
        os.execv(sys.executable, [sys.executable, "-m", "lab.kubelet", *sys.argv[1:]])
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.kubelet", description=__doc__)
    parser.add_argument("--lab", default="default", help="name of the lab")
    parser.add_argument("--home", type=Path, help="folder for its files, instead of the lab's own")
    parser.add_argument("--kubeconfig", type=Path, help="of the API server, instead of the lab's")
    parser.add_argument("--cluster", help="name or file of the cluster, instead of the lab's")
    parser.add_argument("--speed", type=float, help="simulated seconds per wall second")
    parser.add_argument("--epoch", type=float, help="wall time at which simulated time began")
    parser.add_argument("--seed", type=int, default=0, help="of the physics' random factors")
    return parser.parse_args(arguments)


def choose(asked: argparse.Namespace) -> settings.Settings:
    """Return the settings: what the lab's state says, and what flags put in its place."""
    home = homes.home(asked.lab)
    if asked.kubeconfig is None:
        state = states.load(home)
        kubeconfig = configurations.client_kubeconfig(home, "kubelet")
        clock, version = state.clock, state.asked.kubernetes
        port = next((c.ports["metrics"] for c in state.components if c.name == "kubelet"), 0)
        cluster = asked.cluster or str(home.cluster)
    else:
        kubeconfig, version, port = asked.kubeconfig, VERSION, 0
        clock = clocks.SimClock(speed=asked.speed or 1.0, epoch=asked.epoch or time.time())
        cluster = asked.cluster or "mixed"
    if asked.speed is not None:
        clock = clocks.SimClock(speed=asked.speed, epoch=clock.epoch)
    if asked.home is not None:
        home = homes.Home(name=asked.lab, root=asked.home)
    home.data.mkdir(parents=True, exist_ok=True)
    return settings.Settings(
        home=home,
        kubeconfig=kubeconfig,
        cluster=catalogs.load(cluster),
        clock=clock,
        seed=asked.seed,
        version=version,
        metrics_port=port,
    )


async def serve(chosen: settings.Settings) -> bool:
    """Run until a signal comes; returns whether the process is to begin anew."""
    loop, ending = asyncio.get_running_loop(), asyncio.Event()
    again = False

    def restart() -> None:
        nonlocal again
        again = True
        ending.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ending.set)
    certificates.write_authority(chosen.certificate, "tiphys-lab-simulated-kubelet")
    addresses = [place.address for place in nodes.places(chosen.cluster)]
    async with contextlib.AsyncExitStack() as stack:
        listeners, port = streams.bind(addresses)
        for listener in listeners:
            stack.callback(listener.close)
        ledger = stack.enter_context(ledgers.Ledger(chosen.home.journal, chosen.clock))
        api = await stack.enter_async_context(
            apis.Api(chosen.kubeconfig, connections=CONNECTIONS, sure_of_rights=True)
        )
        kubelet = kubelets.Kubelet(
            chosen, api, ledger=ledger, choose=chooser.choose, port=port, restart=restart
        )
        for server in (
            *await streams.serve(kubelet, sockets=listeners, certificate=chosen.certificate),
            await sockets.serve(
                chosen.home.kubelet_socket,
                controls.Command,
                kubelet.obey,
                who="the simulated kubelet",
            ),
        ):
            stack.callback(server.close)
        exporter = await servers.serve(kubelet)
        stack.push_async_callback(exporter.cleanup)
        running = loop.create_task(kubelet.run())
        providing = loop.create_task(provisioners.run(api, chosen.home.root / grounds.CLAIMS))
        waiting = loop.create_task(ending.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        failed = running.done()
        await kubelet.close(running, providing)
        if failed:
            running.result()
    return again


if __name__ == "__main__":
    sys.exit(main())
