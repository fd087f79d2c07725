"""Writes the records of a synthetic run as a lab would: audit log, journal, cluster, run record."""

import datetime
import json

import msgspec
import yaml

from lab.workloads import runs


def write(home, run):
    """Write all the records of a run into the home of a lab."""
    runs.write(home, run.record)
    cluster = msgspec.to_builtins(run.cluster)
    home.cluster.write_text(yaml.safe_dump(cluster))
    journal = (*run.pods, *run.samples, *run.faults)
    home.journal.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in journal))
    home.audit_log.write_text("".join(json.dumps(line_of(call)) + "\n" for call in run.calls))


def an_event(verb, resource, *, name="wf-0-align-1", stage="ResponseComplete", **rest):
    """Return one line of an audit log as the API server writes it."""
    resource, _, subresource = resource.partition("/")
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "0d6f0e7e",
        "stage": stage,
        "requestURI": "/api/v1/namespaces/genomics/pods?fieldManager=argo",
        "verb": verb,
        "user": {"username": "system:serviceaccount:argo:argo", "groups": ["a"]},
        "sourceIPs": ["127.0.0.1"],
        "objectRef": {
            "resource": resource,
            "namespace": "genomics",
            "name": name,
            "apiVersion": "v1",
            **({"subresource": subresource} if subresource else {}),
        },
        "responseStatus": {"metadata": {}, "code": 201},
        "requestReceivedTimestamp": "2026-11-30T05:40:00.123456Z",
        "stageTimestamp": "2026-11-30T05:40:00.130456Z",
        **rest,
    }


def line_of(call):
    """Return the line of the audit log of one call."""
    return an_event(
        call.verb,
        call.resource,
        name=call.name,
        annotations={"pods.tiphys.dev/outcome": call.outcome} if call.outcome else {},
        requestReceivedTimestamp=a_stamp(call.at),
        stageTimestamp=a_stamp(call.at + call.latency_s),
    )


def a_stamp(at):
    """Return a wall time as the API server writes it."""
    return datetime.datetime.fromtimestamp(at, tz=datetime.UTC).isoformat()
