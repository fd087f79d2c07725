"""Builders of states for tests."""

from msgspec import structs

from lab import homes
from lab.controlplane import processes, states

BINARIES = states.Binaries(
    etcd="/bin/etcd",
    kube_apiserver="/bin/kube-apiserver",
    kube_controller_manager="/bin/kube-controller-manager",
    kube_scheduler="/bin/kube-scheduler",
    workflow_controller="/bin/workflow-controller",
    argo_manifests="/bin/manifests",
)


def a_state(home: homes.Home, *, speed: float = 1.0, **changes: object) -> states.State:
    """Return the state of a lab that has just been started by this process."""
    made = states.new(
        home, asked=states.Asked(speed=speed), binaries=BINARIES, nodes=4, at=1_000_000.0
    )
    components = (
        states.Component(name="etcd", version="v3.6.16", ports={"client": 21000, "peer": 21001}),
        states.Component(name="kube-apiserver", version="v1.36.3", ports={"secure": 21002}),
    )
    ready = structs.replace(
        made,
        phase=states.Phase.READY,
        supervisor=processes.current(),
        components=components,
    )
    return structs.replace(ready, **changes)
