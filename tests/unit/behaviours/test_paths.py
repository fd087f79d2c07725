import pytest

from lab.kubelet.behaviours import paths

POD = {
    "metadata": {"name": "p", "labels": {"a.b/c": "x"}},
    "items": [{"n": 1}, {"n": "two"}],
    "flag": True,
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{.metadata.name}", "p"),
        (".metadata.name", "p"),
        ("{.items[*].n}", "1 two"),
        ("{.items[1].n}", "two"),
        ("{.items[-1].n}", "two"),
        ("{.metadata.labels['a.b/c']}", "x"),
        ("{$.flag}", "true"),
        ("{.nowhere.at.all}", ""),
        ('name={.metadata.name}{"\\n"}', "name=p\n"),
    ],
)
def test_jsonpath_reads_what_kubectl_reads(template: str, expected: str) -> None:
    """Several values are joined by spaces, missing ones are empty."""
    assert paths.jsonpath(POD, template) == expected


def test_a_jsonpath_beyond_ours_is_refused() -> None:
    """Rather than answered wrongly."""
    with pytest.raises(paths.PathError, match="range"):
        paths.jsonpath(POD, "{range .items[*]}")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (".metadata.name", "p"),
        (".items[0]", '{"n":1}'),
        (".nowhere", "null"),
        (".flag", "true"),
    ],
)
def test_plain_jq_filters_need_no_jq(program: str, expected: str) -> None:
    """Strings come raw, everything else as compact JSON."""
    assert paths.jq(POD, program) == expected
