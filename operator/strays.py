"""Gated pods that the caches do not hold, since they cannot be read, are opened: nobody would else.

A slow look at metadata alone, once a minute; what two looks in a row find, and the caches do not
know, is opened without a decision, unless its gate was set by hand: a guard keeps us from those.
"""

from collections.abc import Callable

import structlog

from tiphys.argo import patches
from tiphys.models.domain import decisions, errors
from tiphys.operator import apis, caches, clocks, tallies

LOOK_S = 60.0
METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

log = structlog.get_logger()


class Strays:
    """Looks on the leader."""

    def __init__(
        self,
        api: apis.Api,
        cached: caches.Caches,
        *,
        fence: Callable[[], None],
        clock: clocks.Clock,
        counted: tallies.Tallies,
    ) -> None:
        self._api = api
        self._caches = cached
        self._fence = fence
        self._clock = clock
        self._counted = counted
        self._met: set[str] = set()
        """Uids that the last look found and the caches did not hold."""

    async def run(self) -> None:
        """Look until cancelled or fenced."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                await self.once()
            except apis.AnswerError as error:
                # Before the fence's error: pages that expired are stale too, and no reason to end.
                log.info("strays were not looked for", error=str(error))
            except errors.StaleError:
                return

    async def once(self) -> int:
        """Open what nobody knows for the second time; return how many."""
        found: dict[str, str] = {}
        params = {"labelSelector": f"{decisions.GATED_LABEL}=true"}
        async for page in self._api.pages("/api/v1/pods", params=params, accept=METADATA):
            for item in page.get("items") or ():
                about = item["metadata"]
                seen = self._caches.pods.get(f"{about['namespace']}/{about['name']}")
                if seen is None or seen.pod.uid != about["uid"]:
                    found[about["uid"]] = (
                        f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
                    )
        again = self._met & found.keys()
        self._met = set(found)
        count = 0
        for uid in sorted(again):
            count += await self._open(found[uid], uid)
        return count

    async def _open(self, path: str, uid: str) -> int:
        try:
            pod = await self._api.get(path)
            patch = patches.opening(pod) if pod["metadata"]["uid"] == uid else []
            if not patch or not patches.steered(pod):
                return 0
            self._fence()
            await self._api.patch(path, patch, content_type=apis.JSON_PATCH)
        except (apis.NotFoundError, apis.ConflictError):
            return 0
        except (apis.ForbiddenError, apis.InvalidError) as error:
            # That concerns this pod, not those behind it.
            log.warning("gate may not be opened", path=path, error=str(error))
            return 0
        self._counted.opened.labels(tallies.How.NEVER).inc()
        log.warning("opened the gate of a pod that cannot be read", path=path)
        return 1
