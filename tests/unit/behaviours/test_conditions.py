import pytest

from lab.kubelet.behaviours import conditions

JOB = {"status": {"succeeded": 3, "phase": "Running", "conditions": [{"type": "Ready"}]}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("status.succeeded > 2", True),
        ("status.succeeded > 3", False),
        ("status.succeeded < 4", True),
        ("status.failed > 0", False),
        ("status.phase == Running", True),
        ("status.phase = Running", True),
        ("status.phase != Running", False),
        ("status.nowhere != Running", True),
        ("status.phase in (Failed, Error)", False),
        ("status.phase notin (Failed, Error)", True),
        ("status.conditions.0.type == Ready", True),
        ("status.conditions.# == 1", True),
        ("status.phase", True),
        ("!status.phase", False),
        ("status.succeeded > 2, status.phase == Running", True),
        ("status.succeeded > 2,status.phase == Failed", False),
    ],
)
def test_a_condition_is_a_label_selector_over_the_resource(text: str, expected: bool) -> None:
    """Parts are joined by AND; values are compared as text, or as whole numbers by > and <."""
    requirements = conditions.parse(text)
    assert expected == all(requirement.matches(JOB) for requirement in requirements)


def test_a_condition_that_is_none_is_refused() -> None:
    """With the part that cannot be read."""
    with pytest.raises(conditions.ConditionError, match="a b c"):
        conditions.parse("status.phase == x, a b c")


def test_a_requirement_prints_as_argo_shows_it() -> None:
    """People read it in the node's message."""
    shown = [str(item) for item in conditions.parse("a.b == c, d > 1, e in (x, y), !f")]
    assert shown == ["a.b=c", "d>1", "e in (x,y)", "!f"]
