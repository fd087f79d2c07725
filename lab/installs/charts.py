"""The chart `charts/tiphys` and what a lab answers to its values."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from pathlib import Path

from lab import apis, errors, homes
from lab.controlplane import states
from lab.installs import helms
from lab.processnode import settings

FOLDER = Path(__file__).parents[2] / "charts" / "tiphys"
RELEASE = "tiphys"
NAMESPACE = "tiphys-system"
RELEASER_NAMESPACE = "tiphys-release"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SUBJECT = "O=system:apiserver,CN=kube-apiserver"
"""Of the certificate that the lab's API server shows to webhooks."""
GONE_WITHIN_S = 90.0
LOOK_EVERY_S = 0.2
WEBHOOK_PORT = 8443
"""Of the webhook's Service: on the process node one below 1024 would need root."""


def values(home: homes.Home, *, more: Mapping[str, object] | None = None) -> apis.Object:
    """Return the chart's values for a lab; `more` are a person's, which win, key by key.

    Pods are marked for the process node, which runs this checkout with this interpreter; each has
    an address of its own, so that the chart's ports stay as they are. The lab's API server shows a
    certificate of its own authority to webhooks.
    """
    state = states.load(home)
    history = home.data / "history"
    history.mkdir(mode=0o700, parents=True, exist_ok=True)
    answered: apis.Object = {
        "image": {"registry": "lab.invalid/tiphys", "tag": state.name},
        "pods": {"annotations": {settings.MARK: settings.MARKED}},
        "webhook": {
            "service": {"port": WEBHOOK_PORT},
            "clientCA": (home.pki / "webhook-client-ca.crt").read_text(),
            "clientSubjects": [SUBJECT],
        },
        "operator": {"historyVolume": {"hostPath": {"path": str(history)}}},
    }
    return merged(answered, more or {})


def merged(below: Mapping[str, object], above: Mapping[str, object]) -> apis.Object:
    """Return two trees of values as one: maps are joined, everything else is replaced."""
    joined = dict(below)
    for key, value in above.items():
        there = joined.get(key)
        both = isinstance(there, Mapping) and isinstance(value, Mapping)
        joined[key] = merged(there, value) if both else value  # type: ignore[arg-type]
    return joined


async def apply_definitions(api: apis.Api) -> None:
    """Bring the CRDs up to the chart's: Helm makes them once and never touches them again."""
    for file in sorted((FOLDER / "crds").glob("*.yaml")):
        for item in helms.objects(file.read_text()):
            await api.apply(f"{DEFINITIONS}/{item['metadata']['name']}", item)


def install(program: Path, home: homes.Home, chosen: Mapping[str, object]) -> str:
    """Install the chart, or bring what is installed up to it; returns what Helm said."""
    command = ["upgrade", RELEASE, str(FOLDER), "--install", "--create-namespace"]
    return helms.run(program, [*command, "--namespace", NAMESPACE], home=home, values=chosen)


def uninstall(program: Path, home: homes.Home) -> bool:
    """Take the chart away, its CRDs and Secrets too; False if it was not installed."""
    if not installed(program, home):
        return False
    helms.run(program, ["uninstall", RELEASE, "--namespace", NAMESPACE, "--wait"], home=home)
    return True


def installed(program: Path, home: homes.Home) -> bool:
    """Say whether the lab has a release of the chart, whole or not."""
    listed = helms.run(program, ["list", "--all", "--short", "--namespace", NAMESPACE], home=home)
    return RELEASE in listed.split()


def manifest(
    program: Path, chosen: Mapping[str, object], *, kubernetes: str, policies: bool
) -> list[apis.Object]:
    """Render the chart without a cluster, as for one of `kubernetes` (`v1.36.3`).

    `policies` says whether it has MutatingAdmissionPolicy.
    """
    command = ["template", RELEASE, str(FOLDER), "--namespace", NAMESPACE, "--include-crds"]
    command += ["--kube-version", kubernetes]
    if policies:
        api = "admissionregistration.k8s.io/v1"
        command += ["--api-versions", api, "--api-versions", f"{api}/MutatingAdmissionPolicy"]
    return helms.objects(helms.run(program, command, values=chosen))


async def wipe(api: apis.Api) -> None:
    """Delete what Helm leaves behind on purpose: CRDs, and what the leader made itself.

    Returns when it is gone, since nothing can be installed in a namespace that is on its way out.
    Raises `LabError` for what is still there after `GONE_WITHIN_S`.
    """
    paths = [
        f"{DEFINITIONS}/{item['metadata']['name']}"
        for file in sorted((FOLDER / "crds").glob("*.yaml"))
        for item in helms.objects(file.read_text())
    ]
    paths += [f"/api/v1/namespaces/{name}" for name in (NAMESPACE, RELEASER_NAMESPACE)]
    for path in paths:
        with contextlib.suppress(errors.LabError):
            await api.delete(path)
    until = time.monotonic() + GONE_WITHIN_S
    for path in paths:
        while await _exists(api, path):
            if time.monotonic() > until:
                raise errors.LabError(
                    f"{path} is still there {GONE_WITHIN_S:.0f} s after it was deleted: "
                    f"`kubectl get --raw {path}` says what it waits for"
                )
            await asyncio.sleep(LOOK_EVERY_S)


async def _exists(api: apis.Api, path: str) -> bool:
    try:
        await api.get(path)
    except apis.ApiError as error:
        if error.status != 404:
            raise
        return False
    return True
