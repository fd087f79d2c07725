"""Keeps nodes alive for the API server: registration, leases, and their status when it changes."""

import asyncio
import contextlib
import logging

from lab import apis, clocks, events
from lab.kubelet import announcements, machines, nodes, settings

logger = logging.getLogger(__name__)


class Keeper:
    """Speaks to the API server for all simulated nodes; `port` is that of their kubelet."""

    def __init__(
        self,
        api: apis.Api,
        clock: clocks.SimClock,
        *,
        events: events.Events,
        port: int,
        version: str,
    ) -> None:
        self._api = api
        self._clock = clock
        self._events = events
        self._port = port
        self._version = version

    async def register(self, machine: machines.Machine) -> None:
        """Create the Node, or bring one that is there already up to date, and report it."""
        body = nodes.node(machine.place)
        try:
            await self._api.create("/api/v1/nodes", body)
        except apis.ApiError as error:
            if error.status != 409:
                raise
            labels = {"metadata": {"labels": body["metadata"]["labels"]}}
            await self._api.patch(f"/api/v1/nodes/{machine.name}", labels)
        if machine.reachable.is_set():
            await self.report(machine)
            await self.renew(machine)

    async def keep(self, machine: machines.Machine) -> None:
        """Renew the lease and report what changed, for ever; silent while the node is lost."""
        while True:
            await asyncio.sleep(settings.LEASE_PERIOD_S)
            if not machine.reachable.is_set():
                continue
            try:
                await self.renew(machine)
                age_s = self._clock.wall() - machine.status_written_at
                if machine.status_changed or age_s >= settings.NODE_STATUS_PERIOD_S:
                    await self.report(machine)
            except apis.ApiError as error:
                logger.warning("node %s could not be reported: %s", machine.name, error)
                if error.status == 404:
                    with contextlib.suppress(apis.ApiError):
                        await self.register(machine)

    async def renew(self, machine: machines.Machine) -> None:
        """Renew the node's lease."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{nodes.LEASE_NAMESPACE}/leases"
        lease = nodes.lease(machine.name, at=self._clock.wall())
        await self._api.apply(f"{path}/{machine.name}", lease)

    async def report(self, machine: machines.Machine) -> None:
        """Write the node's status as it is now."""
        machine.status_changed = False
        self._tell_changes(machine)
        machine.status_written_at = self._clock.wall()
        status = nodes.status(
            machine.place,
            conditions=tuple(machine.conditions.values()),
            images=machine.images,
            port=self._port,
            version=self._version,
            at=machine.status_written_at,
        )
        try:
            await self._api.patch(
                f"/api/v1/nodes/{machine.name}/status",
                {"status": status},
                content_type=apis.STRATEGIC_PATCH,
                brief=True,
            )
        except apis.ApiError:
            machine.status_changed = True
            raise

    def _tell_changes(self, machine: machines.Machine) -> None:
        """Have an Event written for each condition that changed since the last report."""
        for kind, condition in machine.conditions.items():
            if machine.told.get(kind, condition.status) != condition.status:
                reason = f"Node{condition.reason.removeprefix('Kubelet')}"
                message = f"Node {machine.name} status is now: {reason}"
                self._events.tell(announcements.of_node(machine.name, reason, message))
            machine.told[kind] = condition.status
