"""`tiphys operator --settings FILE`: wires the parts, starts, and ends within its grace period.

Every replica watches, decides and answers. What acts on the cluster (`leading`) runs on the leader
alone and is cancelled when the Lease is lost. On SIGTERM the process says it is not ready, closes
connections after their answers, gives its Leases back and leaves.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import structlog
from aiohttp import web

from tiphys.models.domain import errors
from tiphys.operator import (
    admissions,
    answers,
    apis,
    assumptions,
    caches,
    clocks,
    credentials,
    decisions,
    dispatchers,
    elections,
    estimates,
    explanations,
    histories,
    limits,
    logs,
    metrics,
    misspellings,
    namespaces,
    objects,
    policies,
    reconcilers,
    recorders,
    servers,
    settings,
    snapshots,
    statuses,
    tallies,
    trusts,
    watches,
)

GARDEN_S = 0.25
DRAIN_S = 2.0
"""From saying that it is not ready to closing: readiness is looked at every 2 s."""
CORE, SCHEDULING = "/api/v1", "/apis/scheduling.k8s.io/v1"
Work = Callable[[], Awaitable[None]]

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What one replica is made of; the dispatcher takes what it needs from here."""

    chosen: settings.OperatorSettings
    identity: str
    """Name of this replica: its pod's."""
    disabled: bool
    api: apis.Api
    login: credentials.Login
    clock: clocks.Clock
    measured: metrics.Metrics
    cached: caches.Caches
    assumed: assumptions.Assumptions
    policies: policies.Policies
    estimates: estimates.Estimates
    pictured: snapshots.Snapshots
    election: elections.Election
    tls: servers.Identity
    trust: trusts.Follower
    decider: decisions.Decider
    admitted: admissions.Admissions
    dispatcher: dispatchers.Dispatcher


def assemble(
    chosen: settings.OperatorSettings,
    login: credentials.Login,
    api: apis.Api,
    *,
    identity: str,
    disabled: bool,
    clock: clocks.Clock,
) -> Parts:
    """Wire the parts of a replica; nothing runs yet."""
    cached = caches.Caches()
    assumed = assumptions.Assumptions(clock.monotonic)
    kept = estimates.Estimates()
    pictured = snapshots.Snapshots(
        cached, assumed, clock=clock.now, monotonic=clock.monotonic, estimates=kept
    )
    election = elections.Election(
        api, namespace=chosen.namespace, identity=identity, chosen=chosen.lease, clock=clock
    )
    tls = servers.Identity()
    known = policies.Policies(cached)
    measured = metrics.Metrics()
    trust = trusts.Follower(api, namespace=chosen.namespace, clock=clock, served=tls.take)
    dispatcher = dispatchers.Dispatcher(
        api,
        cached,
        pictured,
        assumed,
        known,
        election=election,
        trust=trust,
        chosen=chosen.dispatch,
        clock=clock,
        counted=tallies.Tallies(measured.registry),
        namespace=chosen.namespace,
        disabled=disabled,
    )
    return Parts(
        chosen=chosen,
        identity=identity,
        disabled=disabled,
        api=api,
        login=login,
        clock=clock,
        measured=measured,
        cached=cached,
        assumed=assumed,
        policies=known,
        estimates=kept,
        pictured=pictured,
        election=election,
        tls=tls,
        trust=trust,
        dispatcher=dispatcher,
        admitted=admissions.Admissions(),
        decider=decisions.Decider(
            api,
            cached,
            pictured,
            assumed,
            known,
            limits=chosen.decisions,
            clock=clock,
            led=lambda: bool(election.holder),
            disabled=disabled,
        ),
    )


def watching(parts: Parts, stop: Callable[[], None]) -> tuple[Work, ...]:
    """Return what keeps the caches like the cluster, on every replica; `stop` ends the process."""
    cached = parts.cached

    def watch(
        path: str, cache: caches.Cache[watches.Value], read: watches.Read[watches.Value]
    ) -> Work:
        return watches.Watch(
            parts.api, path, cache, read, clock=parts.clock, counts=parts.measured
        ).run

    reconciler = reconcilers.Reconciler(
        parts.api,
        parts.login,
        cached,
        clock=parts.clock,
        measured=parts.measured,
        stop=stop,
    )
    return (
        watch(f"{CORE}/pods", cached.pods, objects.pod),
        watch(f"{CORE}/nodes", cached.nodes, objects.node),
        watch(f"{CORE}/namespaces", cached.namespaces, objects.namespace),
        watch(f"{CORE}/resourcequotas", cached.quotas, limits.quota),
        watch(f"{CORE}/limitranges", cached.limit_ranges, limits.limit_range),
        watch(f"{SCHEDULING}/priorityclasses", cached.priority_classes, limits.priority_class),
        reconciler.run,
        parts.trust.run,
    )


def leading(parts: Parts) -> tuple[Work, ...]:
    """Return what the leader alone does."""
    api, election, cached, clock = parts.api, parts.election, parts.cached, parts.clock
    chosen, dispatcher, excluded = parts.chosen, parts.dispatcher, parts.chosen.excluded
    keeper = trusts.Keeper(
        api,
        election,
        chosen=chosen,
        clock=clock,
        measured=parts.measured,
        remembered=parts.trust.secrets,
    )
    if parts.disabled:
        # Without keys the webhook could not even be told that everything passes.
        return (keeper.run, dispatcher.run)
    recorder = recorders.Recorder(
        cached,
        parts.estimates,
        chosen=chosen.history,
        clock=clock,
        measured=parts.measured,
        group_of=lambda node: parts.pictured.group_of.get(node, ""),
    )
    writer = statuses.Writer(api, election, cached, parts.policies, excluded=excluded, clock=clock)
    lister = namespaces.Lister(api, election, cached, chosen=chosen, clock=clock)
    teller = misspellings.Teller(
        cached, dispatcher.events, excluded=excluded, counted=dispatcher.counted
    )
    return (keeper.run, dispatcher.run, recorder.run, writer.run, lister.run, teller.run)


async def operate(parts: Parts, stopping: asyncio.Event) -> None:
    """Run a replica until `stopping` is set; raises what a part could not handle."""
    served = answers.Answers(
        parts.decider,
        parts.trust,
        limits=parts.chosen.decisions,
        clock=parts.clock,
        measured=parts.measured,
        estimates=lambda: parts.estimates.published,
        admitted=parts.admitted,
    )
    listen = parts.chosen.listen
    async with contextlib.AsyncExitStack() as stack:
        health, port = await servers.start(
            _health(parts, stopping), listen.host, listen.metrics_port
        )
        stack.push_async_callback(health.cleanup)
        runner, decisions_port = await servers.start(
            served.application(), listen.host, listen.decisions_port, tls=parts.tls.listening
        )
        stack.push_async_callback(runner.cleanup)
        log.info("listening", host=listen.host, metrics_port=port, decisions_port=decisions_port)
        heartbeat = elections.Heartbeat(
            parts.api,
            namespace=parts.chosen.namespace,
            identity=parts.identity,
            address=f"[{listen.host}]:{decisions_port}"
            if ":" in listen.host
            else f"{listen.host}:{decisions_port}",
            chosen=parts.chosen.lease,
            clock=parts.clock,
        )
        puller = recorders.Puller(
            parts.api,
            parts.election,
            parts.tls,
            parts.estimates,
            chosen=parts.chosen,
            clock=parts.clock,
        )
        work = (
            *watching(parts, stopping.set),
            heartbeat.run,
            puller.run,
            lambda: _garden(parts),
            lambda: parts.election.run(lambda: together(leading(parts))),
        )
        running = asyncio.ensure_future(together(work))
        asked = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((running, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if not running.done():
            log.info("ending")
            served.draining = True
            # The Leases first: whoever takes over need not wait for our last answers.
            running.cancel()
            await asyncio.wait((running,))
            await parts.clock.sleep(DRAIN_S)
        with contextlib.suppress(asyncio.CancelledError):
            await running


async def together(work: tuple[Work, ...]) -> None:
    """Run all of it; when one part fails the others are cancelled and the error goes up."""
    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(_awaited(each))


async def _awaited(work: Work) -> None:
    await work()


async def _garden(parts: Parts) -> None:
    """Follow the general policy's settings, expire assumptions, look after the memory."""
    frozen = False
    while True:
        parts.pictured.configure(parts.policies.general)
        if parts.cached.synced:
            parts.pictured.current()
        parts.measured.leader.set(parts.election.leading)
        if not frozen and parts.cached.synced:
            # What was read at the start stays: later collections need not walk through it.
            gc.collect()
            gc.freeze()
            frozen = True
            log.info("read the cluster", pods=len(parts.cached.pods), nodes=len(parts.cached.nodes))
        await parts.clock.sleep(GARDEN_S)


def _health(parts: Parts, stopping: asyncio.Event) -> web.Application:
    """Return /metrics, /healthz and /readyz."""

    async def page(request: web.Request) -> web.Response:
        now = parts.clock.now()
        parts.measured.observe(parts.cached, parts.clock.monotonic())
        parts.measured.assumed_pods.set(len(parts.assumed))
        parts.measured.start_seconds.set(parts.pictured.overheads.start_s)
        parts.measured.frees_seconds.set(parts.pictured.overheads.frees_s)
        if parts.estimates.made_at:
            parts.measured.estimates_age_seconds.set(now - parts.estimates.made_at)
        return web.Response(
            body=parts.measured.page(), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    async def alive(request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(request: web.Request) -> web.Response:
        lacks = []
        if stopping.is_set():
            lacks.append("ending")
        lacks.extend(f"{c.kind} not read yet" for c in parts.cached.deciding if not c.synced)
        if not parts.trust.ready:
            lacks.append("no keys and certificate yet")
        if lacks:
            return web.Response(status=503, text="; ".join(lacks) + "\n")
        return web.Response(text="ok\n")

    application = web.Application()
    explanations.Desk(
        parts.cached,
        parts.pictured,
        parts.policies,
        parts.dispatcher.holds,
        parts.admitted,
        election=parts.election,
        clock=parts.clock,
    ).mount(application)
    application.router.add_get("/metrics", page)
    application.router.add_get("/healthz", alive)
    application.router.add_get("/readyz", ready)
    return application


async def run(
    chosen: settings.OperatorSettings, kubeconfig: Path | None, environ: Mapping[str, str]
) -> None:
    """Run a replica until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    # A URL that means nothing is told now, not when this replica comes to lead.
    histories.Store(chosen.history.url).close()
    login = credentials.find(kubeconfig, environ)
    async with apis.Api(login, agent="tiphys-operator") as api:
        parts = assemble(
            chosen,
            login,
            api,
            identity=environ.get("POD_NAME") or socket.gethostname(),
            disabled=environ.get(settings.DISABLED) == "1",
            clock=clocks.Wall(),
        )
        await operate(parts, stopping)


def main(arguments: list[str]) -> int:
    """Run the subcommand; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="tiphys operator", description="Decide, dispatch and keep; one of some replicas."
    )
    parser.add_argument("--settings", type=Path, help="settings file (docs/operator.md)")
    parser.add_argument("--kubeconfig", type=Path, help="instead of the pod's own account")
    given = parser.parse_args(arguments)
    try:
        chosen = settings.load(given.settings)
        logs.configure(chosen.log_level)
        asyncio.run(run(chosen, given.kubeconfig, os.environ))
    except errors.InputError as error:
        sys.stderr.write(f"tiphys operator: {error}\n")
        return 2
    except Exception:
        # Whoever restarts us keeps the reason in the log; nothing here is worth going on with.
        log.exception("a part failed")
        return 1
    return 0
