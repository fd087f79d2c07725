"""Tiphys where the API server shows webhooks no certificate, as on managed control planes.

One lab whose AdmissionConfiguration names no user for webhooks. Its network enforces no policies,
like that of many a cluster, which has to be said too.
"""

import base64
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
import yaml

from lab import apis, homes
from lab.cli import installs
from lab.controlplane import controls
from lab.installs import charts, helms
from tests.fakes import pods, webhooks
from tests.lab import chart_objects, hooked_pods, polls

pytestmark = pytest.mark.timeout(600)

ADDRESS = {"networkPolicy": {"apiServerCIDRs": ["127.0.0.1/32"]}}
UNCERTIFIED: apis.Object = {
    **ADDRESS,
    "webhook": {"clientCertificates": "none", "clientCA": ""},
}
SYSTEM = f"/api/v1/namespaces/{charts.NAMESPACE}"
LEADER_LOOKS_WITHIN_S = 150.0
"""It looks every minute; the rest is for a busy machine."""
KINDS = tuple(plural for _, plural in hooked_pods.KINDS.values())


@pytest.fixture(scope="module")
def lab(make_module_lab: Callable[..., homes.Home]) -> homes.Home:
    """Return the home of a lab whose API server has no certificate for webhooks."""
    home = make_module_lab("uncertified", speed=20.0)
    file = home.root / "config" / "webhooks.kubeconfig"
    shown = yaml.safe_load(file.read_text())
    assert shown["users"]
    file.write_text(yaml.safe_dump({**shown, "users": []}))
    controls.send(home, "restart", "kube-apiserver")
    return home


@pytest.fixture
async def opted_in(api: apis.Api) -> AsyncIterator[str]:
    """Return a namespace that opted in."""
    name = await chart_objects.a_namespace(api, f"in-{uuid.uuid4().hex[:6]}", enabled="true")
    yield name
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def installed(lab: homes.Home) -> None:
    """Install the chart with its processes."""
    installs.install_into(lab, more=UNCERTIFIED)


async def test_this_api_server_shows_no_certificate(
    lab: homes.Home, api: apis.Api, opted_in: str, tmp_path: Path
) -> None:
    """A webhook that needs one is not reached by it, and the pods pass."""
    owner = await hooked_pods.an_owner(api, opted_in)
    trial = {"dryRun": "All"}
    authority = hooked_pods.client_authority(lab)
    async with (
        webhooks.running(tmp_path, client_authority=authority) as world,
        hooked_pods.configured(api, opted_in, url=world.url, authority=world.authority.pem),
    ):
        before = await hooked_pods.failed_open(api)

        async def counted() -> bool:
            pod = hooked_pods.a_task(owner)
            await api.call("POST", hooked_pods.pods(opted_in), body=pod, params=trial)
            return await hooked_pods.failed_open(api) > before

        await polls.until(counted, within_s=30)
    assert [] == world.decider.asked


@pytest.mark.usefixtures("installed")
async def test_pods_are_steered_by_a_path_that_strangers_do_not_know(
    api: apis.Api, opted_in: str
) -> None:
    """Decided, signed and validated as with certificates; without the path there is no page."""
    await polls.until(lambda: steered(api, opted_in), within_s=60)

    paths = await secret_paths(api)
    assert ["mutate", "validate"] == [path.split("/")[1] for path in paths]
    (segment,) = {path.split("/")[2] for path in paths}
    for path in ("/mutate", "/validate", f"/mutate/{'0' * 48}", f"/x/{segment}"):
        assert 404 == await called(api, path), path
    assert 200 == await called(api, paths[0])
    policy = "/apis/networking.k8s.io/v1/namespaces/tiphys-system/networkpolicies/tiphys-webhook"
    (admission, _) = (await api.get(policy))["spec"]["ingress"]
    assert [{"ipBlock": {"cidr": "127.0.0.1/32"}}] == admission["from"]
    assert "not found" in await chart_objects.refusal(
        api.get(f"{SYSTEM}/configmaps/tiphys-webhook-client-ca")
    )


@pytest.mark.usefixtures("installed")
async def test_what_is_weaker_is_said_wherever_one_looks(
    lab: homes.Home, api: apis.Api, tiphys: Callable[..., str]
) -> None:
    """By `tiphys status`, in the webhook's log and metrics, by the leader, and by no secret."""
    await polls.until(lambda: noted(api), within_s=LEADER_LOOKS_WITHIN_S)
    said = " ".join(tiphys("status").split())
    assert "no client certificate: a secret path and a NetworkPolicy keep others out" in said
    assert "any pod reaches the webhook, so that NetworkPolicy does not hold" in said
    segment = (await secret_paths(api))[0].split("/")[2]
    logs = [path.read_text() for path in (lab.logs / "pods").rglob("*.log")]
    assert any("callers show no certificate" in log for log in logs)
    assert any("any pod reaches the webhook" in log for log in logs)
    assert segment not in "".join(logs) + said
    params = {"labelSelector": "app.kubernetes.io/name=tiphys,app.kubernetes.io/component=webhook"}
    for pod in (await api.get(f"{SYSTEM}/pods", params=params))["items"]:
        url = f"http://{pod['status']['podIP']}:9080/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as page:
            text = await page.text()
        assert "tiphys_webhook_client_certificates_required 0.0" in text
        assert segment not in text


@pytest.mark.usefixtures("installed")
async def test_an_upgrade_leaves_the_path_as_it_is(lab: homes.Home, api: apis.Api) -> None:
    """Helm does not know it: neither its manifest nor what it keeps in the cluster holds it."""
    before = await secret_paths(api)
    program = helms.find()
    charts.install(program, lab, charts.values(lab, more=UNCERTIFIED))
    assert before == await secret_paths(api)
    arguments = ["get", "manifest", charts.RELEASE, "--namespace", charts.NAMESPACE]
    manifest = helms.run(program, arguments, home=lab)
    assert "ValidatingWebhookConfiguration" in manifest
    assert before[0].split("/")[2] not in manifest


@pytest.mark.usefixtures("installed")
async def test_a_path_that_became_known_is_replaced_with_the_ring(
    api: apis.Api, opted_in: str
) -> None:
    """As docs/install.md says: an empty ring ends the old path at once, and a new one comes."""
    before = await secret_paths(api)
    emptied = {"stringData": {"ring.json": '{"keys":[]}'}}
    await api.patch(f"{SYSTEM}/secrets/tiphys-webhook-keys", emptied)
    await polls.until(lambda: gone(api, before[0]), within_s=30)

    async def replaced() -> bool:
        return not set(before) & set(await secret_paths(api))

    await polls.until(replaced, within_s=LEADER_LOOKS_WITHIN_S)
    await polls.until(lambda: steered(api, opted_in), within_s=60)
    assert 404 == await called(api, before[0])


async def noted(api: apis.Api) -> bool:
    """Say whether the leader has noted that it reached the webhook."""
    path = f"{hooked_pods.REGISTRATION}/{KINDS[0]}/tiphys"
    annotations = (await api.get(path))["metadata"]["annotations"]
    return annotations.get("tiphys.dev/webhook-reached-by-pods") == "true"


async def gone(api: apis.Api, path: str) -> bool:
    """Say whether a path leads nowhere any more; without keys the Service has no webhook either."""
    try:
        return await called(api, path) == 404
    except aiohttp.ClientConnectorError:
        return True


async def secret_paths(api: apis.Api) -> list[str]:
    """Return the paths of both webhook configurations."""
    found = [await api.get(f"{hooked_pods.REGISTRATION}/{kind}/tiphys") for kind in KINDS]
    return [each["webhooks"][0]["clientConfig"]["service"].get("path", "") for each in found]


async def called(api: apis.Api, path: str) -> int:
    """Call the webhook's Service as a stranger on the network does; return the status."""
    secret = await api.get(f"{SYSTEM}/secrets/tiphys-webhook-tls")
    roots = base64.b64decode(secret["data"]["ca.crt"]).decode()
    service = (await api.get(f"{SYSTEM}/services/tiphys-webhook"))["spec"]
    url = f"https://{service['clusterIP']}:{service['ports'][0]['port']}{path}"
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            url,
            data=pods.a_body(),
            ssl=ssl.create_default_context(cadata=roots),
            server_hostname="tiphys-webhook.tiphys-system.svc",
        ) as response,
    ):
        return response.status


async def steered(api: apis.Api, namespace: str) -> bool:
    """Say whether the pod of a new workflow gets a decision that is signed."""
    container = {"image": "busybox", "command": ["sleep", "10"]}
    made = await api.create(
        f"/apis/argoproj.io/v1alpha1/namespaces/{namespace}/workflows",
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Workflow",
            "metadata": {"generateName": "one-"},
            "spec": {
                "entrypoint": "main",
                "templates": [{"name": "main", "container": container}],
            },
        },
    )
    label = f"workflows.argoproj.io/workflow={made['metadata']['name']}"

    async def created() -> list[apis.Object]:
        listed = await api.get(hooked_pods.pods(namespace), params={"labelSelector": label})
        return list(listed["items"])

    (pod,) = await polls.until(created, within_s=30)
    return {chart_objects.DECISION, chart_objects.SIGNATURE} <= set(
        pod["metadata"].get("annotations") or {}
    )
