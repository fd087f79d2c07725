"""`verify` and the patches of `explain -o yaml` on paper: no cluster is asked."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fakes import pods as fake_pods
from tests.fakes.deciders import a_ring
from tests.unit.dispatching import builders
from tiphys.argo import patches
from tiphys.models.domain import decisions
from tiphys.models.wire import keys, signatures, stamps
from tiphys.operator.commands import explanations, patchings, releases, statuses, verifications

RING = a_ring()
NOW = RING.keys[0].not_before + 700.0
GATE = dataclasses.replace(
    builders.RELEASE,
    id="d-bbbbbbbbbbbbbbbbbbbb",
    verdict=decisions.Verdict.GATE,
    pod_uid="",
    workflow_uid=fake_pods.WORKFLOW_UID,
    issued_at=NOW,
)


def a_steered_pod(
    placement: decisions.Placement = builders.FAST, ring: keys.Ring = RING
) -> dict[str, Any]:
    """A pod that was gated at creation and released, both signed."""
    pod = fake_pods.a_pod()
    text = stamps.encode(GATE)
    patch = patches.create(
        pod, GATE, stamp=text.decode(), signature=signatures.sign(ring, text, NOW)
    )
    pod = patchings.applied(pod, patch)
    pod["metadata"]["uid"] = "uid-1"
    released = dataclasses.replace(
        builders.RELEASE,
        placement=placement,
        workflow_uid=fake_pods.WORKFLOW_UID,
        issued_at=NOW,
    )
    text = stamps.encode(released)
    patch = patches.release(
        pod, released, stamp=text.decode(), signature=signatures.sign(ring, text, NOW)
    )
    return patchings.applied(pod, patch)


def test_both_decisions_of_a_steered_pod_hold() -> None:
    """Created and released, by the key that is in the ring."""
    findings = verifications.check(a_steered_pod(), RING.public())
    assert [("created", True), ("released", True)] == [(f.which, f.valid) for f in findings]
    assert {RING.keys[0].kid} == {f.key for f in findings}


def test_a_later_sidecar_changes_nothing() -> None:
    """Only the fields that we wrote are looked at."""
    pod = a_steered_pod()
    pod["spec"]["containers"].append({"name": "proxy", "image": "proxy:1"})
    assert all(finding.valid for finding in verifications.check(pod, RING.public()))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda pod: pod["metadata"].update(name="other"), "about pod"),
        (lambda pod: pod["metadata"].update(uid="uid-2"), "earlier pod"),
        (lambda pod: pod["metadata"].update(ownerReferences=[]), "another run"),
        (lambda pod: pod["spec"].pop("affinity"), "affinity"),
        (
            lambda pod: pod["metadata"]["annotations"].pop(decisions.RELEASE_SIGNATURE),
            "not signed",
        ),
        (
            lambda pod: pod["metadata"]["annotations"].update(
                {decisions.RELEASE_ANNOTATION: '{"v":1}'}
            ),
            "stamp",
        ),
    ],
)
def test_what_was_changed_is_named(change: Any, word: str) -> None:
    """Another pod, another uid, another run, another place, no signature, no stamp."""
    pod = a_steered_pod()
    change(pod)
    findings = verifications.check(pod, RING.public())
    problems = " ".join(problem for finding in findings for problem in finding.problems)
    assert word in problems


def test_a_foreign_key_is_no_key() -> None:
    """Signed well, but not by us."""
    findings = verifications.check(a_steered_pod(ring=a_ring()), RING.public())
    assert not any(finding.valid for finding in findings)


def test_the_command_verifies_files_and_says_so_by_its_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of each, nothing else; then a pod without decisions, then no pod at all."""
    pod, ring = tmp_path / "pod.yaml", tmp_path / "keys.json"
    pod.write_text(yaml.safe_dump({"kind": "Pod", **a_steered_pod()}))
    ring.write_text(json.dumps({"data": {keys.OPERATOR_FIELD: keys.write(RING.public())}}))
    given = ["--keys", str(ring)]
    assert 0 == verifications.main([str(pod), *given])
    assert "valid" in capsys.readouterr().out
    assert 0 == verifications.main([str(pod), *given, "-o", "json"])
    assert json.loads(capsys.readouterr().out)["valid"]
    pod.write_text(yaml.safe_dump({"kind": "Pod", **fake_pods.a_pod()}))
    assert 1 == verifications.main([str(pod), *given])
    pod.write_text("kind: Service")
    assert 2 == verifications.main([str(pod), *given])
    ring.write_text("data: {}")
    assert 2 == verifications.main([str(pod), *given])
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("placement", [builders.FAST, builders.ONLY_FAST, decisions.Placement()])
def test_the_patches_of_explain_are_those_that_were_made(placement: decisions.Placement) -> None:
    """Made again from what stands on the pod, they lead from its beginning to what it is."""
    pod = a_steered_pod(placement)
    gate, release = (
        stamps.decode(pod["metadata"]["annotations"][name])
        for name in (decisions.ANNOTATION, decisions.RELEASE_ANNOTATION)
    )
    bare = fake_pods.a_pod()
    bare["metadata"]["uid"] = "uid-1"
    before = patchings.applied(bare, patchings.created(pod, gate))
    assert pod == patchings.applied(before, patchings.released(pod, release))


@pytest.mark.parametrize("command", [explanations, releases, statuses, verifications])
def test_every_command_helps_and_refuses_nonsense(
    command: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """--help ends with 0 and tells the exit codes, an unknown option with 2."""
    assert 0 == command.main(["--help"])
    told = capsys.readouterr().out
    assert "Exit codes" in told
    assert 0 == command.main(["-h"])
    assert told == capsys.readouterr().out
    assert 2 == command.main(["--nonsense"])


@pytest.mark.parametrize("name", ["nofile.yaml", "red/nofile.json", "./nofile", "/nofile"])
def test_a_file_that_is_not_there_is_named_before_any_cluster_is_looked_for(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody who misspelt a manifest wants to hear of kubeconfigs."""
    missing = str(tmp_path / "missing")
    assert 2 == verifications.main([name, "--kubeconfig", missing])
    assert f"tiphys: {name}: there is no such file\n" == capsys.readouterr().err
    assert 2 == verifications.main(["nopod", "--kubeconfig", missing])
    assert "kubeconfig" in capsys.readouterr().err


def a_kubeconfig(path: Path, server: str) -> str:
    """Write a kubeconfig with one context `a` for an address; return its path."""
    config = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return str(path)


def test_without_a_cluster_the_error_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No kubeconfig there, no such context, then a server that does not answer."""
    path = tmp_path / "config"
    named = f"there is no kubeconfig {path}. Name a kubeconfig with --kubeconfig or in KUBECONFIG;"
    closed = "the API server at http://127.0.0.1:1 does not answer (connection refused). Is that"
    absent = f"{path}: there is no context 'b'; there are: a"
    for expected, server, code, more in (
        (named, "", 2, []),
        (closed, "http://127.0.0.1:1", 5, []),
        (absent, "http://127.0.0.1:1", 2, ["--context", "b"]),
    ):
        if server:
            a_kubeconfig(path, server)
        assert code == statuses.main(["--kubeconfig", str(path), *more])
        said = capsys.readouterr().err
        assert said.startswith(f"tiphys: {expected}")
        assert 1 == len(said.strip().splitlines())
