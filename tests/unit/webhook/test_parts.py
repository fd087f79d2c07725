"""The small parts alone: breaker, replay cache, settings, log lines."""

import io
import json
import logging
from pathlib import Path

import pytest

from tiphys.models.domain import errors
from tiphys.webhook import breakers, logs, processes, replays, settings


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """Return it."""
        return self.now


def test_a_breaker_opens_tries_and_closes() -> None:
    """One trial a pause, each pause twice as long up to the longest, closed by a success."""
    clock = Clock()
    chosen = settings.Breaker(failures=2, open_s=1.0, longest_open_s=4.0)
    breaker = breakers.Breaker(chosen, clock=clock)
    breaker.failed()
    assert breaker.allows()
    breaker.failed()
    assert (True, False) == (breaker.is_open, breaker.allows())
    for pause in (1.0, 2.0, 4.0, 4.0):
        clock.now += pause - 0.01
        assert not breaker.allows()
        clock.now += 0.02
        assert (True, False) == (breaker.allows(), breaker.allows())
        breaker.failed()
    clock.now += 5.0
    assert breaker.allows()
    breaker.succeeded()
    assert (False, True) == (breaker.is_open, breaker.allows())
    breaker.failed()
    assert breaker.allows()


def test_failures_of_what_was_asked_before_are_no_trials() -> None:
    """A hundred questions that one short hang ends together keep nobody waiting for longer."""
    clock = Clock()
    breaker = breakers.Breaker(settings.Breaker(failures=5, open_s=1.0), clock=clock)
    for _ in range(100):
        breaker.failed()
    clock.now = 1.01
    assert breaker.allows()
    breaker.succeeded()
    assert not breaker.is_open


def test_a_trial_that_says_nothing_is_followed_by_another() -> None:
    """A call that was cancelled must not keep the breaker open for ever."""
    clock = Clock()
    breaker = breakers.Breaker(settings.Breaker(failures=1, open_s=1.0), clock=clock)
    breaker.failed()
    clock.now = 1.5
    assert breaker.allows()
    clock.now = 3.0
    assert breaker.allows()


def test_replays_are_kept_while_they_are_fresh_and_within_bounds() -> None:
    """The oldest go first."""
    cache = replays.Cache(most=3)
    for number in range(5):
        cache.remember(f"d-{number}", until=10.0 + number, now=1.0)
    assert [False, False, True, True, True] == [cache.holds(f"d-{n}") for n in range(5)]
    cache.remember("d-9", until=99.0, now=13.5)
    assert [False, True, True] == [cache.holds(f"d-{n}") for n in (3, 4, 9)]


def test_settings_read_back() -> None:
    """Nested, camelCase, numbers in place of numbers."""
    found = settings.parse(
        "listen: {port: 9443}\n"
        "clients: {subjects: ['CN=a']}\n"
        "decisions: {deadlineS: 1, serverName: x}\n"
        "files: {certificate: a, key: b, authority: c, clientAuthority: d, ring: e, "
        "operatorRing: f}\n",
        where="here",
    )
    assert (9443, ("CN=a",)) == (found.listen.port, found.clients.subjects)
    assert (1.0, "x") == (found.decisions.deadline_s, found.decisions.server_name)
    assert found.files is not None
    assert settings.Settings() == settings.parse("", where="here")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listn: {}", "here: unknown key 'listn'; known: listen"),
        ("listen: {prt: 1}", "here: listen: unknown key 'prt'"),
        ("listen: 5", "here: listen: expected keys and values"),
        ("listen: {port: x}", "here: listen: port: expected a whole number, got 'x'"),
        ("listen: {port: 1.5}", "expected a whole number from 0 to 65535, got 1.5"),
        ("listen: {port: 65536}", "expected a whole number from 0 to 65535"),
        ("decisions: {deadlineS: .nan}", "here: decisions: deadlineS: expected a number from"),
        ("decisions: {deadlineS: .inf}", "got inf"),
        ("decisions: {deadlineS: 0}", "from 0.005 to 2.0, got 0"),
        ("breaker: {failures: 0}", "here: breaker: failures: expected a whole number from 1"),
        ("limits: {bodyBytes: 0}", "expected a whole number from 1024 to 67108864, got 0"),
        ("limits: {remembered: 0}", "here: limits: remembered: expected a whole number from 1"),
        ("listen: {port: true}", "expected a whole number"),
        ("drainS: -1", "here: drainS: expected a number from 0.0 to 600.0, got -1"),
        ("logLevel: 5", "expected text"),
        ("clients: {subjects: x}", "expected a list of texts"),
        ("clients: {subjects: []}", "subjects is empty, so nobody is answered"),
        ("files: {key: a}", "here: files: needs certificate, key"),
        ("[", "here: no YAML"),
        ("- a", "here: expected keys and values"),
    ],
)
def test_settings_that_cannot_be_read_are_named(text: str, said: str) -> None:
    """Where, what, and what was expected."""
    with pytest.raises(errors.InputError) as caught:
        settings.parse(text, where="here")
    assert said in str(caught.value)


def test_nobody_has_to_be_named_where_no_certificate_is_shown() -> None:
    """A secret path says who calls."""
    chosen = settings.parse("clients: {certificates: none, subjects: []}", where="here")
    assert () == chosen.clients.subjects


def test_every_field_of_the_settings_is_in_the_page() -> None:
    """docs/webhook.md shows a whole file, and it is the default one."""
    page = (Path(__file__).parents[3] / "docs" / "webhook.md").read_text()
    block = page.split("```yaml", 1)[1].split("```", 1)[0]
    found = settings.parse(block, where="docs/webhook.md")
    assert found == settings.Settings()
    for name in ("listen", "clients", "decisions", "breaker", "limits", "cluster"):
        for field in getattr(found, name).__slots__:
            assert settings._camel(field) + ":" in block


@pytest.mark.parametrize(
    ("text", "said"),
    [("nonsense: 1", "unknown key"), ("{}", "TIPHYS_OPERATOR_SERVICE_HOST is not set")],
)
def test_the_command_refuses_in_one_sentence(
    tmp_path: Path,
    text: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit code 2, nothing but the sentence."""
    monkeypatch.delenv("TIPHYS_OPERATOR_SERVICE_HOST", raising=False)
    path = tmp_path / "webhook.yaml"
    path.write_text(text)
    assert 2 == processes.main(["--settings", str(path)])
    assert 2 == processes.main(["--settings", str(tmp_path / "none")])
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[0]
    assert "cannot be read" in lines[1]


def test_log_lines_are_objects_with_named_values() -> None:
    """A constant message, the values beside it, a trace where there is one."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(logs.JsonFormatter())
    logger = logging.Logger("tiphys.test")
    logger.addHandler(handler)
    logger.info("pod decided", extra={"values": {"decision": "d-1"}})
    try:
        raise ValueError("x")
    except ValueError:
        logger.exception("failed")
    first, second = [json.loads(line) for line in out.getvalue().splitlines()]
    assert ("pod decided", "d-1", "info") == (
        first["message"],
        first["decision"],
        first["level"],
    )
    assert "ValueError: x" in second["trace"]
