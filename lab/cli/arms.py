"""One arm of an experiment: a lab of its own, Tiphys in it or not, one run, and what it measured.

Each arm gets a fresh lab and the same tag, so that workflows have the same names, and with them the
same truths and the same noise of the run; nothing of one arm can linger in the next.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from lab import apis, catalogs, errors, homes, invocations
from lab.cli import clusters, displays, installs, runs, workloads
from lab.controlplane import labs, states
from lab.installs import charts, helms
from lab.reports import figures, measurements, results, sources
from lab.workloads import packs, submissions

ENABLED = "tiphys.dev/enabled"
OPENED = re.compile(r'^tiphys_operator_gates_opened_total\{how="(\w+)"\} (\S+)$', re.MULTILINE)
BY_TIMEOUT = "clock"
METRICS_PORT = 9080
ANSWER_WITHIN_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """How the pods of an experiment are scheduled."""

    name: str
    """As results call it: `default`, `fifo_gates`, `tiphys`."""
    steered: bool
    """Whether Tiphys is installed and the namespaces opt in; that is all that users do."""
    policy: apis.Object | None = None
    """Spec of a SchedulingPolicy; None = the documented default."""


DEFAULT = Arm(name="default", steered=False)
TIPHYS = Arm(name="tiphys", steered=True)
FIFO_GATES = Arm(
    name="fifo_gates",
    steered=True,
    policy={
        "stable": "builtin-fifo-v1",
        # Every pod passes a gate, and a label that no node has leaves no group to place it in: what
        # remains is the mere presence of a gate.
        "placement": {"when": "release", "topologyKeys": ["lab.tiphys.dev/no-group"]},
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is submitted, to which cluster, and how quickly time runs."""

    mix: str
    cluster: str
    workflows: int
    seed: int
    overload: float
    speed: float
    limit_wall_s: float
    most_tasks: int | None = None
    data: Path | None = None
    """Folder of the data pack; None looks for it (`lab.workloads.packs`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What became of an arm."""

    measured: measurements.Measurement
    failure: errors.RunError | None = None
    """Why its run ended badly; it is measured all the same."""
    opened: Mapping[str, int] = field(default_factory=dict)
    """Gates that opened during the run, by what opened them."""

    @property
    def opened_by_timeout(self) -> float | None:
        """Return the share of gates that a time-out opened; None without gates."""
        gates = sum(self.opened.values())
        return self.opened.get(BY_TIMEOUT, 0) / gates if gates else None


def run(
    ctx: click.Context,
    arm: Arm,
    load: Load,
    *,
    name: str,
    kubernetes: str,
    warm_up: Load | None = None,
) -> Ended:
    """Run one arm from `up` to `down` in the lab `name`, and measure it.

    `warm_up` is run before, opted in as well, where the arm is steered: from it durations are
    known. What users know of an arm is the annotation on their namespaces.
    """
    home = homes.home(name)
    interrupted = False
    try:
        ctx.invoke(
            clusters.up,
            name=name,
            cluster=load.cluster,
            speed=load.speed,
            kubernetes=kubernetes,
            owner_pid=os.getpid(),
        )
        if arm.steered:
            installs.install_into(home, more={})
            for each in (load, *((warm_up,) if warm_up else ())):
                asyncio.run(_opted_in(home, _namespaces(each), policy=arm.policy))
            if warm_up is not None:
                _submit(ctx, warm_up, name=name)
        before = asyncio.run(_opened(home)) if arm.steered else {}
        failure = _submit(ctx, load, name=name)
        after = asyncio.run(_opened(home)) if arm.steered else {}
        measured = figures.measure(sources.load(home), arm=arm.name)
    except (KeyboardInterrupt, click.exceptions.Abort):
        interrupted = True
        raise
    finally:
        labs.down(home, at_once=interrupted)
    opened = {how: count - before.get(how, 0) for how, count in after.items()}
    return Ended(measured=measured, failure=failure, opened=opened)


def prepare(name: str, *, into: Path, data: Path | None) -> None:
    """Meet at the outset what would end an experiment after minutes or hours.

    Another experiment's lab is not ours to use, and less so to take down. Helm is found or built,
    figures and pages have a place, and a data pack that was named is there.
    """
    state = states.read(homes.home(name))
    if state is not None and state.running:
        raise errors.UsageError(
            f"lab {name!r} runs already, so another demo may be under way: wait for it, or end "
            f"it with `{invocations.lab()} down --name {name}`"
        )
    packs.find(data)
    for place in (results.folder(), into):
        results.check_place(place)
    with displays.Builds() as shown:
        helms.find(report=shown.report)


def _submit(ctx: click.Context, load: Load, *, name: str) -> errors.RunError | None:
    """Run a workload; a run that ended badly is measured too, and its error comes back."""
    try:
        ctx.invoke(
            runs.run,
            mix=load.mix,
            lab=name,
            workflows=load.workflows,
            seed=load.seed,
            overload=load.overload,
            most_tasks=load.most_tasks,
            limit_wall_s=load.limit_wall_s,
            data=load.data,
        )
    except errors.RunError as error:
        return error
    return None


def _namespaces(load: Load) -> list[str]:
    """Return the namespaces of a workload's tenants."""
    made = workloads.generated(
        load.mix,
        cluster=catalogs.load(load.cluster),
        tag="names",
        workflows=load.workflows,
        seed=load.seed,
        kind=None,
        overload=load.overload,
        window_s=None,
        most_tasks=load.most_tasks,
        held_out=False,
        data=load.data,
    )
    return sorted({plan.namespace for plan in made.workflows})


async def _opted_in(home: homes.Home, namespaces: list[str], *, policy: apis.Object | None) -> None:
    """Make the namespaces with the one annotation that a user writes."""
    async with apis.Api(home.kubeconfig) as api:
        if policy is not None:
            path = "/apis/tiphys.dev/v1alpha1/schedulingpolicies/experiment"
            body = {
                "apiVersion": "tiphys.dev/v1alpha1",
                "kind": "SchedulingPolicy",
                "metadata": {"name": "experiment"},
                "spec": policy,
            }
            await api.apply(path, body)
        for name in namespaces:
            body = {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": name,
                    "labels": {submissions.NAMESPACE_LABEL: "workload"},
                    "annotations": {ENABLED: "true"},
                },
            }
            await api.apply(f"/api/v1/namespaces/{name}", body)


async def _opened(home: homes.Home) -> dict[str, int]:
    """Return how many gates the operators have opened, by what opened them."""
    counted: dict[str, int] = {}
    async with apis.Api(home.kubeconfig) as api:
        params = {"labelSelector": "app.kubernetes.io/component=operator"}
        listed = await api.get(f"/api/v1/namespaces/{charts.NAMESPACE}/pods", params=params)
    for pod in listed["items"]:
        with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
            async with asyncio.timeout(ANSWER_WITHIN_S):
                text = await _metrics(pod["status"]["podIP"])
            for how, count in OPENED.findall(text):
                counted[how] = counted.get(how, 0) + int(float(count))
    return counted


async def _metrics(address: str) -> str:
    """Read the metrics of a pod of the process node, whose address is one of this machine."""
    reader, writer = await asyncio.open_connection(address, METRICS_PORT)
    try:
        writer.write(f"GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        return (await reader.read()).decode(errors="replace").replace("\r\n", "\n")
    finally:
        writer.close()
