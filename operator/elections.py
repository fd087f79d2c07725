"""One leader by a Lease, and one Lease for each replica that lives.

Times are judged by one's own monotonic clock only, as client-go does: a candidate takes a Lease
over when it has seen no change of it for the whole duration. The leader counts its time from the
beginning of its last successful renewal and stops acting after `fence_s`, which is less than the
duration: so it is still before another may start, also when it was paused or cut off.
"""

import asyncio
import contextlib
import datetime
import math
from collections.abc import Awaitable, Callable
from typing import Any

import structlog

from tiphys.models.domain import errors
from tiphys.operator import apis, clocks, settings

LEADER = "tiphys-operator"
ADDRESS = "tiphys.dev/address"
"""Annotation of a replica's Lease: `host:port` of its decision API."""
LABELS = {"app.kubernetes.io/name": "tiphys", "app.kubernetes.io/component": "operator"}

log = structlog.get_logger()


class Election:
    """Takes part in the election of one leader."""

    def __init__(
        self,
        api: apis.Api,
        *,
        namespace: str,
        identity: str,
        chosen: settings.Lease,
        clock: clocks.Clock,
        name: str = LEADER,
    ) -> None:
        self._api = api
        self._collection = _leases(namespace)
        self._path = f"{self._collection}/{name}"
        self._name = name
        self._identity = identity
        self._chosen = chosen
        self._clock = clock
        self._held_from = float("-inf")
        self._seen: tuple[object, ...] = ()
        self._seen_at = float("-inf")
        self._holder = ""
        self._spells = 0
        """How often the fence opened: rises also where nobody else led meanwhile."""
        self.term = 0
        """`leaseTransitions` of the current leadership: rises with each new leader."""

    @property
    def leading(self) -> bool:
        """Whether this replica may act as leader at this very moment."""
        return self._clock.monotonic() < self._held_from + self._chosen.fence_s

    @property
    def holder(self) -> str:
        """Identity of the leader that was last seen alive; empty when there is none."""
        if self.leading:
            return self._identity
        alive = self._clock.monotonic() - self._seen_at < self._chosen.duration_s
        return self._holder if alive and self._holder != self._identity else ""

    def fence(self) -> None:
        """Raise `StaleError` unless this replica leads; to be called right before each effect."""
        if not self.leading:
            raise errors.StaleError(f"{self._identity} leads no more")

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Take part until cancelled; `work` runs while this replica leads, and is cancelled after.

        Once cancelled, the Lease is given back, so that another replica need not wait.
        """
        try:
            while True:
                await self._campaign()
                log.info("leading", identity=self._identity, term=self.term)
                await self._lead(work)
                log.warning("leads no more", identity=self._identity, term=self.term)
        finally:
            await asyncio.shield(self.release())

    async def release(self) -> None:
        """Give the Lease back if it is ours."""
        if not self.leading:
            return
        self._held_from = float("-inf")
        with contextlib.suppress(errors.TiphysError):
            lease = await self._api.get(self._path, timeout_s=2.0)
            if lease["spec"].get("holderIdentity") == self._identity:
                lease["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.replace(self._path, lease, timeout_s=2.0)
                log.info("gave the Lease back", identity=self._identity)

    async def _campaign(self) -> None:
        """Return once this replica leads."""
        while not await self._try():
            await self._clock.sleep(self._chosen.renew_s / 2)

    async def _lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Renew and work until one of both ends."""
        tasks = [
            asyncio.ensure_future(self._renew(self._spells)),
            asyncio.ensure_future(work()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            error = None if task.cancelled() else task.exception()
            if error is not None and not _fenced(error):
                raise error

    async def _renew(self, spell: int) -> None:
        """Renew until that fails for so long that the fence closes.

        A renewal that comes through late opens the fence again, but whoever met it closed (after a
        pause of the process, say) has ended: the work has to begin anew.
        """
        while True:
            renewed = await self._try()
            if self._spells != spell:
                return
            await self._clock.sleep(self._chosen.renew_s if renewed else 0.25)
            if not self.leading:
                return

    async def _try(self) -> bool:
        """Make one attempt to take or renew the Lease; say whether it is ours now."""
        began = self._clock.monotonic()
        try:
            lease = await self._api.get(self._path, timeout_s=self._chosen.renew_s)
        except apis.NotFoundError:
            return await self._create(began)
        except errors.TiphysError as error:
            log.warning("cannot read the Lease", error=str(error))
            return False
        spec = lease.get("spec") or {}
        observed = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("acquireTime"))
        if observed != self._seen:
            self._seen, self._seen_at = observed, self._clock.monotonic()
            self._holder = spec.get("holderIdentity") or ""
        mine = self._holder == self._identity
        held_s = float(spec.get("leaseDurationSeconds") or self._chosen.duration_s)
        if self._holder and not mine and self._clock.monotonic() - self._seen_at < held_s:
            return False
        began_term = mine and self.leading
        transitions = int(spec.get("leaseTransitions") or 0) + (0 if began_term else 1)
        acquired = spec.get("acquireTime") if began_term else None
        lease["spec"] = self._spec(transitions, acquired)
        try:
            written = await self._api.replace(self._path, lease, timeout_s=self._chosen.renew_s)
        except errors.TiphysError as error:
            log.warning("cannot write the Lease", error=str(error))
            return False
        return self._took(written, began)

    async def _create(self, began: float) -> bool:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "labels": LABELS},
            "spec": self._spec(1, None),
        }
        try:
            return self._took(await self._api.create(self._collection, body), began)
        except errors.TiphysError as error:
            log.warning("cannot create the Lease", error=str(error))
            return False

    def _took(self, written: apis.Object, began: float) -> bool:
        spec = written["spec"]
        self._spells += not self.leading
        self._seen = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("acquireTime"))
        self._seen_at, self._held_from = self._clock.monotonic(), began
        self._holder = self._identity
        self.term = int(spec.get("leaseTransitions") or 0)
        return True

    def _spec(self, transitions: int, acquired: str | None) -> dict[str, Any]:
        now = _micro(self._clock.now())
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": _whole_s(self._chosen.duration_s),
            "acquireTime": acquired or now,
            "renewTime": now,
            "leaseTransitions": transitions,
        }


class Heartbeat:
    """Says by a Lease of its own that a replica lives; the releaser judges by these."""

    def __init__(
        self,
        api: apis.Api,
        *,
        namespace: str,
        identity: str,
        address: str,
        chosen: settings.Lease,
        clock: clocks.Clock,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._identity = identity
        self._address = address
        self._chosen = chosen
        self._clock = clock
        self._name = replica_lease(identity)

    async def run(self) -> None:
        """Renew until cancelled, then delete the Lease: a replica that goes says so."""
        try:
            owners = await self._owners()
            while True:
                try:
                    await self._api.apply(
                        f"{_leases(self._namespace)}/{self._name}",
                        self._lease(owners),
                        timeout_s=self._chosen.renew_s,
                    )
                except errors.TiphysError as error:
                    log.warning("cannot renew the heartbeat", error=str(error))
                await self._clock.sleep(self._chosen.renew_s)
        finally:
            await asyncio.shield(self._delete())

    async def _owners(self) -> list[apis.Object]:
        """Return the pod as owner, so that the Lease of one that was killed is collected."""
        try:
            pod = await self._api.get(
                f"/api/v1/namespaces/{self._namespace}/pods/{self._identity}",
                timeout_s=self._chosen.renew_s,
            )
        except errors.TiphysError:
            return []
        return [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self._identity,
                "uid": pod["metadata"]["uid"],
            }
        ]

    async def _delete(self) -> None:
        with contextlib.suppress(errors.TiphysError):
            await self._api.call(
                "DELETE",
                f"{_leases(self._namespace)}/{self._name}",
                attempts=1,
                timeout_s=2.0,
            )

    def _lease(self, owners: list[apis.Object]) -> apis.Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": LABELS,
                "annotations": {ADDRESS: self._address},
                "ownerReferences": owners,
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": _whole_s(self._chosen.duration_s),
                "renewTime": _micro(self._clock.now()),
            },
        }


def _fenced(error: BaseException) -> bool:
    """Say whether all that ended the work is that this replica may not act any more."""
    if isinstance(error, BaseExceptionGroup):
        return all(_fenced(each) for each in error.exceptions)
    return isinstance(error, errors.StaleError)


def replica_lease(identity: str) -> str:
    """Return the name of a replica's own Lease, `tiphys-operator-<pod>`."""
    return identity if identity.startswith(f"{LEADER}-") else f"{LEADER}-{identity}"


def _whole_s(duration_s: float) -> int:
    """Return what others wait for: at least as long, since the fence is closed only by then."""
    return math.ceil(duration_s)


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def _micro(at: float) -> str:
    """Return a MicroTime."""
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
