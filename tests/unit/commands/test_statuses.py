"""`status` over answers as the API server gives them: what it warns of and what it never claims."""

import datetime
from typing import Any

import pytest

from tiphys.operator import apis
from tiphys.operator.commands import installations, overviews, sessions, statuses, views

GATED = {"schedulingGates": [{"name": "tiphys.dev/steer"}]}
READY = {"webhooks": [{"clientConfig": {"caBundle": "Zm9v"}}]}


class Api:
    """Answers by the last part of the path; unknown single objects are not there."""

    def __init__(self, answers: dict[str, Any], refused: tuple[str, ...] = ()) -> None:
        self._answers = answers
        self._refused = refused

    async def call(self, method: str, path: str, *, accept: str) -> Any:
        """Return a list or an object, or raise as the client does."""
        assert ("GET", True) == (method, accept.startswith(apis.JSON))
        way = path.partition("?")[0]
        if any(part in way for part in self._refused):
            raise apis.ForbiddenError("forbidden")
        if way in self._answers:
            return self._answers[way]
        name = way.rpartition("/")[2]
        if name in self._answers:
            return self._answers[name]
        if name == "tiphys" or "configmaps" in way:
            raise apis.NotFoundError("not found")
        return {"items": []}


def a_workload(name: str, disabled: bool = False) -> dict[str, Any]:
    """Return a Deployment of ours."""
    env = [{"name": "TIPHYS_DISABLED", "value": "1"}] if disabled else []
    containers = [{"name": "main", "env": env}]
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 2, "template": {"spec": {"containers": containers}}},
    }


def a_space(name: str, enabled: str = "true", **labels: str) -> dict[str, Any]:
    """Return a namespace that opted in."""
    annotations = {"tiphys.dev/enabled": enabled}
    return {"metadata": {"name": name, "annotations": annotations, "labels": labels}}


def a_pod(namespace: str, name: str = "p", **labels: str) -> dict[str, Any]:
    """Return a pod behind our gate; `labels` stand in for that of a steered pod."""
    about = {"namespace": namespace, "name": name, "creationTimestamp": "2026-11-30T10:00:00Z"}
    about["uid"] = f"u-{name}"
    about["labels"] = labels or {"tiphys.dev/steered": "true"}  # type: ignore[assignment]
    return {"metadata": about, "spec": GATED}


WEBHOOKS = {path: READY for path in installations.QUESTIONS.values() if path.endswith("/tiphys")}


async def told(
    answers: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    refused: tuple[str, ...] = (),
    everywhere: bool = False,
) -> tuple[dict[str, Any], str]:
    """Return what was found, and what is printed as one line."""
    api: Any = Api(answers, refused)
    session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
    found, hidden = await statuses._look(session, everywhere)
    overviews.show(found, hidden)
    return found, " ".join(capsys.readouterr().out.split())


async def test_gates_that_somebody_set_by_hand_are_warned_of_and_not_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Tiphys may not open them: the pods were not steered when they were created."""
    pods = [a_pod("red"), *(a_pod("red", f"x{n}", own="y") for n in range(7))]
    found, said = await told({**WEBHOOKS, "/api/v1/namespaces/red/pods": {"items": pods}}, capsys)
    assert [1] == [row["pods"] for row in found["waiting"]]
    assert "will not open: red/x0, red/x1, red/x2, red/x3, red/x4 and 2 more; take them out" in said


async def test_the_namespace_that_was_looked_at_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And how many wait elsewhere, where that may be read."""
    answers = {**WEBHOOKS, "/api/v1/pods": {"items": [a_pod("blue"), a_pod("blue")]}}
    _, said = await told(answers, capsys)
    assert "No pod waits behind the gate in namespace red." in said
    assert "In other namespaces wait 2: `tiphys status -A` lists them." in said
    _, said = await told(answers, capsys, everywhere=True)
    assert "In other namespaces" not in said
    api_pods: dict[str, Any] = {"/api/v1/namespaces/red/pods": {"items": []}}
    _, said = await told({**WEBHOOKS, **api_pods}, capsys, refused=("/api/v1/pods",))
    assert "No pod waits behind the gate in namespace red." in said
    assert "Not shown: pods" not in said


class Staged(Api):
    """One with pods in each stage, by what is asked of them."""

    def __init__(self, stages: dict[str, list[dict[str, Any]]]) -> None:
        super().__init__(dict(WEBHOOKS))
        self._stages = stages

    async def call(self, method: str, path: str, *, accept: str) -> Any:
        """Return pods by the question's field selector."""
        way, _, asked = path.partition("?")
        if way != "/api/v1/namespaces/red/pods":
            return await super().call(method, path, accept=accept)
        wanted = (
            "unbound"
            if asked == statuses.GATED
            else "bound"
            if "spec.nodeName!%3D" in asked and "tiphys.dev%2Fsteered%3Dtrue" in asked
            else "marked"
        )
        return {"items": self._stages[wanted]}


async def test_the_numbers_of_a_namespace_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    """Each pod that was steered is counted once: behind the gate, open, bound or running."""

    def named(name: str, *, gated: bool = False) -> dict[str, Any]:
        found = a_pod("red", name)
        return found if gated else {**found, "spec": {}}

    waiting = [named(f"w{n}", gated=True) for n in range(4)]
    opened, starting = named("o"), [named("s0"), named("s1")]
    foreign = {**a_pod("red", "x", own="y"), "spec": {}}
    running = [named(f"r{n}") for n in range(3)]
    stages = {
        "unbound": [*waiting, opened, foreign],
        "bound": starting,
        "marked": [opened, *starting, *running],
    }
    api: Any = Staged(stages)
    session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
    found, hidden = await statuses._look(session, False)
    counts = {"namespace": "red", "waiting": 4, "open": 1, "starting": 2, "running": 3}
    assert [counts] == found["counts"]
    overviews.show(found, hidden)
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("red"))
    assert ["red", "4", "1", "2", "3"] == row.split()


class Leading(Api):
    """One of whose operators leads, and says of a pod what `said` holds."""

    def __init__(self, answers: dict[str, Any], said: dict[str, Any] | None) -> None:
        super().__init__(answers)
        self._said = said

    async def get(self, path: str) -> Any:
        """Answer for the operator's pod, and for the operator through the proxy."""
        if "/proxy/" not in path:
            return {"status": {"podIP": "10.0.0.1"}}
        assert path.endswith("pods/op-a:9080/proxy/v1/explanations/u-p")
        if self._said is None:
            raise apis.ForbiddenError("forbidden")
        return self._said


def a_written(ago_s: float) -> dict[str, Any]:
    """Return a pod behind our gate onto which the leader wrote a reason so long ago."""
    at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ago_s)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    condition["message"] = "Tiphys: It was written."
    condition["lastTransitionTime"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {**a_pod("red"), "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("led", "said", "unwritten", "written"),
    [
        (True, {"hold": {"reason": "No node has room."}}, "No node has room.", ""),
        (
            True,
            {"hold": {"reason": "No node has room.", "untilRestsOn": "default"}},
            "No node has room. (no history yet: assumed)",
            "",
        ),
        (True, {"gated": False}, statuses.OPENING, ""),
        (True, {}, views.UNPLANNED, "It was written. (as of "),
        (True, None, f"{views.UNTOLD}; `tiphys explain pod`", "It was written. (as of 4"),
        (False, {}, f"{views.UNTOLD}; `tiphys explain pod`", "It was written. (as of 4"),
    ],
)
async def test_the_leader_is_asked_why_pods_wait_now(
    led: bool,
    said: dict[str, Any] | None,
    unwritten: str,
    written: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What it wrote is old after seconds and absent in the first ones; alone it stands dated."""
    now = datetime.datetime.now(datetime.UTC).isoformat()
    spec = {"holderIdentity": "op-a" if led else "", "renewTime": now}
    leases = {"items": [{"metadata": {"name": "tiphys-operator"}, "spec": spec}]}
    for pod, why in ((a_pod("red"), unwritten), (a_written(41.0), written or unwritten)):
        answers = {**WEBHOOKS, "leases": leases}
        answers |= {"/api/v1/namespaces/red/pods": {"items": [pod]}}
        api: Any = Leading(answers, said)
        session = sessions.Session(api=api, namespace="red", output="table", system="tiphys-system")
        found, hidden = await statuses._look(session, False)
        overviews.show(found, hidden)
        shown = " ".join(capsys.readouterr().out.split())
        assert why in shown
        assert ("as of" in shown) is why.startswith("It was written.")
        unasked = "as of" in shown and led and said is None
        assert unasked is ("Reasons are those written on the pods: you may not ask" in shown)


async def test_what_is_switched_off_stands_above_all(capsys: pytest.CaptureFixture[str]) -> None:
    """By name, with the value of the chart that does it."""
    listed = [a_workload("tiphys-operator", disabled=True), a_workload("tiphys-webhook")]
    found, said = await told({**WEBHOOKS, "deployments": {"items": listed}}, capsys)
    assert ["tiphys-operator"] == found["disabled"]
    assert said.startswith("WARNING: switched off by TIPHYS_DISABLED=1")


async def test_a_webhook_that_nobody_calls_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    """Not there, or without a caBundle; one that may not be read is no warning."""
    keys = {"tiphys-public-keys": {"data": {}}}
    found, said = await told(keys, capsys)
    assert 2 == len(installations.unfit(found))
    led = {**found, "leader": "a"}
    assert (1, 0) == (statuses._verdict(led), statuses._verdict({**led, "webhooks": {}}))
    assert 1 == statuses._verdict({**led, "webhooks": {}, "leader": ""})
    assert "MutatingWebhookConfiguration tiphys: not there, so pods pass unsteered" in said
    empty: dict[str, Any] = {path: {"webhooks": [{"clientConfig": {}}]} for path in WEBHOOKS}
    found, said = await told(empty, capsys)
    assert "its caBundle is empty" in said
    found, said = await told({}, capsys, refused=("admissionregistration",))
    assert [] == installations.unfit(found)
    both = "mutatingwebhookconfigurations, validatingwebhookconfigurations"
    assert f"Not shown: {both} (you may not read them)." in said


SERVED = {
    "webhooks": [
        {
            "clientConfig": {
                "caBundle": "Zm9v",
                "service": {"namespace": "tiphys-system", "name": "tiphys-webhook"},
            }
        }
    ]
}


def a_slice(*ready: bool | None, service: str = "tiphys-webhook") -> dict[str, Any]:
    """Return an EndpointSlice of a Service, as the controller makes it."""
    labels = {"kubernetes.io/service-name": service}
    about = {"namespace": "tiphys-system", "name": f"{service}-x", "labels": labels}
    return {"metadata": about, "endpoints": [{"conditions": {"ready": each}} for each in ready]}


def a_webhook(available: int | None) -> dict[str, Any]:
    """Return the webhook's Deployment; Kubernetes leaves a count of none out."""
    found = a_workload("tiphys-webhook")
    found["metadata"]["namespace"] = "tiphys-system"
    return {**found, "status": {} if available is None else {"availableReplicas": available}}


@pytest.mark.parametrize(
    ("slices", "available", "refused", "serves"),
    [
        ([], 2, (), True),
        ([a_slice(True)], None, (), False),
        ([a_slice(False, True)], 0, ("deployments",), True),
        ([a_slice(None)], 0, ("deployments",), True),
        ([a_slice(False, False), a_slice(True, service="another")], 2, ("deployments",), False),
        ([a_slice()], 2, ("deployments",), False),
        ([], None, ("deployments",), True),
        ([], None, ("deployments", "endpointslices"), True),
    ],
)
async def test_a_webhook_without_a_ready_pod_is_a_no(
    slices: list[dict[str, Any]],
    available: int | None,
    refused: tuple[str, ...],
    serves: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By its Deployment, else by its EndpointSlices; where neither tells nothing is said."""
    answers: dict[str, Any] = dict.fromkeys(WEBHOOKS, SERVED)
    answers |= {"endpointslices": {"items": slices}}
    answers |= {"deployments": {"items": [a_webhook(available)]}}
    found, said = await told(answers, capsys, refused)
    assert (0 if serves else 1) == statuses._verdict({**found, "leader": "a"})
    sentence = "no pod behind its Service tiphys-system/tiphys-webhook is ready, so pods pass"
    assert serves is (sentence not in said)
    assert ("endpointslices" in refused) is ("Not shown: endpointslices, deployments" in said)


async def test_a_cluster_without_tiphys_is_told_so_in_the_first_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing else of it is listed as missing; not where one may see too little to say it."""
    found, said = await told({}, capsys)
    assert said.startswith("Tiphys is not installed in this cluster. Its Helm chart does that")
    assert "Opted-in namespaces" not in said
    assert "behind the gate" not in said
    assert "WebhookConfiguration" not in said
    assert "Operators" not in said
    assert 1 == statuses._verdict(found)
    _, said = await told({}, capsys, refused=("configmaps",))
    assert "is not installed" not in said
    _, said = await told(WEBHOOKS, capsys)
    assert "is not installed" not in said


async def test_a_namespace_that_is_not_there_is_said_to_be_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A misspelt one has no waiting pod either, and must not look well for it."""
    answers = {**WEBHOOKS, "namespaces": {"items": [a_space("rot")]}}
    _, said = await told(answers, capsys)
    assert "there is no namespace red in this cluster" in said
    _, said = await told(answers, capsys, everywhere=True)
    assert "there is no namespace" not in said


@pytest.mark.parametrize(
    ("releasers", "refused", "said"),
    [
        (["tiphys-releaser"], (), "gates are opened by the releaser."),
        ([], (), "no releaser is there: gates stay shut"),
        ([], ("/apis/apps", "/apis/batch"), "you may not see whether a releaser is there"),
    ],
)
async def test_the_releaser_is_promised_only_where_one_is(
    releasers: list[str],
    refused: tuple[str, ...],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After an uninstallation nothing opens gates."""
    answers = {"deployments": {"items": [a_workload(name) for name in releasers]}}
    assert said in (await told({**WEBHOOKS, **answers}, capsys, refused))[1]


async def test_namespaces_that_no_policy_selects_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Only where policies exist, and only those that opted in."""
    spaces = [a_space("red", team="a"), a_space("blue", team="b"), a_space("grey", "false")]
    policy = {"metadata": {"name": "p"}, "spec": {"selector": {"namespaceLabels": {"team": "a"}}}}
    answers = {**WEBHOOKS, "namespaces": {"items": spaces}}
    found, _ = await told(answers, capsys)
    assert [] == found["warnings"]
    answers["schedulingpolicies"] = {"items": [policy]}
    _, said = await told(answers, capsys)
    assert "no SchedulingPolicy selects them, so they are not steered: blue;" in said
    policy["spec"] = {}
    found, _ = await told(answers, capsys)
    assert [] == found["warnings"]


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({}, []),
        ({"client-certificates": "required"}, []),
        ({"client-certificates": "none"}, ["no client certificate"]),
        (
            {"client-certificates": "none", "webhook-reached-by-pods": "false"},
            ["no client certificate"],
        ),
        (
            {"client-certificates": "none", "webhook-reached-by-pods": "true"},
            ["no client certificate", "any pod reaches the webhook"],
        ),
    ],
)
async def test_what_is_weaker_than_certificates_is_said(
    annotations: dict[str, str], said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It works all the same, so the exit code is the one of a cluster that is well."""
    noted = {f"tiphys.dev/{key}": value for key, value in annotations.items()}
    answers = {path: {**READY, "metadata": {"annotations": noted}} for path in WEBHOOKS}
    found, shown = await told(answers, capsys)
    assert len(said) == len(found["warnings"])
    for part in said:
        assert part in shown
    assert "none" == found["clientCertificates"] if said else [] == found["warnings"]
    assert 0 == statuses._verdict({**found, "leader": "a"})
