"""What each of Argo's examples must come to: complete, true to the examples, and readable."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from lab import errors, homes
from lab.corpus import examples, expectations, pages, preparations, runs

PAGE = Path(__file__).parents[3] / "docs" / "corpus.md"
KUBECTL = ("kubernetes-release/release/v1.8.0/bin/linux/amd64/kubectl", "kubectl version")
COMPILED = ("repo: https://github.com/golang/example.git", "image: golang:1.8", "go build")
WINDOWS = ("kubernetes.io/os: windows", "windows/nanoserver", '["cmd", "/c"]')
WHY_NOT = {
    "arguments-artifacts": KUBECTL,
    "ci": COMPILED,
    "ci-output-artifact": COMPILED,
    "fibonacci-seq-conditional-param": ("memoize:\n        key:", "cache:", "      steps:"),
    "fun-with-gifs": ("s3://ax-public", "v4tech/imagemagick", "gifsicle"),
    "hello-hybrid": WINDOWS,
    "hello-windows": WINDOWS,
    "influxdb-ci": ("https://github.com/influxdata/influxdb.git", "go install", "go test"),
    "input-artifact-http": KUBECTL,
    "k8s-resource-log-selector": ("apiVersion: kubeflow.org/v1", "kind: TFJob", "tensorflow"),
    "sidecar-dind": ("dockerd-entrypoint.sh", "privileged: true", "docker run"),
    "synchronization-db-mutex-tmpl-level": ("database: true",),
    "synchronization-db-mutex-wf-level": ("database: true",),
    "synchronization-db-tmpl-level": ("- database:",),
    "synchronization-db-wf-level": ("- database:",),
}
"""What in the text of an example makes the reason that is given for it true."""


def shipped() -> Path | None:
    """Return the examples of Argo's module where this machine has them already."""
    cached = sorted((homes.cache_root() / "bin").glob("argo-*/examples"))
    modules = Path(os.environ.get("GOMODCACHE") or Path.home() / "go/pkg/mod")
    cached += sorted(modules.glob("github.com/argoproj/argo-workflows/v4@v4.0.5/examples"))
    return cached[0] if cached else None


@pytest.fixture(scope="module")
def found() -> dict[str, examples.Example]:
    """Return the shipped examples."""
    folder = shipped()
    if folder is None:
        pytest.skip("Argo's module is not on this machine yet")
    return examples.load(folder)


def test_every_example_has_an_expectation_and_every_expectation_an_example(
    found: dict[str, examples.Example],
) -> None:
    """190 Workflows: 140 at least are to reach their end, and each of the others says why not."""
    known = expectations.load()
    expectations.check(found, known)
    assert 190 == len(known.workflows) + len(known.not_runnable)
    assert 140 <= len(known.workflows)
    assert all(why.strip() for why in known.not_runnable.values())


def test_the_reason_why_an_example_cannot_run_stands_in_it(
    found: dict[str, examples.Example],
) -> None:
    """Each that is left out needs what no simulated node has, by its own text."""
    assert WHY_NOT.keys() == expectations.load().not_runnable.keys()
    for name, needs in WHY_NOT.items():
        assert [] == [text for text in needs if text not in found[name].source], name
    assert {"name", "generateName"}.isdisjoint(found["fun-with-gifs"].body["metadata"])


def test_examples_of_argos_own_test_are_those_that_it_runs(
    found: dict[str, examples.Example],
) -> None:
    """Argo's test skips what carries the label `no-test`."""
    label = "workflows.argoproj.io/no-test"
    for name in expectations.load().argo_test:
        assert label not in (found[name].body["metadata"].get("labels") or {}), name


def test_an_example_that_nobody_expects_is_named() -> None:
    """So that a new version of Argo cannot bring unnoticed ones."""
    known = expectations.load()
    body = {"kind": "Workflow", "metadata": {"name": "x"}}
    present = {
        name: examples.Example(name=name, text="", body=body)
        for name in (*known.workflows, *known.not_runnable, "surprise")
    }
    present |= {
        name: examples.Example(name=name, text="", body={**body, "kind": "ConfigMap"})
        for name in known.stored
    }
    with pytest.raises(errors.UsageError, match="says nothing about surprise"):
        expectations.check(present, known)


def test_what_examples_ask_for_can_be_prepared(found: dict[str, examples.Example]) -> None:
    """Every name leads to a preparation, and every file in it to an example."""
    known, prepared = expectations.load(), preparations.load()
    asked = {name for item in known.workflows.values() for name in item.setup}
    asked |= {name for item in known.stored.values() for name in item.setup}
    assert asked <= set(prepared)
    stems = {name.partition("#")[0] for name in found} | set(found)
    for preparation in prepared.values():
        assert set(preparation.files) <= stems
        assert all(body["kind"] in preparations.PATHS for body in preparation.objects)


def test_an_edit_replaces_what_the_examples_comments_name(
    found: dict[str, examples.Example],
) -> None:
    """And one that finds nothing to replace is an error."""
    known = expectations.load().workflows["exit-handler-slack"]
    body = found["exit-handler-slack"].edited(known.edit)
    assert "https://hooks.slack.com/" in str(body)
    with pytest.raises(errors.UsageError, match="is not in it any more"):
        found["hello-world"].edited({"nowhere": "x"})


def test_a_folder_without_examples_says_what_to_do(tmp_path: Path) -> None:
    """The command that fetches them."""
    with pytest.raises(errors.UsageError, match="python -m lab build"):
        examples.load(tmp_path)


def test_objects_of_one_file_are_told_apart_by_name(tmp_path: Path) -> None:
    """`FILE#NAME`; a file of one object is known by the file alone."""
    (tmp_path / "two.yaml").write_text(
        "kind: Workflow\nmetadata: {name: a}\n---\nkind: Workflow\nmetadata: {name: b}\n"
    )
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "one.yaml").write_text("kind: Workflow\nmetadata: {generateName: c-}\n")
    assert list(examples.load(tmp_path)) == ["sub/one", "two#a", "two#b"]


def test_long_examples_are_submitted_first(found: dict[str, examples.Example]) -> None:
    """Those that wait for a schedule before all others."""
    known = expectations.load()
    picked, skipped = runs.chosen(found, known, ())
    names = [example.name for example in picked]
    assert {"cron-when", "cron-workflow"} == set(names[:2])
    assert names.index("synchronization-mutex-tmpl-level") < names.index("hello-world")
    assert set(known.not_runnable) <= set(skipped)


def test_the_page_is_the_one_that_the_expectations_give(
    found: dict[str, examples.Example],
) -> None:
    """Regenerate it with `python -m lab corpus --write docs/corpus.md`."""
    known = expectations.load()
    assert PAGE.read_text() == pages.render(known, simulated=known.simulated(found))


def test_simulated_ends_are_marked(found: dict[str, examples.Example]) -> None:
    """Whoever reads the page must see which ends rest on stand-ins."""
    marked = set(expectations.load().simulated(found))
    assert {"daemon-nginx", "sidecar", "input-artifact-git", "http-hello-world"} <= marked
    assert {"http-success-condition", "output-artifact-gcs", "k8s-orchestration"} <= marked
    assert not {"hello-world", "artifact-passing", "coinflip"} & marked


def test_the_list_needs_no_lab() -> None:
    """Each example, what it must come to, and from where that is known."""
    done = subprocess.run(
        [".venv/bin/python", "-m", "lab", "corpus", "--list"],
        cwd=PAGE.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"hello-windows\s+cannot run\s+needs a Windows node", done.stdout)
