"""Ten thousand reviews with something wrong in them: each answered or refused, memory flat."""

import itertools
import json
import logging

import aiohttp
import pytest

from tests.fakes import hooks, mutations, webhooks
from tiphys.webhook import failures

MANY = 10_000
MOST_GROWTH_BYTES = 4 * 2**20
SEED = 20261130


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep no log records: pytest would hold tens of thousands of them until the end."""
    for name in ("admissions", "servers"):
        monkeypatch.setattr(logging.getLogger(f"tiphys.webhook.{name}"), "disabled", True)


@pytest.mark.timeout(900)
async def test_ten_thousand_broken_reviews_are_answered_or_refused() -> None:
    """No fault of the webhook itself, and no memory kept after the first thousands."""
    reached = hooks.effects()
    bodies = mutations.bodies(SEED, decided=hooks.a_decided_pod(hooks.a_ring()))
    answered, malformed = await hooks.fed(reached, itertools.islice(bodies, MANY // 2))
    before = hooks.resident_bytes()
    more, bad = await hooks.fed(reached, itertools.islice(bodies, MANY // 2))
    growth = hooks.resident_bytes() - before
    assert answered + more + malformed + bad == MANY
    assert answered > MANY / 4
    assert malformed > MANY / 10
    registry = reached.metrics.registry
    faults = {
        kind: registry.get_sample_value(
            "tiphys_webhook_decision_failures_total", {"kind": str(kind)}
        )
        for kind in failures.Kind
    }
    assert 0 == faults[failures.Kind.INTERNAL]
    assert growth <= MOST_GROWTH_BYTES


async def test_some_of_them_over_a_real_connection(world: webhooks.World) -> None:
    """Each gets an answer with its uid, or 400; the next call finds the webhook as before."""
    bodies = mutations.bodies(SEED + 1, decided=hooks.a_decided_pod(hooks.a_ring()))
    statuses: dict[int, int] = {}
    async with world.session(limit=4) as session:
        for number, body in enumerate(itertools.islice(bodies, 300)):
            status, answer = await _sent(session, "/validate" if number % 2 else "/mutate", body)
            statuses[status] = statuses.get(status, 0) + 1
            if status == 200:
                assert json.loads(body)["request"]["uid"] == answer["response"]["uid"]
    assert {200, 400} == set(statuses)
    assert world.process.listener.connections <= 4
    assert world.process.health.state()["ready"]


async def _sent(
    session: aiohttp.ClientSession, path: str, body: bytes
) -> tuple[int, dict[str, dict[str, object]]]:
    async with session.post(path, data=body) as response:
        text = await response.text()
        return response.status, json.loads(text) if response.status == 200 else {}
