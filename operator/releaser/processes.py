"""`tiphys release --watch` and `--once`: judge the operators, open gates when none lives.

`--watch` is the Deployment: it looks every 2 s and opens all gates within 30 s of the last sign of
life. `--once` is the CronJob's floor: it looks until a leader is proven or none can be. Exit codes
of `--once`: 0 nothing is left to do, 1 gates stayed shut, 3 the API server cannot be reached.
"""

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tiphys.models.domain import errors
from tiphys.operator import credentials
from tiphys.operator.releaser import connections, judgements, openings, pages, settings

DISABLED = "TIPHYS_DISABLED"
IDLE_S = 30.0
"""Seconds between two counts of the gates while an operator lives; they are only shown."""


class Releaser:
    """Looks, judges, opens."""

    def __init__(
        self, api: connections.Api, chosen: settings.Settings, *, disabled: bool = False
    ) -> None:
        """`disabled`: gates open whatever the Leases say."""
        self.state = pages.State()
        self.stopping = threading.Event()
        self._api = api
        self._chosen = chosen
        self._disabled = disabled
        self._judge = judgements.Judge(
            look_s=chosen.look_s,
            dead_after_s=chosen.dead_after_s,
            leaderless_s=chosen.leaderless_s,
        )
        self._opener = openings.Opener(api, per_second=chosen.per_second, callers=chosen.callers)
        self._looked_at = float("-inf")
        self._verdict = judgements.Verdict(alive=True, why="not looked yet")

    def look(self) -> judgements.Verdict:
        """Read the Leases and judge; raises `UnavailableError` or `CallError` when that fails."""
        path = "/apis/coordination.k8s.io/v1/namespaces/"
        listed = self._api.get(f"{path}{self._chosen.operator_namespace}/leases")
        now = time.monotonic()
        verdict = self._judge.look(
            [
                judgements.Lease(
                    name=item["metadata"]["name"],
                    holder=(item.get("spec") or {}).get("holderIdentity") or "",
                    renewed=(item.get("spec") or {}).get("renewTime") or "",
                )
                for item in listed.get("items") or ()
                if item["metadata"]["name"].startswith(judgements.LEADER)
            ],
            now,
        )
        if self._disabled:
            verdict = judgements.Verdict(alive=False, why="Tiphys is switched off")
        if verdict.alive != self._verdict.alive:
            _log("operators", alive=verdict.alive, why=verdict.why)
        self._verdict, self._looked_at = verdict, now
        self.state.looks += 1
        self.state.looked_at, self.state.alive = now, verdict.alive
        return verdict

    def watch(self) -> None:
        """Look and open until told to stop."""
        counted_at = float("-inf")
        while not self.stopping.is_set():
            try:
                if not self.look().alive:
                    self._open()
                elif time.monotonic() - counted_at > IDLE_S:
                    counted_at = time.monotonic()
                    self.state.gates = len(self._opener.find())
            except (errors.UnavailableError, connections.CallError, ValueError) as error:
                self.state.failures += 1
                _log("no answer", error=str(error))
            self.state.beat_at = time.monotonic()
            self.stopping.wait(self._chosen.look_s)
        self._opener.close()

    def once(self) -> int:
        """Do it once, for the CronJob; return the exit code.

        What fails is tried again while there is time, since the next run is a minute away. Switched
        off, it also looks so long for pods that were admitted a moment ago.
        """
        judged_s = self._chosen.leaderless_s + 2 * self._chosen.look_s
        end = time.monotonic() + (self._chosen.dead_after_s if self._disabled else judged_s)
        code: int | None
        try:
            while True:
                try:
                    code = self._round()
                except (errors.UnavailableError, connections.CallError, ValueError) as error:
                    _log("no answer", error=str(error))
                    code = 3
                if code == 0 and not self._disabled:
                    return 0
                if time.monotonic() > end or self.stopping.wait(self._chosen.look_s):
                    return code or 0
        finally:
            self._opener.close()

    def _round(self) -> int | None:
        """Judge, and open if nobody lives; return the exit code so far, None while undecided."""
        if not self._opener.gated and not self._opener.find():
            return 0
        if not self.look().alive:
            return 0 if self._open() else 1
        if not self._judge.proven:
            return None
        _log("an operator lives", why=self._verdict.why)
        return 0

    def _open(self) -> bool:
        """Open all gates while nobody lives; say whether none is left."""
        found = self._opener.find()
        began = time.monotonic()
        opened, failed = self._opener.open(found, goes_on=self._goes_on)
        self.state.gates = self._opener.gated
        self.state.opened, self.state.failed = self._opener.opened, self._opener.failed
        if found:
            spent_s = round(time.monotonic() - began, 2)
            _log("opened gates", opened=opened, failed=failed, of=len(found), seconds=spent_s)
        return opened == len(found)

    def _goes_on(self) -> bool:
        """Look again now and then: an operator that came back takes over what is left."""
        self.state.beat_at = time.monotonic()
        if self.stopping.is_set():
            return False
        if time.monotonic() - self._looked_at >= self._chosen.look_s:
            self.look()
        return not self._verdict.alive


def main(arguments: list[str], environ: Mapping[str, str] = os.environ) -> int:
    """Run the process; return the exit code (2 = wrong arguments or settings)."""
    parser = argparse.ArgumentParser(
        prog="tiphys release", description="Open all gates when no operator lives."
    )
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--watch", action="store_true", help="look every 2 s (the Deployment)")
    how.add_argument("--once", action="store_true", help="look once (the CronJob's floor)")
    parser.add_argument("--settings", type=Path, help="settings file (docs/releaser.md)")
    parser.add_argument("--kubeconfig", type=Path, help="instead of the pod's own account")
    given = parser.parse_args(arguments)
    try:
        chosen = settings.load(given.settings, environ)
        login = credentials.find(given.kubeconfig, environ)
    except errors.InputError as error:
        sys.stderr.write(f"tiphys release: {error}\n")
        return 2
    releaser = Releaser(connections.Api(login), chosen, disabled=environ.get(DISABLED) == "1")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: releaser.stopping.set())
    if given.once:
        return releaser.once()
    server = pages.serve(releaser.state.answer, chosen.host, chosen.metrics_port)
    _log("watching", namespace=chosen.operator_namespace, port=server.server_port)
    releaser.watch()
    server.shutdown()
    return 0


def _log(message: str, **values: object) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    sys.stderr.write(json.dumps({"message": message, "timestamp": at, **values}) + "\n")
