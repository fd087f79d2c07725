"""docs/argo.md can fail: every word that code reads or writes stands in it."""

from pathlib import Path

import pytest

from tiphys.argo import expansions, nodes, parameters, tasks, templates, walks
from tiphys.models.domain import optins, pods, workflows

PAGE = (Path(__file__).parents[3] / "docs" / "argo.md").read_text()
WORDS = [
    *optins.KEYS,
    *optins.Mode,
    *pods.PodRole,
    *pods.ContainerRole,
    *(kind for kind in workflows.TaskKind if kind is not workflows.TaskKind.POD),
    *expansions.FIELDS,
    templates.INPUT_BYTES,
    "timeout",
    "pendingTimeout",
    "ARGO_DEADLINE",
    "activeDeadlineSeconds",
    "schedules",
]


@pytest.mark.parametrize("word", sorted({str(word) for word in WORDS}))
def test_the_page_explains_every_word(word: str) -> None:
    """Annotations, roles, kinds, fields, clocks."""
    assert f"`{word}`" in PAGE


@pytest.mark.parametrize(
    "bound",
    [
        f"{walks.MOST_CALLS:,} calls",
        f"or {walks.DEEPEST} within another",
        f"above {expansions.WIDEST:,}",
        f"at most {nodes.MOST_BYTES // 2**20} MiB, and {nodes.MOST_VALUES:,} values",
        f"{walks.LONGEST_PATH:,} characters",
        f"{parameters.MOST_EFFORT:,} replaced tags",
        f"{templates.MOST_MERGED:,} copied entries",
        f"{tasks.LONGEST_IMAGE:,} characters",
    ],
)
def test_the_page_tells_the_bounds(bound: str) -> None:
    """As they are in the code."""
    assert bound in PAGE
