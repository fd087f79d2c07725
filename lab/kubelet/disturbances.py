"""Faults of simulated nodes: what a command does to machine, pods and physics."""

import asyncio
import functools
from collections.abc import Callable, Mapping

from lab import clocks, errors
from lab.kubelet import computations, controls, endings, lifecycles, machines, nodes
from tiphys.models.physics import errors as physics_errors

NOT_READY_MESSAGE = "container runtime is down"
RESTART = "restart"
ANSWERED_S = 0.05
"""Wall seconds in which the answer to a restart leaves the process."""


class Disturbances:
    """Carries commands out; `restart` ends the process so that it begins anew."""

    def __init__(
        self,
        machine_of: Mapping[str, machines.Machine],
        computing: computations.Computations,
        *,
        clock: clocks.SimClock,
        lives_on: Callable[[str], list[lifecycles.Lifecycle]],
        restart: Callable[[], None],
    ) -> None:
        self._machines = machine_of
        self._computing = computing
        self._clock = clock
        self._lives_on = lives_on
        self._restart = restart

    def cause(self, command: controls.Command) -> None:
        """Let a fault happen; raises `UsageError` for one that cannot."""
        faults: dict[str, Callable[[controls.Command], None]] = {
            "node-lost": self._lose,
            "node-ready": self._recover,
            "not-ready": self._unready,
            "slow-disk": self._slow_disk,
            "pcie-link-down": functools.partial(self._link, health=0.0),
            "link-up": functools.partial(self._link, health=1.0),
            RESTART: self._restart_soon,
        }
        if command.fault not in faults:
            raise errors.UsageError(f"no fault {command.fault!r}: there are {', '.join(faults)}")
        if command.fault != RESTART and command.node not in self._machines:
            raise errors.UsageError(
                f"no node {command.node!r}: this lab simulates {', '.join(self._machines)}"
            )
        try:
            faults[command.fault](command)
        except physics_errors.PhysicsError as error:
            raise errors.UsageError(str(error)) from error
        self._computing.settle()

    def _lose(self, command: controls.Command) -> None:
        """Switch a node off: nothing on it runs on, nothing from it is heard."""
        self._machines[command.node].reachable.clear()
        for life in self._lives_on(command.node):
            life.stop(endings.Stop.LOST)

    def _recover(self, command: controls.Command) -> None:
        """Switch a lost node on, and let an unready one be ready."""
        machine = self._machines[command.node]
        if not machine.reachable.is_set():
            machine.start_free_s = self._clock.now_s()
            self._computing.engine.reboot(machine.name, at_s=machine.start_free_s)
            machine.reachable.set()
        machine.set_condition(nodes.READY, status=True, at=self._clock.wall())

    def _unready(self, command: controls.Command) -> None:
        self._machines[command.node].set_condition(
            nodes.READY, status=False, at=self._clock.wall(), why=NOT_READY_MESSAGE
        )

    def _slow_disk(self, command: controls.Command) -> None:
        if command.bandwidth is None and command.iops is None:
            raise errors.UsageError(
                "a slow disk needs a bandwidth (bytes/s), an IOPS cap, or both: "
                "give `--bandwidth 60M`, `--iops 2000`"
            )
        self._computing.engine.set_disk(
            command.node,
            at_s=self._clock.now_s(),
            bytes_per_s=command.bandwidth,
            iops=command.iops,
        )

    def _link(self, command: controls.Command, *, health: float) -> None:
        self._computing.engine.set_link(
            command.node, command.root, health=health, at_s=self._clock.now_s()
        )

    def _restart_soon(self, _: controls.Command) -> None:
        """Begin the process anew once the answer is out."""
        asyncio.get_running_loop().call_later(ANSWERED_S, self._restart)
