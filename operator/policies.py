"""Which SchedulingPolicy is for a namespace, and which version ranks for a workflow."""

import dataclasses
import json
from collections.abc import Mapping

import structlog

from tiphys.models.domain import errors, optins, settings
from tiphys.models.policies import builtins, rankings
from tiphys.operator import caches, objects

ACCEPTED_SPEC = "acceptedSpec"
"""Field of a policy's status: its last spec that could be used, as JSON."""

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What decides for one workflow."""

    choices: settings.PolicySettings
    ranker: rankings.Policy
    mode: settings.Mode
    note: str = ""
    """In words, when something else was asked for than what is used."""


class Policies:
    """The policies of the cluster as settings; without any object the default holds."""

    def __init__(self, cached: caches.Caches) -> None:
        self._caches = cached
        self._read: dict[str, settings.PolicySettings] = {}
        self.problems: dict[str, str] = {}
        """Why a policy's spec cannot be used, by name; its last good settings stay in use: those
        that this process read, else those that the status remembers, else Off."""
        for policy in cached.policies.values():
            self._take(policy)
        cached.subscribe(self._changed)

    @property
    def usable(self) -> tuple[settings.PolicySettings, ...]:
        """All policies that can be used, the most particular first, then by name."""
        return tuple(
            sorted(self._read.values(), key=lambda each: (-len(each.namespace_labels), each.name))
        )

    @property
    def general(self) -> settings.PolicySettings:
        """The policy for everybody: the first without a selector, else the documented default."""
        return next(
            (each for each in self.usable if not each.namespace_labels),
            settings.PolicySettings(),
        )

    def of_namespace(self, namespace: str) -> settings.PolicySettings:
        """Return the policy for a namespace."""
        space = self._caches.namespaces.get(namespace)
        labels = dict(space.labels) if space is not None else {}
        for each in self.usable:
            if all(labels.get(key) == value for key, value in each.namespace_labels):
                return each
        # Policies exist and none is for it: then it is not steered by the default either.
        if self._read:
            return settings.PolicySettings(name="", mode=settings.Mode.OFF)
        return settings.PolicySettings()

    def choose(self, namespace: str, optin: optins.OptIn) -> Chosen:
        """Return what decides for a workflow of `namespace` that opted in like this."""
        policy = self.of_namespace(namespace)
        mode, note = policy.mode, ""
        # An annotation may only soften what the policy says, never make it bite.
        if optin.mode is optins.Mode.OFF:
            mode = settings.Mode.OFF
        elif optin.mode is optins.Mode.SHADOW and mode is settings.Mode.ENFORCE:
            mode = settings.Mode.SHADOW
        for wanted in dict.fromkeys((optin.policy or policy.stable, policy.stable)):
            try:
                return Chosen(choices=policy, ranker=self.ranker(wanted), mode=mode, note=note)
            except errors.TiphysError as error:
                note = str(error)
        return Chosen(choices=policy, ranker=builtins.named(builtins.DEFAULT), mode=mode, note=note)

    def ranker(self, version: str) -> rankings.Policy:
        """Return what ranks by the name of a PolicyVersion.

        Built-in versions work also before their objects exist. Raises `InputError` for an unknown
        one, `UnavailableError` for a bundle that is not served here.
        """
        if version in builtins.BUILTINS:
            return builtins.named(version)
        known = self._caches.policy_versions.get(version)
        if known is None:
            raise errors.InputError(f"there is no PolicyVersion {version}")
        raise errors.UnavailableError(
            f"PolicyVersion {version} is a bundle; this operator serves built-in versions only"
        )

    def _changed(self, change: caches.Change) -> None:
        if change.kind is not caches.Kind.POLICIES:
            return
        if isinstance(change.after, objects.Policy):
            self._take(change.after)
        else:
            self._read.pop(change.key, None)
            self.problems.pop(change.key, None)

    def _take(self, policy: objects.Policy) -> None:
        try:
            self._read[policy.name] = settings.read(policy.spec, name=policy.name)
            self.problems.pop(policy.name, None)
        except errors.InputError as error:
            self.problems[policy.name] = str(error)
            log.warning("policy cannot be read", policy=policy.name, error=str(error))
            if policy.name not in self._read:
                self._read[policy.name] = remembered(policy)


def remembered(policy: objects.Policy) -> settings.PolicySettings:
    """Return what a policy was when its spec could last be used; Off where nobody knows.

    A process that starts has not seen the last good spec. Taking the default in its place would
    steer pods that the policy may have switched off.
    """
    try:
        spec = json.loads(str(policy.status.get(ACCEPTED_SPEC) or "null"))
        if spec is not None:
            return settings.read(spec, name=policy.name)
    except (ValueError, errors.InputError) as error:
        log.warning("accepted spec cannot be read", policy=policy.name, error=str(error))
    return settings.PolicySettings(
        name=policy.name, mode=settings.Mode.OFF, namespace_labels=_labels(policy.spec)
    )


def _labels(spec: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return whom a spec that cannot be used selects; everybody where that is what is wrong."""
    try:
        return settings.selector(spec.get("selector"), where="spec.selector")
    except errors.InputError:
        return ()
