"""`tiphys webhook --settings FILE`: puts the parts together, runs them, ends them in order."""

import argparse
import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from aiohttp import web

from tiphys.models.domain import errors
from tiphys.models.wire import paths
from tiphys.webhook import (
    admissions,
    breakers,
    healths,
    inquiries,
    logs,
    materials,
    metrics,
    replays,
    servers,
    settings,
    sources,
)

AGAIN_S = 5.0
"""Seconds until a listener that could not be renewed is tried again."""

_log = logging.getLogger(__name__)


def main(argv: list[str]) -> int:
    """Run the webhook until SIGTERM; return the exit code (2 = settings)."""
    parser = argparse.ArgumentParser(prog="tiphys webhook", description=__doc__)
    parser.add_argument("--settings", type=Path, required=True, help="YAML, see docs/webhook.md")
    chosen = parser.parse_args(argv)
    try:
        found = settings.load(chosen.settings)
        logs.configure(found.log_level)
        asyncio.run(_until_ended(found, os.environ))
    except errors.TiphysError as error:
        sys.stderr.write(f"tiphys webhook: {error}\n")
        return 2
    return 0


@dataclasses.dataclass(slots=True, kw_only=True)
class Process:
    """The running parts."""

    listener: servers.Listener
    health: healths.Health
    keeper: materials.Keeper
    health_port: int
    tasks: list[asyncio.Task[None]]
    """Run for ever; one that ends is a fault."""


@contextlib.asynccontextmanager
async def running(chosen: settings.Settings, environ: Mapping[str, str]) -> AsyncIterator[Process]:
    """Run all parts; leaving the block drains and ends them.  Raises `errors.TiphysError`."""
    counted = metrics.Metrics()
    disabled = environ.get("TIPHYS_DISABLED") == "1"
    changed = asyncio.Event()

    def refused(part: str, why: str) -> None:
        counted.refused_parts.labels(part).inc()
        _log.error("keys or certificates refused", extra={"values": {"part": part, "why": why}})

    keeper = materials.Keeper(lambda _: changed.set(), refused)
    breaker = breakers.Breaker(chosen.breaker, clock=time.monotonic)
    client = inquiries.Client(
        chosen.decisions, address=_address(chosen, environ), current=lambda: keeper.current
    )
    effects = admissions.Effects(
        asker=client,
        breaker=breaker,
        replays=replays.Cache(most=chosen.limits.remembered),
        ring=lambda: keeper.current.operator_ring,
        metrics=counted,
        disabled=disabled,
    )
    certified = chosen.clients.certified

    def segment_holds(segment: str) -> bool:
        return paths.honours(keeper.current.ring, segment, time.time())

    listener = servers.Listener(
        effects,
        subjects=chosen.clients.subjects,
        segment_holds=None if certified else segment_holds,
        limits=chosen.limits,
        counted=counted,
    )
    health = healths.Health(
        current=lambda: keeper.current,
        listener=listener,
        breaker=breaker,
        metrics=counted,
        disabled=disabled,
    )
    account = sources.Account(environ) if chosen.files is None else None
    address = chosen.listen.address or environ.get("POD_IP") or "0.0.0.0"
    listener.bind(address, chosen.listen.port)
    runner, health_port = await healths.serve(
        health, address=address, port=chosen.listen.health_port
    )
    tasks = [
        asyncio.create_task(_followed(chosen, keeper, account)),
        asyncio.create_task(_adopted(keeper, changed, listener, counted, certified=certified)),
    ]
    if not disabled:
        tasks.append(
            asyncio.create_task(health.look(client.reachable, every_s=chosen.decisions.probe_s))
        )
    _log.info(
        "webhook started",
        extra={"values": {"port": listener.port, "health": health_port, "disabled": disabled}},
    )
    counted.certified.set(certified)
    if not certified:
        _log.warning(
            "callers show no certificate: a secret path and the network keep strangers out",
            extra={"values": {"clients": str(chosen.clients.certificates)}},
        )
    try:
        yield Process(
            listener=listener,
            health=health,
            keeper=keeper,
            health_port=health_port,
            tasks=tasks,
        )
    finally:
        health.draining = True
        await listener.drain(chosen.drain_s)
        await _ended(tasks, client, runner)
        _log.info("webhook ended")


async def _until_ended(chosen: settings.Settings, environ: Mapping[str, str]) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    async with running(chosen, environ) as process:
        told = asyncio.create_task(ended.wait())
        await asyncio.wait([told, *process.tasks], return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        for task in process.tasks:
            if task.done():
                task.result()


async def _followed(
    chosen: settings.Settings, keeper: materials.Keeper, account: sources.Account | None
) -> None:
    certified = chosen.clients.certified
    if chosen.files is not None:
        await sources.follow_files(chosen.files, keeper, certified=certified)
    elif account is not None:
        await sources.follow_cluster(chosen.cluster, keeper, account, certified=certified)


async def _adopted(
    keeper: materials.Keeper,
    changed: asyncio.Event,
    listener: servers.Listener,
    counted: metrics.Metrics,
    *,
    certified: bool,
) -> None:
    """Give the listener every new certificate; for ever."""
    served: tuple[object, ...] = ()
    failed = False
    while True:
        # The next change may be weeks away, and the certificates end before it.
        await (asyncio.sleep(AGAIN_S) if failed else changed.wait())
        if changed.is_set():
            changed.clear()
            counted.reloads.inc()
        failed = False
        held = keeper.current
        if held.tls is None or not held.serves(certified=certified):
            continue
        if served == (held.tls, held.client_authority):
            continue
        try:
            await listener.adopt(materials.server_context(held, certified=certified))
        except (OSError, errors.TiphysError) as error:
            _log.error("listener not renewed", extra={"values": {"why": str(error)}})
            failed = True
            continue
        served = (held.tls, held.client_authority)
        counted.expires_at.set(held.tls.expires_at)
        _log.info("certificates in use", extra={"values": {"expires_at": held.tls.expires_at}})


async def _ended(
    tasks: list[asyncio.Task[None]], client: inquiries.Client, runner: web.ServerRunner
) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()
    await runner.cleanup()


def _address(chosen: settings.Settings, environ: Mapping[str, str]) -> str:
    if chosen.decisions.address:
        return chosen.decisions.address
    host = environ.get("TIPHYS_OPERATOR_SERVICE_HOST", "")
    port = environ.get("TIPHYS_OPERATOR_SERVICE_PORT", "")
    if not host or not port:
        raise errors.InputError(
            "decisions.address is empty and TIPHYS_OPERATOR_SERVICE_HOST is not set: "
            "name the decision API in the settings"
        )
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
