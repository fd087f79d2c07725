"""Application families and what each is kept for; a family is the unit of every split.

All instances of one family are the same program at other sizes, so a random split by instance
leaks. The division is that of the research notes: what is learned or tuned on never shows up in a
test. Families outside `TRAIN` are used by an explicit flag only.
"""

from collections.abc import Iterable

from lab import errors

TRAIN = frozenset(
    {
        "blast",
        "bwa",
        "1000genome",
        "cycles",
        "epigenomics",
        "seismology",
        "srasearch",
        "airrflow",
        "bacass",
        "cutandrun",
        "fetchngs",
        "hic",
        "methylseq",
        "scrnaseq",
        "smrnaseq",
        *(f"tpch-q{query}" for query in range(1, 17)),
        "alibaba-early",
    }
)
VALIDATION = frozenset({"soykb", "taxprofiler", "tpch-q17", "tpch-q18", "alibaba-middle"})
TEST = frozenset(
    {
        "montage",
        "cybershake",
        "inspiral",
        "sipht",
        "ampliseq",
        "atacseq",
        "chipseq",
        "eager",
        "mag",
        "nanoseq",
        "rnaseq",
        "sarek",
        "viralrecon",
        *(f"tpch-q{query}" for query in range(19, 23)),
        "alibaba-late",
    }
)
OWN = frozenset(
    {
        "exome",
        "uniform",
        *("sample-align", "sample-mosaic"),
        *("vision-a", "vision-b", "vision-c"),
        *("speech-a", "speech-b", "speech-c"),
        *("ranking-a", "ranking-b", "ranking-c"),
    }
)
"""Made here, from no trace of a workflow; free to use anywhere."""
TOYS = frozenset({"helloworld", "heft"})
"""Examples in the data that no one runs for their result; never used."""


def is_held_out(family: str) -> bool:
    """Tell whether a family is kept for validation or tests; an unknown one counts as kept."""
    return family not in TRAIN and family not in OWN


def check(wanted: Iterable[str], *, held_out: bool) -> None:
    """Raise `UsageError` where kept families are asked for without the flag."""
    kept = sorted(family for family in wanted if is_held_out(family))
    if kept and not held_out:
        raise errors.UsageError(
            f"{', '.join(kept)}: kept for validation and tests, so that results stay honest; "
            "add --held-out if this run is one of those"
        )
