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


def test_operator_says_its_sentence_in_its_readme() -> None:
    """The one code folder without `__init__.py` opens its README with the sentence."""
    heading, _, sentence, *_ = (trees.ROOT / "operator" / "README.md").read_text().splitlines()
    assert heading == "# operator"
    assert sentence.endswith(".")


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


def _is_one_sentence(path: Path) -> bool:
    """Tell whether a module is one docstring that is one sentence."""
    body = ast.parse(path.read_text()).body
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    return (
        len(body) == 1
        and docstring.endswith(".")
        and "\n\n" not in docstring
        and not re.search(r"[.!?]\s+[A-Z]", docstring)
    )
