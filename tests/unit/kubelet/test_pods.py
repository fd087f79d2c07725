"""Reading pods: what they request, as the scheduler counts it, and what marks them."""

from lab.kubelet import pods
from tests.unit.kubelet.builders import a_container, a_pod


def asking(cpu: str, memory: str = "0", **changes: object) -> dict[str, object]:
    """A container's resources and more."""
    return {"resources": {"requests": {"cpu": cpu, "memory": memory}}, **changes}


def test_a_pod_requests_the_larger_of_its_init_containers_and_the_sum_of_the_others() -> None:
    """One init container of 3 cores beside two containers of 1: 3 cores, and 2 GiB."""
    pod = pods.read(
        a_pod(
            containers=[
                a_container("main", **asking("1", "1Gi")),
                a_container("wait", **asking("1", "1Gi")),
            ],
            initContainers=[a_container("init", **asking("3", "1Gi"))],
        )
    )
    assert pods.Resources(cpu_m=3000, memory_bytes=2 * 2**30) == pod.requests


def test_a_sidecar_counts_beside_what_starts_after_it() -> None:
    """Sidecar 1 + later init 3 = 4 cores; an init container before it counts alone."""
    pod = pods.read(
        a_pod(
            containers=[a_container("main", **asking("2"))],
            initContainers=[
                a_container("before", **asking("3500m")),
                a_container("side", **asking("1", restartPolicy="Always")),
                a_container("after", **asking("3")),
            ],
        )
    )
    assert 4000 == pod.requests.cpu_m


def test_overhead_is_added() -> None:
    """A runtime class asks for its own share."""
    pod = pods.read(
        a_pod(containers=[a_container(**asking("1"))], overhead={"cpu": "250m", "memory": "64Mi"})
    )
    assert (1250, 64 * 2**20) == (pod.requests.cpu_m, pod.requests.memory_bytes)


def test_what_a_pod_asks_for_as_a_whole_counts_before_its_containers() -> None:
    """CPU of the pod's own resources, memory of its containers, which say more."""
    pod = pods.read(
        a_pod(containers=[a_container(**asking("1", "1Gi"))], resources={"requests": {"cpu": "3"}})
    )
    assert (3000, 2**30) == (pod.requests.cpu_m, pod.requests.memory_bytes)


def test_gpus_are_read_from_requests() -> None:
    """Two of NVIDIA's GPUs."""
    resources = {"requests": {"nvidia.com/gpu": "2"}, "limits": {"nvidia.com/gpu": "2"}}
    assert 2 == pods.read(a_pod(containers=[a_container(resources=resources)])).requests.gpus


def test_the_main_container_is_argos_or_the_first() -> None:
    """`main` by name; without one, the first."""
    argo = pods.read(a_pod(containers=[a_container("wait"), a_container("main")]))
    other = pods.read(a_pod(containers=[a_container("web"), a_container("log")]))
    assert ("main", "web") == (argo.main.name, other.main.name)


def test_limits_are_none_where_there_are_none() -> None:
    """A request alone is no limit."""
    main = pods.read(a_pod()).main
    assert (None, None) == (main.limit_cpu_m, main.limit_memory_bytes)


def test_a_probe_succeeds_after_its_delay_and_periods() -> None:
    """Delay 5 s, 3 successes, one each 2 s: 5 + 2 x 2."""
    probe = {"initialDelaySeconds": 5, "periodSeconds": 2, "successThreshold": 3}
    assert 9 == pods.read(a_pod(containers=[a_container(readinessProbe=probe)])).main.probe_s
