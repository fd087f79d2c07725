"""kopf, for kinds of which there are hundreds: Tiphys' own and Argo's, watched and never written.

Only `on.event` handlers: such handlers leave no annotation and no finalizer. Posting of Events and
scanning of the cluster are off. kopf starts by module within our own loop. kopf does not tell when
a first list is complete, forgets deletions while it was cut off, and never hears of a kind whose
CRD came after it started, so `audit` lists the metadata of these kinds now and then, drops ghosts,
measures how far kopf is behind, and has it started again where it says nothing at all.
"""

import asyncio
import datetime
import logging
import signal
from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar

import aiohttp
import kopf
import structlog

from tiphys.models.domain import errors
from tiphys.operator import apis, caches, clocks, credentials, metrics, objects

Value = TypeVar("Value")
AUDIT_S = 30.0
LAG_S = 10.0
"""A version that a list shows and that did not come by event for so long means that kopf lags."""
STOP_S = 3.0
"""kopf gets so long to close its watches."""
TOKEN_USED = datetime.timedelta(minutes=8)
"""The kubelet renews a token at 80 % of its hour, so that at least 12 minutes are left of any."""
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

log = structlog.get_logger()


class Followed(Generic[Value]):
    """One kind that kopf follows for one cache."""

    def __init__(
        self,
        group: str,
        plural: str,
        cache: caches.Cache[Value],
        read: Callable[[apis.Object], Value],
    ) -> None:
        self.group = group
        self.plural = plural
        self.cache = cache
        self._read = read
        self.versions: dict[str, str] = {}
        """resourceVersion by key as last seen."""
        self.late: dict[str, float] = {}
        """Monotonic second since which a key is known to be behind."""
        self.told = False
        """Whether kopf said anything about this kind since it was started."""

    @property
    def path(self) -> str:
        """The collection over all namespaces."""
        return f"/apis/{self.group}/v1alpha1/{self.plural}"

    def put(self, item: apis.Object) -> None:
        """Keep one object; raises what its reader raises."""
        key = objects.key(item)
        self.versions[key] = item["metadata"]["resourceVersion"]
        self.late.pop(key, None)
        self.cache.put(key, self._read(item))

    def overtaken(self, item: apis.Object) -> bool:
        """Say whether a later version of an object is known than the one that an event tells of."""
        return _before(
            item["metadata"]["resourceVersion"], self.versions.get(objects.key(item), "")
        )

    def known(self) -> dict[str, str]:
        """Return what is known by now: versions by key, empty for what was not told by kopf."""
        return {**dict.fromkeys(self.cache.keys(), ""), **self.versions}

    def lost(self, known: Mapping[str, str], listed: Collection[str]) -> list[str]:
        """Return the keys that were `known` when a list began, are not in it and as they were."""
        now = self.known()
        return [
            key
            for key, version in known.items()
            if key not in listed and now.get(key, "") == version
        ]

    def drop(self, key: str) -> None:
        """Forget one object."""
        self.versions.pop(key, None)
        self.late.pop(key, None)
        self.cache.drop(key)


class NoDiffs(kopf.DiffBaseStorage):
    """No memory of earlier states, which event handlers have no use for.

    kopf's own copies each object as often as it is heard of: a fifth of this process's CPU where
    Workflows are large.
    """

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return nothing of an object."""
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        """Return that nothing was stored."""

    def store(self, **_: Any) -> None:
        """Store nothing; kopf calls this for handlers that change objects, and there are none."""


class Reconciler:
    """Runs kopf and the audit."""

    def __init__(
        self,
        api: apis.Api,
        login: credentials.Login,
        cached: caches.Caches,
        *,
        clock: clocks.Clock,
        measured: metrics.Metrics,
        stop: Callable[[], None],
    ) -> None:
        """`stop` ends the process."""
        self._api = api
        self._login = login
        self._stop = stop
        self._clock = clock
        self._measured = measured
        self._unheard = asyncio.Event()
        """Set where a kind exists of which kopf says nothing."""
        argo, ours = "argoproj.io", "tiphys.dev"

        def run(item: apis.Object) -> objects.Run:
            return objects.run(item, cached.templates_by_name(item["metadata"]["namespace"]))

        self.followed: tuple[Followed[Any], ...] = (
            # Templates first: a Workflow is read with what it refers to.
            Followed(argo, "workflowtemplates", cached.templates, objects.template),
            Followed(argo, "clusterworkflowtemplates", cached.cluster_templates, objects.template),
            Followed(argo, "cronworkflows", cached.cron_workflows, objects.cron),
            Followed(argo, "workflows", cached.workflows, run),
            Followed(ours, "policyversions", cached.policy_versions, objects.version),
            Followed(ours, "schedulingpolicies", cached.policies, objects.policy),
        )

    async def run(self) -> None:
        """List once, then follow until cancelled; kopf is started again when it ends."""
        for followed in self.followed:
            await self._list(followed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kopf())
            group.create_task(self._audits())

    async def _list(self, followed: Followed[Any]) -> None:
        """Fill one cache, trying until it works: without these nobody can be steered."""
        while True:
            try:
                seen: set[str] = set()
                known = followed.known()
                async for page in self._api.pages(followed.path):
                    for item in page.get("items") or ():
                        key = objects.key(item)
                        seen.add(key)
                        told = followed.versions.get(key, "") != known.get(key, "")
                        if not (told and followed.overtaken(item)):
                            self._put(followed, item)
                for key in followed.lost(known, seen):
                    followed.drop(key)
                followed.cache.retain(set(followed.cache.keys()))
                followed.cache.heard_at = self._clock.monotonic()
                self._measured.watched(followed.cache.kind, "listed")
                return
            except apis.NotFoundError:
                # The CRD is not there: such objects neither.
                followed.cache.retain(())
                followed.cache.heard_at = self._clock.monotonic()
                return
            except errors.TiphysError as error:
                log.warning("cannot list", kind=followed.plural, error=str(error))
                await self._clock.sleep(2.0)

    async def _kopf(self) -> None:
        logging.getLogger("kopf").setLevel(logging.WARNING)
        pause_s = 1.0
        while True:
            began_s = self._clock.monotonic()
            try:
                self._unheard.clear()
                for followed in self.followed:
                    followed.told, followed.cache.current = False, True
                await self._operate()
                # kopf ends without an error for SIGTERM and SIGINT alone, where it heard one
                # before we did: they were meant for the whole process.
                self._stop()
            except Exception as error:
                # Whatever ends kopf must not end decisions; its caches grow old and say so.
                log.error("kopf failed", error=repr(error))
            finally:
                for followed in self.followed:
                    followed.cache.current = False
            if self._clock.monotonic() - began_s > 60:
                pause_s = 1.0
            await self._clock.sleep(pause_s)
            pause_s = min(30.0, pause_s * 2)

    async def _operate(self) -> None:
        registry = kopf.OperatorRegistry()
        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.scanning.disabled = True
        settings.peering.standalone = True
        settings.execution.max_workers = 1
        settings.watching.server_timeout = 300
        settings.watching.client_timeout = 330
        settings.networking.request_timeout = 30
        settings.queueing.worker_limit = 16
        settings.persistence.diffbase_storage = NoDiffs()

        kopf.on.login(registry=registry)(self._session)
        for followed in self.followed:
            kopf.on.event(
                followed.group, "v1alpha1", followed.plural, registry=registry, id=followed.plural
            )(self._handler(followed))
        # Not `kopf.operator`: at its end that cancels whatever else began in this loop meanwhile.
        tasks = await kopf.spawn_tasks(
            registry=registry,
            settings=settings,
            standalone=True,
            clusterwide=True,
            namespaces=(),
        )
        # kopf has taken both over, and would keep them after its end.
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, self._stop)
        unheard = asyncio.ensure_future(self._unheard.wait())
        try:
            done, _ = await asyncio.wait({*tasks, unheard}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unheard.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=STOP_S)
        for task in done:
            if not task.cancelled():
                task.result()
        if unheard in done:
            raise errors.UnavailableError("a kind came after kopf had started; it starts again")

    def _handler(self, followed: Followed[Any]) -> Callable[..., Any]:
        async def handler(event: Mapping[str, Any], **_: Any) -> None:
            item: apis.Object = dict(event["object"])
            kind = event["type"]
            followed.cache.heard_at, followed.told = self._clock.monotonic(), True
            self._measured.watched(followed.cache.kind, (kind or "listed").lower())
            if followed.overtaken(item):
                return
            if kind == "DELETED":
                followed.drop(objects.key(item))
            else:
                self._put(followed, item)

        return handler

    def _put(self, followed: Followed[Any], item: apis.Object) -> None:
        key = objects.key(item)
        try:
            followed.put(item)
        except Exception as error:
            # Also for what only a mistake of ours explains: one object must not stop all replicas.
            self._measured.watched(followed.cache.kind, "unreadable")
            followed.cache.drop(key)
            log.warning("object cannot be read", kind=followed.plural, key=key, error=repr(error))

    async def _audits(self) -> None:
        while True:
            await self._clock.sleep(AUDIT_S)
            for followed in self.followed:
                try:
                    await self.audit(followed)
                except errors.TiphysError as error:
                    followed.cache.current = False
                    log.warning("cannot audit", kind=followed.plural, error=str(error))

    async def audit(self, followed: Followed[Any]) -> None:
        """Drop what is no more, read what never came, and judge whether kopf keeps up."""
        now_s = self._clock.monotonic()
        listed: dict[str, str] = {}
        known = followed.known()
        try:
            async for page in self._api.pages(followed.path, accept=METADATA):
                for item in page.get("items") or ():
                    listed[objects.key(item)] = item["metadata"]["resourceVersion"]
        except apis.NotFoundError:
            listed = {}
        for key in followed.lost(known, listed):
            self._measured.watched(followed.cache.kind, "ghost")
            followed.drop(key)
        for key, version in listed.items():
            if followed.versions.get(key) == version:
                followed.late.pop(key, None)
            else:
                followed.late.setdefault(key, now_s)
        lagging = [key for key, since_s in followed.late.items() if now_s - since_s > LAG_S]
        for key in list(followed.late):
            if key not in listed:
                del followed.late[key]
        followed.cache.current = not lagging
        if lagging:
            self._measured.watched(followed.cache.kind, "lagging")
            log.warning("kopf lags behind, listing anew", kind=followed.plural, count=len(lagging))
            await self._list(followed)
            if not followed.told:
                self._unheard.set()
        else:
            followed.cache.heard_at = now_s

    async def _session(self, **_: Any) -> kopf.AiohttpSession:
        """Log kopf in with our own credentials; a token is asked for again before it is old."""
        token = self._login.token(self._clock.monotonic())
        now = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        return kopf.AiohttpSession(
            server=self._login.server,
            aiohttp_session=aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._login.context),
                headers={"Authorization": f"Bearer {token}"} if token else {},
            ),
            expiration=now + TOKEN_USED if token else None,
        )


def _before(version: str, other: str) -> bool:
    """Say whether a resourceVersion is of before another; what is no number never is."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)
