"""Tokens of a pod's ServiceAccount, asked for and renewed as kubelets do it (TokenRequest)."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from lab import apis, clocks
from lab.processnode import environments, pods

DEFAULT_LIFE_S = 3600
LONGEST_USE_S = 24 * 3600.0
"""A token is renewed after a day at the latest, however long it would hold."""
RETRY_S = 10.0

Key = tuple[str, int]
"""Audience (empty: the API server's own) and life in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A token, and when (wall time) it is renewed."""

    text: str
    renew_at: float


class Tokens:
    """The tokens of one pod; bound to it, so they end with it."""

    def __init__(
        self, api: apis.Api, *, refresh: float, wall: Callable[[], float] = time.time
    ) -> None:
        self._api = api
        self._refresh = refresh
        self._wall = wall
        self._held: dict[Key, Held] = {}

    def current(self, projection: apis.Object) -> str:
        """Return the token of a projection; raises `MissingError` before there is one."""
        held = self._held.get(_key(projection))
        if held is None:
            raise environments.MissingError("no token of the ServiceAccount was issued yet")
        return held.text

    def due_at(self) -> float | None:
        """Return the wall time at which the next token is to be renewed; None: there is none."""
        return min((held.renew_at for held in self._held.values()), default=None)

    async def renew(self, pod: apis.Object, projections: list[apis.Object]) -> None:
        """Ask for every token that is absent or due; then raises the first `ApiError`, if any.

        One that could not be renewed is kept, as it may hold for a while, and tried again soon.
        """
        refusals = []
        for projection in projections:
            key = _key(projection)
            held = self._held.get(key)
            if held is not None and held.renew_at > self._wall():
                continue
            try:
                self._held[key] = await self._issue(pod, key)
            except apis.ApiError as error:
                if held is not None:
                    self._held[key] = Held(text=held.text, renew_at=self._wall() + RETRY_S)
                refusals.append(error)
        if refusals:
            raise refusals[0]

    async def _issue(self, pod: apis.Object, key: Key) -> Held:
        audience, life_s = key
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        asked_at = self._wall()
        answer = await self._api.create(
            f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [audience] if audience else [],
                    "expirationSeconds": life_s,
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": metadata["name"],
                        "uid": pods.uid(pod),
                    },
                },
            },
        )
        ends_at = clocks.unix_s(answer["status"]["expirationTimestamp"])
        use_s = min(LONGEST_USE_S, (ends_at - asked_at) * self._refresh)
        return Held(text=answer["status"]["token"], renew_at=asked_at + use_s)


def _key(projection: apis.Object) -> Key:
    return (
        projection.get("audience", ""),
        int(projection.get("expirationSeconds") or DEFAULT_LIFE_S),
    )
