"""A corpus run: examples are prepared, submitted at a modest rate, driven, and accounted for."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab import apis, homes, journals
from lab.controlplane import manifests, states
from lab.corpus import drivers, examples, expectations, preparations, watchers
from lab.kubelet.behaviours import grounds
from lab.reports import sources

RATE_PER_S = 4.0
"""Submissions a wall second; the pods behind them keep the API server busy enough."""
AT_ONCE = 48
"""Examples under way at the same time."""
MOST_AGAIN = 5
"""Examples that missed their end and are tried again alone: where timeouts of seconds run on the
clock of the wall, a crowd on a busy machine can take longer than they allow."""

Show = Callable[[drivers.Result], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a corpus run found."""

    results: tuple[drivers.Result, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Examples that were not submitted, and why: not runnable, or a program is missing here."""
    speed: float = 1.0
    wall_s: float = 0.0
    pods: int = 0
    """Pods that ended on the simulated nodes meanwhile."""
    kubelet_cpu_s: float = 0.0
    """CPU seconds of the kubelet and all commands that it ran."""
    refusal: str = ""
    """Why this machine runs no commands; then most examples cannot reach their end."""

    @property
    def workflows(self) -> tuple[drivers.Result, ...]:
        """The results of Workflows."""
        return tuple(result for result in self.results if result.kind == "Workflow")

    @property
    def reached(self) -> int:
        """How many Workflows came to an end that is documented for them."""
        return sum(result.reached for result in self.workflows)

    @property
    def missed(self) -> tuple[drivers.Result, ...]:
        """Everything that did not."""
        return tuple(result for result in self.results if not result.reached)


def chosen(
    found: Mapping[str, examples.Example],
    known: expectations.Expectations,
    names: Sequence[str],
) -> tuple[list[examples.Example], dict[str, str]]:
    """Return the examples to run, the longest first, and those left out with the reason."""
    skipped = dict(known.not_runnable)
    for name in known.workflows:
        if missing := known.missing_programs(name):
            skipped[name] = f"needs {', '.join(missing)} on this machine"
    picked = [
        example
        for name, example in found.items()
        if name not in skipped and (not names or name in names)
    ]
    picked.sort(key=lambda example: _rank(example, known))
    return picked, {key: why for key, why in skipped.items() if not names or key in names}


def _rank(example: examples.Example, known: expectations.Expectations) -> int:
    """Scheduled ones and those that take long on the wall come first."""
    if not example.is_workflow:
        return 0 if known.stored[example.name].as_ == "scheduled" else 2
    return 1 if known.workflows[example.name].long else 2


async def run(
    home: homes.Home,
    found: Mapping[str, examples.Example],
    known: expectations.Expectations,
    *,
    names: Sequence[str] = (),
    show: Show = lambda result: None,
) -> Report:
    """Run the examples in `names` (none: all) on a lab that is up.

    Up to `MOST_AGAIN` that miss their end are shown, and then tried once more, one by one.
    """
    picked, skipped = chosen(found, known, names)
    state = states.load(home)
    kubelet = state.component("kubelet").process
    began, cpu_s = time.monotonic(), _cpu_s(kubelet.pid if kubelet else 0)
    pods_before = _pods(home.journal)
    results: list[drivers.Result] = []
    async with apis.Api(home.kubeconfig) as api:
        for name in drivers.NAMESPACES:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await api.apply(f"/api/v1/namespaces/{name}", body)
        await manifests.accounts_exist(api, drivers.NAMESPACES)
        setups = {
            name
            for example in picked
            for name in (
                known.workflows[example.name].setup
                if example.is_workflow
                else known.stored[example.name].setup
            )
        }
        await preparations.make(home, api, names=setups, found=found, namespace=drivers.NAMESPACE)
        watcher = watchers.Watcher(api)
        watching = asyncio.create_task(watcher.run())
        driver, slots = drivers.Driver(api, watcher), asyncio.Semaphore(AT_ONCE)

        async def one(example: examples.Example) -> None:
            try:
                result = await driver.drive(example, known)
            finally:
                slots.release()
            results.append(result)
            show(result)

        try:
            async with asyncio.TaskGroup() as group:
                for example in picked:
                    await slots.acquire()
                    group.create_task(one(example))
                    await asyncio.sleep(1 / RATE_PER_S)
            missed = [result.name for result in results if not result.reached]
            if len(missed) <= MOST_AGAIN:
                for name in missed:
                    second = await driver.drive(found[name], known)
                    results = [result for result in results if result.name != name] + [second]
                    show(second)
        finally:
            watching.cancel()
    return Report(
        results=tuple(sorted(results, key=lambda result: result.name)),
        skipped=skipped,
        speed=state.asked.speed,
        wall_s=time.monotonic() - began,
        pods=_pods(home.journal) - pods_before,
        kubelet_cpu_s=_cpu_s(kubelet.pid if kubelet else 0) - cpu_s,
        refusal=await grounds.probe(),
    )


def _pods(journal: Path) -> int:
    """Return how many ends of pods the kubelet has written down."""
    if not journal.exists():
        return 0
    return sum(isinstance(item, journals.PodRecord) for item in sources.read_journal(journal))


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")
