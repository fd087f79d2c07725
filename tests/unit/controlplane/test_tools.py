from pathlib import Path

import pytest

from lab import errors
from lab.controlplane import tools
from tests.unit.controlplane import fake_tools as a

GO = "go1.26.8"


@pytest.mark.parametrize(
    "tool",
    [tools.etcd(), tools.argo(), tools.helm(), *map(tools.kubernetes, tools.KUBERNETES_VERSIONS)],
)
def test_each_tool_has_a_module_with_sums(tool: tools.Tool) -> None:
    """What is built is fixed by bytes in the repository."""
    assert (tool.module / "go.sum").stat().st_size > 1000
    assert tool.version.removeprefix("v").split(".")[-1] in (tool.module / "go.mod").read_text()


@pytest.mark.parametrize("version", tools.KUBERNETES_VERSIONS)
def test_kubernetes_is_told_its_version(version: str) -> None:
    """Else the server calls itself 0.0.0."""
    flags = tools.kubernetes(version).linker_flags

    assert f"-X k8s.io/component-base/version.gitVersion={version}" in flags
    assert f"-X k8s.io/component-base/version.gitMinor={version.split('.')[1]}" in flags


@pytest.mark.parametrize("version", tools.KUBERNETES_VERSIONS)
def test_the_module_of_kubernetes_asks_for_that_version(version: str) -> None:
    """The folder's name and its content agree."""
    text = (tools.kubernetes(version).module / "go.mod").read_text()

    assert f"k8s.io/kubernetes {version}" in text
    assert f"replace k8s.io/api => k8s.io/api v0{version.removeprefix('v1')}" in text


def test_an_unknown_kubernetes_is_answered_with_the_known_ones() -> None:
    """A typing error is corrected at once."""
    with pytest.raises(errors.UsageError, match=r"choose one of v1\.36\.3, v1\.34\.4"):
        tools.kubernetes("v1.2.3")


def test_the_cache_key_changes_with_all_that_goes_into_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums, requirements, linker flags, Go; and with nothing else."""
    monkeypatch.setattr(tools, "FOLDER", tmp_path)
    key = a.a_tool(tmp_path).key(GO)
    other_go = a.a_tool(tmp_path).key("go1.27.0")
    other_requirements = a.a_tool(tmp_path, go="1.26.1").key(GO)
    other_flags = a.a_tool(tmp_path, stamps=(("x.version", "v1"),)).key(GO)
    tool = a.a_tool(tmp_path)
    (tool.module / "go.sum").write_text("other")
    other_sums = tool.key(GO)

    assert 5 == len({key, other_go, other_requirements, other_flags, other_sums})
    assert key == a.a_tool(tmp_path).key(GO)
    assert key.startswith("thing-v1-")
