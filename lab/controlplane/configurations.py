"""The files that the components read: kubeconfigs, scheduler, admission, audit.

Everything is written before the first process starts, except the kubeconfigs, which name the API
server's port and are written (again) when it is chosen.
"""

from pathlib import Path
from typing import Any

import msgspec
import yaml

from lab import catalogs, homes, records
from lab.controlplane import certificates

WEBHOOK_PLUGINS = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
BACKOFF_S = 1
"""kube-scheduler's back-off for a pod that did not fit. It cannot be below 1 s and is wall time: at
the default of 1 to 10 s a lab that runs faster would punish whoever relies on the queue."""


def client_kubeconfig(home: homes.Home, client: str) -> Path:
    """Return where the kubeconfig of one client stands; `admin` is the lab's own."""
    return home.kubeconfig if client == "admin" else home.pki / f"{client}.kubeconfig"


def write_kubeconfigs(home: homes.Home, *, port: int) -> None:
    """Write the kubeconfig of every client for the API server on `port`."""
    for client in certificates.CLIENTS:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "lab",
                    "cluster": {
                        "server": f"https://127.0.0.1:{port}",
                        "certificate-authority": str(home.pki / "ca.crt"),
                    },
                }
            ],
            "users": [{"name": client.user, "user": _certificate(home.pki / client.file)}],
            "contexts": [
                {"name": home.name, "context": {"cluster": "lab", "user": client.user}},
            ],
            "current-context": home.name,
        }
        _write(client_kubeconfig(home, client.file), config)


def write_all(home: homes.Home) -> None:
    """Write what does not depend on a port."""
    folder = home.root / "config"
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "scheduler.yaml", scheduler(home))
    _write(folder / "audit-policy.yaml", audit_policy())
    _write(folder / "admission.yaml", admission(folder / "webhooks.kubeconfig"))
    _write(folder / "webhooks.kubeconfig", webhook_kubeconfig(home))


def cluster(described: catalogs.Cluster) -> str:
    """Return a cluster as YAML: the copy that a lab keeps, whatever becomes of the original."""
    text: str = yaml.safe_dump(msgspec.to_builtins(described), sort_keys=False)
    return text


def scheduler(home: homes.Home) -> dict[str, Any]:
    """Return the KubeSchedulerConfiguration."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {
            "kubeconfig": str(client_kubeconfig(home, "kube-scheduler")),
            "qps": 200,
            "burst": 400,
        },
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": BACKOFF_S,
        "podMaxBackoffSeconds": BACKOFF_S,
    }


def admission(webhooks: Path) -> dict[str, Any]:
    """Return the AdmissionConfiguration: both webhook plugins show a client certificate."""
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [
            {
                "name": plugin,
                "configuration": {
                    "apiVersion": "apiserver.config.k8s.io/v1",
                    "kind": "WebhookAdmissionConfiguration",
                    "kubeConfigFile": str(webhooks),
                },
            }
            for plugin in WEBHOOK_PLUGINS
        ],
    }


def webhook_kubeconfig(home: homes.Home) -> dict[str, Any]:
    """Return who the API server is to webhooks: `*` stands for any host and port."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "users": [{"name": "*", "user": _certificate(home.pki / "webhook-client")}],
    }


def audit_policy() -> dict[str, Any]:
    """Return what the API server writes down: the life of pods and workflows, metadata only.

    A policy cannot choose by response code, and all of it would be some hundred lines a pod;
    refusals are counted by the API server's own metrics (`apiserver_request_total`).
    """
    core = {
        "group": "",
        "resources": ["pods", "pods/binding", "pods/eviction", "pods/resize"],
    }
    argo = {"group": "argoproj.io", "resources": ["workflows"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "omitManagedFields": True,
        "rules": [
            {
                "level": "Metadata",
                "verbs": ["create", "delete", "deletecollection"],
                "resources": [core],
            },
            # Two or three lines a pod: how long they took decides about the validity of a run.
            {
                "level": "Metadata",
                "verbs": ["patch"],
                "resources": [{"group": "", "resources": ["pods/status"]}],
            },
            {
                "level": "Metadata",
                "verbs": ["create", "update", "patch", "delete", "deletecollection"],
                "resources": [argo],
            },
            {"level": "None"},
        ],
    }


def _certificate(stem: Path) -> dict[str, str]:
    return {"client-certificate": f"{stem}.crt", "client-key": f"{stem}.key"}


def _write(path: Path, content: dict[str, Any]) -> None:
    records.write_whole(path, yaml.safe_dump(content, sort_keys=False).encode(), mode=0o600)
