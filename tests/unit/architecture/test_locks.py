"""requirements.lock and the ranges in setup.cfg agree, and the lock is complete."""

import configparser
import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.unit.architecture import trees

LOCK = trees.ROOT / "requirements.lock"
# Nothing in the repository uses it yet; the image of that process locks its own.
UNLOCKED_EXTRAS = {"train"}


def locked() -> dict[str, Version]:
    """Return the locked version of each library."""
    pins = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", LOCK.read_text(), re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in pins}


def wanted() -> list[Requirement]:
    """Return every range of setup.cfg that the lock has to serve, and the build system's."""
    settings = configparser.ConfigParser()
    settings.read(trees.ROOT / "setup.cfg")
    extras = settings["options.extras_require"]
    texts = settings["options"]["install_requires"].splitlines()
    for extra in set(extras) - UNLOCKED_EXTRAS:
        texts += extras[extra].splitlines()
    project = tomllib.loads((trees.ROOT / "pyproject.toml").read_text())
    texts += project["build-system"]["requires"]
    return [Requirement(text) for text in texts if text and not text.startswith("#")]


def unserved(requirements: list[Requirement]) -> list[str]:
    """Return those of `requirements` that apply here and that the lock does not satisfy."""
    pins = locked()
    missing = []
    for requirement in requirements:
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            pin = pins.get(canonicalize_name(requirement.name))
            if pin is None or not requirement.specifier.contains(pin, prereleases=True):
                missing.append(str(requirement))
    return missing


def test_the_lock_satisfies_every_range() -> None:
    """What setup.cfg asks for is locked to a version in its range."""
    assert unserved(wanted()) == [], "run `make lock` and commit requirements.lock"


def test_the_lock_holds_what_its_libraries_need() -> None:
    """The closure is complete, since it is installed without looking for dependencies."""
    missing = {}
    for name, version in locked().items():
        distribution = metadata.distribution(name)
        if Version(distribution.version) == version:
            needs = [Requirement(text) for text in distribution.requires or []]
            if absent := unserved(needs):
                missing[name] = absent
    assert missing == {}, "run `make lock` and commit requirements.lock"


def test_every_locked_library_is_pinned_by_hash() -> None:
    """Each pin is followed by the hashes that pip checks."""
    blocks = re.split(r"^(?=[A-Za-z0-9])", LOCK.read_text(), flags=re.MULTILINE)[1:]
    assert len(locked()) == len(blocks)
    assert [] == [block for block in blocks if "--hash=sha256:" not in block]


def test_the_lock_names_no_index() -> None:
    """Where packages come from is each person's own setting."""
    options = [line for line in LOCK.read_text().splitlines() if line.startswith("-")]
    assert options == []
    assert "://" not in LOCK.read_text()
