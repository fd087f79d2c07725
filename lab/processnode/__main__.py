"""`python -m lab.processnode --lab NAME`: the node that runs Tiphys' own pods as processes."""

import argparse
import asyncio
import contextlib
import ctypes
import logging
import shutil
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from lab import apis, errors, homes
from lab.processnode import (
    addresses,
    admissions,
    events,
    kubelets,
    launches,
    networks,
    nodes,
    rooms,
    rosters,
    settings,
    sources,
)

PR_SET_CHILD_SUBREAPER = 36
ENDING_GRACE_S = 2.0
"""What containers get when the node ends; its own supervisor gives it 5 s."""
WATCHES = 256
"""Connections to the API server: each watch holds one."""

logger = logging.getLogger("lab.processnode")


def main() -> int:
    """Run until SIGTERM; prints one sentence and returns another code than 0 if it cannot."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        chosen = _settings(sys.argv[1:])
        asyncio.run(_run(chosen))
    except errors.LabError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def _settings(arguments: list[str]) -> settings.Settings:
    parser = argparse.ArgumentParser(prog="python -m lab.processnode")
    parser.add_argument("--lab", default="default", help="name of the lab")
    parser.add_argument("--kubeconfig", type=Path, help="instead of the one of the lab")
    parser.add_argument("--home", type=Path, help="instead of the lab's home")
    parser.add_argument("--node-name", default=settings.NODE)
    parser.add_argument("--backoff-first-s", type=float, default=settings.Backoff().first_s)
    parser.add_argument("--backoff-longest-s", type=float, default=settings.Backoff().longest_s)
    parser.add_argument(
        "--token-refresh", type=float, default=0.8, help="share of a token's life it is used for"
    )
    given = parser.parse_args(arguments)
    home = homes.home(given.lab)
    root = (given.home or home.root).resolve()
    own = home.pki / "processnode.kubeconfig"
    kubeconfig = given.kubeconfig or (own if own.exists() else home.kubeconfig)
    authority = _authority(kubeconfig)
    return settings.Settings(
        kubeconfig=kubeconfig,
        root=root,
        node=given.node_name,
        block=addresses.recorded(root, lab=given.lab),
        client_authority=authority,
        backoff=settings.Backoff(first_s=given.backoff_first_s, longest_s=given.backoff_longest_s),
        token_refresh=given.token_refresh,
    )


def _cluster(kubeconfig: Path) -> dict[str, str]:
    """Return the entry of the API server; raises `UsageError` if there is none."""
    try:
        config = yaml.safe_load(kubeconfig.read_text())
        return dict(config["clusters"][0]["cluster"])
    except FileNotFoundError as error:
        raise errors.UsageError(
            f"no kubeconfig at {kubeconfig}: start a lab with `python -m lab up`"
        ) from error
    except (yaml.YAMLError, KeyError, IndexError, TypeError) as error:
        raise errors.UsageError(f"{kubeconfig} is no kubeconfig: {error!r}") from error


def _authority(kubeconfig: Path) -> Path:
    """Return the file of the cluster's authority, which signed the API server's clients too."""
    try:
        return Path(_cluster(kubeconfig)["certificate-authority"])
    except KeyError as error:
        raise errors.UsageError(
            f"{kubeconfig} names no file as certificate-authority: use the kubeconfig of a lab"
        ) from error


async def _run(chosen: settings.Settings) -> None:
    # Whatever escapes a shim comes here and is no orphan of the machine.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    shutil.rmtree(chosen.pods, ignore_errors=True)
    for folder in (chosen.pods, chosen.logs):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    running = asyncio.create_task(_serve(chosen))
    stopping = asyncio.create_task(ended.wait())
    await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def _serve(chosen: settings.Settings) -> None:
    isolation, why_not = await launches.isolation(chosen.pods)
    logger.info("containers are isolated by: %s %s", isolation, why_not)
    server = urlsplit(_cluster(chosen.kubeconfig)["server"])
    roster = rosters.Roster(addresses.Slots(chosen.block))
    async with apis.Api(chosen.kubeconfig, connections=WATCHES) as api:
        recorder = events.Events(api, node=chosen.node)
        network = networks.Network(
            api,
            server=(server.hostname or "127.0.0.1", server.port or 443),
            neighbours=lambda: roster.neighbours,
            events=recorder,
        )
        kubelet = kubelets.Kubelet(chosen, find=roster.find)
        webhook = admissions.Webhook(chosen.block.node)
        ground = rooms.Ground(
            api=api,
            settings=chosen,
            sources=sources.Sources(api, on_change=roster.namespace_changed),
            events=recorder,
            isolation=isolation,
            allocatable=nodes.CAPACITY,
            server=(server.hostname or "127.0.0.1", server.port or 443),
            hosts=network.hosts,
            on_change=network.changed,
        )
        mounts = (
            f"mount namespaces are not permitted here ({why_not}), so volumes do not appear at "
            f"their mountPath but below ${rooms.MOUNTS_VARIABLE}: permit "
            "`unshare --user --mount true`, or start the lab as root"
        )
        try:
            port = await kubelet.start()
            node = nodes.Node(
                api,
                chosen,
                port=port,
                limits=lambda: {
                    "MountNamespaces": mounts if isolation == "none" else "",
                    "ServicesReachable": network.trouble,
                },
            )
            configuration = await webhook.start()
            routing = asyncio.create_task(network.run())
            await network.known.wait()
            await api.apply(f"{admissions.CONFIGURATIONS}/{admissions.NAME}", configuration)
            if not await admissions.wait_until_asked(api):
                logger.warning("the API server does not ask the webhook for marked pods yet")
            await node.register()
            logger.info("node %s is ready", chosen.node)
            await asyncio.gather(routing, recorder.run(), node.run(), roster.run(ground))
        finally:
            await roster.close(grace_s=ENDING_GRACE_S)
            await kubelet.close()
            await webhook.close()


if __name__ == "__main__":
    sys.exit(main())
