"""Pods whose commands are really run: Argo's container, script and container set templates, and
pods that are not Argo's. Each container is a sandbox of its own (see `sandboxes`).

`prepare` is Argo's `init` and the user's init containers, `run` the emissary in every container,
`report` is Argo's `wait`. Where the machine permits no sandbox, nothing is run, and outputs take
their defaults (`Ground.refusal` says why).
"""

import asyncio
import logging
import re
import shutil
import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from lab import apis
from lab.kubelet.behaviours import (
    artifacts,
    computed,
    contracts,
    environments,
    grounds,
    images,
    pods,
    results,
    sandboxes,
    templates,
    volumes,
)

logger = logging.getLogger(__name__)

INCLUDE_OUTPUT = "ARGO_INCLUDE_SCRIPT_OUTPUT"
PROGRESS_FILE = "ARGO_PROGRESS_FILE"
ARGS_FILE = "ARGO_CONTAINER_ARGS_FILE"
LARGE_ARGUMENT_BYTES = 128 << 10
SCRIPT = "script"
"""File of a script template's source in the volume `argo-staging`."""
WAIT_FOR_REFERENCE_S = 2.0
"""Wall seconds between two looks for a ConfigMap, Secret or claim that is not there yet."""
STOP_GRACE_S = 1.0
"""Wall seconds that commands have to end after SIGTERM when their pod is stopped."""
PROGRESS_S = 60.0
"""Simulated seconds between two looks at a task's progress file (Argo's patch tick)."""
KEPT_AFTER_STOP_S = 60.0
"""Wall seconds for which the files of a stopped pod are kept for its report."""


@dataclass(slots=True)
class Ended:
    """How one container ended, and what it wrote."""

    end: contracts.ContainerEnd
    output: sandboxes.Output = field(default_factory=sandboxes.Output)


class Executed:
    """One pod whose commands are run."""

    def __init__(self, host: contracts.Host, ground: grounds.Ground) -> None:
        self._host = host
        self._ground = ground
        self._pod = host.pod
        self._template: templates.Template = {}
        self._files: artifacts.Files | None = None
        self._volumes = volumes.Volumes(ground, host.pod, address=host.address)
        self._is_argo = pods.kind(host.pod) is pods.Kind.TASK
        self._speed = ground.speed(host.pod)
        self._running: dict[str, sandboxes.Sandbox] = {}
        self._ended: dict[str, Ended] = {}

    # The three parts

    async def prepare(self) -> contracts.ContainerEnd:
        """Make the volumes, load the inputs, run the user's init containers in their order."""
        try:
            return await self._prepare()
        except asyncio.CancelledError:
            self._remove()
            raise

    async def run(self) -> contracts.Outcome:
        """Run all containers; sidecars are stopped when the main ones have ended."""
        if self._files is None:
            # The kubelet was restarted meanwhile; the commands died with it and run again.
            await self._make()
        if await self._ground.refusal():
            await self._host.sleep(1.0)
            return contracts.Outcome(phase="Succeeded")
        watching = asyncio.create_task(self._watch_progress())
        try:
            return await self._run_all()
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(KEPT_AFTER_STOP_S, self._remove)
            raise
        finally:
            watching.cancel()

    async def report(self, outcome: contracts.Outcome) -> contracts.Outcome:
        """Save what the main container left, tell it to the controller, and clean up."""
        try:
            if self._is_argo and self._files is not None:
                outputs, problem = await asyncio.to_thread(self._collect)
                if problem:
                    outcome = computed.failed_wait(outcome, problem)
                await results.report(self._host.api, self._pod, outputs=outputs)
        finally:
            self._remove()
        return outcome

    # Preparing

    async def _prepare(self) -> contracts.ContainerEnd:
        await self._make()
        if self._is_argo:
            try:
                await asyncio.to_thread(self._load)
            except artifacts.ExecutorError as error:
                return _end(computed.EXECUTOR_FAILED, str(error))
        if await self._ground.refusal():
            return contracts.ContainerEnd()
        for container in pods.user_inits(self._pod):
            ended = await self._execute(container)
            if ended.end.exit_code:
                return ended.end
        return contracts.ContainerEnd()

    async def _make(self) -> None:
        """Read the template and make the volumes; waits, like a kubelet, for what is missing."""
        if self._is_argo:
            self._template = await templates.read(self._host.api, self._pod)
        await self._until_there(self._volumes.make, reason="FailedMount")
        await self._until_there(self._resolve, reason="Failed", words="Error: ")
        scratch = self._ground.pod_folder(self._pod) / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        self._files = artifacts.Files(
            template=self._template,
            volumes=self._volumes,
            store=self._host.artifacts,
            scratch=scratch,
        )

    async def _until_there(
        self, look: Callable[[], Awaitable[None]], *, reason: str, words: str = ""
    ) -> None:
        """Look until nothing that the pod refers to is missing; told once, as an Event."""
        told = False
        while True:
            try:
                await look()
            except environments.MissingReferenceError as error:
                if not told:
                    logger.warning("pod %s/%s waits: %s", *pods.key(self._pod), error)
                    self._host.warn(reason, f"{words}{error}")
                told = True
                await asyncio.sleep(WAIT_FOR_REFERENCE_S)
            else:
                return

    async def _resolve(self) -> None:
        """Resolve what the environments of all containers refer to."""
        for container in (*pods.user_inits(self._pod), *pods.user_containers(self._pod)):
            api, address = self._ground.api, self._host.address
            await environments.resolve(api, self._pod, container, address=address)

    def _load(self) -> None:
        """Do what Argo's `init` does."""
        assert self._files is not None
        if script := self._template.get("script"):
            path = self._volumes.folder("argo-staging") / SCRIPT
            path.write_text(script.get("source") or "")
            path.chmod(0o755)
        self._files.load_inputs()

    # Running

    async def _run_all(self) -> contracts.Outcome:
        mains = templates.main_names(self._template) if self._is_argo else None
        containers = list(pods.user_containers(self._pod))
        ends: dict[str, asyncio.Future[Ended]] = {
            container["name"]: asyncio.get_running_loop().create_future()
            for container in containers
        }
        work = {
            container["name"]: asyncio.create_task(self._run_one(container, ends))
            for container in containers
        }
        waited = [name for name in work if mains is None or name in mains]
        try:
            await asyncio.gather(*(work[name] for name in waited))
            for name in work.keys() - set(waited):
                self._stop_sidecar(name, work[name])
            await asyncio.wait(work.values())
        finally:
            # Whatever still runs now is stopped with the pod; each task ends its own processes.
            for task in work.values():
                task.cancel()
            await asyncio.gather(*work.values(), return_exceptions=True)
        found = {name: ended.end for name, ended in self._ended.items()}
        good = all(found[name].exit_code == 0 for name in waited)
        return contracts.Outcome(phase="Succeeded" if good else "Failed", containers=found)

    async def _run_one(
        self, container: apis.Object, ends: dict[str, asyncio.Future[Ended]]
    ) -> None:
        """Run one container when those that it depends on have ended well."""
        name = container["name"]
        ended: Ended | None = None
        for dependency in templates.dependencies(self._template, name):
            before = await asyncio.shield(ends[dependency])
            if before.end.exit_code:
                message = (
                    f'dependency "{dependency}" exited with non-zero code: {before.end.exit_code}'
                )
                ended = Ended(_end(computed.EXECUTOR_FAILED, message))
                break
        ended = ended or await self._execute(container)
        self._ended[name] = ended
        ends[name].set_result(ended)
        if "containerSet" in self._template and len(self._ended) < len(ends):
            await self._host.containers_changed(ready={}, ended={name: ended.end})

    async def _execute(self, container: apis.Object) -> Ended:
        """Run one container's command to its end."""
        name = container["name"]
        try:
            plan = await self._plan(container)
        except environments.MissingReferenceError as error:
            # Gone since the containers were made.
            return Ended(_end(computed.EXECUTOR_FAILED, f"CreateContainerConfigError: {error}"))
        if not plan.command:
            # An image that nobody knows: it runs until it is told to end.
            await asyncio.Event().wait()
        sandbox = await sandboxes.start(self._ground, plan)
        self._running[name] = sandbox
        try:
            code = await sandbox.wait()
        except asyncio.CancelledError:
            await sandbox.stop(STOP_GRACE_S)
            raise
        self._ground.keep_log(self._pod, name, bytes(sandbox.output.combined))
        return Ended(_end(code), sandbox.output)

    async def _plan(self, container: apis.Object) -> sandboxes.Plan:
        name = container["name"]
        address = self._host.address
        own = await environments.resolve(self._ground.api, self._pod, container, address=address)
        environment = environments.standard(self._pod, address=address, speed=self._speed) | own
        command, args = pods.command(container)
        files: dict[str, str] = {}
        if ARGS_FILE in own and self._volumes.has("argo-env-config"):
            args, files = self._offloaded_arguments()
        line = images.command_line(container.get("image", ""), command=command, args=args)
        is_main = self._is_argo and name == pods.MAIN
        body = self._template.get("containerSet") or {}
        retry = body.get("retryStrategy") or {}
        return sandboxes.Plan(
            hostname=sandboxes.hostname(self._pod),
            command=[environments.expand(word, own) for word in line],
            environment=environment,
            folder=container.get("workingDir") or "/",
            files=files,
            mounts=self._volumes.mounts(container),
            parameters=[
                parameter["valueFrom"]["path"]
                for parameter in templates.parameters(self._template)
                if (parameter.get("valueFrom") or {}).get("path")
            ]
            if is_main
            else (),
            artifacts=[
                artifact["path"]
                for artifact in templates.output_artifacts(self._template)
                if artifact.get("path")
            ]
            if is_main
            else (),
            retries=int(retry.get("retries") or 0),
            pause_s=self._ground.clock.wall_duration(_seconds(retry.get("duration") or "0s")),
        )

    def _offloaded_arguments(self) -> tuple[list[str], dict[str, str]]:
        """Return arguments that Argo keeps in a ConfigMap; longer ones become files (`@FILE`)."""
        path = volumes.within(self._volumes.folder("argo-env-config"), ARGS_FILE)
        arguments = msgspec.json.decode(path.read_bytes(), type=list[str])
        files = {}
        for index, argument in enumerate(arguments):
            if len(argument.encode()) > LARGE_ARGUMENT_BYTES:
                file = f"/tmp/argo_arg_{index}.txt"
                files[file] = argument
                arguments[index] = f"@{file}"
        return arguments, files

    async def _watch_progress(self) -> None:
        """Report the last line of the progress file while the task runs."""
        if not self._is_argo or pods.variable(self._pod, PROGRESS_FILE) is None:
            return
        told = ""
        while True:
            await asyncio.sleep(self._host.clock.wall_duration(PROGRESS_S))
            text = _read(self._volumes.folder("var-run-argo"), "progress")
            line = text.strip().rsplit("\n", 1)[-1].strip()
            if line != told and re.fullmatch(r"\d+/[1-9]\d*", line):
                told = line
                await results.report_progress(self._host.api, self._pod, line)

    def _stop_sidecar(self, name: str, task: asyncio.Task[None]) -> None:
        """Stop a sidecar, with the pod's grace period."""
        sandbox = self._running.get(name)
        if sandbox is None:
            task.cancel()
            self._ended[name] = Ended(_end(128 + signal.SIGTERM))
            return
        grace = self._pod["spec"].get("terminationGracePeriodSeconds")
        grace_s = sandboxes.GRACE_S if grace is None else float(grace)
        sandbox.signal(signal.SIGTERM)
        asyncio.get_running_loop().call_later(
            self._host.clock.wall_duration(grace_s), sandbox.signal, signal.SIGKILL
        )

    # Reporting

    def _collect(self) -> tuple[dict[str, object], str]:
        """Do what Argo's `wait` does; return the outputs and the first problem."""
        assert self._files is not None
        outputs: dict[str, object] = {}
        problems = []
        main = self._ended.get(pods.MAIN)
        included = pods.variable(self._pod, INCLUDE_OUTPUT) == "true"
        if included and templates.has_result(self._template):
            outputs["result"] = artifacts.result(bytes(main.output.stdout) if main else b"")
        try:
            if parameters := self._files.save_parameters():
                outputs["parameters"] = parameters
        except artifacts.ExecutorError as error:
            problems.append(str(error))
        saved, problem = self._files.save_artifacts()
        problems += [problem] if problem else []
        if templates.saves_logs(self._template):
            try:
                logs = {name: bytes(e.output.combined) for name, e in self._ended.items()}
                saved += self._files.save_logs(logs)
            except artifacts.ExecutorError as error:
                problems.append(str(error))
        if saved:
            outputs["artifacts"] = saved
        return outputs, problems[0] if problems else ""

    def _remove(self) -> None:
        shutil.rmtree(self._ground.pod_folder(self._pod), ignore_errors=True)


def _end(code: int, message: str = "") -> contracts.ContainerEnd:
    reason = "Completed" if code == 0 else "Error"
    return contracts.ContainerEnd(exit_code=code, reason=reason, message=message)


def _read(folder: Path, name: str) -> str:
    try:
        return volumes.within(folder, name).read_text(errors="replace")
    except (OSError, volumes.OutsideError):
        return ""


def _seconds(text: str) -> float:
    """Return a duration such as `1m30s` or `5` in seconds."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}
    parts: Sequence[tuple[str, str]] = re.findall(r"([\d.]+)(ms|s|m|h|)", text)
    return sum(float(number) * units[unit] for number, unit in parts)
