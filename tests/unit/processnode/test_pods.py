"""What is read from pods: marks, objections, policies, images, pauses."""

import pytest

from lab.processnode import backoffs, images, pods, settings
from tests.unit.processnode import builders as a


def test_only_marked_pods_are_run():
    """The sentence says how to mark one."""
    pod = a.a_pod()
    assert "" == pods.objection(pod)
    pod["metadata"]["annotations"] = {}
    assert "annotated lab.tiphys.dev/run: process" in pods.objection(pod)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}, "persistentVolumeClaim"),
        (
            {"volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {}}]}}]},
            "clusterTrustBundle",
        ),
        ({"initContainers": [a.a_container("i", startupProbe={"grpc": {}})]}, "grpc probe"),
        ({"initContainers": [a.a_container("i", volumeDevices=[{}])]}, "block device"),
    ],
)
def test_what_a_process_cannot_have_is_refused(spec, words):
    """Before anything starts, in one sentence."""
    assert words in pods.objection(a.a_pod(**spec))


@pytest.mark.parametrize(
    ("of_pod", "of_container", "initial", "expected"),
    [
        ("Always", None, False, "Always"),
        ("Always", None, True, "OnFailure"),
        ("Never", None, True, "Never"),
        ("Never", "Always", True, "Always"),
        ("Always", "Never", False, "Never"),
    ],
)
def test_init_containers_do_not_run_again_once_they_ended_well(
    of_pod, of_container, initial, expected
):
    """Sidecars do, and a container's own policy comes before the pod's."""
    own = {"restartPolicy": of_container} if of_container else {}
    container = a.a_container("one", **own)
    extra = {"initContainers": [container]} if initial else {}
    main = a.a_container() if initial else container
    pod = a.a_pod(main, restartPolicy=of_pod, **extra)
    assert expected == pods.restart_policy(pod, container)


@pytest.mark.parametrize(
    ("wanted", "expected"), [(80, 80), ("http", 8080), ("90", 90), ("none", None)]
)
def test_ports_are_found_by_number_or_name(wanted, expected):
    """As probes and Services give them."""
    container = a.a_container(ports=[{"name": "http", "containerPort": 8080}])
    assert expected == pods.port(container, wanted)


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": "x", "command": ["a"], "args": ["b"]}, ["a", "b"]),
        ({"image": "ghcr.io/acme/tiphys-webhook:1.2", "args": ["-v"]}, ["tiphys", "webhook", "-v"]),
        ({"image": "localhost:5000/tiphys@sha256:ab"}, ["tiphys"]),
        ({"image": "docker.io/library/postgres:17"}, ["postgres", "-D", "/data"]),
    ],
)
def test_images_start_what_is_known_of_them(container, expected):
    """The container's own command first, then the table, then Tiphys' own images."""
    table = {"postgres": ["postgres", "-D", "/data"]}
    assert expected == images.command({"name": "main", **container}, table=table)


@pytest.mark.parametrize("image", ["redis:7", "acme/tiphys-", "tiphysx", ""])
def test_an_image_that_nobody_knows_is_refused(image):
    """With what to write instead."""
    with pytest.raises(images.UnknownImageError, match="give the container a `command`"):
        images.command({"name": "main", "image": image}, table={})


def test_the_table_of_images_is_read_or_refused(tmp_path):
    """An absent file lists nothing; a wrong one is named."""
    path = tmp_path / "images.yaml"
    assert {} == images.read_table(path)
    path.write_text("entrypoints: {postgres: [postgres, -D, /data]}")
    assert {"postgres": ["postgres", "-D", "/data"]} == images.read_table(path)
    path.write_text("entrypoints: [postgres]")
    with pytest.raises(images.UnknownImageError, match=r"images\.yaml"):
        images.read_table(path)


def test_pauses_double_to_the_longest_and_are_forgotten():
    """0, 10, 20, 40 … 300, and at once again after ten good minutes."""
    rules = settings.Backoff()
    pause, seen = backoffs.Pause(), []
    for _ in range(8):
        pause = backoffs.following(pause, ran_s=1.0, rules=rules)
        seen.append(pause.wait_s)
    assert [0, 10, 20, 40, 80, 160, 300, 300] == seen
    pause = backoffs.following(pause, ran_s=600.0, rules=rules)
    assert (0, 10) == (
        pause.wait_s,
        backoffs.following(pause, ran_s=1.0, rules=rules).wait_s,
    )
