"""Volumes of a pod: what is missing is said as a kubelet says it, and waited for."""

import asyncio
from pathlib import Path

import pytest

from lab.kubelet.behaviours import executed, grounds
from tests.unit.behaviours import fakes


async def test_a_missing_config_map_is_told_once_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FailedMount names the volume; when the ConfigMap comes the pod goes on."""
    monkeypatch.setattr(executed, "WAIT_FOR_REFERENCE_S", 0.01)
    pod = {
        "metadata": {"namespace": "ns", "name": "p", "uid": "u"},
        "spec": {
            "containers": [],
            "volumes": [{"name": "settings", "configMap": {"name": "absent"}}],
        },
        "status": {},
    }
    api = fakes.FakeApi()
    host = fakes.FakeHost(tmp_path, pod, api=api)
    ground = grounds.of(host)
    monkeypatch.setattr(ground, "_permitted", "not here")
    prepared = asyncio.create_task(executed.Executed(host, ground).prepare())
    await asyncio.sleep(0.1)
    message = 'MountVolume.SetUp failed for volume "settings" : configmap "absent" not found'
    assert [("FailedMount", message)] == host.warnings
    api.objects["/api/v1/namespaces/ns/configmaps/absent"] = {"data": {"a": "1"}}
    assert 0 == (await asyncio.wait_for(prepared, 5.0)).exit_code
    assert "1" == (ground.pod_folder(pod) / "volumes" / "settings" / "a").read_text()


async def test_a_missing_secret_of_an_environment_is_waited_for_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The container is not made, and the pod does not fail."""
    monkeypatch.setattr(executed, "WAIT_FOR_REFERENCE_S", 0.01)
    source = {"secretKeyRef": {"name": "absent", "key": "k"}}
    container = {"name": "c", "env": [{"name": "A", "valueFrom": source}]}
    pod = {
        "metadata": {"namespace": "ns", "name": "q", "uid": "v"},
        "spec": {"containers": [container]},
        "status": {},
    }
    api = fakes.FakeApi()
    host = fakes.FakeHost(tmp_path, pod, api=api)
    ground = grounds.of(host)
    monkeypatch.setattr(ground, "_permitted", "not here")
    prepared = asyncio.create_task(executed.Executed(host, ground).prepare())
    await asyncio.sleep(0.1)
    assert [("Failed", 'Error: secret "absent" not found')] == host.warnings
    assert not prepared.done()
    api.objects["/api/v1/namespaces/ns/secrets/absent"] = {"data": {"k": "MQ=="}}
    assert 0 == (await asyncio.wait_for(prepared, 5.0)).exit_code
