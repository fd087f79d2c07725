"""All capacities at once: the prices at which every one of them fits.

Solving each capacity exactly with the others held, in turn, always closes in, but slowly where the
same tasks wait for two of them. So between such rounds a node tries Newton steps over all of its
capacities together, as long as each brings it closer; when one does not, it goes back to where the
last round left it. Links that nodes share are solved in turn with the nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import fillings, groups
from .capacities import CPU, DISK, PEER, STORE, TERM_CAPACITY, TERM_PHASE, Link, Local
from .clusters import Floats
from .slowdowns import Bus

ROUNDS = 80
"""At most; two to ten are usual."""
TOLERANCE = 1e-7
"""Relative error of capacities and slow-downs at which the rounds end."""
NEAR = 0.5
"""Error of a node from which Newton steps are tried."""
CLOSER = 0.95
"""Part of a node's error that a Newton step may leave, or the node goes back to its last round."""
FARTHEST = 2.0
"""Largest factor by which a Newton step changes a level."""
DAMPED_AFTER = 20
"""Rounds after which slow-downs move by half steps only."""
RIDGE = 1e-12
"""Added to the diagonal: two capacities may bind the same tasks in proportion."""
STEEPEST = 0.95
"""Largest ratio of successive changes that `jump` assumes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """The result."""

    times: Floats
    """[P, T] seconds of each phase per unit of progress."""
    slow: Floats
    """[T] slow-down that the CPU phase contains."""
    prices: Floats
    """[K, V] of the nodes' capacities."""


@dataclass(slots=True)
class _Look:
    """What holds at some prices."""

    times: Floats
    least: Floats
    """[M, T] what each term demands of its phase."""
    per_s: Floats
    gaps: Floats
    """[K, V] use over amount less 1."""
    errors: Floats
    """[V] the worst of each node."""


def of_nodes(
    local: Local,
    floors: Floats,
    *,
    fixed: Floats,
    bus: Bus,
    start: Floats | None = None,
) -> Balance:
    """Return the balance of nodes for themselves.

    `floors` [P, T] are the phases of each task alone, `fixed` [T] its time in none of them, `start`
    [K, V] prices near by.
    """
    prices = np.zeros_like(local.amounts) if start is None else start
    fresh = np.ones_like(fixed)
    busy = bool(bus.traffic.any())
    errors, safe = np.full(prices.shape[1], np.inf), prices
    stepped = np.zeros(prices.shape[1], dtype=bool)
    for turn in range(ROUNDS):
        slow = fresh
        look = _look(local, floors, prices, fixed=fixed, slow=slow)
        if busy:
            cpu = look.times[CPU]
            fresh = bus.slow(cpu / slow, 1 / look.per_s - cpu)
            if turn > DAMPED_AFTER:
                fresh = (fresh + slow) / 2
        wrong = look.errors > TOLERANCE
        if fresh is not slow:
            unsettled = np.abs(fresh - slow) > TOLERANCE * slow
            wrong |= groups.sums(local.node, unsettled.astype(np.float64), len(wrong)) > 0
        if not wrong.any():
            break
        if 2 * wrong.sum() <= len(wrong):
            return _rest(local, floors, prices, look, slow=slow, wrong=wrong, fixed=fixed, bus=bus)
        failed = stepped & (look.errors > np.maximum(CLOSER * errors, TOLERANCE))
        safe = np.where(stepped, safe, prices)
        prices = np.where(failed, safe, prices)
        stepped = wrong & ~failed & (look.errors < NEAR)
        turned = wrong & ~stepped
        errors = look.errors
        if turned.any():
            needed = ((prices > 0) | (look.gaps > 0))[:, turned].any(axis=1)
            needed = np.logical_or(needed, failed.any())
            after = _in_turn(local, floors, prices, fixed=fixed, slow=fresh, kinds=needed)
            prices = np.where(turned, after, prices)
        if stepped.any():
            prices = np.where(stepped, _newton(local, prices, look, slow=slow), prices)
    return Balance(times=look.times, slow=slow, prices=prices)


def _rest(
    local: Local,
    floors: Floats,
    prices: Floats,
    look: _Look,
    *,
    slow: Floats,
    wrong: npt.NDArray[np.bool_],
    fixed: Floats,
    bus: Bus,
) -> Balance:
    """Return the balance when only some nodes still have to be solved."""
    places, tasks = np.flatnonzero(wrong), np.flatnonzero(wrong[local.node])
    balance = of_nodes(
        local.of_nodes(places, tasks),
        floors[:, tasks],
        fixed=fixed[tasks],
        bus=bus.of_nodes(places, tasks),
        start=prices[:, places],
    )
    times, slow, prices = look.times.copy(), slow.copy(), prices.copy()
    times[:, tasks], slow[tasks] = balance.times, balance.slow
    prices[:, places] = balance.prices
    return Balance(times=times, slow=slow, prices=prices)


def _look(local: Local, floors: Floats, prices: Floats, *, fixed: Floats, slow: Floats) -> _Look:
    least = local.coefficients * prices[:, local.node][TERM_CAPACITY]
    least[0] *= slow
    times = floors.copy()
    times[CPU] *= slow
    np.maximum(times[CPU], least[0], out=times[CPU])
    np.maximum(times[DISK], np.maximum(least[1], least[2]), out=times[DISK])
    np.maximum(times[STORE], least[3], out=times[STORE])
    np.maximum(times[PEER], least[4], out=times[PEER])
    per_s = 1 / (times.sum(axis=0) + fixed)
    gaps = local.use(per_s, slow=slow) / local.amounts - 1
    errors = np.where(prices > 0, np.abs(gaps), gaps).max(axis=0)
    return _Look(times=times, least=least, per_s=per_s, gaps=gaps, errors=errors)


def _newton(local: Local, prices: Floats, look: _Look, *, slow: Floats) -> Floats:
    """Return prices after one Newton step in the logarithms of the levels of each node."""
    kinds, count = prices.shape
    pushed = np.where(look.least >= look.times[TERM_PHASE], look.least, 0.0)
    # Change of the cycle with the logarithm of each level, times -1.
    pushes = np.concatenate((pushed[:3], pushed[3:4] + pushed[4:5]))
    pulls = local.loads * (look.per_s * look.per_s)
    pulls[0] *= slow
    if count == 1:
        matrix = (pulls @ pushes.T)[None]
    else:
        products = (pulls[:, None] * pushes[None]).reshape(kinds * kinds, -1)
        matrix = np.array([groups.sums(local.node, row, count) for row in products])
        matrix = matrix.T.reshape(count, kinds, kinds)
    matrix = matrix / local.amounts.T[:, :, None]
    steep = np.diagonal(matrix, axis1=1, axis2=2).T > 0
    binds = steep & (prices > 0)
    both = binds.T[:, :, None] & binds.T[:, None, :]
    identity = np.eye(kinds)
    matrix = np.where(both, matrix, 0.0) + identity * np.where(binds, RIDGE, 1.0).T[:, :, None]
    goal = np.where(binds, -look.gaps, 0.0)
    moves = np.linalg.solve(matrix, goal.T[:, :, None])[:, :, 0].T
    result: Floats = np.where(binds, prices / np.clip(1 + moves, 1 / FARTHEST, FARTHEST), 0.0)
    return result


def _in_turn(
    local: Local,
    floors: Floats,
    prices: Floats,
    *,
    fixed: Floats,
    slow: Floats,
    kinds: npt.NDArray[np.bool_],
) -> Floats:
    """Return prices after each capacity of the kinds [K] was solved with the others held."""
    prices = prices.copy()
    for kind in np.flatnonzero(kinds).tolist():
        others = prices.copy()
        others[kind] = 0.0
        look = _look(local, floors, others, fixed=fixed, slow=slow)
        if not (look.gaps[kind] > 0).any():
            prices[kind] = 0.0
            continue
        governed = np.flatnonzero(TERM_CAPACITY == kind)
        stretched = slow if kind == 0 else 1.0
        phases = TERM_PHASE[governed]
        rest = 1 / look.per_s - look.times[phases].sum(axis=0)
        prices[kind] = fillings.prices(
            local.loads[kind] * stretched,
            [
                (local.coefficients[term] * stretched, look.times[TERM_PHASE[term]])
                for term in governed
            ],
            rest=np.maximum(rest, 0.0),
            group=local.node,
            amount=local.amounts[kind],
            guess=prices[kind],
        )
    return prices


def with_links(
    local: Local,
    links: Sequence[Link],
    floors: Floats,
    *,
    fixed: Floats,
    bus: Bus,
    start: Floats | None = None,
) -> Balance:
    """Return the balance of nodes and the links that they share."""
    found = [np.zeros(len(link.amount)) for link in links]
    history: list[list[Floats]] = []
    inside = start
    for turn in range(ROUNDS):
        raised = _raised(floors, links, found, but=-1)
        balance = of_nodes(local, raised, fixed=fixed, bus=bus, start=inside)
        inside = balance.prices
        before, found = found, list(found)
        for index, link in enumerate(links):
            held = _raised(floors, links, found, but=index)
            times = balance.times.copy()
            phases = [phase for phase, _ in link.terms]
            for phase in phases:
                # What this link alone made slow is taken back; what the node makes slow stays.
                local_part = _least(local, inside, phase)
                times[phase] = np.maximum(held[phase], local_part)
            rest = times.sum(axis=0) - times[phases].sum(axis=0) + fixed
            found[index] = fillings.prices(
                link.load,
                [(coefficient, times[phase]) for phase, coefficient in link.terms],
                rest=rest,
                group=link.group,
                amount=link.amount,
                guess=found[index],
            )
        if all(
            (np.abs(new - old) <= TOLERANCE * (new + old)).all()
            for new, old in zip(found, before, strict=True)
        ):
            break
        history.append(found)
        if turn % 3 == 2:
            found = [_jump(*past) for past in zip(*history[-3:], strict=True)]
            history.clear()
    return balance


def _raised(floors: Floats, links: Sequence[Link], found: Sequence[Floats], *, but: int) -> Floats:
    """Return the floors [P, T] as links raise them, all but one."""
    raised = floors.copy()
    for index, (link, price) in enumerate(zip(links, found, strict=True)):
        if index != but and price.any():
            here = price[link.group]
            for phase, coefficient in link.terms:
                np.maximum(raised[phase], coefficient * here, out=raised[phase])
    return raised


def _least(local: Local, prices: Floats, phase: int) -> Floats:
    """Return what the NIC demands of a network phase."""
    term = int(np.flatnonzero(TERM_PHASE == phase)[0])
    result: Floats = local.coefficients[term] * prices[TERM_CAPACITY[term]][local.node]
    return result


def _jump(first: Floats, second: Floats, last: Floats) -> Floats:
    """Return the limit of a geometric series through three values each."""
    step, next_step = second - first, last - second
    ratio = np.where(step != 0, next_step / np.where(step != 0, step, 1.0), 0.0)
    ratio = np.clip(ratio, -STEEPEST, STEEPEST)
    far = last + next_step * ratio / (1 - ratio)
    return np.where((far > 0) & (last > 0), far, last)
