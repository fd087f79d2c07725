"""What a leader leaves to the next: held times and recoveries, in one object of the cluster.

Everything else of dispatch is seen in the cluster as it is. For how long a pod was held although it
would have fitted, and how often a task was given back to Argo, cannot be: the pod looks the same,
and is another one after a recovery. So the leader writes both into the annotations of the Lease
`tiphys-dispatch` every some seconds; what happened after the last write is lost.

A Lease, because that is the kind that the operator may write here; nobody holds it, and its name
keeps it out of what the releaser and `tiphys status` take for signs of life.
"""

import dataclasses
import json
from collections.abc import Callable, Mapping

import structlog

from tiphys.models.domain import errors
from tiphys.operator import apis, clocks

NAME = "tiphys-dispatch"
HELD = "tiphys.dev/held"
GIVEN_BACK = "tiphys.dev/given-back"
LABELS = {"app.kubernetes.io/name": "tiphys"}
WRITE_S = 10.0
"""Seconds between two writes."""
LEAST_S = 5.0
"""Shorter held times are not worth a word."""
MOST_HELD = 2_000
"""Pods that are remembered, those that were held longest: 90 KiB, annotations may take 256."""
MOST_GIVEN_BACK = 500
"""Tasks that are remembered, the latest: 60 KiB."""
CALL_S = 3.0

log = structlog.get_logger()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Legacy:
    """What one leader leaves."""

    held_s: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """For how long a pod would have fitted and was held all the same, seconds, by its uid."""
    given_back: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """How often a task was given back to Argo, by `recoveries.task`, the latest last."""


class Keeper:
    """Reads the legacy when a term begins and keeps it while it lasts."""

    def __init__(
        self,
        api: apis.Api,
        *,
        namespace: str,
        fence: Callable[[], None],
        clock: clocks.Clock,
        left: Callable[[], Legacy],
    ) -> None:
        """`left` returns what the next leader shall know."""
        leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._path = f"{leases}/{NAME}"
        self._api = api
        self._fence = fence
        self._clock = clock
        self._left = left
        self._written: dict[str, str] = {}

    async def read(self) -> Legacy:
        """Return what the last leader left; nothing where that cannot be read."""
        self._written = {}
        try:
            lease = await self._api.call("GET", self._path, attempts=2, timeout_s=CALL_S)
            noted = (lease.get("metadata") or {}).get("annotations") or {}
            legacy = decode(noted)
        except apis.NotFoundError:
            return Legacy()
        except errors.TiphysError as error:
            # Dispatch must not wait for it: held times begin at zero.
            log.warning("legacy of the last leader cannot be read", error=str(error))
            return Legacy()
        self._written = noted
        return legacy

    async def run(self) -> None:
        """Write until cancelled or fenced."""
        while True:
            await self._clock.sleep(WRITE_S)
            try:
                await self.once()
            except apis.AnswerError as error:
                # Before the fence's error: 404 and 409 are stale too, and no reason to end.
                log.info("legacy was not written", error=str(error))
            except errors.StaleError:
                return

    async def once(self) -> bool:
        """Write what differs; say whether anything did."""
        noted = encode(self._left())
        if {key: self._written.get(key, "{}") for key in noted} == noted:
            return False
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": NAME, "labels": LABELS, "annotations": noted},
            "spec": {},
        }
        self._fence()
        await self._api.call(
            "PATCH",
            self._path,
            body=body,
            content_type=apis.APPLY_PATCH,
            params={"fieldManager": "tiphys", "force": "true"},
            attempts=1,
            timeout_s=CALL_S,
        )
        self._written = noted
        return True


def encode(legacy: Legacy) -> dict[str, str]:
    """Return the annotations; of too much the shortest times and the oldest counts are left out."""
    long = {uid: round(spent_s) for uid, spent_s in legacy.held_s.items() if spent_s >= LEAST_S}
    most = sorted(long.items(), key=lambda each: (-each[1], each[0]))[:MOST_HELD]
    latest = list(legacy.given_back.items())[-MOST_GIVEN_BACK:]
    return {
        HELD: json.dumps(dict(most), separators=(",", ":")),
        GIVEN_BACK: json.dumps(dict(latest), separators=(",", ":")),
    }


def decode(noted: Mapping[str, str]) -> Legacy:
    """Read the annotations.  Raises `InputError`."""
    try:
        held, counts = (json.loads(noted.get(name) or "{}") for name in (HELD, GIVEN_BACK))
        return Legacy(
            held_s={str(uid): max(0.0, float(spent_s)) for uid, spent_s in held.items()},
            given_back={str(task): max(0, int(count)) for task, count in counts.items()},
        )
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise errors.InputError(f"Lease {NAME}: {error}") from error
