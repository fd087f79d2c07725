"""Which shipped clusters and mixes deserve the name "contention"; docs/physics.md has the table."""

import re
import statistics
from collections.abc import Iterable
from dataclasses import replace

import pytest
from rich.console import Console
from rich.table import Table

from lab import catalogs
from lab.kubelet import computations
from lab.reports import results
from lab.workloads import mixes, packs, plans
from tiphys.models.physics import contentions

SEEDS = (1, 2)
WORKFLOWS = 16
OVERLOAD = 1.5
PAGE = "docs/physics.md"
TOLD = re.compile(r"^\| (\S+) \| (\S+) \| (as written|right-sized) \|.*\| contention \|$", re.M)
HEADROOM = 1.2
"""Of right-sized memory over the true peak."""
CASES = (
    ("genomics", "genomics"),
    ("genomics", "mixed"),
    ("genomics", "uniform"),
    ("spark", "mixed"),
    ("burst", "mixed"),
    ("ml", "gpu"),
    ("exome", "uniform"),
)
"""(mix, cluster)"""


def jobs(workload: plans.Workload) -> list[contentions.Job]:
    """Return a workload as the label takes it; pods without a truth of their own are left out."""
    truths = {(truth.workflow, truth.task): truth for truth in workload.truths}
    found = []
    for plan in workload.workflows:
        for pod in plan.pods:
            truth = truths[plan.name, pod.task]
            requests = plan.requests_of(pod.template)
            found.append(
                contentions.Job(
                    task=computations.task(
                        truth,
                        key=f"{truth.workflow}.{truth.task}",
                        scope=truth.workflow,
                        bounds=computations.Bounds(
                            cpu_m=requests.cpu_m,
                            cpu_limit_m=requests.cpu_limit_m,
                            memory_bytes=requests.memory_bytes,
                            memory_limit_bytes=requests.memory_limit_bytes,
                        ),
                    ),
                    arrives_s=plan.arrival_s,
                    after=tuple(f"{plan.name}.{parent}" for parent in pod.parents),
                    workflow=plan.name,
                    gpu_count=requests.gpus,
                )
            )
    return found


def right_sized(job: contentions.Job) -> contentions.Job:
    """Return a job that asks for what it uses: requests no longer keep neighbours apart."""
    task = job.task
    alone_s = task.cpu_s / task.parallelism
    others_s = task.gpu_s + task.written_bytes / 500e6 + task.store_bytes / 1e9
    cores = task.cpu_s / max(alone_s + others_s, 1e-3)
    return replace(
        job,
        task=replace(
            task,
            cpu_request_cores=min(task.cpu_request_cores, max(0.05, cores)),
            memory_request_bytes=HEADROOM * task.peak_bytes,
            memory_limit_bytes=None,
        ),
    )


def verdicts() -> list[dict[str, str | float | bool]]:
    """Return one row for each case, with requests as written and right-sized; means over seeds."""
    rows: list[dict[str, str | float | bool]] = []
    for mix, name in CASES:
        described = catalogs.load(name)
        cluster = computations.cluster(described)
        found: dict[str, list[contentions.Verdict]] = {"as written": [], "right-sized": []}
        for seed in SEEDS:
            wish = mixes.Wish(workflows=WORKFLOWS, seed=seed, pack=packs.find())
            workload = mixes.generate(
                mixes.find(mix), wish, tag="label", cluster=described, overload=OVERLOAD
            )
            asked = jobs(workload)
            found["as written"].append(contentions.judge(cluster, asked, seed=seed))
            sized = [right_sized(job) for job in asked]
            found["right-sized"].append(contentions.judge(cluster, sized, seed=seed))
        for requests, judged in found.items():
            gain = statistics.fmean(verdict.gain for verdict in judged)
            rows.append(
                {
                    "mix": mix,
                    "cluster": name,
                    "requests": requests,
                    "least_requested_s": _mean(v.least_requested for v in judged),
                    "fastest_alone_s": _mean(v.fastest_alone for v in judged),
                    "soonest_end_s": _mean(v.soonest_end for v in judged),
                    "least_lost_s": _mean(v.least_lost for v in judged),
                    "gain": round(gain, 3),
                    "least_gain": round(min(verdict.gain for verdict in judged), 3),
                    "contention": gain >= contentions.GAIN,
                }
            )
    return rows


def _mean(outcomes: Iterable[contentions.Outcome]) -> float:
    return round(statistics.fmean(one.mean_completion_s for one in outcomes), 1)


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_where_neighbours_matter(capsys) -> None:
    """Each mix on its clusters, requests as written and right-sized; as docs/physics.md says."""
    rows = verdicts()
    path = results.write(
        "contention",
        seed=SEEDS[0],
        speed=None,
        data=packs.find().kind,
        command="python -m pytest tests/bench/test_contention.py -m bench",
        figures={"seeds": list(SEEDS), "workflows": WORKFLOWS, "overload": OVERLOAD, "rows": rows},
    )
    shown = Table(title="Does it matter who runs beside whom?")
    for column in rows[0]:
        shown.add_column(column.replace("_", " "))
    for row in rows:
        shown.add_row(*(str(value) for value in row.values()))
    with capsys.disabled():
        console = Console(width=120)
        console.print(shown)
        console.print(f"written to {path}")
    if packs.find().sample:
        return  # The page is about the whole data pack.
    found = {(row["mix"], row["cluster"], row["requests"]) for row in rows if row["contention"]}
    told = {
        (mix, cluster, requests)
        for mix, cluster, requests in TOLD.findall((results.REPOSITORY / PAGE).read_text())
    }
    assert told == found, f"{PAGE} must say which cluster and mix are called contention"
