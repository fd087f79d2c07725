"""A Prometheus configuration for one lab: jobs and labels as they are usual on real clusters."""

from collections.abc import Sequence
from typing import Any

import yaml

INTERVAL = "5s"
"""Wall time between two scrapes."""


def config(*, port: int, nodes: Sequence[str]) -> str:
    """Return `prometheus.yml`: cAdvisor and node-exporter per node, the rest once."""
    jobs = [
        _per_node("kubelet", "/metrics/cadvisor", port=port, nodes=nodes),
        _per_node("node-exporter", "/metrics/node", port=port, nodes=nodes),
        _single("kube-state-metrics", "/metrics/state", port=port),
        _single("tiphys-lab", "/metrics", port=port),
    ]
    content = {"global": {"scrape_interval": INTERVAL}, "scrape_configs": jobs}
    return yaml.safe_dump(content, sort_keys=False)


def _single(job: str, path: str, *, port: int) -> dict[str, Any]:
    return {
        "job_name": job,
        "metrics_path": path,
        # kube-state-metrics' own `namespace`, `pod` and `node` mean what they describe.
        "honor_labels": True,
        "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }


def _per_node(job: str, path: str, *, port: int, nodes: Sequence[str]) -> dict[str, Any]:
    """Return a job whose targets are the nodes' names; one address answers for all of them."""
    return {
        "job_name": job,
        "metrics_path": path,
        "static_configs": [{"targets": list(nodes)}],
        "relabel_configs": [
            {"source_labels": ["__address__"], "target_label": "__param_node"},
            {"source_labels": ["__address__"], "target_label": "node"},
            {"source_labels": ["__address__"], "target_label": "instance"},
            {"target_label": "__address__", "replacement": f"127.0.0.1:{port}"},
        ],
    }
