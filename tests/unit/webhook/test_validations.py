"""Decisions that do not hold are refused at CREATE, with a message that says which fault it is."""

import time
from typing import Any

import pytest

from tests.fakes import deciders, pods, webhooks
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, signatures, stamps

DECISION, SIGNATURE = decisions.ANNOTATION, decisions.SIGNATURE


def a_decision(**changes: Any) -> decisions.Decision:
    """Return a good decision to gate the example's pod."""
    now = time.time()
    values: dict[str, Any] = {
        "id": "d-aaaaaaaaaaaaaaaaaaaa",
        "verdict": decisions.Verdict.GATE,
        "pod": f"{pods.NAMESPACE}/{pods.NAME}",
        "workflow_uid": pods.WORKFLOW_UID,
        "issued_at": now,
        "expires_at": now + 30,
        **changes,
    }
    return decisions.Decision(**values)


def a_decided_pod(ring: keys.Ring, **changes: Any) -> dict[str, Any]:
    """Return a gated pod whose decision is signed by `ring`."""
    text = stamps.encode(a_decision(**changes))
    pod = pods.a_pod(spec__schedulingGates=[{"name": "tiphys.dev/steer"}])
    pod["metadata"]["labels"]["tiphys.dev/gated"] = "true"
    pod["metadata"]["annotations"].update(
        {DECISION: text.decode(), SIGNATURE: signatures.sign(ring, text, time.time())}
    )
    return pod


async def refused(world: webhooks.World, pod: dict[str, Any], **changes: Any) -> str:
    """Validate a pod that has to be refused; return the message."""
    async with world.session() as session:
        answer = await webhooks.called(session, "/validate", pods.a_body(pod, **changes))
    assert not answer["allowed"]
    assert (403, "Forbidden") == (answer["status"]["code"], answer["status"]["reason"])
    message: str = answer["status"]["message"]
    return message


async def test_a_pod_without_a_decision_passes(world: webhooks.World) -> None:
    """Most pods have none."""
    async with world.session() as session:
        assert (await webhooks.called(session, "/validate", pods.a_body()))["allowed"]


async def test_an_unsigned_decision_is_refused(world: webhooks.World) -> None:
    """The message says how to make the pod."""
    pod = a_decided_pod(world.ring)
    del pod["metadata"]["annotations"][SIGNATURE]
    message = await refused(world, pod)
    assert message.startswith("tiphys: unsigned decision: ")
    assert "create the pod without annotations" in message
    assert 1 == world.metric("tiphys_webhook_validations_total", verdict="unsigned")


async def test_a_decision_by_another_key_is_foreign(world: webhooks.World) -> None:
    """Also when it was signed by a ring of the same kind in another cluster."""
    message = await refused(world, a_decided_pod(deciders.a_ring()))
    assert message.startswith("tiphys: foreign decision: signed by key")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (f"metadata__annotations__{DECISION}", "{}", "stamp"),
        (
            f"metadata__annotations__{DECISION}",
            '{"expires":1' + "0" * 400 + ',"v":1,"verdict":"gate"}',
            "stamp.expires",
        ),
        (f"metadata__annotations__{SIGNATURE}", "a..b", "cannot be read"),
        (f"metadata__annotations__{DECISION}", None, "annotation tiphys.dev/decision is missing"),
        ("spec__schedulingGates", [], "spec.schedulingGates[tiphys.dev/steer]"),
        ("metadata__labels__tiphys.dev/gated", "no", "metadata.labels[tiphys.dev/gated]"),
    ],
)
async def test_a_changed_decision_or_field_is_altered(
    world: webhooks.World, path: str, value: object, said: str
) -> None:
    """The message names the field."""
    pod = a_decided_pod(world.ring)
    *parents, last = path.split("__")
    owner = pod
    for part in parents:
        owner = owner[part]
    owner[last] = value
    message = await refused(world, pod)
    assert message.startswith("tiphys: altered decision: ")
    assert said in message


async def test_a_text_that_was_changed_after_signing_is_altered(world: webhooks.World) -> None:
    """Although it is a good stamp by itself."""
    pod = a_decided_pod(world.ring)
    pod["metadata"]["annotations"][DECISION] = stamps.encode(a_decision(rank=1)).decode()
    assert "does not fit what it signs" in await refused(world, pod)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pod": "genomics/other"}, "made for pod genomics/other"),
        ({"workflow_uid": "old-run"}, "another run of the workflow"),
        ({"workflow_uid": ""}, "another run of the workflow"),
        ({"verdict": decisions.Verdict.RELEASE}, "none for a new pod"),
    ],
)
async def test_a_decision_for_another_pod_or_run_is_replayed(
    world: webhooks.World, changes: dict[str, Any], said: str
) -> None:
    """Bound to namespace, name and run."""
    message = await refused(world, a_decided_pod(world.ring, **changes))
    assert message.startswith("tiphys: replayed decision: ")
    assert said in message


@pytest.mark.parametrize("made_s_ago", [100.0, -100.0])
async def test_a_decision_of_another_time_is_replayed(
    world: webhooks.World, made_s_ago: float
) -> None:
    """Bound to some seconds: neither an old one counts nor one of the future."""
    issued_at = time.time() - made_s_ago
    pod = a_decided_pod(world.ring, issued_at=issued_at, expires_at=issued_at + 30)
    message = await refused(world, pod)
    assert message.startswith("tiphys: replayed decision: ")
    assert "s old" in message


async def test_a_decision_in_another_namespace_is_replayed(world: webhooks.World) -> None:
    """What the review says counts, not what the pod says of itself."""
    pod = a_decided_pod(world.ring)
    assert "this is elsewhere/" in await refused(world, pod, namespace="elsewhere")


async def test_a_release_on_a_new_pod_is_replayed(world: webhooks.World) -> None:
    """It was copied from a pod that ran."""
    pod = a_decided_pod(world.ring)
    pod["metadata"]["annotations"][decisions.RELEASE_ANNOTATION] = "{}"
    assert "cannot stand on a pod from the start" in await refused(world, pod)


async def test_a_decision_is_taken_once(world: webhooks.World) -> None:
    """A second pod with it is refused, and the mutating call would decide about it anew."""
    pod = a_decided_pod(world.ring)
    async with world.session() as session:
        assert (await webhooks.called(session, "/validate", pods.a_body(pod)))["allowed"]
        assert "was taken for a pod before" in await refused(world, pod)
        answer = await webhooks.called(session, "/mutate", pods.a_body(pod))
    decided = webhooks.patched(pod, answer)["metadata"]["annotations"][DECISION]
    assert stamps.decode(decided).id != "d-aaaaaaaaaaaaaaaaaaaa"


async def test_without_keys_nothing_is_refused(world: webhooks.World) -> None:
    """Who cannot check lets users' pods in, counts it and is not ready."""
    world.write(operator__json=b'{"keys": []}')
    await webhooks.until(lambda: not world.process.keeper.current.operator_ring.keys)
    async with world.session() as session:
        body = pods.a_body(a_decided_pod(deciders.a_ring()))
        answer = await webhooks.called(session, "/validate", body)
    assert answer["allowed"]
    assert answer["auditAnnotations"]["reason"].startswith("keys: ")
    assert not world.process.health.state()["ready"]


async def test_a_key_that_was_rotated_is_honoured_for_its_overlap(world: webhooks.World) -> None:
    """A decision by the last key holds while the ring still has it, and by the next one at once."""
    old, new = world.ring, deciders.a_ring()
    world.write(operator__json=keys.write(old.joined(new).public()).encode())
    await webhooks.until(lambda: len(world.process.keeper.current.operator_ring.keys) == 2)
    async with world.session() as session:
        for number, ring in enumerate((old, new)):
            pod = a_decided_pod(ring, id=f"d-{number}")
            assert (await webhooks.called(session, "/validate", pods.a_body(pod)))["allowed"]
