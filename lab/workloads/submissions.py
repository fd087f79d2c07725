"""One run: workflows submitted through the API at their times, watched to their end, accounted for.

As a user would: a namespace, a create call per workflow, a watch. What the run may do to the lab
ends with it: interrupted, it deletes its workflows and waits until their pods are gone.
"""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lab import apis, errors, homes, invocations, truths
from lab.workloads import accounts, manifests, plans, runs

WORKFLOWS = "/apis/argoproj.io/v1alpha1"
ENDED = frozenset({"Succeeded", "Failed", "Error"})
POD_LABEL = "workflows.argoproj.io/workflow"
NAMESPACE_LABEL = "tiphys.dev/lab"
SERVICE_ACCOUNT_WALL_S = 60.0
"""How long a new namespace may take to get its default ServiceAccount."""
ACCOUNT_WALL_S = 45.0
"""How long after the last workflow the last pod may end and be written down."""
SHOWN = 3
"""Names in an error message, at most."""
AT_ONCE = 16
"""Create calls under way at the same time, at most."""


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far a run is; read by whoever shows it."""

    workflows: int
    speed: float
    started_at: float = 0.0
    submitted: int = 0
    ended: dict[str, int] = field(default_factory=dict)
    """Workflows by their last phase."""
    pods_done: int = 0
    pods_planned: int = 0
    clearing: str = ""
    """What is waited for once nothing is submitted any more; empty until then."""

    @property
    def sim_s(self) -> float:
        """Simulated seconds since the start."""
        return max(0.0, (time.time() - self.started_at) * self.speed) if self.started_at else 0.0


Show = Callable[[Progress], None]


class Run:
    """One run of a workload on a running lab."""

    def __init__(
        self,
        home: homes.Home,
        workload: plans.Workload,
        record: runs.RunRecord,
        *,
        show: Show = lambda progress: None,
        check_lab: Callable[[], object] = lambda: None,
        lab_stays: bool = True,
    ) -> None:
        """Prepare a run; `check_lab` raises a `LabError` once the lab is gone.

        Where the lab does not stay, an interrupted run is not cleared away: it goes with the lab.
        """
        self._home = home
        self._workload = workload
        self._record = record
        self._show = show
        self._check_lab = check_lab
        self._lab_stays = lab_stays
        self._changed = asyncio.Event()
        self._places = {
            (plan.namespace, plan.name): place for place, plan in enumerate(workload.workflows)
        }
        self._workflows = list(record.workflows)
        self._pods_done: dict[int, int] = {}
        self.progress = Progress(
            workflows=len(workload.workflows),
            speed=record.speed,
            pods_planned=len(workload.truths),
        )

    async def complete(self, *, limit_wall_s: float) -> runs.RunRecord:
        """Submit everything and wait for its end; returns the final record.

        Raises `RunError` where the limit passed or a pod is unaccounted for; cancelled, it removes
        its workflows from a lab that stays before it lets go.
        """
        outcome = "complete"
        try:
            async with apis.Api(self._home.kubeconfig) as api, asyncio.timeout(limit_wall_s):
                await self._prepare(api)
                await self._submit_and_watch(api)
        except TimeoutError:
            outcome = "timeout"
        except asyncio.CancelledError:
            outcome = "interrupted"
        except errors.LabError:
            await self._remove()
            self._write(outcome="interrupted", ended_at=time.time())
            raise
        if outcome == "interrupted" and not self._lab_stays:
            self._write(outcome=outcome, ended_at=time.time())
            raise asyncio.CancelledError
        if outcome != "complete":
            await self._remove()
        account = await self._accounted()
        self._write(
            outcome=outcome,
            ended_at=time.time(),
            pods_created=account.created,
            pods_ended=account.ended,
            pods_unaccounted=account.unaccounted,
        )
        if outcome == "interrupted":
            raise asyncio.CancelledError
        self._judge(limit_wall_s)
        return self._record

    async def _prepare(self, api: apis.Api) -> None:
        """Make the namespaces, each with the ServiceAccount that pods of a workflow use."""
        for name in sorted({plan.namespace for plan in self._workload.workflows}):
            body = {"metadata": {"name": name, "labels": {NAMESPACE_LABEL: "workload"}}}
            with contextlib.suppress(_ConflictError):
                await _created(api, "/api/v1/namespaces", body)
            until = time.monotonic() + SERVICE_ACCOUNT_WALL_S
            while not await _exists(api, f"/api/v1/namespaces/{name}/serviceaccounts/default"):
                if time.monotonic() > until:
                    raise errors.RunError(
                        f"namespace {name} got no default ServiceAccount within "
                        f"{SERVICE_ACCOUNT_WALL_S:.0f} s: is kube-controller-manager running? "
                        f"(`{invocations.lab()} status`)"
                    )
                await asyncio.sleep(0.1)

    async def _submit_and_watch(self, api: apis.Api) -> None:
        started_at = time.time()
        self.progress.started_at = started_at
        self._write(started_at=started_at)
        watching = asyncio.create_task(self._watch(api))
        writing = asyncio.create_task(self._keep_record())
        try:
            calls = asyncio.Semaphore(AT_ONCE)
            async with asyncio.TaskGroup() as group:
                for place, plan in enumerate(self._workload.workflows):
                    group.create_task(self._submit(api, place, plan, calls=calls))
            while sum(self.progress.ended.values()) < len(self._workflows):
                if watching.done():
                    watching.result()
                self._check_lab()
                await asyncio.sleep(0.2)
        except* errors.LabError as group_error:
            raise group_error.exceptions[0] from None
        finally:
            for task in (watching, writing):
                task.cancel()
            await asyncio.gather(watching, writing, return_exceptions=True)

    async def _submit(
        self, api: apis.Api, place: int, plan: plans.WorkflowPlan, *, calls: asyncio.Semaphore
    ) -> None:
        due = self._record.started_at + plan.arrival_s / self._record.speed
        await asyncio.sleep(max(0.0, due - time.time()))
        body = manifests.workflow(plan, run=self._record.run, speed=self._record.speed)
        path = f"{WORKFLOWS}/namespaces/{plan.namespace}/workflows"
        async with calls:
            try:
                made = await _created(api, path, body)
            except _ConflictError:
                raise errors.UsageError(
                    f"workflow {plan.namespace}/{plan.name} exists already: choose other names "
                    "with --tag, or delete it"
                ) from None
        self._update(place, uid=made["metadata"]["uid"], submitted_at=time.time())
        self.progress.submitted += 1
        self._show(self.progress)

    async def _watch(self, api: apis.Api) -> None:
        params = {"labelSelector": f"{manifests.RUN_LABEL}={self._record.run}"}
        seen: dict[str, int] = {}
        async for kind, item in api.watch(f"{WORKFLOWS}/workflows", params=params):
            if kind == "LISTED":
                # What was deleted while the watch was cut is only missing.
                for uid in seen.keys() - item["uids"]:
                    self._note(seen.pop(uid), "Deleted", {})
                continue
            key = (item["metadata"]["namespace"], item["metadata"]["name"])
            place = self._places.get(key)
            if place is None:
                continue
            seen[item["metadata"]["uid"]] = place
            status = item.get("status") or {}
            self._note(place, "Deleted" if kind == "DELETED" else status.get("phase", ""), status)

    def _note(self, place: int, phase: str, status: Mapping[str, Any]) -> None:
        """Take over what one workflow's status says, unless it has ended before."""
        if self._workflows[place].phase:
            return
        if phase != "Deleted":
            done, _, _ = str(status.get("progress") or "0/0").partition("/")
            self._pods_done[place] = int(done or 0)
            self.progress.pods_done = sum(self._pods_done.values())
        if phase in ENDED or phase == "Deleted":
            message = str(status.get("message") or "")
            self._update(place, phase=phase, message=message, ended_at=time.time())
            self.progress.ended[phase] = self.progress.ended.get(phase, 0) + 1
        self._show(self.progress)

    async def _remove(self) -> None:
        """Delete the run's workflows and wait until their pods are gone; never raises."""

        def tell(workflows: int, pods: int) -> None:
            self._waiting(f"deleting: {workflows} workflows and {pods} pods are left")

        self._waiting("deleting the run's workflows")
        with contextlib.suppress(errors.LabError, TimeoutError):
            async with apis.Api(self._home.kubeconfig, attempts=4) as api, asyncio.timeout(60):
                await remove(api, self._record.run, workflows=set(self._places), tell=tell)
        for place, workflow in enumerate(self._workflows):
            if workflow.submitted_at and not workflow.phase:
                self._update(place, phase="Deleted", ended_at=time.time())

    async def _accounted(self) -> accounts.Account:
        """Count the pods until all are accounted for, or the time for that is over."""
        names = list(self._places)
        until = time.monotonic() + ACCOUNT_WALL_S
        while True:
            account = accounts.account(self._home, names, since=self._record.started_at)
            complete = account.created >= self._least_pods() and not account.unaccounted
            if complete or time.monotonic() > until:
                return account
            self._waiting(f"{account.ended} of {account.created} pods have a record of their end")
            await asyncio.sleep(1.0)

    def _least_pods(self) -> int:
        """Return how many pods the workflows that succeeded must have had."""
        return sum(run.tasks for run in self._workflows if run.phase == "Succeeded")

    def _judge(self, limit_wall_s: float) -> None:
        """Raise where the run is not what it must be."""
        record = self._record
        if record.outcome == "timeout":
            open_still = [run.name for run in record.workflows if run.phase in ("", "Deleted")]
            shown = ", ".join(open_still[:SHOWN]) + (", …" if len(open_still) > SHOWN else "")
            raise errors.RunError(
                f"after {limit_wall_s:.0f} wall s {len(open_still)} of {len(record.workflows)} "
                f"workflows had not ended ({shown}); they were deleted: "
                "allow more with --limit, or offer less with --overload"
            )
        created, least = record.pods_created or 0, self._least_pods()
        if record.pods_unaccounted:
            shown = "\n".join(record.pods_unaccounted[:5])
            raise errors.RunError(
                f"{len(record.pods_unaccounted)} of {created} pods are unaccounted for:\n{shown}\n"
                f"see {self._home.audit_log} and {self._home.journal}"
            )
        if created < least:
            raise errors.RunError(
                f"the audit log has {created} pods, but the workflows that succeeded had {least}: "
                f"is {self._home.audit_log} complete?"
            )

    def _waiting(self, what: str) -> None:
        self.progress.clearing = what
        self._show(self.progress)

    def _update(self, place: int, **changes: object) -> None:
        self._workflows[place] = msgspec.structs.replace(self._workflows[place], **changes)
        self._changed.set()

    def _write(self, **changes: object) -> None:
        self._record = msgspec.structs.replace(
            self._record, workflows=tuple(self._workflows), **changes
        )
        runs.write(self._home, self._record)

    async def _keep_record(self) -> None:
        """Write the record when it changed, once a second at most."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            self._write()
            await asyncio.sleep(1.0)


async def remove(
    api: apis.Api,
    run: str,
    *,
    workflows: Set[accounts.Name],
    tell: Callable[[int, int], None] = lambda workflows, pods: None,
) -> None:
    """Delete the workflows of a run, and wait until neither they nor their pods exist.

    `tell` hears how many workflows and pods are left.
    """
    params = {"labelSelector": f"{manifests.RUN_LABEL}={run}"}
    namespaces = sorted({namespace for namespace, _ in workflows})
    for namespace in namespaces:
        await api.delete(f"{WORKFLOWS}/namespaces/{namespace}/workflows", params=params)
    while True:
        listed = await api.get(f"{WORKFLOWS}/workflows", params=params)
        pods_left = 0
        for namespace in namespaces:
            pods = await api.get(
                f"/api/v1/namespaces/{namespace}/pods", params={"labelSelector": POD_LABEL}
            )
            owners = (pod["metadata"]["labels"][POD_LABEL] for pod in pods["items"])
            pods_left += sum((namespace, owner) in workflows for owner in owners)
        if not listed["items"] and not pods_left:
            return
        tell(len(listed["items"]), pods_left)
        await asyncio.sleep(0.3)


class _ConflictError(Exception):
    """The object exists already."""


async def _created(api: apis.Api, path: str, body: apis.Object) -> apis.Object:
    try:
        return await api.create(path, body)
    except apis.ApiError as error:
        if error.status == 409:
            raise _ConflictError from error
        raise


async def _exists(api: apis.Api, path: str) -> bool:
    try:
        await api.get(path)
    except apis.ApiError as error:
        if error.status == 404:
            return False
        raise
    return True


def prepared(home: homes.Home, workload: plans.Workload, record: runs.RunRecord) -> runs.RunRecord:
    """Write the truth file and the first record; returns the record with the file's digest.

    Raises `UsageError` where the lab has a run of that name, whose records and workflows stay.
    """
    if runs.path(home, record.run).exists():
        raise errors.UsageError(
            f"lab {home.name!r} has a run {record.run} already: choose another --tag, "
            "or leave it away"
        )
    path = truths_path(home, record.run)
    truths.write(path, workload.truths)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    record = msgspec.structs.replace(record, truths_sha256=digest)
    runs.write(home, record)
    return record


def truths_path(home: homes.Home, run: str) -> Path:
    """Return where the truths of a run lie."""
    return home.truths / f"{run}.jsonl"
