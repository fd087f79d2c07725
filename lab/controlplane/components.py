"""What the lab runs, in the order in which it starts: command lines, ports, readiness, endings.

A component is described, not run, here: `Plan` is a value that the supervisor carries out. Flags
and their reasons come from the Kubernetes and Argo documentation of the versions in `tools`.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab import homes, invocations
from lab.controlplane import configurations, states
from lab.processnode import addresses

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
ARGO = "workflow-controller"
KUBELET = "kubelet"
PROCESS_NODE = "processnode"

NAMES = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, ARGO, KUBELET, PROCESS_NODE)
OPTIONAL = (CONTROLLER_MANAGER, SCHEDULER, ARGO, KUBELET, PROCESS_NODE)
"""Those that `--without` may name."""
PORTS: Mapping[str, tuple[str, ...]] = {
    ETCD: ("client", "peer"),
    API_SERVER: ("secure",),
    CONTROLLER_MANAGER: ("secure",),
    SCHEDULER: ("secure",),
    ARGO: ("metrics",),
    KUBELET: ("metrics",),
    PROCESS_NODE: (),
}
MODULES = {KUBELET: "lab.kubelet", PROCESS_NODE: "lab.processnode"}
"""Components that are programs of the lab itself."""

REQUEUE_S = 10.0
"""Argo's own default pause between two looks at one workflow (`DEFAULT_REQUEUE_TIME`)."""
SEMAPHORE_NOTIFY_S = 1.0
"""Argo's own default delay before waiters of a semaphore are told (`SEMAPHORE_NOTIFY_DELAY`)."""
TOLERATION_S = 300.0
"""Kubernetes' own default of how long pods stay on a lost node (`tolerationSeconds`)."""
EVICTED_NODES_PER_S = 0.1
"""Its own default of how many lost nodes it clears of their pods (`node-eviction-rate`)."""
UNUSED_CONTROLLERS = (
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
)
"""The API server refuses endpoints on loopback, where the process node's pods have their addresses:
these controllers would only complain. What stands behind a Service, the node knows itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one component is started and ended."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_within_s: float = 60.0
    grace_s: float = 10.0
    """How long it may take to end after SIGTERM before SIGKILL follows."""


def present(asked: states.Asked) -> tuple[str, ...]:
    """Return the components that this lab has, in the order in which they start."""
    return tuple(
        name
        for name in NAMES
        if name not in asked.without and (name not in MODULES or _is_program(MODULES[name]))
    )


def _is_program(module: str) -> bool:
    """Whether a module of the lab can be started with `python -m`; looks without importing it."""
    folder = Path(homes.__file__).parents[1].joinpath(*module.split("."))
    return (folder / "__main__.py").is_file()


def remedy(name: str, program: str) -> str:
    """Return what to do about a program that the system refuses to start."""
    if name in MODULES:
        return f"`make lab-up` sets up the Python environment of {program}"
    if Path(program).is_relative_to(homes.cache_root()):
        return f"delete {program}, and `{invocations.lab()} build` makes it anew"
    return f"replace {program}"


def version(name: str, state: states.State) -> str:
    """Return the version that a component is of."""
    asked = state.asked
    fixed = {ETCD: asked.etcd, ARGO: asked.argo, KUBELET: "lab", PROCESS_NODE: "lab"}
    return state.binaries.versions.get(name) or fixed.get(name, asked.kubernetes)


def plan(name: str, *, home: homes.Home, state: states.State, ports: Mapping[str, int]) -> Plan:
    """Return how to start `name`; `ports` are its own, by use (see `PORTS`)."""
    binaries = state.binaries
    match name:
        case "etcd":
            return _etcd(binaries.etcd, home=home, ports=ports)
        case "kube-apiserver":
            etcd_port = state.component(ETCD).ports["client"]
            return _api_server(
                binaries.kube_apiserver,
                home=home,
                version=state.asked.kubernetes,
                speed=state.asked.speed,
                port=ports["secure"],
                etcd_port=etcd_port,
            )
        case "kube-controller-manager":
            return _controller_manager(
                binaries.kube_controller_manager,
                home=home,
                speed=state.asked.speed,
                port=ports["secure"],
            )
        case "kube-scheduler":
            return _scheduler(binaries.kube_scheduler, home=home, port=ports["secure"])
        case "workflow-controller":
            return _argo(binaries.workflow_controller, home=home, speed=state.asked.speed)
        case _:
            return Plan(
                name=name,
                arguments=(sys.executable, "-m", MODULES[name], "--lab", home.name),
                grace_s=5.0,
            )


def _etcd(binary: str, *, home: homes.Home, ports: Mapping[str, int]) -> Plan:
    client = f"https://127.0.0.1:{ports['client']}"
    peer = f"https://127.0.0.1:{ports['peer']}"
    pki = home.pki
    return Plan(
        name=ETCD,
        arguments=(
            binary,
            "--name=lab",
            f"--data-dir={home.data / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=lab={peer}",
            "--client-cert-auth",
            f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
            f"--cert-file={pki / 'etcd.crt'}",
            f"--key-file={pki / 'etcd.key'}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
            f"--peer-cert-file={pki / 'etcd.crt'}",
            f"--peer-key-file={pki / 'etcd.key'}",
            # A power cut may cost the cluster of a lab, but no laptop's disk should set its pace.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ),
        ready_within_s=30.0,
        grace_s=5.0,
    )


def _api_server(
    binary: str, *, home: homes.Home, version: str, speed: float, port: int, etcd_port: int
) -> Plan:
    pki, config = home.pki, home.root / "config"
    block = addresses.recorded(home.root, lab=home.name)
    # From 1.36 on a node says itself that it takes `kubectl exec` as a WebSocket.
    older = version.startswith(("v1.34.", "v1.35."))
    extra = ("--feature-gates=TranslateStreamCloseWebsocketRequests=false",) if older else ()
    toleration_s = toleration_wall_s(speed)
    return Plan(
        name=API_SERVER,
        arguments=(
            binary,
            f"--etcd-servers=https://127.0.0.1:{etcd_port}",
            f"--etcd-cafile={pki / 'etcd-ca.crt'}",
            f"--etcd-certfile={pki / 'etcd-client.crt'}",
            f"--etcd-keyfile={pki / 'etcd-client.key'}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            # Loopback is refused here; with no endpoint reconciler the address is never used.
            "--advertise-address=10.255.255.1",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--client-ca-file={pki / 'ca.crt'}",
            f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'service-accounts.pub'}",
            f"--service-account-signing-key-file={pki / 'service-accounts.key'}",
            f"--service-cluster-ip-range={block.services}",
            f"--kubelet-client-certificate={pki / 'apiserver-kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'apiserver-kubelet-client.key'}",
            *extra,
            f"--default-not-ready-toleration-seconds={toleration_s}",
            f"--default-unreachable-toleration-seconds={toleration_s}",
            f"--admission-control-config-file={config / 'admission.yaml'}",
            f"--cert-dir={home.data / 'apiserver'}",
            "--max-requests-inflight=800",
            "--max-mutating-requests-inflight=400",
            f"--audit-policy-file={config / 'audit-policy.yaml'}",
            f"--audit-log-path={home.audit_log}",
            "--audit-log-mode=batch",
            "--audit-log-batch-buffer-size=50000",
            "--audit-log-batch-max-size=400",
            "--audit-log-batch-max-wait=1s",
            # One file, whatever it grows to: readers take the run out of it by its times.
            "--audit-log-maxsize=100000",
        ),
        # Go's collector runs half as often for some 100 MB more.
        environment={"GOGC": "200"},
        ready_within_s=90.0,
        # It would wait a minute for its watchers; after 3 s its audit log is written out.
        grace_s=3.0,
    )


def _controller_manager(binary: str, *, home: homes.Home, speed: float, port: int) -> Plan:
    kubeconfig = configurations.client_kubeconfig(home, CONTROLLER_MANAGER)
    return Plan(
        name=CONTROLLER_MANAGER,
        arguments=(
            binary,
            f"--kubeconfig={kubeconfig}",
            *_serving(home, kubeconfig=str(kubeconfig), port=port),
            f"--service-account-private-key-file={home.pki / 'service-accounts.key'}",
            f"--root-ca-file={home.pki / 'ca.crt'}",
            f"--cluster-signing-cert-file={home.pki / 'ca.crt'}",
            f"--cluster-signing-key-file={home.pki / 'ca.key'}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            f"--controllers=*,{','.join(f'-{name}' for name in UNUSED_CONTROLLERS)}",
            # Not so node-monitor-grace-period: nodes renew their leases each 10 s of wall time.
            f"--node-eviction-rate={EVICTED_NODES_PER_S * speed:g}",
            "--kube-api-qps=200",
            "--kube-api-burst=400",
        ),
        grace_s=5.0,
    )


def _scheduler(binary: str, *, home: homes.Home, port: int) -> Plan:
    kubeconfig = str(configurations.client_kubeconfig(home, SCHEDULER))
    return Plan(
        name=SCHEDULER,
        arguments=(
            binary,
            f"--config={home.root / 'config' / 'scheduler.yaml'}",
            *_serving(home, kubeconfig=kubeconfig, port=port),
        ),
        grace_s=5.0,
    )


def _argo(binary: str, *, home: homes.Home, speed: float) -> Plan:
    return Plan(
        name=ARGO,
        arguments=(
            binary,
            f"--kubeconfig={configurations.client_kubeconfig(home, ARGO)}",
            "--namespace=argo",
            "--executor-image=quay.io/argoproj/argoexec:v4.0.5",
            "--qps=200",
            "--burst=400",
            "--workflow-workers=8",
            "--loglevel=warn",
        ),
        environment={
            "LEADER_ELECTION_DISABLE": "true",
            "DEFAULT_REQUEUE_TIME": duration(REQUEUE_S / speed),
            "SEMAPHORE_NOTIFY_DELAY": duration(SEMAPHORE_NOTIFY_S / speed),
            # Argo 4 sleeps 1 s after each update of a workflow, which is wall time and holds a
            # worker; with this it notes its own update instead, as Argo 3 did. At speed 1 its
            # own default stays.
            "INFORMER_WRITE_BACK": "false" if speed == 1 else "true",
            # An API server that was just restarted answers before it has read its roles, and hands
            # on that etcd is away. With one of each alone, that would fail every task which Argo
            # creates in that second.
            "TRANSIENT_ERROR_PATTERN": "is forbidden: User .* cannot |code = Unavailable",
        },
        # It does not end on SIGTERM (tried: more than 10 s), and holds nothing worth waiting for.
        grace_s=0.5,
    )


def _serving(home: homes.Home, *, kubeconfig: str, port: int) -> tuple[str, ...]:
    """Flags of an HTTPS endpoint whose metrics the API server's clients may read."""
    return (
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={home.pki / 'component.crt'}",
        f"--tls-private-key-file={home.pki / 'component.key'}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
    )


def toleration_wall_s(speed: float) -> int:
    """Return the default `tolerationSeconds` of a lab: whole seconds of wall time, one at least."""
    return max(1, round(TOLERATION_S / speed))


def duration(seconds: float) -> str:
    """Return a Go duration, to the microsecond and never zero."""
    return f"{max(1, round(seconds * 1e6))}us"
