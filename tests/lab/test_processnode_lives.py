"""How pods on the process node live and end: restarts, probes, hooks, grace, and their owners."""

import asyncio
import time
from pathlib import Path

import pytest

from lab import apis, homes
from tests.lab import process_pods
from tests.lab.process_pods import Pods, a_container, a_pod, a_script, a_template, state, until

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def pods(api: apis.Api, namespace: str) -> Pods:
    """Return the pods of a fresh namespace of the shared lab."""
    return Pods(api, namespace)


def log(lab: homes.Home, pods: Pods, pod: str, container: str = "main") -> list[str]:
    """Return the lines that a container wrote, from its file in the lab's home."""
    path = lab.logs / "pods" / f"{pods.namespace}_{pod}" / f"{container}.log"
    return [line.split(" ", 3)[3] for line in path.read_text().splitlines()]


def running(words: str) -> list[int]:
    """Return the processes whose command line has `words`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if words.encode() in line.replace(b"\0", b" "):
            found.append(int(entry.name))
    return found


async def test_a_container_that_crashes_is_restarted_with_growing_pauses(pods: Pods) -> None:
    """The first restart comes at once, the next after ten seconds, with its last words kept."""
    policy = "FallbackToLogsOnError"
    container = a_script("echo out of luck; exit 7", terminationMessagePolicy=policy)
    await pods.create(a_pod("crash", container))

    waiting = await until(
        lambda: pods.read("crash"),
        lambda pod: "CrashLoopBackOff" in str(state(pod).get("state")),
    )
    again = await until(lambda: pods.read("crash"), lambda pod: state(pod).get("restartCount") == 2)

    ended = state(waiting)["lastState"]["terminated"]
    assert (7, "Error", "out of luck\n") == (
        ended["exitCode"],
        ended["reason"],
        ended["message"],
    )
    assert 1 == state(waiting)["restartCount"]
    assert "back-off 10s" in state(waiting)["state"]["waiting"]["message"]
    assert 7 == state(again)["lastState"]["terminated"]["exitCode"]


async def test_init_containers_run_in_order_and_sidecars_beside(
    pods: Pods, lab: homes.Home
) -> None:
    """The main one starts when the sidecar is up, and the sidecar ends when the main one did."""
    note = {"name": "shared", "mountPath": "/shared"}
    up = {"exec": {"command": ["test", "-e", "/shared/up"]}, "periodSeconds": 1}
    sidecar = a_script(
        "trap 'echo told to end; exit 0' TERM; sleep 1; touch /shared/up; sleep 1000 & wait",
        "sidecar",
        restartPolicy="Always",
        startupProbe=up,
        volumeMounts=[note],
    )
    first = a_script("echo first >> /shared/order", "first", volumeMounts=[note])
    second = a_script("echo second >> /shared/order", "second", volumeMounts=[note])
    main = a_script("cat /shared/order; ls /shared", volumeMounts=[note])
    await pods.create(
        a_pod(
            "ordered",
            main,
            initContainers=[first, second, sidecar],
            volumes=[{"name": "shared", "emptyDir": {}}],
            restartPolicy="Never",
        )
    )

    ended = await pods.over("ordered")

    assert "Succeeded" == process_pods.phase(ended)
    assert ["first", "second", "order", "up"] == log(lab, pods, "ordered")
    assert ["told to end"] == log(lab, pods, "ordered", "sidecar")


async def test_a_pod_that_is_deleted_ends_in_order(pods: Pods, lab: homes.Home) -> None:
    """preStop hook, then SIGTERM, then its object goes; the log stays for whoever asks why."""
    hooks = {
        "postStart": {"exec": {"command": ["sh", "-c", "echo greeted > greeting"]}},
        "preStop": {"exec": {"command": ["sh", "-c", "echo goodbye > farewell"]}},
    }
    main = a_script(
        "trap 'cat greeting farewell; echo ended; exit 0' TERM; sleep 1000 & wait",
        lifecycle=hooks,
    )
    await pods.create(a_pod("polite", main, terminationGracePeriodSeconds=60))
    await pods.ready("polite")

    began_at = time.monotonic()
    await pods.delete("polite")
    await pods.gone("polite")

    assert 40 > time.monotonic() - began_at, "it was not killed at the end of its grace"
    assert ["greeted", "goodbye", "ended"] == log(lab, pods, "polite")


async def test_who_ignores_the_signal_is_killed_after_the_grace(pods: Pods) -> None:
    """With every process that it started, also those in sessions of their own."""
    mark = f"9{time.time_ns() % 10**8}"
    main = a_script(
        f"trap '' TERM; setsid sleep {mark} & sleep {mark} & sleep {mark}; sleep {mark}"
    )
    await pods.create(a_pod("deaf", main, terminationGracePeriodSeconds=2))
    await pods.ready("deaf")
    assert 3 <= len(running(f"sleep {mark}"))

    began_at = time.monotonic()
    await pods.delete("deaf")
    await pods.gone("deaf")

    assert 1.9 <= time.monotonic() - began_at <= 25
    assert [] == running(f"sleep {mark}")


async def test_liveness_restarts_and_readiness_only_tells(pods: Pods) -> None:
    """A failing readiness probe keeps the container; a failing liveness probe ends it."""
    files = {"exec": {"command": ["test", "-e", "alive"]}, "periodSeconds": 1}
    ready = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1}
    main = a_script(
        "touch alive; sleep 2; touch ready; sleep 4; rm ready; sleep 3; rm alive; sleep 1000",
        livenessProbe={**files, "failureThreshold": 1, "initialDelaySeconds": 1},
        readinessProbe={**ready, "failureThreshold": 1},
    )
    await pods.create(a_pod("patient", main, terminationGracePeriodSeconds=1))

    await until(lambda: pods.read("patient"), lambda pod: process_pods.phase(pod) == "Running")
    assert not process_pods.is_ready(await pods.read("patient"))
    await pods.ready("patient")
    unready = await until(lambda: pods.read("patient"), lambda pod: not process_pods.is_ready(pod))
    assert 0 == state(unready)["restartCount"]
    again = await until(
        lambda: pods.read("patient"), lambda pod: state(pod).get("restartCount") == 1
    )
    assert 0 != state(again)["lastState"]["terminated"]["exitCode"]


async def test_a_pod_that_others_call_unready_is_ready_again(pods: Pods) -> None:
    """As after an outage, when the node controller had not heard of the node for a while."""
    await pods.create(a_pod("calm", a_container()))
    before = await pods.ready("calm")
    unready = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}

    await pods.api.patch(
        f"{pods.path}/pods/calm/status",
        {"status": {"conditions": [unready]}},
        content_type=apis.STRATEGIC_PATCH,
    )

    assert state(before) == state(await pods.ready("calm"))


async def test_a_pod_is_ended_at_its_deadline(pods: Pods) -> None:
    """`activeDeadlineSeconds` counts from its start."""
    await pods.create(a_pod("late", a_container(), activeDeadlineSeconds=2))

    ended = await pods.over("late")

    assert ("Failed", "DeadlineExceeded") == (ended["status"]["phase"], ended["status"]["reason"])


async def test_a_deployment_is_rolled_out_anew(pods: Pods) -> None:
    """New pods come up beside the old ones on the same port, then the old ones go."""
    path = f"/apis/apps/v1/namespaces/{pods.namespace}/deployments"
    template = a_template(process_pods.a_server())
    await pods.api.create(path, process_pods.a_deployment("web", template, replicas=2))
    complete = {"updatedReplicas": 2, "availableReplicas": 2, "replicas": 2}

    async def status() -> apis.Object:
        found = await pods.api.get(f"{path}/web")
        return {"of": found["metadata"]["generation"], **found.get("status", {})}

    def rolled(found: apis.Object) -> bool:
        current = found.get("observedGeneration") == found["of"]
        return current and complete.items() <= found.items()

    await until(status, rolled)
    before = {pod["metadata"]["name"] for pod in await pods.listed("app=web")}
    annotation = {"metadata": {"annotations": {"release": "2"}}}
    await pods.api.patch(f"{path}/web", {"spec": {"template": annotation}})
    await until(status, rolled, within_s=60)

    after = await until(lambda: pods.listed("app=web"), lambda found: len(found) == 2)
    assert not before & {pod["metadata"]["name"] for pod in after}


async def test_jobs_and_cron_jobs_run_to_their_end(pods: Pods) -> None:
    """A Job retries what failed; a CronJob's Job comes within the minute."""
    batch = f"/apis/batch/v1/namespaces/{pods.namespace}"
    often = a_template(a_script("exit 0"), restartPolicy="Never")
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": often}}}
    await pods.api.create(f"{batch}/cronjobs", {"metadata": {"name": "tick"}, "spec": cron})
    failing = a_template(a_script("exit 1"), restartPolicy="Never")
    await pods.api.create(
        f"{batch}/jobs",
        {"metadata": {"name": "bad"}, "spec": {"backoffLimit": 0, "template": failing}},
    )

    async def jobs() -> dict[str, apis.Object]:
        listed = await pods.api.get(f"{batch}/jobs")
        return {item["metadata"]["name"]: item.get("status", {}) for item in listed["items"]}

    await until(jobs, lambda found: found["bad"].get("failed") == 1)
    await until(
        jobs,
        lambda found: any(
            name.startswith("tick-") and status.get("succeeded") == 1
            for name, status in found.items()
        ),
        within_s=80,
    )


async def test_a_daemon_set_that_tolerates_the_node_runs_there(pods: Pods) -> None:
    """Its template needs the toleration and the selector itself."""
    template = a_template(
        a_container(),
        labels={"app": "agent"},
        nodeSelector={"lab.tiphys.dev/process-node": "true"},
        tolerations=[{"key": "lab.tiphys.dev/process-node", "operator": "Exists"}],
    )
    await pods.api.create(
        f"/apis/apps/v1/namespaces/{pods.namespace}/daemonsets",
        {
            "metadata": {"name": "agent"},
            "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
        },
    )

    found = await until(
        lambda: pods.listed("app=agent"),
        lambda listed: len(listed) == 1 and process_pods.is_ready(listed[0]),
    )

    await asyncio.sleep(1)
    assert "process-0" == found[0]["spec"]["nodeName"]
