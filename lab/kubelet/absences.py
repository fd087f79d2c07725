"""What happened while there was no kubelet: the API server still tells, if it is not long ago.

A list holds what is there. A pod that was bound and deleted again between two kubelets is in no
list, but in the history of changes that every API server keeps for its watches.
"""

import asyncio
import logging

import msgspec

from lab import apis

logger = logging.getLogger(__name__)

PATH = "/api/v1/pods?watch=true&timeoutSeconds={seconds}&resourceVersion={since}"
SECONDS = 1
"""What the API server is given to tell: it has the history at hand and tells it at once."""
TRIES = 10
PAUSE_S = 1.0
"""Wall seconds between two tries."""


async def deleted(api: apis.Api, *, since: str, until: str) -> list[apis.Object]:
    """Return the pods that were deleted from one version of the pods to another, as they were last.

    Empty where no version is known, and where the API server has forgotten it (it keeps some
    minutes, less after a restart of its own), which is logged.
    """
    if not since:
        return []
    for _ in range(TRIES):
        try:
            told = await api.text(PATH.format(seconds=SECONDS, since=since))
        except apis.CONNECTION_ERRORS:
            await asyncio.sleep(PAUSE_S)
        except apis.ApiError as error:
            if error.status != 403 and error.status not in apis.RETRIED:
                break
            await asyncio.sleep(PAUSE_S)
        else:
            events = [msgspec.json.decode(line) for line in told.splitlines()]
            if any(event["type"] == "ERROR" for event in events):
                break
            gone = [event["object"] for event in events if event["type"] == "DELETED"]
            return [item for item in gone if version(item) <= int(until)]
    logger.warning("the API server does not tell which pods came and went since %s", since)
    return []


def version(item: apis.Object) -> int:
    """Return an object's version; those of one kind can be compared (Kubernetes 1.35 says so)."""
    return int(item["metadata"]["resourceVersion"])
