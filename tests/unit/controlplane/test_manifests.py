from pathlib import Path

import pytest
import yaml

from lab.controlplane import manifests


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of manifests as Argo's module has them, in little."""
    for kind in ("minimal", "full"):
        crds = tmp_path / "crds" / kind
        crds.mkdir(parents=True)
        crd = {"kind": "CustomResourceDefinition", "metadata": {"name": kind}}
        (crds / "argoproj.io_workflows.yaml").write_text(yaml.safe_dump(crd))
        (crds / "kustomization.yaml").write_text("kind: Kustomization\n")
    rbac = tmp_path / "rbac"
    rbac.mkdir()
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "argo-binding"},
        "subjects": [{"kind": "ServiceAccount", "name": "argo"}],
    }
    (rbac / "binding.yaml").write_text(yaml.safe_dump(binding))
    (rbac / "kustomization.yaml").write_text("kind: Kustomization\n")
    return tmp_path


@pytest.mark.parametrize(("full", "expected"), [(False, "minimal"), (True, "full")])
def test_one_set_of_crds_is_chosen(folder: Path, full: bool, expected: str) -> None:
    """Kustomize's own files are no objects."""
    (crd,) = manifests.argo_crds(folder, full=full)

    assert expected == crd["metadata"]["name"]


def test_the_namespace_comes_first_and_fills_in_what_kustomize_would(folder: Path) -> None:
    """The module's bindings name no namespace for Argo's ServiceAccount."""
    objects = manifests.argo_objects(folder)

    assert ("Namespace", "argo") == (objects[0]["kind"], objects[0]["metadata"]["name"])
    assert [{"kind": "ServiceAccount", "name": "argo", "namespace": "argo"}] == objects[1][
        "subjects"
    ]


def test_argos_settings_parse_as_argo_reads_them() -> None:
    """Each value of the ConfigMap is YAML; the metrics port is plain HTTP on the port given."""
    data = manifests.argo_settings(metrics_port=23456)["data"]
    metrics = yaml.safe_load(data["metricsConfig"])

    assert (23456, False) == (metrics["port"], metrics["secure"])
    assert yaml.safe_load(data["images"])["argoproj/argosay:v2"]["entrypoint"]
    assert yaml.safe_load(data["artifactRepository"])["s3"]["endpoint"].endswith(".invalid")


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        (
            {"kind": "ClusterRole", "metadata": {"name": "a"}},
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a",
        ),
        ({"kind": "Secret", "metadata": {"name": "a"}}, "/api/v1/namespaces/argo/secrets/a"),
        (
            {"kind": "Secret", "metadata": {"name": "a", "namespace": "b"}},
            "/api/v1/namespaces/b/secrets/a",
        ),
    ],
)
def test_an_object_knows_its_path(item: manifests.Object, expected: str) -> None:
    """What names no namespace belongs to Argo's."""
    assert expected == manifests.path(item)
