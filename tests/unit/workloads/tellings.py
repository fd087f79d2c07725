"""How a number of a truth would look if somebody wrote it down."""

import re
from collections.abc import Iterator

import msgspec

from lab.truths import Truth
from tiphys.models.domain import quantities

IDENTITY = {"namespace", "workflow", "task", "template", "siblings", "outputs", "parallelism"}
"""Fields of a truth that an object may share; `parallelism` is 1 to 8, as is much else."""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[kKMGTmu]i?)?")


def spoken(truth: Truth) -> set[str]:
    """Return the ways in which a person could have written the numbers of a truth."""
    found: set[str] = set()
    for number in _numbers(truth):
        if number >= 1000:  # whole numbers below stand for many things
            found |= {f"{number:.0f}", quantities.format_bytes(round(number))}
        if number % 1:
            found |= {repr(number), f"{number:.2f}"}
    return found


def told_by_nothing_else(truth: Truth) -> set[str]:
    """Return those of five digits and more, which nothing else has by chance."""
    return {said for said in spoken(truth) if len(re.sub(r"\D", "", said).strip("0")) >= 5}


def numbers_in(text: str) -> set[str]:
    """Return the numbers of a text, with their suffixes as Kubernetes writes them."""
    return set(NUMBER.findall(text))


def _numbers(truth: Truth) -> Iterator[float]:
    for key, value in msgspec.to_builtins(truth).items():
        if key in IDENTITY:
            continue
        if isinstance(value, float | int):
            yield value
        elif isinstance(value, list | tuple):
            for item in value:
                if isinstance(item, dict):
                    yield item["bytes"]
                elif isinstance(item, list | tuple):
                    yield item[1]
