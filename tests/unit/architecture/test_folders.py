"""The folders keep the shape that packaging, interpreters and readers rely on."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.architecture import trees

LONGEST_FILE = 400
REASON = re.compile(r"(over 400 lines|longer than (most|other) files)[^.]* (because|so that) ")
# Joined from parts, so that this file does not hold what it looks for.
PRIVATE = {
    "a package registry's host": [
        "pypi" + ".org",
        "pythonhosted" + ".org",
        "proxy" + ".golang.org",
        "sum" + ".golang.org",
        "registry" + ".npmjs.org",
        "deb" + ".debian.org",
    ],
    "a path of one machine": ["/" + "root/", "/" + "opt/wheels", "/" + "work/main"],
}


def test_an_interpreter_started_in_the_root_finds_the_standard_library() -> None:
    """`python -S -c "import collections"` works here, so `operator/` shadows nothing."""
    command = [sys.executable, "-S", "-c", "import collections, operator; operator.itemgetter"]
    done = subprocess.run(command, cwd=trees.ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)


def test_operator_is_no_package_of_its_own() -> None:
    """An `__init__.py` in `operator/` would shadow the standard library's `operator`."""
    assert not (trees.ROOT / "operator" / "__init__.py").exists()


@pytest.mark.parametrize("folder", trees.PORTIONS)
def test_each_portion_is_linked_into_the_namespace(folder: str) -> None:
    """`.pkg/tiphys/FOLDER` is a relative link, so that a clone works wherever it lies."""
    link = trees.ROOT / ".pkg" / "tiphys" / folder
    assert Path("../../" + folder) == link.readlink()


def test_every_package_holds_only_its_sentence() -> None:
    """Each `__init__.py` in the code folders says what may happen there and does nothing."""
    packages = [
        path
        for path in trees.tracked("__init__.py")
        if path.relative_to(trees.ROOT).parts[0] in trees.CODE
    ]
    assert len(packages) >= len(trees.CODE) - 1
    wrong = [str(path.relative_to(trees.ROOT)) for path in packages if not _is_one_sentence(path)]
    assert wrong == [], "write one docstring of one sentence that ends with a full stop, no code"


def test_every_folder_of_code_says_what_may_happen_there() -> None:
    """In one sentence: the docstring of `__init__.py`, or what its README opens with."""
    folders = {path.parent for path in trees.tracked(".py", ".sh", ".js")}
    names = {str(folder.relative_to(trees.ROOT)) for folder in folders}
    below = sorted(name for name in names if name.partition("/")[0] in trees.CODE)
    assert {*trees.CODE, "lab/reports/page"} <= set(below)
    silent = [
        name
        for name in (*below, "charts", "tests")
        if not _is_sentence(_said_of(trees.ROOT / name))
    ]
    assert silent == [], "write README.md: `# FOLDER`, an empty line, one sentence"


def test_the_readme_of_the_tests_has_a_line_for_each_kind() -> None:
    """What a test may do depends on the folder that it is in."""
    folders = {path.relative_to(trees.ROOT / "tests").parts[:-1] for path in _tests()}
    lines = (trees.ROOT / "tests" / "README.md").read_text().splitlines()
    told = {match[1] for line in lines if (match := re.match(r"\| `([a-z]+)` \| \w", line))}
    assert {parts[0] for parts in folders if parts} == told


def test_every_tool_module_pins_what_it_builds() -> None:
    """Each Go module of the lab has its `go.sum` beside its `go.mod`."""
    modules = [path for path in trees.tracked("go.mod") if "tools" in path.parts]
    assert modules
    assert [] == [path for path in modules if not path.with_name("go.sum").is_file()]


def test_long_files_say_why() -> None:
    """A code file over 400 lines gives its reason in the docstring."""
    silent = []
    for path in trees.tracked(".py"):
        name, text = path.relative_to(trees.ROOT), path.read_text()
        if name.parts[0] in trees.CODE and text.count("\n") > LONGEST_FILE:
            docstring = " ".join((ast.get_docstring(ast.parse(text)) or "").lower().split())
            if not REASON.search(docstring):
                silent.append(str(name))
    assert silent == [], 'split them, or write in the docstring: "It is over 400 lines because …"'


@pytest.mark.parametrize(("what", "texts"), PRIVATE.items())
def test_nothing_tracked_names(what: str, texts: list[str]) -> None:
    """Hosts of registries and paths of one machine belong to each person's settings."""
    pattern = re.compile("|".join(re.escape(text) for text in texts).encode())
    found = [
        f"{path.relative_to(trees.ROOT)}: {match.group().decode()}"
        for path in trees.tracked()
        if (match := pattern.search(path.read_bytes()))
    ]
    assert found == [], what


def _tests() -> list[Path]:
    """Return the Python files below `tests`."""
    return [path for path in trees.tracked(".py") if trees.ROOT / "tests" in path.parents]


def _said_of(folder: Path) -> str:
    """Return what a folder says of itself first; empty where it says nothing."""
    package, readme = folder / "__init__.py", folder / "README.md"
    if package.exists():
        return ast.get_docstring(ast.parse(package.read_text())) or ""
    if not readme.exists():
        return ""
    heading, sentence, *_ = [*readme.read_text().split("\n\n"), ""]
    return sentence.strip() if heading == f"# {folder.name}" else ""


def _is_one_sentence(path: Path) -> bool:
    """Tell whether a module is one docstring that is one sentence."""
    module = ast.parse(path.read_text())
    return len(module.body) == 1 and _is_sentence(ast.get_docstring(module) or "")


def _is_sentence(text: str) -> bool:
    """Tell whether a text is one sentence in one paragraph."""
    ended = text.endswith(".") and "\n\n" not in text
    return ended and not re.search(r"[.!?]\s+[A-Z]", text)
