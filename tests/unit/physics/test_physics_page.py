"""The page of the physics can fail: each constant of the code stands in it, value and source."""

import importlib
import pkgutil
import re
from pathlib import Path

import msgspec
import pytest

from lab import catalogs
from lab.kubelet import lifecycles, machines, meters, settings
from lab.kubelet.exporters import node_exporters
from tiphys.models import physics
from tiphys.models.physics import capacities, constants, states

PAGE = Path(__file__).resolve().parents[3] / "docs" / "physics.md"
NUMBERED = {*vars(states), *vars(capacities)}
"""Capitals there are numbers of rows, not constants; others import some of them."""


def numbers() -> dict[str, tuple[str, float]]:
    """Every constant number of the package: name to (module, value)."""
    found = {}
    for info in pkgutil.iter_modules(physics.__path__):
        module = importlib.import_module(f"{physics.__name__}.{info.name}")
        for name, value in vars(module).items():
            if re.fullmatch(r"[A-Z][A-Z_]*", name) and isinstance(value, int | float):
                if name in NUMBERED:
                    continue
                found[f"{info.name}.{name}"] = (info.name, value)
    return found


PHYSICAL = {
    key.split(".")[1]: value
    for key, (module, value) in numbers().items()
    if module in ("constants", "contentions") or key.endswith("EVICTION_SHARE_MOST")
}
ROW = re.compile(r"^\| `([A-Z_]+)` \| ([^|]+) \| [^|]+ \| (source:|assumption)[^|]*\|$", re.M)


def test_every_constant_stands_in_the_table_with_its_value_and_source() -> None:
    """And nothing stands there that the code does not have."""
    told = {name: float(value) for name, value, _ in ROW.findall(PAGE.read_text())}
    assert {name: float(value) for name, value in PHYSICAL.items()} == told


@pytest.mark.parametrize("name", [name for name in vars(constants) if name.isupper()])
def test_source_in_code_and_page_agree(name: str) -> None:
    """Where the page says assumption, so does the code."""
    code = Path(constants.__file__).read_text()
    doc = re.search(rf'^{name} = .*?"""(.*?)"""', code, re.S | re.M)
    kinds = {found: kind for found, _, kind in ROW.findall(PAGE.read_text())}
    assert doc is not None
    assert ("assumption" in doc[1].lower()) == (kinds[name] == "assumption")


ADDED = re.compile(
    r"^\| `(\w+)\.([\w.]+)` \| ([^|]+) \| [^|]+ \| (?:source: |assumption)[^|]*\|$", re.M
)
MODULES = {
    "catalogs": catalogs,
    "lifecycles": lifecycles,
    "machines": machines,
    "meters": meters,
    "node_exporters": node_exporters,
    "settings": settings,
}


def test_what_the_kubelet_adds_stands_there_as_the_code_has_it() -> None:
    """Each value of the second table is that of the code."""
    rows = ADDED.findall(PAGE.read_text())
    assert MODULES.keys() == {module for module, _, _ in rows}
    for module, name, told in rows:
        assert told == shown(MODULES[module], name), f"{module}.{name}"


def shown(module: object, name: str) -> str:
    """Return a constant, or the default of a field `Class.field`, as the page writes it."""
    kind, _, field = name.rpartition(".")
    if kind:
        defaults = {one.name: one.default for one in msgspec.structs.fields(getattr(module, kind))}
        value = defaults[field]
        return str(int(value) if value > 1e6 else value)
    value = getattr(module, name)
    if isinstance(value, dict):
        return ", ".join(f"{key} {one}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def test_the_numbers_of_the_solver_are_told_too() -> None:
    """With module and value; `x` in the page is what `str` prints."""
    text = " ".join(PAGE.read_text().split())
    for key, (_, value) in numbers().items():
        if key.split(".")[1] not in PHYSICAL:
            assert f"`{key}` {value}" in text


def test_every_constant_that_the_text_names_exists() -> None:
    """A renamed constant breaks the page."""
    named = set(re.findall(r"`([A-Z][A-Z_]+)`", PAGE.read_text()))
    known = {key.split(".")[1] for key in numbers()}
    assert named <= known
