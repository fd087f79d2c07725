"""Whose pods reach the webhook: those of namespaces that opted in, and nobody else pays for it."""

import asyncio
import contextlib
import statistics
import time
import uuid
from collections.abc import AsyncIterator, Iterator

import pytest

from lab import apis, homes
from lab.installs import charts, helms
from tests.lab import chart_objects, polls
from tests.lab.chart_objects import NO_PROCESSES, STEERED, a_namespace, a_task

pytestmark = pytest.mark.timeout(180)

LISTED = f"/apis/tiphys.dev/v1alpha1/namespaces/{charts.NAMESPACE}/steerednamespaces/tiphys"
CONFIGURATION = (
    "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/tiphys",
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/tiphys",
)
DEADLINE_S = 2.0
"""timeoutSeconds of the webhooks."""
NOISE_S = 0.25
"""More than a busy machine adds to the median of a few creates, less than any time-out."""


@pytest.fixture(scope="module", autouse=True)
def chart(lab: homes.Home) -> Iterator[None]:
    """Install the chart without its processes."""
    with chart_objects.installed(lab):
        yield


@pytest.fixture
async def namespaces(lab: homes.Home, api: apis.Api) -> AsyncIterator[list[str]]:
    """Return a namespace that opted in, one that opted out, one that said nothing."""
    tail = uuid.uuid4().hex[:6]
    made = [
        await a_namespace(api, f"in-{tail}", enabled="true"),
        await a_namespace(api, f"out-{tail}", enabled="false"),
        await a_namespace(api, f"silent-{tail}"),
    ]
    await chart_objects.active(api, lab, made[0])
    yield made
    for name in made:
        await api.delete(f"/api/v1/namespaces/{name}")


async def stamp(api: apis.Api, namespace: str, pod: apis.Object | None = None) -> str | None:
    """Create a pod as a trial and return the stamp that it got."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = await api.call("POST", path, body=pod or a_task(), params={"dryRun": "All"})
    found: str | None = made["metadata"]["labels"].get(STEERED)
    return found


def needs_policies(lab: homes.Home) -> None:
    """Skip where the cluster has no MutatingAdmissionPolicy."""
    if not chart_objects.stamps(lab):
        pytest.skip("v1.34 has no MutatingAdmissionPolicy v1; the selector has a test of its own")


async def test_pods_of_argo_are_stamped_where_the_namespace_opted_in(
    lab: homes.Home, api: apis.Api, namespaces: list[str]
) -> None:
    """Nowhere else; and a pod that is none of Argo's is not."""
    needs_policies(lab)
    plain = a_task()
    plain["metadata"]["labels"] = {"app": "web"}

    assert ["true", None, None] == [await stamp(api, name) for name in namespaces]
    assert await stamp(api, namespaces[0], plain) is None


async def test_a_stamp_that_a_pod_brings_along_goes(
    lab: homes.Home, api: apis.Api, namespaces: list[str]
) -> None:
    """Labels can be set by anybody; where nobody opted in this one means nothing."""
    needs_policies(lab)
    forged = a_task(labels={STEERED: "true"})

    assert ["true", None, None] == [await stamp(api, name, forged) for name in namespaces]


async def test_namespaces_of_opted_in_workflows_are_stamped_by_the_list(
    lab: homes.Home, api: apis.Api, namespaces: list[str]
) -> None:
    """The leader keeps the list; what it writes holds within a moment, both ways."""
    needs_policies(lab)
    silent = namespaces[2]
    for value, expected in ((silent, "true"), (None, None)):
        await api.patch(LISTED, {"data": {silent: value}})

        async def held(expected: str | None = expected) -> bool:
            return expected == await stamp(api, silent)

        await polls.until(held, within_s=10)


async def test_our_own_namespaces_and_the_clusters_are_never_steered(
    lab: homes.Home, api: apis.Api
) -> None:
    """Not even if somebody annotates them."""
    needs_policies(lab)
    for name in ("kube-system", charts.NAMESPACE):
        path = f"/api/v1/namespaces/{name}"
        await api.patch(path, {"metadata": {"annotations": {"tiphys.dev/enabled": "true"}}})
        try:
            assert await stamp(api, name) is None
        finally:
            await api.patch(path, {"metadata": {"annotations": {"tiphys.dev/enabled": None}}})


async def test_an_upgrade_keeps_what_the_leader_wrote(lab: homes.Home, api: apis.Api) -> None:
    """The authority, the listed namespaces, and where a selector names them, the selector."""
    stamps = chart_objects.stamps(lab)
    if stamps:
        await api.patch(LISTED, {"data": {"kept": "true"}})
    for path in CONFIGURATION:
        there = (await api.get(path))["webhooks"]
        there[0]["clientConfig"]["caBundle"] = "QUJD"
        for item in there[0]["namespaceSelector"]["matchExpressions"]:
            if item["operator"] == "In":
                item["values"] = ["kept"]
        await api.patch(path, {"webhooks": there})
    before = [(await api.get(path))["webhooks"][0] for path in CONFIGURATION]

    charts.install(helms.find(), lab, charts.values(lab, more={**NO_PROCESSES, "disabled": True}))

    after = [(await api.get(path))["webhooks"][0] for path in CONFIGURATION]
    listed = (await api.get(LISTED))["data"] if stamps else {"kept": "true"}
    for path, webhook in zip(CONFIGURATION, after, strict=True):
        blank = {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": ""}}
        await api.patch(path, {"webhooks": [blank]})
    assert before == after
    assert {"kept": "true"} == listed


async def test_an_installation_that_follows_another_stamps_as_well(
    lab: homes.Home, api: apis.Api, namespaces: list[str]
) -> None:
    """Without a new start of the API server, whose view of parameters outlives the policy."""
    needs_policies(lab)
    program = helms.find()

    charts.uninstall(program, lab)
    charts.install(program, lab, charts.values(lab, more=NO_PROCESSES))

    await chart_objects.active(api, lab, namespaces[0])


async def test_hung_webhooks_cost_others_nothing(
    lab: homes.Home, api: apis.Api, namespaces: list[str]
) -> None:
    """Both hang: a create of a bystander is as quick as ever, one that opted in goes through."""
    opted_in, _, silent = namespaces
    quick = await _median_s(api, silent)
    async with _hung() as url:
        more = {**NO_PROCESSES, "webhook": {"replicas": 0, "url": url}}
        charts.install(helms.find(), lab, charts.values(lab, more=more))
        if not chart_objects.stamps(lab):
            for path in CONFIGURATION:
                there = (await api.get(path))["webhooks"]
                for item in there[0]["namespaceSelector"]["matchExpressions"]:
                    if item["operator"] == "In":
                        item["values"] = [opted_in]
                await api.patch(path, {"webhooks": there})
        until = time.monotonic() + 20
        # The API server learns of it a moment later.
        while (steered := await _median_s(api, opted_in, count=1)) < DEADLINE_S:
            assert time.monotonic() < until, "the hung webhooks are not asked"
        bystander = await _median_s(api, silent)

    assert 2 * DEADLINE_S <= steered < 2 * DEADLINE_S + 2
    assert bystander - quick < NOISE_S


async def _median_s(api: apis.Api, namespace: str, *, count: int = 9) -> float:
    took = []
    for number in range(count):
        pod = a_task(f"p-{number}-{uuid.uuid4().hex[:6]}")
        began = time.monotonic()
        await api.create(f"/api/v1/namespaces/{namespace}/pods", pod)
        took.append(time.monotonic() - began)
    return statistics.median(took)


@contextlib.asynccontextmanager
async def _hung() -> AsyncIterator[str]:
    """Yield the address of a server that takes connections and never says a word."""
    held = asyncio.Event()

    async def hang(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        held.set()
        server.close()
        await server.wait_closed()
