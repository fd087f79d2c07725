"""`python -m lab.controlplane --lab NAME --starter PID:TICKS`: the supervisor of one lab.

Started by `lab.controlplane.labs`, which has written the state and the files that it reads.
"""

import argparse
import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

from lab import errors, homes, invocations
from lab.controlplane import controls, processes, states, supervisors


def main() -> int:
    """Run until the lab is taken down; the state and the log say how it went."""
    parser = argparse.ArgumentParser(prog="python -m lab.controlplane")
    parser.add_argument("--lab", required=True)
    parser.add_argument("--starter", required=True, type=_process)
    arguments = parser.parse_args()
    home = homes.home(arguments.lab)
    state = states.read(home)
    if state is None:
        parser.error(f"{home.state} does not exist: labs are started with `{invocations.lab()} up`")
    if os.fork() > 0:
        # Whoever started us goes on; the child belongs to nobody and leaves no zombie.
        os._exit(0)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        asyncio.run(_supervise(home, state, starter=arguments.starter))
    except errors.LabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    for path in (home.state, home.kubeconfig):
        path.unlink(missing_ok=True)
    return 0


async def _supervise(home: homes.Home, state: states.State, *, starter: processes.Process) -> None:
    supervisor = supervisors.Supervisor(home, state)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, supervisor.close)
    # Whoever waits for the lab to come up may be killed meanwhile; nobody would take it down.
    _on_end(starter, supervisor.close_if_starting)
    if state.asked.owner is not None:
        _on_end(state.asked.owner, supervisor.close)
    server = await controls.serve(home, supervisor)
    try:
        await supervisor.run()
    finally:
        server.close()
        home.supervisor_socket.unlink(missing_ok=True)


def _on_end(watched: processes.Process, action: Callable[[], object]) -> None:
    """Call `action` when a process ends, at once if it has."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(watched.pid)
    except ProcessLookupError:
        action()
        return
    if not watched.alive:
        os.close(descriptor)
        action()
        return

    def ended() -> None:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        action()

    loop.add_reader(descriptor, ended)


def _process(text: str) -> processes.Process:
    pid, _, ticks = text.partition(":")
    return processes.Process(pid=int(pid), started_ticks=int(ticks))


if __name__ == "__main__":
    sys.exit(main())
