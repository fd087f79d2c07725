"""Documents that can fail: links lead somewhere, decisions are dated, libraries explained."""

import configparser
import re
from pathlib import Path

import click
import pytest
import yaml
from packaging.requirements import Requirement

from lab import catalogs
from lab.cli import groups
from tests.unit.architecture import trees
from tiphys.argo import workflows as argo_workflows

DECISIONS = sorted((trees.ROOT / "docs" / "adr").glob("[0-9]*.md"))
LAB_CALL = re.compile(r"(?:python -m lab|`lab) ([a-z-]+)([^`#\n|;]*)")
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
README = trees.ROOT / "README.md"
ARCHITECTURE = trees.ROOT / "docs" / "architecture.md"
COMMAND = re.compile(r"`tiphys (\w+)`")
DATED = re.compile(r"\d{4}-\d{2}-\d{2}, (accepted|superseded by \d+)")


def test_every_link_leads_to_a_file() -> None:
    """Relative links in tracked Markdown point at files that exist."""
    broken = [
        f"{path.relative_to(trees.ROOT)}: {target}"
        for path in trees.tracked(".md")
        for target in LINK.findall(path.read_text())
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_every_page_is_reached_from_the_first() -> None:
    """docs/index.md links each page beside it."""
    folder = trees.ROOT / "docs"
    linked = set(LINK.findall((folder / "index.md").read_text()))
    assert set() == {path.name for path in folder.glob("*.md")} - linked - {"index.md"}


def test_every_page_has_a_place_in_the_navigation() -> None:
    """.ci/mkdocs.yml groups the pages of docs/ in the order and with the words of docs/index.md."""
    folder = trees.ROOT / "docs"
    first, *parts, last = yaml.safe_load((trees.ROOT / ".ci" / "mkdocs.yml").read_text())["nav"]
    assert ({"Tiphys": "index.md"}, {"Decisions": "adr/README.md"}) == (first, last)
    told: dict[str, list[dict[str, str]]] = {}
    for line in (folder / "index.md").read_text().splitlines():
        if re.fullmatch(r"[A-Z][a-z ]+:", line):
            told[line[:-1]] = []
        elif item := re.match(r"- \[(.+?)\]\((.+?)\)", line):
            told[list(told)[-1]].append({item[1]: item[2]})
    assert [{name: pages} for name, pages in told.items()] == parts


def test_the_index_of_decisions_is_complete() -> None:
    """docs/adr/README.md has a row for each decision: number, heading with its link, state."""
    rows = re.findall(r"^\| \d.*$", (DECISIONS[0].parent / "README.md").read_text(), re.MULTILINE)
    expected = []
    for path in DECISIONS:
        heading, _, dated, *_ = path.read_text().splitlines()
        number, _, title = heading.removeprefix("# ").partition(". ")
        expected.append(f"| {number} | [{title}]({path.name}) | {dated.partition(', ')[2]} |")
    assert expected == rows


def test_the_example_of_the_readme_is_a_workflow_whose_pods_have_to_wait() -> None:
    """docs/examples/first.yaml is read whole, and wants more cores than the lab of the recipe."""
    path = trees.ROOT / "docs" / "examples" / "first.yaml"
    assert f"create -n first -f {path.relative_to(trees.ROOT)}" in README.read_text()
    spec = yaml.safe_load(path.read_text())["spec"]
    metadata = {"name": "first-1", "namespace": "first", "uid": "1"}
    workflow = argo_workflows.read({"metadata": metadata, "spec": spec}, templates={})
    assert () == workflow.unknowns
    assert 41 == len(workflow.tasks)
    parts, work = spec["templates"][0]["steps"][0][0], spec["templates"][1]["container"]
    wanted = int(parts["withSequence"]["count"]) * int(work["resources"]["requests"]["cpu"])
    assert wanted > sum(group.count * group.cores for group in catalogs.load("mixed").groups)


def test_pages_name_only_commands_of_tiphys_that_exist() -> None:
    """What a page calls as `kubectl tiphys NAME` is a command."""
    settings = configparser.ConfigParser()
    settings.read(trees.ROOT / "setup.cfg")
    commands = set(
        re.findall(r"^(\w+) =", settings["options.entry_points"]["tiphys.commands"], re.M)
    )
    called = {
        name
        for path in trees.tracked(".md")
        for name in re.findall(r"kubectl tiphys ([a-z]+)", path.read_text())
    }
    assert {"status", "explain"} <= called
    assert set() == called - commands


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_each_decision_is_numbered_dated_and_short(path: Path) -> None:
    """A decision's heading repeats its number, its second line its date; it fits on one page."""
    heading, blank, dated, *rest = path.read_text().splitlines()
    assert heading.startswith(f"# {int(path.name[:4])}. ")
    assert blank == ""
    assert DATED.fullmatch(dated)
    assert len(rest) < 60


def test_no_two_decisions_share_a_number() -> None:
    """Numbers are given once."""
    numbers = [path.name[:4] for path in DECISIONS]
    assert sorted(set(numbers)) == numbers


def test_every_dependency_is_explained() -> None:
    """Each library in setup.cfg is named in a decision, unless nothing uses it yet."""
    settings = configparser.ConfigParser()
    settings.read(trees.ROOT / "setup.cfg")
    extras = settings["options.extras_require"]
    texts = settings["options"]["install_requires"].splitlines()
    for extra in set(extras) - {"train"}:
        texts += extras[extra].splitlines()
    wanted = {Requirement(text).name for text in texts if text and not text.startswith("#")}
    told = "\n".join(path.read_text() for path in DECISIONS).lower()
    missing = {name for name in wanted if not re.search(rf"\b{re.escape(name.lower())}\b", told)}
    assert missing == set(), "add a page to docs/adr"


def test_every_variable_of_the_environment_is_documented() -> None:
    """Each `TIPHYS_…` that code or scripts mention stands in docs/settings.md, and no other."""
    variable = re.compile(r"TIPHYS_[A-Z][A-Z_]*[A-Z]")
    used = {
        name
        for path in trees.tracked(".py", "Makefile", "setup", "run")
        for name in variable.findall(path.read_text())
    }
    told = set(variable.findall((trees.ROOT / "docs" / "settings.md").read_text()))
    assert used == told


def test_the_page_on_architecture_tells_the_import_rules() -> None:
    """Its table has a row for each contract that lists what is allowed, and lists the same."""
    settings = configparser.ConfigParser()
    settings.read(trees.ROOT / "setup.cfg")
    allowed = {
        section["source_modules"].strip(): set(section.get("allowed_modules", "").split())
        for name, section in settings.items()
        if name.startswith("importlinter:contract:") and section["type"] == "allowed"
    }
    row = re.compile(r"^\| `[a-z/]+` \| `(tiphys[a-z.]*)` \| (.*) \|$", re.MULTILINE)
    ours = {path.name for path in trees.ROOT.iterdir()}
    told = {
        module: {
            f"tiphys.{name}" if name.partition(".")[0] in ours else name
            for name in re.findall(r"`([^`]+)`", names)
        }
        for module, names in row.findall(ARCHITECTURE.read_text())
    }
    assert allowed == told


def test_the_page_on_architecture_knows_what_exists() -> None:
    """What it calls planned is no command yet, and every command stands there."""
    settings = configparser.ConfigParser()
    settings.read(trees.ROOT / "setup.cfg")
    commands = re.findall(r"^(\w+) =", settings["options.entry_points"]["tiphys.commands"], re.M)
    first = [line.split("|")[1] for line in ARCHITECTURE.read_text().splitlines() if "|" in line]
    cells = [cell for cell in first if "`tiphys " in cell]
    here = [name for cell in cells if "planned" not in cell for name in COMMAND.findall(cell)]
    planned = [name for cell in cells if "planned" in cell for name in COMMAND.findall(cell)]
    assert sorted(commands) == sorted(here)
    assert planned
    assert set() == set(commands) & set(planned)


def test_pages_name_only_commands_and_options_of_the_lab_that_exist() -> None:
    """What a reader copies from a page into a terminal is known there."""
    context = click.Context(groups.main)
    wrong, seen = [], set()
    for path in trees.tracked(".md"):
        for name, rest in LAB_CALL.findall(path.read_text()):
            seen.add(name)
            command = groups.main.get_command(context, name)
            known = {"--help", *(_options(command) if command else ())}
            given = set(re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", rest))
            if command is None or given - known:
                wrong.append(f"{path.relative_to(trees.ROOT)}: lab {name}{rest}")
    assert {"up", "run", "measure", "install"} <= seen
    assert wrong == []


def _options(command: click.Command) -> set[str]:
    """Return the options of a command and of what it groups."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    return {option for each in (command, *below) for item in each.params for option in item.opts}
