"""Who lives by their Leases: own clock only, and silence without answers is no evidence."""

from tiphys.operator.releaser import judgements

REPLICA = "tiphys-operator-b"


def a_judge() -> judgements.Judge:
    """A judge with the defaults."""
    return judgements.Judge(look_s=2.0, dead_after_s=10.0, leaderless_s=20.0)


def a_lease(name: str = judgements.LEADER, *, renewed: object = "", holder: str = "a"):  # type: ignore[no-untyped-def]
    """One Lease."""
    return judgements.Lease(name=name, holder=holder, renewed=str(renewed))


def _after(
    judge: judgements.Judge, length_s: float, *leases: judgements.Lease, start: float
) -> float:
    """Look every 2 s at the same Leases; return how long they counted as alive."""
    at = start
    while judge.look(leases, at).alive:
        at += 2.0
        if at - start > length_s:
            break
    return at - start


def test_a_leader_that_renews_lives() -> None:
    """For a minute, and it is proven by the second look."""
    judge = a_judge()
    for second in range(0, 60, 2):
        assert judge.look([a_lease(renewed=second)], float(second)).alive
        assert judge.proven is (second > 0)


def test_a_leader_that_stops_is_dead_within_twelve_seconds() -> None:
    """Ten, and at most one look more."""
    judge = a_judge()
    judge.look([a_lease(renewed=0)], 0.0)
    assert 10.0 <= _after(judge, 60, a_lease(renewed=1), start=2.0) <= 12.0


def test_what_is_seen_for_the_first_time_proves_nothing_and_gets_its_time() -> None:
    """A Lease of operators that died long ago is not taken for a living one for ever."""
    judge = a_judge()
    assert 10.0 <= _after(judge, 60, a_lease(renewed="long ago"), start=0.0) <= 12.0
    assert not judge.proven


def test_without_any_lease_nobody_lives() -> None:
    """After the same time as for a silent one; a Lease that was given back holds nobody."""
    for leases in ((), (a_lease(holder=""),)):
        assert 10.0 <= _after(a_judge(), 60, *leases, start=0.0) <= 12.0


def test_replicas_without_a_leader_may_hold_gates_for_twenty_seconds() -> None:
    """A replica that lives takes over within 15 s, or never."""
    judge = a_judge()
    at = 0.0
    while judge.look([a_lease(renewed=0), a_lease(REPLICA, renewed=at)], at).alive:
        at += 2.0
        assert at < 60
    assert 20.0 <= at <= 22.0


def test_time_without_answers_is_not_counted() -> None:
    """The API server is away for a minute: its operators could not renew either."""
    judge = a_judge()
    judge.look([a_lease(renewed=0)], 0.0)
    judge.look([a_lease(renewed=1)], 2.0)
    assert judge.look([a_lease(renewed=1)], 62.0).alive
    assert judge.look([a_lease(renewed=2)], 64.0).alive


def test_an_outage_does_not_make_the_dead_live() -> None:
    """What was silent before it is dead some looks after it."""
    judge = a_judge()
    judge.look([a_lease(renewed=1)], 0.0)
    judge.look([a_lease(renewed=1)], 2.0)
    assert _after(judge, 60, a_lease(renewed=1), start=62.0) <= 12.0


def test_a_leader_that_comes_back_lives() -> None:
    """Openings stop at once."""
    judge = a_judge()
    _after(judge, 60, a_lease(renewed=1), start=0.0)
    assert judge.look([a_lease(renewed=2)], 30.0).alive
