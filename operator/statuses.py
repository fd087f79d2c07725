"""Status of our own kinds, and the built-in versions as objects; written by the leader alone."""

import asyncio
import datetime
from collections.abc import Mapping, Sequence

import structlog

from tiphys.models.domain import errors, settings
from tiphys.models.policies import builtins
from tiphys.operator import apis, caches, clocks, elections, objects, policies

GROUP = "/apis/tiphys.dev/v1alpha1"
VERSIONS = f"{GROUP}/policyversions"
POLICIES = f"{GROUP}/schedulingpolicies"
LABELS = {"app.kubernetes.io/name": "tiphys"}
SETTLE_S = 0.5
"""Changes that come together are written together."""
RETRY_S = 5.0

log = structlog.get_logger()
Condition = Mapping[str, object]


class Writer:
    """Keeps the statuses right; runs on the leader."""

    def __init__(
        self,
        api: apis.Api,
        election: elections.Election,
        cached: caches.Caches,
        chosen: policies.Policies,
        *,
        clock: clocks.Clock,
    ) -> None:
        self._api = api
        self._election = election
        self._caches = cached
        self._policies = chosen
        self._clock = clock

    async def run(self) -> None:
        """Write until cancelled, whenever a policy, version or namespace changed."""
        changed = asyncio.Event()
        changed.set()

        def note(change: caches.Change) -> None:
            if change.kind in WATCHED:
                changed.set()

        stop = self._caches.subscribe(note)
        try:
            while True:
                await changed.wait()
                await self._clock.sleep(SETTLE_S)
                changed.clear()
                try:
                    await self.once()
                except errors.TiphysError as error:
                    self._election.fence()
                    log.warning("cannot write statuses", error=str(error))
                    changed.set()
                    await self._clock.sleep(RETRY_S)
        finally:
            stop()

    async def once(self) -> None:
        """Create what lacks and write what differs."""
        for name in sorted(builtins.BUILTINS):
            if self._caches.policy_versions.get(name) is None:
                await self._create(name)
        for version in list(self._caches.policy_versions.values()):
            await self._write(f"{VERSIONS}/{version.name}", version.status, self._version(version))
        for policy in list(self._caches.policies.values()):
            await self._write(f"{POLICIES}/{policy.name}", policy.status, self._policy(policy))

    async def _create(self, name: str) -> None:
        self._election.fence()
        body = {
            "apiVersion": "tiphys.dev/v1alpha1",
            "kind": "PolicyVersion",
            "metadata": {"name": name, "labels": LABELS},
            "spec": {"builtin": name},
        }
        try:
            await self._api.create(VERSIONS, body)
            log.info("created a built-in version", version=name)
        except apis.ConflictError:
            return

    async def _write(
        self, path: str, known: Mapping[str, object], wanted: Mapping[str, object]
    ) -> None:
        if {key: known.get(key) for key in wanted} == wanted:
            return
        self._election.fence()
        try:
            await self._api.patch(f"{path}/status", {"status": wanted})
        except apis.NotFoundError:
            return

    def _version(self, version: objects.Version) -> dict[str, object]:
        """Return the status of a version: built-in ones are ready, bundles are not served yet."""
        builtin = version.spec.get("builtin")
        if builtin in builtins.BUILTINS:
            phase, message = "Ready", "Built in"
            verdicts = [("Verified", True, "BuiltIn", message), ("Ready", True, "BuiltIn", message)]
        elif builtin:
            phase = "Failed"
            message = f"This operator has no rule {builtin}; it has " + ", ".join(
                sorted(builtins.BUILTINS)
            )
            verdicts = [("Ready", False, "UnknownRule", message)]
        else:
            phase, message = "Failed", "This operator serves built-in versions only"
            verdicts = [("Ready", False, "BundlesUnsupported", message)]
        return {
            "observedGeneration": version.generation,
            "kind": "builtin" if builtin else "bundle",
            "phase": phase,
            "message": message,
            "conditions": self._conditions(version.status, version.generation, verdicts),
        }

    def _policy(self, policy: objects.Policy) -> dict[str, object]:
        problem = self._policies.problems.get(policy.name, "")
        verdicts = [
            ("Accepted", False, "Invalid", problem)
            if problem
            else ("Accepted", True, "Valid", "The spec can be used")
        ]
        active = ""
        choices = next((c for c in self._policies.usable if c.name == policy.name), None)
        if choices is None:
            verdicts.append(("Ready", False, "Invalid", problem or "The spec cannot be used"))
        else:
            active, verdict = self._ready(choices)
            verdicts.append(verdict)
        return {
            "observedGeneration": policy.generation,
            "activeVersion": active,
            "namespaces": sum(
                self._policies.of_namespace(name).name == policy.name
                for name in self._caches.namespaces
            ),
            "conditions": self._conditions(policy.status, policy.generation, verdicts),
        }

    def _ready(self, choices: settings.PolicySettings) -> tuple[str, tuple[str, bool, str, str]]:
        """Return which version ranks, and the verdict Ready."""
        try:
            self._policies.ranker(choices.stable)
        except errors.TiphysError as error:
            message = f"{error}; {builtins.DEFAULT} ranks instead"
            return builtins.DEFAULT, ("Ready", False, "VersionUnusable", message)
        said = f"{choices.stable} ranks, mode {choices.mode}"
        return choices.stable, ("Ready", True, "Active", said)

    def _conditions(
        self,
        status: Mapping[str, object],
        generation: int,
        verdicts: Sequence[tuple[str, bool, str, str]],
    ) -> list[Condition]:
        """Return the conditions; one whose status stays keeps the time of its last change."""
        known: dict[object, Condition] = {}
        listed = status.get("conditions")
        for each in listed if isinstance(listed, list) else ():
            known[each.get("type")] = each
        now = datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)
        conditions: list[Condition] = []
        for kind, holds, reason, message in verdicts:
            before = known.get(kind, {})
            state = "True" if holds else "False"
            same = before.get("status") == state
            conditions.append(
                {
                    "type": kind,
                    "status": state,
                    "observedGeneration": generation,
                    "lastTransitionTime": before["lastTransitionTime"]
                    if same
                    else now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "reason": reason,
                    "message": message,
                }
            )
        return conditions


WATCHED = frozenset({caches.Kind.POLICIES, caches.Kind.POLICY_VERSIONS, caches.Kind.NAMESPACES})
