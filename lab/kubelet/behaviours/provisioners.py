"""A storage class for the lab: each PersistentVolumeClaim of it gets a PersistentVolume at once.

The volume's contents are a folder of the lab (see `volumes`); the PersistentVolume exists so that
the scheduler and the controllers see what they see on a real cluster.
"""

import asyncio
import logging
import shutil
from pathlib import Path

from lab import apis

logger = logging.getLogger(__name__)

PROVISIONER = "tiphys.dev/lab"
CLASS: apis.Object = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {
        "name": "lab",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
    "volumeBindingMode": "Immediate",
}
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
MANAGED = "pv.kubernetes.io/provisioned-by"


async def run(api: apis.Api, contents: Path) -> None:
    """Provide volumes for as long as the lab runs, and delete those whose claim is gone.

    `contents` is the folder that holds what was written to them, by the claims' uids.
    """
    await api.apply("/apis/storage.k8s.io/v1/storageclasses/lab", CLASS)
    async with asyncio.TaskGroup() as group:
        group.create_task(_provide(api))
        group.create_task(_reclaim(api, contents))


async def _provide(api: apis.Api) -> None:
    async for kind, claim in api.watch(CLAIMS):
        if kind not in ("ADDED", "MODIFIED") or not wanted(claim):
            continue
        try:
            await api.create(VOLUMES, volume(claim))
        except apis.ApiError as error:
            if error.status != 409:
                logger.warning("no volume for a claim: %s", error)


async def _reclaim(api: apis.Api, contents: Path) -> None:
    async for kind, item in api.watch(VOLUMES):
        metadata = item["metadata"]
        ours = (metadata.get("annotations") or {}).get(MANAGED) == PROVISIONER
        released = (item.get("status") or {}).get("phase") == "Released"
        if kind not in ("ADDED", "MODIFIED") or "deletionTimestamp" in metadata:
            continue
        if ours and released:
            await api.delete(f"{VOLUMES}/{metadata['name']}")
            uid = item["spec"]["claimRef"]["uid"]
            await asyncio.to_thread(shutil.rmtree, contents / uid, ignore_errors=True)


def wanted(claim: apis.Object) -> bool:
    """Whether a claim waits for a volume of the lab's class."""
    spec = claim["spec"]
    return (
        spec.get("storageClassName") == CLASS["metadata"]["name"]
        and not spec.get("volumeName")
        and "deletionTimestamp" not in claim["metadata"]
    )


def volume(claim: apis.Object) -> apis.Object:
    """Return the PersistentVolume for a claim, bound to it from the start."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": {MANAGED: PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec["storageClassName"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "hostPath": {"path": f"/lab/claims/{metadata['uid']}"},
        },
    }
