from lab import apis
from lab.kubelet.behaviours import provisioners


def a_claim(**spec: object) -> apis.Object:
    """Return a PersistentVolumeClaim."""
    return {
        "metadata": {"name": "work", "namespace": "ns", "uid": "u-1"},
        "spec": {
            "storageClassName": "lab",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            **spec,
        },
    }


def test_a_claim_of_the_labs_class_gets_a_volume_that_is_bound_to_it() -> None:
    """Size and access as it asks for them."""
    claim = a_claim()
    assert provisioners.wanted(claim)
    volume = provisioners.volume(claim)
    assert volume["metadata"]["name"] == "pvc-u-1"
    assert volume["spec"]["capacity"] == {"storage": "1Gi"}
    assert volume["spec"]["claimRef"]["uid"] == "u-1"


def test_other_claims_are_left_alone() -> None:
    """Of another class, bound already, or on their way out."""
    assert not provisioners.wanted(a_claim(storageClassName="fast"))
    assert not provisioners.wanted(a_claim(volumeName="pv-1"))
    going = a_claim()
    going["metadata"]["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    assert not provisioners.wanted(going)
