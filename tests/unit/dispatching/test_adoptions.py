"""Whose word on a pod counts: only one that a key of ours signed, for this very pod."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.deciders import a_ring
from tests.unit.dispatching import builders, words
from tests.unit.operator import builders as built
from tiphys.models.domain import decisions, pods, snapshots
from tiphys.models.wire import keys, signatures
from tiphys.operator import adoptions, assumptions, caches, objects

AT = 1_800_000_000.0
EARLIER = keys.generate(not_before=AT - 8000, not_after=AT - 10)
LATER = keys.generate(not_before=AT - 4000, not_after=AT + 8000)
RING = keys.Ring(keys=(EARLIER, LATER))


def a_pod(**fields: Any) -> objects.Seen:
    """A pod that waits for a node."""
    return built.a_seen("a", created_at=AT - 5, **fields)


def filled() -> caches.Caches:
    """Caches with the workflow and one node."""
    cached = built.filled(built.a_node("n"))
    cached.workflows.put("genomics/exome", built.a_run("a"))
    return cached


def a_judge(cached: caches.Caches | None = None) -> adoptions.Words:
    """What judges by the ring of the tests."""
    return adoptions.Words(cached or filled(), ring=lambda: RING)


@pytest.mark.parametrize("verdict", [decisions.Verdict.RELEASE, decisions.Verdict.PLACE], ids=str)
def test_a_signed_word_for_the_very_pod_counts(verdict: decisions.Verdict) -> None:
    """A release, and a placement at admission, when the pod has no uid yet."""
    uid = "uid-a" if verdict is decisions.Verdict.RELEASE else ""
    seen = words.signed(a_pod(), RING, issued_at=AT - 3, verdict=verdict, pod_uid=uid)
    stamp = a_judge().of(seen)
    assert stamp is not None
    assert verdict is stamp.verdict


def test_the_word_of_an_earlier_leader_counts_while_its_key_is_in_the_ring() -> None:
    """Its key holds no more, but it did when this was signed; gone from the ring it is foreign."""
    seen = words.signed(a_pod(), keys.Ring(keys=(EARLIER,)), issued_at=AT - 20)
    assert a_judge().of(seen) is not None
    rings = [RING]
    judge = adoptions.Words(filled(), ring=lambda: rings[0])
    assert judge.of(seen) is not None
    rings[0] = keys.Ring(keys=(LATER,))
    assert judge.of(seen) is None


@pytest.mark.parametrize(
    "made",
    [
        lambda: words.signed(a_pod(), a_ring(), issued_at=AT),
        lambda: words.signed(a_pod(), RING, issued_at=AT + 1e8),
        lambda: words.signed(a_pod(), RING, issued_at=AT, pod="genomics/b"),
        lambda: words.signed(a_pod(), RING, issued_at=AT, pod_uid="uid-of-an-earlier-one"),
        lambda: words.signed(a_pod(), RING, issued_at=AT, workflow_uid="another-run"),
        lambda: words.signed(a_pod(workflow_uid="unknown"), RING, issued_at=AT),
        lambda: words.signed(a_pod(workflow_uid=""), RING, issued_at=AT),
        lambda: words.signed(a_pod(role=pods.PodRole.FOREIGN), RING, issued_at=AT),
        lambda: words.signed(a_pod(namespace="other"), RING, issued_at=AT),
        lambda: words.signed(a_pod(), RING, issued_at=AT, verdict=decisions.Verdict.GATE),
        lambda: dataclasses.replace(
            a_pod(), annotations=((decisions.RELEASE_ANNOTATION, "nonsense"),)
        ),
        lambda: dataclasses.replace(
            a_pod(), annotations=words.signed(a_pod(), RING, issued_at=AT).annotations[:1]
        ),
        lambda: altered(words.signed(a_pod(), RING, issued_at=AT, rank=1)),
    ],
    ids=[
        *("foreign-key", "future", "other-pod", "other-pod-uid", "other-run", "unknown-workflow"),
        *("no-workflow", "no-argo-pod", "other-namespace", "gate", "nonsense", "unsigned"),
        "altered",
    ],
)
def test_any_other_word_does_not(made: Callable[[], objects.Seen]) -> None:
    """Each condition of the rule by itself; nothing of it takes room."""
    cached, clock = filled(), builders.Clock(AT)
    seen = made()
    assert a_judge(cached).of(seen) is None
    adopter, assumed = an_adopter(cached, clock)
    cached.pods.put(seen.pod.key, seen)
    adopter.meet(seen)
    assert 0 == adopter.adopt(rooms)
    assert 0 == len(assumed)


def altered(seen: objects.Seen) -> objects.Seen:
    """The same pod with another rank in its word."""
    (name, text), signature = seen.annotations
    text = text.replace('"rank":1', '"rank":2')
    return dataclasses.replace(seen, annotations=((name, text), signature))


def rooms() -> tuple[snapshots.Room, ...]:
    """The room of one empty node."""
    node = built.a_node("n")
    return (snapshots.Room(node=node, group="m5/a", free=node.allocatable),)


def an_adopter(
    cached: caches.Caches, clock: builders.Clock
) -> tuple[adoptions.Adopter, assumptions.Assumptions]:
    """What adopts into an empty book."""
    assumed = assumptions.Assumptions(clock.monotonic)
    adopter = adoptions.Adopter(
        cached,
        assumed,
        a_judge(cached),
        assume_s=30.0,
        now=clock.now,
        monotonic=clock.monotonic,
    )
    return adopter, assumed


@pytest.mark.parametrize(("issued_at", "expires_at"), [(AT - 4, AT + 26), (AT + 20, AT + 30)])
def test_what_is_adopted_counts_from_its_word_and_at_most_from_now_on(
    issued_at: float, expires_at: float
) -> None:
    """The clock of the replica that signed may be ahead."""
    cached, clock = filled(), builders.Clock(AT)
    seen = words.signed(a_pod(), RING, issued_at=issued_at)
    cached.pods.put(seen.pod.key, seen)
    adopter, assumed = an_adopter(cached, clock)
    adopter.meet(seen)
    assert 1 == adopter.adopt(rooms)
    known = assumed.get(seen.pod.key)
    assert known is not None
    assert expires_at == known.expires_at


def test_a_pod_that_is_seen_before_its_workflow_is_adopted_when_that_comes() -> None:
    """For ten seconds it stays noted."""
    cached, clock = built.filled(built.a_node("n")), builders.Clock(AT)
    cached.workflows.drop("genomics/exome")
    seen = words.signed(a_pod(), RING, issued_at=AT - 1)
    cached.pods.put(seen.pod.key, seen)
    adopter, _ = an_adopter(cached, clock)
    adopter.meet(seen)
    assert (0, 1) == (adopter.adopt(rooms), adopter.pending)
    cached.workflows.put("genomics/exome", built.a_run("a"))
    assert (1, 0) == (adopter.adopt(rooms), adopter.pending)


def test_a_word_is_checked_once_and_again_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pod that changes often costs one check of a signature."""
    checks = []
    verify = signatures.verify

    def counting(*given: Any) -> keys.Key:
        checks.append(given)
        return verify(*given)

    monkeypatch.setattr(signatures, "verify", counting)
    judge = a_judge()
    seen = words.signed(a_pod(), RING, issued_at=AT - 3)
    for version in ("1", "2", "3"):
        assert judge.of(dataclasses.replace(seen, version=version)) is not None
    assert 1 == len(checks)
    assert judge.of(altered(words.signed(a_pod(), RING, issued_at=AT, rank=1))) is None
    assert 2 == len(checks)


def test_pods_on_no_node_keep_their_signatures_in_the_cache() -> None:
    """Bound ones do not: nobody asks any more."""
    signed = {"metadata__annotations__tiphys.dev/release-signature": "a..b"}
    waiting = builders.a_seen(**signed)
    assert "a..b" == waiting.annotation(decisions.RELEASE_SIGNATURE)
    bound = builders.a_seen(**signed, spec__nodeName="n", spec__schedulingGates=[])
    assert "" == bound.annotation(decisions.RELEASE_SIGNATURE)
