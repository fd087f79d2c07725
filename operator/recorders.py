"""Fills the history and keeps estimates: rows and learning on the leader, pulls elsewhere."""

import asyncio
import contextlib
import functools
from collections.abc import Callable
from concurrent import futures
from typing import TypeVar

import aiohttp
import structlog

from tiphys.models.domain import errors, pods
from tiphys.models.estimators import books
from tiphys.models.estimators import histories as learned
from tiphys.operator import (
    answers,
    apis,
    attempts,
    caches,
    clocks,
    elections,
    estimates,
    histories,
    metrics,
    objects,
    servers,
    settings,
)

Value = TypeVar("Value")
MOST_PENDING = 20_000
"""Rows that wait for the store at most; beyond them the oldest are dropped."""
END_S = 3.0
"""What is left is written for so long when this replica leads no more: a store may hang."""

log = structlog.get_logger()


class Recorder:
    """Writes what ended into the store and learns from it; runs on the leader."""

    def __init__(
        self,
        cached: caches.Caches,
        kept: estimates.Estimates,
        *,
        chosen: settings.History,
        clock: clocks.Clock,
        measured: metrics.Metrics,
        group_of: Callable[[str], str],
    ) -> None:
        self._caches = cached
        self._kept = kept
        self._chosen = chosen
        self._clock = clock
        self._measured = measured
        self._group_of = group_of
        self._began: dict[str, float] = {}
        """Monotonic second at which a pod's work was first seen running, by key."""
        self._lasted_s: dict[str, float] = {}
        """Seconds from then until its work was first seen to have ended, by key."""
        self._pending: dict[tuple[str, str], histories.Attempt] = {}
        self._thread = futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="history")

    async def run(self) -> None:
        """Record until cancelled; a store that fails is tried again and stops nothing else."""
        store = histories.Store(self._chosen.url)
        try:
            await self._opened(store)
            stop = self._caches.subscribe(self._changed)
            try:
                self._backlog()
                await self._loop(store)
            finally:
                stop()
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await asyncio.shield(self._end(store))

    async def _end(self, store: histories.Store) -> None:
        await self._flush(store)
        await self._call(store.close)
        self._thread.shutdown(wait=False)

    async def _opened(self, store: histories.Store) -> None:
        while True:
            try:
                await self._call(store.open, at=self._clock.now())
            except errors.TiphysError as error:
                # Also where a newer version made it: gates and keys must not end with the history.
                log.error("history store cannot be opened", error=str(error))
                await self._clock.sleep(self._chosen.publish_s)
            else:
                return

    async def _loop(self, store: histories.Store) -> None:
        learned_s = float("-inf")
        fresh = True
        while True:
            fresh = await self._flush(store) or fresh
            now_s = self._clock.monotonic()
            if fresh and now_s - learned_s >= self._chosen.publish_s:
                fresh, learned_s = False, now_s
                await self._learn(store)
            await self._clock.sleep(self._chosen.flush_s)

    async def _learn(self, store: histories.Store) -> None:
        try:
            gone, rows = await self._call(self._read, store)
        except errors.UnavailableError as error:
            log.error("history store cannot be read", error=str(error))
            return
        if not rows and self._kept.book.entries:
            # A new leader with an empty store: what it pulled is better than nothing.
            self._kept.learn(self._kept.book, at=self._clock.now())
            return
        try:
            book = await self._call(books.learn, rows)
        except Exception as error:
            # A mistake of ours about some row, which would be there for the next leader too.
            log.error("estimates cannot be learned", rows=len(rows), error=repr(error))
            return
        self._kept.learn(book, at=self._clock.now())
        log.info("learned estimates", rows=len(rows), identities=len(book.entries), forgotten=gone)

    def _read(self, store: histories.Store) -> tuple[int, list[learned.Row]]:
        """Forget what is too much and return how many, and what is to be learned from."""
        gone = store.prune(most=self._chosen.most_rows)
        return gone, store.rows(recent=self._chosen.recent)

    async def _flush(self, store: histories.Store) -> bool:
        """Write what waits; says whether anything was written."""
        if not self._pending:
            return False
        batch, self._pending = list(self._pending.values()), {}
        try:
            kept = await self._call(store.write, batch)
        except errors.UnavailableError as error:
            log.error("history store cannot be written", rows=len(batch), error=str(error))
            again = {(each.workflow_uid, each.node_id): each for each in batch}
            self._pending = {**again, **self._pending}
            self._bound()
            return False
        for outcome, count in histories.by_outcome(kept).items():
            self._measured.history_rows.labels(outcome).inc(count)
        return True

    def _backlog(self) -> None:
        """Take what ended before this replica led and still stands in the caches."""
        for run in self._caches.workflows.values():
            self._run_changed(run)
        for seen in self._caches.pods.values():
            self._ended(seen)

    def _changed(self, change: caches.Change) -> None:
        if change.kind is caches.Kind.PODS:
            after = change.after
            if not isinstance(after, objects.Seen):
                self._began.pop(change.key, None)
                self._lasted_s.pop(change.key, None)
                return
            self._observe(change.key, after)
            if not after.pod.active:
                before = change.before
                if not isinstance(before, objects.Seen) or before.pod.active:
                    self._ended(after)
        elif change.kind is caches.Kind.WORKFLOWS and isinstance(change.after, objects.Run):
            before = change.before
            self._run_changed(change.after, before if isinstance(before, objects.Run) else None)
        self._bound()

    def _bound(self) -> None:
        """Forget the oldest rows beyond `MOST_PENDING`; also while a write hangs."""
        while len(self._pending) > MOST_PENDING:
            del self._pending[next(iter(self._pending))]

    def _observe(self, key: str, seen: objects.Seen) -> None:
        """Note when a pod's work is first seen to run and first seen to have ended."""
        if attempts.worked(seen):
            began_s = self._began.pop(key, None)
            if began_s is not None:
                self._lasted_s[key] = self._clock.monotonic() - began_s
        elif seen.pod.phase is pods.Phase.RUNNING and seen.pod.started_at is not None:
            self._began.setdefault(key, self._clock.monotonic())

    def _ended(self, seen: objects.Seen) -> None:
        self._began.pop(seen.pod.key, None)
        observed_s = self._lasted_s.pop(seen.pod.key, None)
        row = attempts.of_pod(
            self._caches, seen, self._group_of(seen.pod.node), observed_s=observed_s
        )
        if row is not None:
            self._pending[row.workflow_uid, row.node_id] = row

    def _run_changed(self, run: objects.Run, before: objects.Run | None = None) -> None:
        """Take tasks that ended without a pod that tells more."""
        known = {task.id: task.state for task in before.workflow.tasks} if before else {}
        told = {seen.pod.node_id for seen in self._caches.pods.of_workflow(run.workflow.uid)}
        for task in run.workflow.tasks:
            if not task.state.ended or known.get(task.id) is task.state or task.id in told:
                continue
            row = attempts.of_task(self._caches, run, task)
            if row is not None:
                self._pending.setdefault((row.workflow_uid, row.node_id), row)

    async def _call(self, function: Callable[..., Value], *args: object, **named: object) -> Value:
        """Run something that blocks in the store's own thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, functools.partial(function, *args, **named))


class Puller:
    """Keeps a follower's estimates like the leader's."""

    def __init__(
        self,
        api: apis.Api,
        election: elections.Election,
        identity: servers.Identity,
        kept: estimates.Estimates,
        *,
        chosen: settings.OperatorSettings,
        clock: clocks.Clock,
    ) -> None:
        self._api = api
        self._election = election
        self._identity = identity
        self._kept = kept
        self._chosen = chosen
        self._clock = clock

    async def run(self) -> None:
        """Pull until cancelled, whenever somebody else leads."""
        while True:
            if not self._election.leading and self._election.holder:
                try:
                    await self.once(self._election.holder)
                except (errors.TiphysError, aiohttp.ClientError, TimeoutError, OSError) as error:
                    log.warning("cannot pull estimates", error=str(error) or repr(error))
            await self._clock.sleep(self._chosen.history.publish_s / 2)

    async def once(self, leader: str) -> None:
        """Pull from one leader, whose replica Lease says where it answers."""
        namespace = self._chosen.namespace
        lease = await self._api.get(
            f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/"
            + elections.replica_lease(leader)
        )
        address = (lease["metadata"].get("annotations") or {}).get(elections.ADDRESS, "")
        if not address:
            raise errors.UnavailableError(f"replica {leader} does not say where it answers")
        headers = {"If-None-Match": self._kept.tag} if self._kept.tag else {}
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session,
            session.get(
                f"https://{address}{answers.ESTIMATES}",
                ssl=self._identity.calling,
                server_hostname=f"tiphys-operator.{namespace}.svc",
                headers=headers,
            ) as response,
        ):
            if response.status == 200:
                self._kept.pull(await response.read())
                log.info("pulled estimates", version=self._kept.version, leader=leader)
