"""Thresholds of probes."""

import pytest

from lab.processnode import actions, probes
from tests.unit.processnode import builders as a

PROBE = {"periodSeconds": 0, "successThreshold": 2, "failureThreshold": 3}


def looks(*outcomes):
    """Return a look that sees one outcome after the other."""
    left = iter(outcomes)

    async def look():
        return actions.Outcome(ok=next(left), message="no")

    return look


@pytest.mark.parametrize(
    ("kind", "outcomes", "expected"),
    [
        (probes.Kind.STARTUP, [False, False, True, True], True),
        (probes.Kind.STARTUP, [True, False, False, False], False),
        (probes.Kind.LIVENESS, [True, True, True, False, False, True, False, False, False], False),
    ],
)
async def test_a_probe_decides_by_outcomes_in_a_row(kind, outcomes, expected):
    """Start-up either way, liveness only to the bad; every failed look is told."""
    told = []
    verdict = await probes.until_decided(
        kind, PROBE, looks(*outcomes), report=lambda kind, message: told.append(message)
    )
    assert (expected, outcomes.count(False)) == (verdict, len(told))


async def test_readiness_tells_each_verdict():
    """Nothing before the first threshold, then whatever it is now."""
    told = []
    with pytest.raises(RuntimeError):  # the looks run out
        await probes.for_ever(
            PROBE,
            looks(True, True, False, False, False, True),
            tell=told.append,
            report=lambda *_: None,
        )
    assert [True, False] == told


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
async def test_where_nobody_listens_each_look_says_the_same(scheme):
    """So that a hundred of them are one Event that counts up."""
    subject = actions.Subject(
        container=a.a_container(),
        pod_ip="127.0.0.1",
        environment={},
        folder="/",
        pid=1,
        isolation="none",
    )
    probe = {"httpGet": {"port": 1, "scheme": scheme}}

    said = {(await actions.perform(probe, subject, limit_s=5)).message for _ in range(3)}

    url = f"{scheme.lower()}://127.0.0.1:1/"
    assert {f"GET {url}: Connect call failed ('127.0.0.1', 1)"} == said
