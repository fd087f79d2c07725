"""What a pod create pays for Tiphys: real creates, with and without, by turns, on one machine.

The decider answers at once (tests/fakes): its work is measured elsewhere. `with` is everything that
the chart puts before a create: the stamp, both webhooks, the guards; `without` is none of it. The
quantiles come from the API server's audit log, since its histogram has buckets of 5, 25 and 50 ms;
the means of its histograms stand beside them.
"""

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from lab import apis, homes
from lab.controlplane import binaries, labs, ports, processes, states
from lab.installs import charts, helms
from lab.reports import results
from tests.bench import creates
from tests.bench.test_kubelet import TICKS_PER_S
from tests.fakes import deciders
from tests.lab import chart_objects, hooked_pods, polls

RANGES = yaml.safe_load(Path(__file__).with_name("ranges.yaml").read_text())["admission"]
PAIRS, RATE_PER_S, COUNT = 6, 50.0, 300
CALLERS, CLOSED_PAIRS, CLOSED_COUNT = 8, 3, 400
BYSTANDERS = 100
REGISTRATION = hooked_pods.REGISTRATION
OBJECTS = (
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
)
IN, OUT = "steered", "bystander"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[homes.Home]:
    """Yield the home of a running lab of equal nodes."""
    root = Path(tempfile.mkdtemp(prefix="tiphys-"))
    monkeypatch.setenv("TIPHYS_LAB_HOME", str(root))
    made = homes.home("admission")
    asked = states.Asked(cluster="uniform", owner=processes.current())
    binaries.find(asked)
    labs.up(made, asked)
    yield made
    labs.down(made)
    shutil.rmtree(root)


class Switch:
    """Takes everything that stands before a create away, and puts it back."""

    def __init__(self, api: apis.Api, owner: apis.Object) -> None:
        self._api = api
        self._owner = owner
        self._saved: dict[str, apis.Object] = {}

    async def remember(self) -> None:
        """Read what the chart installed."""
        for plural in OBJECTS:
            for item in (await self._api.get(f"{REGISTRATION}/{plural}"))["items"]:
                name = item["metadata"]["name"]
                if not name.startswith("tiphys"):
                    continue
                labels = item["metadata"].get("labels", {})
                kept = {**item, "metadata": {"name": name, "labels": labels}}
                kept.pop("status", None)
                self._saved[f"{REGISTRATION}/{plural}/{name}"] = kept

    async def turn(self, *, on: bool) -> None:
        """Put all of it in place or away, and wait until the API server has seen it."""
        for path, item in self._saved.items():
            if not on:
                await self._api.delete(path)
            else:
                with contextlib.suppress(apis.ApiError):
                    await self._api.create(path.rpartition("/")[0], item)

        async def seen() -> bool:
            pod = creates.a_pod(self._owner, name="trial")
            path = f"/api/v1/namespaces/{IN}/pods"
            made = await self._api.call("POST", path, body=pod, params={"dryRun": "All"})
            return ("tiphys.dev/decision" in made["metadata"]["annotations"]) is on

        await polls.until(seen, within_s=60)
        await asyncio.sleep(1.0)


@contextlib.asynccontextmanager
async def served(home: homes.Home, folder: Path) -> AsyncIterator[tuple[int, int]]:
    """Run decider and webhook as processes of their own; yields the webhook's pid and port."""
    deciders.write_folder(folder)
    port = ports.free(1)[0]
    settings = deciders.write_settings(
        folder,
        address=f"127.0.0.1:{port}",
        client_authority=home.pki / "webhook-client-ca.crt",
        more={"logLevel": "INFO"},
    )
    decider = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.fakes.deciders", str(folder), "--port", str(port)
    )
    script = str(Path(sys.executable).with_name("tiphys"))
    webhook = await asyncio.create_subprocess_exec(
        script, "webhook", "--settings", str(settings), stderr=asyncio.subprocess.PIPE
    )
    assert webhook.stderr is not None
    try:
        calls, _ = await deciders.ports_of(webhook.stderr)
        reader = asyncio.create_task(_drained(webhook.stderr))
        yield webhook.pid, calls
    finally:
        for process in (webhook, decider):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
            await process.wait()
        await reader


async def _drained(stream: asyncio.StreamReader) -> None:
    while await stream.read(65536):
        pass


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_PER_S


@pytest.mark.bench
@pytest.mark.timeout(1800)
async def test_a_create_pays_little(
    home: homes.Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Added latency by pairs, CPU of both sides, throughput; a bystander while both hooks hang."""
    figures: dict[str, results.Figure] = {"pairs": PAIRS, "creates_per_s": RATE_PER_S}
    async with apis.Api(home.kubeconfig) as api, served(home, tmp_path) as (pid, port):
        await chart_objects.a_namespace(api, IN, enabled="true")
        await chart_objects.a_namespace(api, OUT)
        more = {
            **chart_objects.NO_PROCESSES,
            "webhook": {"replicas": 0, "url": f"https://127.0.0.1:{port}"},
        }
        charts.install(helms.find(), home, charts.values(home, more=more))
        await _trusted(api, (tmp_path / "ca.crt").read_bytes())
        owner = await hooked_pods.an_owner(api, IN)
        switch = Switch(api, owner)
        await switch.remember()
        with_, without, webhook_ms = [], [], []
        for number in range(PAIRS + 1):
            for on in (True, False) if number % 2 else (False, True):
                await switch.turn(on=on)
                used = cpu_s(pid)
                spent = await creates.open_loop(home, api, IN, owner, per_s=RATE_PER_S, count=COUNT)
                # The first pair warms both sides up.
                if number:
                    (with_ if on else without).append(spent)
                    if on:
                        webhook_ms.append((cpu_s(pid) - used) * 1000 / COUNT)
                await creates.cleared(api, IN)
        figures |= _added(with_, without)
        figures["webhook_cpu_ms_per_pod"] = round(statistics.median(webhook_ms), 3)
        figures |= await _closed(home, api, switch, owner)
        figures |= await _hung(home, api, switch, owner, pid)
    path = results.add("admission", seed=None, speed=1.0, figures=figures)
    with capsys.disabled():
        for name, value in figures.items():
            Console().print(f"{name:44} {value}")
        Console().print(f"written to {path}")
    for name, bounds in RANGES.items():
        assert bounds.get("least", -1e9) <= figures[name] <= bounds.get("most", 1e9), name  # type: ignore[operator]


def _added(with_: list[creates.Spent], without: list[creates.Spent]) -> dict[str, results.Figure]:
    found: dict[str, results.Figure] = {}
    for part in (0.5, 0.95, 0.99):
        name = f"p{round(part * 100)}_ms"
        pairs = [
            (a.quantile_ms(part), b.quantile_ms(part)) for a, b in zip(with_, without, strict=True)
        ]
        added = [a - b for a, b in pairs]
        found[f"added_{name}"] = round(statistics.median(added), 2)
        found[f"added_{name[:-3]}_pairs_ms"] = [round(value, 2) for value in added]
        found[f"with.{name}"] = round(statistics.median(a for a, _ in pairs), 2)
        found[f"without.{name}"] = round(statistics.median(b for _, b in pairs), 2)
    means = [a.mean_ms - b.mean_ms for a, b in zip(with_, without, strict=True)]
    found["histogram.added_mean_ms"] = round(statistics.median(means), 2)
    found["histogram.webhooks_mean_ms"] = round(statistics.median(a.hook_ms for a in with_), 2)
    found["apiserver_cpu_ms_per_pod"] = round(statistics.median(a.api_cpu_ms for a in with_), 2)
    found["without.apiserver_cpu_ms_per_pod"] = round(
        statistics.median(b.api_cpu_ms for b in without), 2
    )
    found["decided_share"] = round(statistics.fmean(a.decided for a in with_), 4)
    return found


async def _closed(
    home: homes.Home, api: apis.Api, switch: Switch, owner: apis.Object
) -> dict[str, results.Figure]:
    rates: dict[bool, list[float]] = {True: [], False: []}
    for number in range(CLOSED_PAIRS):
        for on in (True, False) if number % 2 else (False, True):
            await switch.turn(on=on)
            spent = await creates.closed_loop(
                home, api, IN, owner, callers=CALLERS, count=CLOSED_COUNT
            )
            rates[on].append(spent.per_s)
            await creates.cleared(api, IN)
    return {
        "closed.with_creates_per_s": round(statistics.median(rates[True]), 1),
        "closed.without_creates_per_s": round(statistics.median(rates[False]), 1),
    }


async def _hung(
    home: homes.Home, api: apis.Api, switch: Switch, owner: apis.Object, pid: int
) -> dict[str, results.Figure]:
    """Stop the webhook; creates in a namespace that never opted in, before and meanwhile."""
    await switch.turn(on=True)
    other = await hooked_pods.an_owner(api, OUT)

    async def bystanders() -> float:
        spent = await creates.open_loop(home, api, OUT, other, per_s=RATE_PER_S, count=BYSTANDERS)
        await creates.cleared(api, OUT)
        return spent.quantile_ms(0.5)

    before = await bystanders()
    os.kill(pid, signal.SIGSTOP)
    try:
        meanwhile = await bystanders()
    finally:
        os.kill(pid, signal.SIGCONT)
    return {
        "hung_bystander_added_ms": round(meanwhile - before, 2),
        "hung_bystander.before_p50_ms": round(before, 2),
    }


async def _trusted(api: apis.Api, authority: bytes) -> None:
    """Put the authority into both configurations, as the leader does."""
    for plural in OBJECTS[-2:]:
        path = f"{REGISTRATION}/{plural}/tiphys"
        hooks = (await api.get(path))["webhooks"]
        for hook in hooks:
            hook["clientConfig"]["caBundle"] = base64.b64encode(authority).decode()
        await api.patch(path, {"webhooks": hooks})
