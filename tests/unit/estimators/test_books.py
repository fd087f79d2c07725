"""What is learned from rows, and what is answered about things that were never seen."""

import math
import random

import pytest

from tiphys.models.domain import workflows
from tiphys.models.estimators import books, histories

ALIGN = workflows.Identity(source="wftmpl/ns/rna", template="align", image="bwa:1")
SORT = workflows.Identity(source="wftmpl/ns/rna", template="sort", image="samtools:1")
SPEEDS = {"old": 1.6, "base": 1.0, "fast": 0.625}


def row(
    identity: workflows.Identity = ALIGN, duration_s: float = 60.0, **others: object
) -> histories.Row:
    """Return one finished attempt."""
    return histories.Row(identity=identity, duration_s=duration_s, **others)  # type: ignore[arg-type]


def seen(noise: float = 0.0, each: int = 12) -> list[histories.Row]:
    """Return rows of two programs in three groups whose speeds are `SPEEDS`."""
    rng = random.Random(3)
    return [
        row(
            identity,
            centre_s * factor * math.exp(rng.gauss(0, noise)),
            group=group,
            run=f"r{number}",
            ended_at=float(number),
        )
        for identity, centre_s in ((ALIGN, 100.0), (SORT, 20.0))
        for group, factor in SPEEDS.items()
        for number in range(each)
    ]


def test_nothing_known_is_the_default_and_says_so() -> None:
    """An empty book marks its answer as a guess."""
    estimate = books.Book().estimate(ALIGN)
    assert (books.DEFAULT_S, 0, "default") == (estimate.centre_s, estimate.count, estimate.basis)
    assert estimate.cold


def test_a_median_stands_for_the_run_time() -> None:
    """One run that took a hundred times as long does not move it."""
    book = books.learn([row(duration_s=each) for each in (50, 60, 60, 70, 6_000)])
    estimate = book.estimate(ALIGN)
    assert (60.0, 5, "history") == (
        pytest.approx(estimate.centre_s),
        estimate.count,
        estimate.basis,
    )
    assert 5.0 == pytest.approx(estimate.spread_s, rel=0.2)


def test_factors_of_groups_are_found_where_programs_ran_in_several() -> None:
    """Ratios between groups come out within a few per cent in spite of noise."""
    factors = dict(books.learn(seen(noise=0.1)).group_factors)
    for one, other in (("old", "base"), ("fast", "base")):
        assert SPEEDS[one] / SPEEDS[other] == pytest.approx(factors[one] / factors[other], rel=0.12)


def test_a_program_with_a_taste_of_its_own_has_its_own_factor() -> None:
    """What likes one kind of node more than others do is learned for itself."""
    rows = [each for each in seen() if not (each.identity == SORT and each.group == "fast")]
    rows += [row(SORT, 20.0, group="fast", run=f"r{n}", ended_at=float(n)) for n in range(12)]
    book = books.learn(rows)
    assert dict(book.factors(SORT))["fast"] > 1.2 * dict(book.factors(ALIGN))["fast"]


def test_one_row_in_a_group_is_believed_little() -> None:
    """A single lucky run does not make a group look twice as fast."""
    rows = [row(duration_s=100, group="base", ended_at=float(n)) for n in range(20)]
    factor = dict(books.learn([*rows, row(duration_s=50, group="lucky")]).factors(ALIGN))["lucky"]
    assert factor > 0.7


def test_strangers_are_taken_for_their_siblings() -> None:
    """The same image first, then the template's name, then the same source, then the median."""
    book = books.learn([row(ALIGN, 100.0), row(SORT, 20.0)])
    ask = [
        workflows.Identity(source="x", template="y", image="bwa:1"),
        workflows.Identity(source="x", template="sort", image="z"),
        workflows.Identity(source="wftmpl/ns/rna", template="y", image="z"),
        workflows.Identity(source="x", template="y", image="z"),
    ]
    answers = [book.estimate(each) for each in ask]
    assert ["siblings", "siblings", "siblings", "default"] == [each.basis for each in answers]
    assert [100.0, 20.0] == [pytest.approx(each.centre_s) for each in answers[:2]]
    assert 20.0 < answers[2].centre_s < 100.0
    assert 60.0 == pytest.approx(answers[3].centre_s)


def test_larger_inputs_take_longer_where_sizes_are_seen() -> None:
    """Time goes with the learned power of the size, within what is plausible."""
    rows = [row(duration_s=10.0 * size, input_bytes=size * 10**6) for size in range(1, 11)]
    book = books.learn(rows)
    small, large = (book.estimate(ALIGN, input_bytes=size * 10**6).centre_s for size in (2, 8))
    assert 4.0 == pytest.approx(large / small, rel=0.1)
    unbounded = book.estimate(ALIGN, input_bytes=10**12).centre_s
    assert unbounded <= books.FARTHEST**books.STEEPEST * book.estimate(ALIGN).centre_s


def test_later_attempts_have_their_own_estimate_once_there_are_enough() -> None:
    """A retry that resumes is shorter, and known to be after three."""
    first = [row(duration_s=100, attempt=0) for _ in range(5)]
    later = [row(duration_s=10, attempt=1) for _ in range(3)]
    assert 10.0 == pytest.approx(books.learn([*first, *later]).estimate(ALIGN, attempt=1).centre_s)
    few = books.learn([*first, *later[:2]])
    assert 100.0 == pytest.approx(few.estimate(ALIGN, attempt=1).centre_s)


def test_failed_runs_say_nothing_about_time() -> None:
    """An attempt that died at once is no short task."""
    rows = [row(duration_s=100), row(duration_s=1, failed=True)]
    assert 100.0 == pytest.approx(books.learn(rows).estimate(ALIGN).centre_s)


def test_widths_are_medians_over_runs() -> None:
    """A fan-out that is not known yet is taken for as wide as it usually was."""
    rows = [row(run=run) for run, count in (("a", 3), ("b", 5), ("c", 40)) for _ in range(count)]
    book = books.learn(rows)
    assert 5.0 == book.width(ALIGN)
    assert books.DEFAULT_WIDTH == books.Book().width(ALIGN)


def test_a_fan_out_that_was_never_seen_is_as_wide_as_others() -> None:
    """What always ran alone tells nothing of it."""
    alone = [row(SORT, run=run) for run in "abc"]
    assert books.DEFAULT_WIDTH == books.learn(alone).width(ALIGN)
    wide = [
        row(workflows.Identity(source="s", template=f"t{width}"), run="a")
        for width in (4, 6, 900)
        for _ in range(width)
    ]
    assert 6.0 == books.learn([*alone, *wide]).width(ALIGN)


def test_the_order_of_rows_does_not_matter() -> None:
    """Two replicas that read the same rows answer the same."""
    rows = seen(noise=0.2)
    shuffled = list(rows)
    random.Random(1).shuffle(shuffled)
    assert books.learn(rows) == books.learn(shuffled)


@pytest.mark.parametrize(("elapsed_s", "rest_s"), [(0, 120), (60, 60), (120, 30), (400, 100)])
def test_what_outlives_its_estimate_is_expected_to_last(elapsed_s: float, rest_s: float) -> None:
    """Before the estimate what is left of it, then a quarter of the age."""
    estimate = books.learn([row(duration_s=60)]).estimate(ALIGN)
    assert rest_s == pytest.approx(books.residual_s(estimate, 2.0, elapsed_s))
