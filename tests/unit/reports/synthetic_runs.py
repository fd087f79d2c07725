"""Builds the records of runs that never were: a small queue on a few nodes, exact by design."""

import dataclasses
import heapq
import itertools
import random

import msgspec

from lab import catalogs, journals
from lab.reports import audits, sources
from lab.workloads import runs

EPOCH = 1_800_000_000.0
GIB = 2**30
TEMPLATES = ("fastqc", "align", "sort", "dedup", "call-variants", "annotate", "multiqc")


def a_cluster(*, nodes=2, cores=16, memory_gib=64):
    """Return a cluster of equal nodes, one group."""
    group = catalogs.Group(
        name="node",
        count=nodes,
        instance_type="m5-16",
        rack="rack-a",
        zone="zone-1",
        cores=cores,
        memory=memory_gib * GIB,
        memory_bandwidth=4e10,
        nic=1e9,
        disk=catalogs.Disk(kind="ssd", bandwidth=4e8, iops=12000),
    )
    network = catalogs.Network(rack_uplink=2.5e9, object_store=5e9)
    return catalogs.Cluster(name="equal", about="equal nodes", groups=(group,), network=network)


def a_call(at_s, verb, resource, name, *, speed=60.0, namespace="genomics", **rest):
    """Return one accepted call at a simulated second of the run."""
    defaults = {"latency_s": 0.005, "code": 201}
    return audits.Call(
        at=EPOCH + at_s / speed,
        verb=verb,
        resource=resource,
        namespace=namespace,
        name=name,
        **{**defaults, **rest},
    )


def a_pod(name="wf-0-align-1", *, bound_s=2.0, start_s=3.0, work_s=57.0, speed=60.0, **rest):
    """Return the kubelet's record of one pod; times in simulated seconds of the run."""
    defaults = {
        "uid": f"uid-{name}",
        "namespace": "genomics",
        "name": name,
        "workflow": "wf-0",
        "task": name,
        "template": "align",
        "node": "node-0",
        "group": "node",
        "seen_at": EPOCH + bound_s / speed,
        "started_at": EPOCH + (bound_s + start_s) / speed,
        "ended_at": EPOCH + (bound_s + start_s + work_s) / speed,
        "reason": "Completed",
        "requested_cpu_m": 2000,
        "requested_memory_bytes": 4 * GIB,
        "cpu_s": work_s,
        "peak_memory_bytes": 2.0 * GIB,
        "memory_byte_s": work_s * GIB,
    }
    return journals.PodRecord(**{**defaults, **rest})


def a_workflow(name="wf-0", *, submitted_s=0.0, ended_s=70.0, speed=60.0, **rest):
    """Return what the run knows about one workflow."""
    defaults = {
        "namespace": "genomics",
        "family": "bwa",
        "source": "made up",
        "tasks": 1,
        "depth": 1,
        "work_core_s": 57.0,
        "critical_path_s": 57.0,
        "deadline_s": 600.0,
        "arrival_s": submitted_s,
        "submitted_at": EPOCH + submitted_s / speed,
        "ended_at": None if ended_s is None else EPOCH + ended_s / speed,
        "phase": "Succeeded",
    }
    return runs.WorkflowRun(name=name, **{**defaults, **rest})


def a_run(*, workflows=None, calls=None, pods=None, speed=60.0, cluster=None, **rest):
    """Return the sources of a run; without arguments: one workflow, one pod, all in order."""
    known = {"pods": (a_pod(),) if pods is None else tuple(pods), "samples": (), "faults": ()}
    if calls is None:
        calls = [a_call(0.0, "create", "workflows", "wf-0")]
        calls += [call for pod in known["pods"] for call in calls_of(pod)]
    record = {
        "run": "synthetic",
        "command": "python -m lab run genomics --workflows 1 --seed 1",
        "lab": "test",
        "mix": "genomics",
        "seed": 1,
        "arrivals": "poisson",
        "window_s": 600.0,
        "overload": 1.5,
        "requested_load": 2.5,
        "held_out": False,
        "sample": True,
        "cluster": "equal",
        "cores": 32,
        "speed": speed,
        "plans_sha256": "0" * 64,
        "truths_sha256": "0" * 64,
        "started_at": EPOCH,
        "ended_at": EPOCH + 100,
        "outcome": "complete",
        "workflows": (a_workflow(),) if workflows is None else tuple(workflows),
    }
    fields = {field.name for field in dataclasses.fields(sources.Sources)}
    known |= {key: value for key, value in rest.items() if key in fields}
    record |= {key: value for key, value in rest.items() if key not in fields}
    return sources.Sources(
        record=runs.RunRecord(**record),
        cluster=cluster or a_cluster(),
        calls=tuple(calls),
        **known,
    )


def calls_of(pod, *, created_s=1.0, bound_s=2.0):
    """Return the creation and the binding of a pod."""
    return [
        a_call(created_s, "create", "pods", pod.name, namespace=pod.namespace),
        a_call(bound_s, "create", "pods/binding", pod.name, namespace=pod.namespace, uid=pod.uid),
    ]


def a_busy_run(*, workflows=16, tasks=22, nodes=4, seed=1, speed=60.0, oom_share=0.03):
    """Return a run of layered workflows on a first-come queue, with samples of each node."""
    draw = random.Random(seed)
    free = {f"node-{index}": 16.0 for index in range(nodes)}
    running: list[tuple[float, str, float]] = []
    calls, pods, ended = [], [], {}
    queue = []
    for index in range(workflows):
        submitted = draw.uniform(0, 900.0) if workflows > 1 else 0.0
        calls.append(a_call(submitted, "create", "workflows", f"wf-{index}", speed=speed))
        for number in range(tasks):
            created = submitted + 40.0 * (number // 6) + draw.random()
            queue.append((created, index, number, submitted))
    now = 0.0
    for created, index, number, _ in sorted(queue):
        cores = draw.choice([1.0, 2.0, 2.0, 4.0, 8.0])
        now = max(now, created)
        while not any(room >= cores for room in free.values()):
            end, node, held = heapq.heappop(running)
            now = max(now, end)
            free[node] += held
        while running and running[0][0] <= now:
            _, node, held = heapq.heappop(running)
            free[node] += held
        node = max(free, key=lambda name: free[name])
        free[node] -= cores
        work = draw.lognormvariate(4.2, 0.7)
        killed = draw.random() < oom_share
        name = f"wf-{index}-{TEMPLATES[number % len(TEMPLATES)]}-{number}"
        heapq.heappush(running, (now + 3.0 + work, node, cores))
        request = int(cores * draw.choice([2, 4, 4, 3]) * GIB)
        pod = a_pod(
            name,
            bound_s=now + 0.5,
            work_s=work,
            speed=speed,
            workflow=f"wf-{index}",
            task=f"{TEMPLATES[number % len(TEMPLATES)]}({number})",
            template=TEMPLATES[number % len(TEMPLATES)],
            node=node,
            reason="OOMKilled" if killed else "Completed",
            exit_code=137 if killed else 0,
            requested_cpu_m=int(cores * 1000),
            requested_memory_bytes=request,
            limit_memory_bytes=request,
            cpu_s=work * cores * draw.uniform(0.3, 0.95),
            peak_memory_bytes=request * draw.uniform(0.1, 1.0),
            memory_byte_s=work * request * draw.uniform(0.1, 0.6),
        )
        pods.append(pod)
        calls += [
            a_call(created, "create", "pods", name, speed=speed),
            a_call(now + 0.4, "create", "pods/binding", name, speed=speed, uid=pod.uid),
            a_call(now + 4.0, "patch", "pods/status", name, speed=speed),
        ]
        ended[index] = max(ended.get(index, 0.0), now + 5.0 + work)
    record = [
        a_workflow(
            f"wf-{index}",
            submitted_s=next(item[3] for item in queue if item[1] == index),
            ended_s=end,
            speed=speed,
            tasks=tasks,
            family=draw.choice(["bwa", "methylseq", "rnaseq", "sarek"]),
            deadline_s=draw.uniform(300, 1500),
        )
        for index, end in sorted(ended.items())
    ]
    return a_run(
        workflows=record,
        calls=sorted(calls, key=lambda call: call.at),
        pods=pods,
        speed=speed,
        samples=samples_of(pods, nodes=nodes, speed=speed),
        cluster=a_cluster(nodes=nodes),
        cores=16 * nodes,
        faults=(journals.FaultRecord(at=EPOCH + 600 / speed, fault="slow-disk", node="node-1"),),
    )


def too_fast(*, latency_s=0.5, **more):
    """Return the records of a run for which half a second of a create was too much."""
    calls = [
        a_call(0, "create", "workflows", "wf-0"),
        *calls_of(a_pod())[1:],
        a_call(1.0, "create", "pods", "wf-0-align-1", latency_s=latency_s),
    ]
    return a_run(calls=sorted(calls, key=lambda call: call.at), **more)


def steered(run, *, outcome="gated"):
    """Return the sources of a run whose pods Tiphys decided about."""
    calls = [
        msgspec.structs.replace(call, outcome=outcome)
        if (call.verb, call.resource) == ("create", "pods")
        else call
        for call in run.calls
    ]
    return dataclasses.replace(run, calls=tuple(calls))


def samples_of(pods, *, nodes, speed):
    """Return one sample a wall second of each node, from the pods that run there."""
    end = max(pod.ended_at for pod in pods)
    samples = []
    for second, index in itertools.product(range(int(end - EPOCH) + 2), range(nodes)):
        at, node = EPOCH + second, f"node-{index}"
        here = [pod for pod in pods if pod.node == node and pod.seen_at <= at < pod.ended_at]
        active = [pod for pod in here if pod.started_at <= at]
        lengths = [(pod, (pod.ended_at - pod.started_at) * speed) for pod in active]
        samples.append(
            journals.NodeSample(
                at=at,
                node=node,
                cpu_used=sum(pod.cpu_s / length for pod, length in lengths),
                cpu_requested=sum(pod.requested_cpu_m for pod in here) / 1000,
                memory_used_bytes=sum(pod.memory_byte_s / length for pod, length in lengths),
                memory_requested_bytes=sum(pod.requested_memory_bytes for pod in here),
                disk_bytes_per_s=2e8 * len(active) / 16,
                network_bytes_per_s=1e8 * len(active) / 16,
                pods=len(here),
            )
        )
    return tuple(samples)
