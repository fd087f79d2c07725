"""Status of our own kinds, and the built-in versions as objects; written by the leader alone."""

import asyncio
import datetime
import json
from collections.abc import Mapping, Sequence

import structlog

from tiphys.models.domain import errors, settings
from tiphys.models.policies import builtins
from tiphys.operator import apis, caches, clocks, elections, objects, optins, policies

GROUP = "/apis/tiphys.dev/v1alpha1"
VERSIONS = f"{GROUP}/policyversions"
POLICIES = f"{GROUP}/schedulingpolicies"
LABELS = {"app.kubernetes.io/name": "tiphys"}
SETTLE_S = 0.5
"""Changes that come together are written together."""
RETRY_S = 5.0
MOST_NAMED = 5
"""Namespaces that a sentence names."""

log = structlog.get_logger()
Condition = Mapping[str, object]
Verdict = tuple[str, bool, str, str]
"""Type of a condition, whether it holds, one word and one sentence."""


class Writer:
    """Keeps the statuses right; runs on the leader."""

    def __init__(
        self,
        api: apis.Api,
        election: elections.Election,
        cached: caches.Caches,
        chosen: policies.Policies,
        *,
        excluded: frozenset[str],
        clock: clocks.Clock,
    ) -> None:
        """`excluded` namespaces are never steered."""
        self._api = api
        self._election = election
        self._caches = cached
        self._policies = chosen
        self._excluded = excluded
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
        except apis.InvalidError as error:
            # That concerns this object, not those behind it.
            log.warning("status is not taken", path=path, error=str(error))

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
        """Return the status of a policy.

        Its last spec that could be used goes with it: whoever starts later goes on with that while
        the spec cannot be used.
        """
        choices = next(c for c in self._policies.usable if c.name == policy.name)
        problem = self._unusable(policy)
        active, ready = self._ready(choices)
        accepted = ("Accepted", True, "Valid", "The spec can be used")
        if problem:
            # Both, since `Ready` is what lists of policies show.
            accepted = ("Accepted", False, "Invalid", problem)
            ready = ("Ready", False, "Invalid", problem)
        meant = sum(
            self._policies.of_namespace(name).name == policy.name
            for name in self._caches.namespaces
        )
        verdicts = [accepted, ready, self._selecting(meant)]
        wanted: dict[str, object] = {
            "observedGeneration": policy.generation,
            "activeVersion": active,
            "namespaces": meant,
            "conditions": self._conditions(policy.status, policy.generation, verdicts),
        }
        if not problem:
            # A text: a merge patch of the fields would keep those that are left out now.
            spec = json.dumps(policy.spec, sort_keys=True, separators=(",", ":"))
            wanted[policies.ACCEPTED_SPEC] = spec
        return wanted

    def _unusable(self, policy: objects.Policy) -> str:
        """Return why a spec cannot be used and what holds meanwhile; empty if it can be."""
        problem = self._policies.problems.get(policy.name, "")
        if not problem:
            return ""
        if policy.status.get(policies.ACCEPTED_SPEC):
            return f"{problem}. The last spec that could be used holds meanwhile"
        return f"{problem}. No earlier spec is known, so whom it is for is not steered"

    def _selecting(self, meant: int) -> Verdict:
        """Return whether a policy is for anybody, and whom it leaves out by merely being there."""
        if meant:
            noun = "namespace" if meant == 1 else "namespaces"
            return "Selecting", True, "ForNamespaces", f"It is for {meant} {noun}"
        left = [
            name
            for name in optins.annotated(self._caches, self._excluded)
            if not self._policies.of_namespace(name).name
        ]
        if not left:
            return "Selecting", False, "ForNobody", "It is for no namespace"
        named = ", ".join(left[:MOST_NAMED]) + (", …" if len(left) > MOST_NAMED else "")
        message = (
            "It is for no namespace. While there are policies a namespace that none is for is not "
            f"steered: {named} opted in; label them, or add a policy without a selector"
        )
        return "Selecting", False, "OthersLeftOut", message

    def _ready(self, choices: settings.PolicySettings) -> tuple[str, Verdict]:
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
        verdicts: Sequence[Verdict],
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
