"""Whether any pod reaches the webhook, where its callers show no certificate.

There a NetworkPolicy of the chart lets the API servers alone through to it. A network that does not
enforce policies takes one and says nothing, so the leader, a pod like any other, tries: what it
reaches, everybody reaches. Not to reach it proves nothing while no webhook is ready.
"""

import asyncio
import contextlib
import urllib.parse

from tiphys.operator import apis

WITHIN_S = 2.0
HTTPS = 443


def address(client: apis.Object) -> tuple[str, int]:
    """Return host and port of a webhook's clientConfig."""
    if "url" in client:
        parts = urllib.parse.urlsplit(client["url"])
        return parts.hostname or "", parts.port or HTTPS
    service = client["service"]
    return f"{service['name']}.{service['namespace']}.svc", service.get("port") or HTTPS


async def reached(host: str, port: int) -> bool:
    """Say whether a connection comes about; nothing is sent."""
    try:
        async with asyncio.timeout(WITHIN_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
