"""What is kept for validation and tests stays out of every mix unless asked for."""

import dataclasses

import pytest

from lab import catalogs, errors
from lab.workloads import families, mixes, packs, trainings

SAMPLE = packs.Pack(root=packs.SAMPLE, sample=True)
WHOLE = packs.find()
KEPT = (
    *("montage", "cybershake", "inspiral", "sipht"),
    *("atacseq", "chipseq", "mag", "rnaseq", "sarek", "viralrecon", "ampliseq", "eager", "nanoseq"),
    *("tpch-q19", "tpch-q20", "tpch-q21", "tpch-q22", "alibaba-late"),
    *("soykb", "taxprofiler", "tpch-q17", "tpch-q18", "alibaba-middle"),
)
whole_pack = pytest.mark.skipif(WHOLE.sample, reason="needs the data pack")


@pytest.mark.parametrize("family", KEPT)
def test_kept_families_are_known_as_such(family: str) -> None:
    """Tests A to D and the validation set of the research notes."""
    assert families.is_held_out(family)
    with pytest.raises(errors.UsageError, match=rf"{family}: kept for .*--held-out"):
        families.check([family, "bwa"], held_out=False)
    families.check([family], held_out=True)


def test_open_families_need_no_flag() -> None:
    """What may be learned from, the models that the mix `ml` trains among it."""
    models = {f"{tenant.namespace}-{letter}" for tenant in trainings.TENANTS for letter in "abc"}
    assert models <= families.OWN
    families.check([*families.TRAIN, *families.OWN], held_out=False)


def test_an_unknown_family_counts_as_kept() -> None:
    """A trace that someone adds is not used before someone has decided."""
    assert families.is_held_out("novelseq")


def test_no_family_is_in_two_sets() -> None:
    """Each is open, for validation, for tests, or a toy."""
    sets = (families.TRAIN, families.VALIDATION, families.TEST, families.OWN, families.TOYS)
    assert sum(map(len, sets)) == len(frozenset().union(*sets))


@whole_pack
@pytest.mark.parametrize("name", sorted(mixes.MIXES))
def test_no_mix_uses_a_kept_family_without_the_flag(name: str) -> None:
    """300 workflows of a mix meet every family that it can draw."""
    drafted = mixes.find(name).draft(mixes.Wish(workflows=300, seed=1, pack=WHOLE))
    assert {False} == {families.is_held_out(draft.family) for draft in drafted}


@whole_pack
@pytest.mark.parametrize("name", ["genomics", "spark", "burst"])
@pytest.mark.parametrize("held_out", [False, True])
def test_a_mix_uses_one_side_of_the_split_only(name: str, held_out: bool) -> None:
    """With the flag nothing else, also where large traces may enter whole."""
    wish = mixes.Wish(workflows=40, seed=1, pack=WHOLE, held_out=held_out, most_tasks=150)
    drafted = mixes.find(name).draft(wish)
    assert {held_out} == {families.is_held_out(draft.family) for draft in drafted}


def test_a_mix_that_forgets_the_split_makes_no_workload() -> None:
    """Demo, benches, goldens and runs all take their workloads from here."""
    open_draft = mixes.find("exome").draft(mixes.Wish(workflows=1, seed=1, pack=SAMPLE))[0]
    kept = dataclasses.replace(open_draft, family="rnaseq")
    careless = mixes.Mix(name="careless", about="", draft=lambda wish: [open_draft, kept])
    cluster = catalogs.load("mixed")
    wish = mixes.Wish(workflows=2, seed=1, pack=SAMPLE)
    with pytest.raises(errors.UsageError, match="rnaseq: kept for validation and tests"):
        mixes.generate(careless, wish, tag="s1", cluster=cluster)
    asked_for = dataclasses.replace(wish, held_out=True)
    assert mixes.generate(careless, asked_for, tag="s1", cluster=cluster).held_out


def test_a_pack_of_open_traces_only_says_so_when_kept_ones_are_asked_for() -> None:
    """An empty choice is no crash."""
    wish = mixes.Wish(workflows=2, seed=1, pack=SAMPLE, held_out=True)
    with pytest.raises(errors.UsageError):
        mixes.generate(
            mixes.find("spark"), wish, tag="s1", cluster=catalogs.load("mixed"), overload=1.0
        )
