"""Tokens: what is asked for, when they are renewed, and what happens when they cannot be."""

import datetime

import pytest

from lab import apis
from lab.processnode import environments, tokens
from tests.unit.processnode import builders as a

PROJECTION = {"path": "token", "audience": "tiphys.dev", "expirationSeconds": 1000}


class Issuer:
    """An API server that issues numbered tokens; `down` makes it refuse."""

    def __init__(self):
        self.now = 1_000_000.0
        self.asked = []
        self.down = False

    def wall(self):
        """Return its time."""
        return self.now

    async def create(self, path, body):
        """Issue a token that holds as long as asked."""
        if self.down:
            raise apis.ApiError(status=503, reason="", message="down", call=path)
        self.asked.append((path, body["spec"]))
        ends = datetime.datetime.fromtimestamp(
            self.now + body["spec"]["expirationSeconds"], datetime.UTC
        )
        return {
            "status": {
                "token": f"token-{len(self.asked)}",
                "expirationTimestamp": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
        }


async def test_a_token_is_asked_for_the_pod_and_renewed_at_its_share():
    """Bound to the pod's uid; at 80 % of its life a new one takes its place."""
    issuer = Issuer()
    held = tokens.Tokens(issuer, refresh=0.8, wall=issuer.wall)
    with pytest.raises(environments.MissingError):
        held.current(PROJECTION)

    await held.renew(a.a_pod(), [PROJECTION])
    assert "token-1" == held.current(PROJECTION)
    path, spec = issuer.asked[0]
    assert "/api/v1/namespaces/demo/serviceaccounts/default/token" == path
    assert (["tiphys.dev"], "uid-web") == (spec["audiences"], spec["boundObjectRef"]["uid"])
    assert issuer.now + 800 == held.due_at()

    issuer.now += 799
    await held.renew(a.a_pod(), [PROJECTION])
    assert "token-1" == held.current(PROJECTION)
    issuer.now += 1
    await held.renew(a.a_pod(), [PROJECTION])
    assert "token-2" == held.current(PROJECTION)


async def test_a_token_that_cannot_be_renewed_is_kept_and_tried_again_soon():
    """It still holds for a fifth of its life."""
    issuer = Issuer()
    held = tokens.Tokens(issuer, refresh=0.8, wall=issuer.wall)
    await held.renew(a.a_pod(), [PROJECTION])
    issuer.now += 800
    issuer.down = True
    with pytest.raises(apis.ApiError):
        await held.renew(a.a_pod(), [PROJECTION])
    assert "token-1" == held.current(PROJECTION)
    assert issuer.now + tokens.RETRY_S == held.due_at()


async def test_a_long_token_is_renewed_after_a_day():
    """As kubelets do it, however long it would hold."""
    issuer = Issuer()
    held = tokens.Tokens(issuer, refresh=0.8, wall=issuer.wall)
    await held.renew(a.a_pod(), [{"path": "t", "expirationSeconds": 10 * 24 * 3600}])
    assert issuer.now + 24 * 3600 == held.due_at()
