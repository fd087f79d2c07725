import pytest

from lab.kubelet.behaviours import expressions

SCOPE = {
    "response": {"statusCode": 201, "body": "a google page", "headers": {"Server": ["gws"]}},
    "data": ["a/main.log", "b/other.log", "c/main.log"],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("response.statusCode == 201", True),
        ('response.body contains "google"', True),
        ('not (response.body contains "bing")', True),
        ('response.body not contains "bing"', True),
        ('response.headers["Server"][0] == "gws"', True),
        ("response.statusCode >= 200 and response.statusCode < 300", True),
        ("response.statusCode in [200, 404] || false", False),
        ('filter(data, {# endsWith "main.log"})', ["a/main.log", "c/main.log"]),
        ("map(data, {# + '.gz'})[1]", "b/other.log.gz"),
        ("len(filter(data, {not(# contains 'b/')}))", 2),
        ("any(data, {# startsWith 'b'}) ? 'yes' : 'no'", "yes"),
        ("1 + 2 * 3 - 4 / 2", 5),
        ("asInt('4') % 3", 1),
        ("response.nothing == nil", True),
        ("response.body matches '^a .* page$'", True),
    ],
)
def test_expressions_are_evaluated_as_by_expr_lang(text: str, expected: object) -> None:
    """As far as http and data templates need it."""
    assert expressions.evaluate(text, SCOPE) == expected


@pytest.mark.parametrize(
    "text", ["nobody", "1 +", "f(1)", "response.body.x", "'a' < 1", "1 ? 2", "a b", "§"]
)
def test_what_cannot_be_evaluated_says_so(text: str) -> None:
    """An error of one kind, never a wrong value."""
    with pytest.raises(expressions.ExpressionError):
        expressions.evaluate(text, SCOPE)
