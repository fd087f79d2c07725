import shutil
from pathlib import Path

import pytest

from lab import errors, homes
from lab.controlplane import binaries, components, states, tools
from tests.unit.controlplane import fake_tools as a
from tests.unit.controlplane import lab_states

KUBERNETES = tools.KUBERNETES_VERSIONS[0]
ASKED = states.Asked()


def test_prebuilt_programs_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Go is needed then."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path)))
    monkeypatch.setenv("PATH", "")

    found = binaries.find(ASKED)

    assert str(tmp_path / "kube-apiserver") == found.kube_apiserver
    assert str(tmp_path / "manifests") == found.argo_manifests


def test_all_that_is_missing_is_named_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one after the other."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path)))
    (tmp_path / "etcd").unlink()
    (tmp_path / "kube-scheduler").unlink()

    with pytest.raises(errors.SetupError, match=r"lacks etcd, kube-scheduler: put them there"):
        binaries.find(ASKED)


def test_programs_that_may_not_be_executed_come_with_the_command_that_mends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are there; to put them there again would not help."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path)))
    (tmp_path / "etcd").chmod(0o644)

    with pytest.raises(errors.SetupError) as caught:
        binaries.find(ASKED)

    assert f"etcd may not be executed: `chmod +x {tmp_path}/etcd`" in str(caught.value)


@pytest.mark.parametrize(("name", "said"), [("none", "does not exist"), ("file", "is no folder")])
def test_a_folder_of_programs_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """Rather than all that it lacks; the remedy is another path."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(tmp_path / name))

    with pytest.raises(errors.SetupError, match=rf"{said}: name the folder of the programs, or"):
        binaries.find(ASKED)


@pytest.fixture
def programs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder as envtest leaves it, without Argo's manifests, beside an empty cache."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path / "programs")))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shutil.rmtree(tmp_path / "programs" / "manifests")
    argo = tmp_path / "programs" / "workflow-controller"
    argo.write_text(f"#!/bin/sh\necho workflow-controller: {tools.ARGO_VERSION}+unknown\n")
    return tmp_path / "programs"


def test_argos_crds_are_part_of_what_is_needed(
    programs_alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs alone do not make a cluster that knows workflows; both ways out are named."""
    monkeypatch.setenv("PATH", "")

    with pytest.raises(errors.SetupError) as caught:
        binaries.find(ASKED)

    said = str(caught.value)
    assert f"{programs_alone} lacks manifests/crds/minimal (Argo's CRDs)" in said
    assert f"from {tools.ARGO_MODULE}@{tools.ARGO_VERSION}" in said
    assert "no `go` on PATH" in said


def test_argos_manifests_that_the_cache_holds_are_taken(
    programs_alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever Go made them; none is needed now."""
    monkeypatch.setenv("PATH", "")
    kept = tmp_path / "cache" / "tiphys" / "bin" / f"argo-{tools.ARGO_VERSION}-0123" / "manifests"
    kept.mkdir(parents=True)

    found = binaries.find(ASKED)

    assert str(kept) == found.argo_manifests
    assert str(programs_alone / "workflow-controller") == found.workflow_controller


def test_argos_manifests_are_taken_out_of_its_module(
    programs_alone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Into the cache, where the next lab finds them."""
    module = tmp_path / "module"
    for name in ("manifests/base/crds/minimal/argo.yaml", "examples/hello-world.yaml"):
        path = module / name
        path.parent.mkdir(parents=True)
        path.touch()
    controller = module / "manifests" / "base" / "workflow-controller"
    controller.mkdir()
    for part in ("sa", "priorityclass"):
        (controller / f"workflow-controller-{part}.yaml").touch()
    a.install_go(tmp_path, monkeypatch, version="go1.99.0")
    monkeypatch.setenv("GO_MODULE", str(module))

    found = binaries.find(ASKED)

    key = tools.argo().key("go1.99.0")
    assert tmp_path / "cache" / "tiphys" / "bin" / key / "manifests" == Path(found.argo_manifests)
    assert Path(found.argo_manifests, "crds", "minimal", "argo.yaml").exists()


def test_manifests_of_another_version_than_the_controllers_are_not_taken(
    programs_alone: Path,
) -> None:
    """It would watch kinds that the cluster has not, and nobody would see why nothing runs."""
    argo = programs_alone / "workflow-controller"
    argo.write_text("#!/bin/sh\necho workflow-controller: v3.6.2\n")

    with pytest.raises(errors.SetupError, match=r"it is v3\.6\.2, but .* of v4\.0\.5"):
        binaries.find(ASKED)


def test_what_is_left_out_need_not_be_there(programs_alone: Path) -> None:
    """What envtest brings is an etcd and an API server."""
    without = ("kube-controller-manager", "kube-scheduler", "workflow-controller")
    for name in without:
        (programs_alone / name).unlink()

    found = binaries.find(states.Asked(without=without))

    assert str(programs_alone / "etcd") == found.etcd
    assert ("", "") == (found.workflow_controller, found.argo_manifests)


def test_a_command_line_that_lies_there_is_not_built(
    programs_alone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is Go needed then; of what does not lie there it says so."""
    monkeypatch.setenv("PATH", "")
    helm = programs_alone / "helm"
    helm.touch(mode=0o755)

    assert helm == binaries.command_line(tools.helm(), "helm")
    with pytest.raises(errors.SetupError, match="no `go` on PATH"):
        binaries.command_line(tools.kubernetes(KUBERNETES), "kubectl")


def test_prebuilt_programs_are_listed_with_the_version_that_they_say(
    programs_alone: Path, tmp_path: Path
) -> None:
    """`status` must not call another etcd the one that the lab would have built."""
    (programs_alone / "etcd").write_text("#!/bin/sh\necho etcd Version: 3.5.21\necho Go: 1.26.8\n")
    (programs_alone / "manifests" / "crds" / "minimal").mkdir(parents=True)
    found = binaries.find(ASKED)
    state = lab_states.a_state(homes.Home(name="a", root=tmp_path), binaries=found)

    assert "v3.5.21" == components.version(components.ETCD, state)
    assert KUBERNETES == components.version(components.SCHEDULER, state)
    assert tools.ARGO_VERSION == components.version(components.ARGO, state)
    assert "lab" == components.version(components.KUBELET, state)


def test_a_prebuilt_kubernetes_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results would carry the wrong version."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path, says="Kubernetes v1.30.0")))

    with pytest.raises(errors.SetupError, match=r"`Kubernetes v1.30.0`, but .* was asked for"):
        binaries.find(ASKED)


@pytest.mark.parametrize("content", ["#!/bin/sh\necho no libc >&2; exit 1\n", "\x7fELF"])
def test_a_prebuilt_program_that_does_not_start_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    """Before anything else is started."""
    monkeypatch.setenv("TIPHYS_LAB_BIN", str(a.prebuilt(tmp_path)))
    (tmp_path / "etcd").write_text(content)

    with pytest.raises(errors.SetupError, match=r"etcd does not start \(.*\); replace it"):
        binaries.find(ASKED)


def test_without_prebuilt_programs_go_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its absence is told before anything is written."""
    monkeypatch.delenv("TIPHYS_LAB_BIN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(errors.SetupError, match="no `go` on PATH"):
        binaries.find(ASKED)

    assert [] == list(tmp_path.iterdir())


def test_what_was_built_is_found_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each program in the folder of its tool and key."""
    monkeypatch.delenv("TIPHYS_LAB_BIN", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    log = a.install_go(tmp_path, monkeypatch, version="go1.99.0")
    for tool in tools.needed(KUBERNETES):
        folder = tmp_path / "cache" / "tiphys" / "bin" / tool.key("go1.99.0")
        (folder / "manifests").mkdir(parents=True)
        for program in tool.programs:
            (folder / program.name).touch(mode=0o755)

    found = binaries.find(ASKED)

    assert "build" not in log.read_text()
    assert Path(found.etcd).parent.name == tools.etcd().key("go1.99.0")
    assert Path(found.workflow_controller).parent == Path(found.argo_manifests).parent
