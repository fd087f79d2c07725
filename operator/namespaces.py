"""Where pods are stamped although their namespace carries no annotation: kept by the leader.

A Workflow or template may opt in where its namespace does not. The admission policy that stamps
pods reads such namespaces from its parameter; on clusters without that API the webhooks' own
namespaceSelector lists them, and the annotated ones too.
"""

import asyncio
import contextlib

import structlog

from tiphys.models.domain import errors
from tiphys.operator import apis, caches, clocks, elections, objects, optins, settings, trusts

LIST = "tiphys"
"""Name of the SteeredNamespaces object that the chart makes."""
NAME_LABEL = "kubernetes.io/metadata.name"
WATCHED = frozenset(
    {
        caches.Kind.NAMESPACES,
        caches.Kind.WORKFLOWS,
        caches.Kind.TEMPLATES,
        caches.Kind.CLUSTER_TEMPLATES,
        caches.Kind.CRON_WORKFLOWS,
    }
)
LOOK_S = 60.0
RETRY_S = 2.0
SETTLE_S = 0.1
"""Changes that come together are looked at together: each look walks over all Workflows."""

log = structlog.get_logger()


class Lister:
    """Keeps both lists; runs on the leader."""

    def __init__(
        self,
        api: apis.Api,
        election: elections.Election,
        cached: caches.Caches,
        *,
        chosen: settings.OperatorSettings,
        clock: clocks.Clock,
    ) -> None:
        self._api = api
        self._election = election
        self._caches = cached
        self._namespace = chosen.namespace
        self._excluded = chosen.excluded
        self._clock = clock
        self._written: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    async def run(self) -> None:
        """Write until cancelled: at once when a list changes, and every minute to be sure."""
        changed = asyncio.Event()

        def note(change: caches.Change) -> None:
            if change.kind in WATCHED and _says(change.before) != _says(change.after):
                changed.set()

        stop = self._caches.subscribe(note)
        try:
            while True:
                changed.clear()
                try:
                    await self.once()
                except errors.TiphysError as error:
                    self._election.fence()
                    log.warning("cannot write the lists of namespaces", error=str(error))
                    await self._clock.sleep(RETRY_S)
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._differs(changed)
        finally:
            stop()

    async def _differs(self, changed: asyncio.Event) -> None:
        """Return once a list is not as it was written."""
        while True:
            await changed.wait()
            await self._clock.sleep(SETTLE_S)
            changed.clear()
            if self.wanted() != self._written:
                return

    def wanted(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the namespaces to list, and all that may be steered."""
        listed = optins.listed(self._caches, self._excluded)
        annotated = optins.annotated(self._caches, self._excluded)
        return listed, tuple(sorted({*listed, *annotated}))

    async def once(self) -> None:
        """Write what differs."""
        listed, steered = wanted = self.wanted()
        await self._list(listed)
        for kind in trusts.CONFIGURATIONS:
            await self._selector(kind, steered)
        self._written = wanted

    async def _list(self, listed: tuple[str, ...]) -> None:
        path = f"/apis/tiphys.dev/v1alpha1/namespaces/{self._namespace}/steerednamespaces"
        data = dict.fromkeys(listed, "true")
        try:
            known = await self._api.get(f"{path}/{LIST}")
        except apis.NotFoundError:
            return  # the chart makes it, with the policy that reads it
        if (known.get("data") or {}) != data:
            self._election.fence()
            await self._api.replace(f"{path}/{LIST}", {**known, "data": data})
            log.info("listed namespaces", count=len(listed))

    async def _selector(self, kind: str, steered: tuple[str, ...]) -> None:
        """Write the values of a webhook's `In` on namespace names, where the chart put one."""
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}/{trusts.CONFIGURATION}"
        try:
            known = await self._api.get(path)
        except apis.NotFoundError:
            return
        # An `In` needs a value; no namespace has the empty name.
        values = list(steered) or [""]
        changes: list[dict[str, object]] = []
        for place, webhook in enumerate(known.get("webhooks") or ()):
            selector = webhook.get("namespaceSelector") or {}
            for index, expression in enumerate(selector.get("matchExpressions") or ()):
                if (expression["key"], expression["operator"]) != (NAME_LABEL, "In"):
                    continue
                if sorted(expression["values"]) != sorted(values):
                    at = f"/webhooks/{place}/namespaceSelector/matchExpressions/{index}"
                    changes.append({"op": "test", "path": f"{at}/operator", "value": "In"})
                    changes.append({"op": "replace", "path": f"{at}/values", "value": values})
        if changes:
            self._election.fence()
            await self._api.patch(path, changes, content_type=apis.JSON_PATCH)
            log.info("selected namespaces", configuration=kind, count=len(steered))


def _says(value: object) -> object:
    """Return what of an object the lists are made of."""
    if isinstance(value, objects.Run):
        return value.annotations, value.cluster_template, value.workflow.ended
    if isinstance(value, objects.Template | objects.Cron):
        return value.layer.annotations
    return value.annotations if isinstance(value, objects.Layer) else None
