"""Environments: order, references, and what is missing."""

import pytest

from lab.processnode import environments, fields
from tests.unit.processnode import builders as a


def resolved(container, *, base=None, **held):
    """Return the environment of a container of the usual pod."""
    return environments.resolve(
        a.a_pod(container), container, base=base or {}, sources=a.Sources(**held), place=a.PLACE
    )


def test_later_entries_win_and_see_earlier_ones():
    """The base first, then envFrom, then env, each able to refer to what stands before it."""
    container = a.a_container(
        envFrom=[{"prefix": "P_", "configMapRef": {"name": "conf"}}],
        env=[
            {"name": "PATH", "value": "/own:$(PATH)"},
            {"name": "BOTH", "value": "$(PATH) $(P_key) $(LATER)"},
            {"name": "LATER", "value": "x"},
        ],
    )
    found = resolved(container, base={"PATH": "/bin"}, conf={"key": b"value"})
    assert {
        "PATH": "/own:/bin",
        "P_key": "value",
        "BOTH": "/own:/bin value $(LATER)",
        "LATER": "x",
    } == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B)", "$(B)"),
        ("$A ${A}", "$A ${A}"),
        ("a$", "a$"),
    ],
)
def test_only_round_brackets_refer_and_doubling_escapes(text, expected):
    """As Kubernetes has it; what is not known stays as it stands."""
    assert expected == environments.expand(text, {"A": "1"})


def test_values_come_from_fields_resources_and_keys():
    """One of each kind."""
    origins = {
        "NAME": {"fieldRef": {"fieldPath": "metadata.name"}},
        "CPU": {"resourceFieldRef": {"resource": "limits.cpu"}},
        "MAP": {"configMapKeyRef": {"name": "conf", "key": "a"}},
        "SECRET": {"secretKeyRef": {"name": "keys", "key": "b"}},
        "ABSENT": {"secretKeyRef": {"name": "none", "key": "b", "optional": True}},
    }
    container = a.a_container(
        env=[{"name": name, "valueFrom": origin} for name, origin in origins.items()],
        resources={"limits": {"cpu": "1500m"}},
    )
    found = resolved(container, conf={"a": b"1"}, keys={"b": b"2"})
    assert {"NAME": "web", "CPU": "2", "MAP": "1", "SECRET": "2"} == found


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ({"configMapKeyRef": {"name": "none", "key": "a"}}, "configMap 'none' not found"),
        ({"configMapKeyRef": {"name": "conf", "key": "b"}}, "configMap 'conf' has no key 'b'"),
    ],
)
def test_what_is_missing_is_named(origin, words):
    """It may come to be, so the error is the one that is tried again."""
    container = a.a_container(env=[{"name": "X", "valueFrom": origin}])
    with pytest.raises(environments.MissingError, match=words):
        resolved(container, conf={"a": b"1"})


def test_a_source_of_an_unknown_kind_is_refused():
    """It will not come to be by waiting."""
    container = a.a_container(env=[{"name": "X", "valueFrom": {"fileKeyRef": {}}}])
    with pytest.raises(fields.UnknownError, match="fileKeyRef"):
        resolved(container)


@pytest.mark.parametrize(
    "variables",
    [
        {"envFrom": [{"secretRef": {"name": "conf"}}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "conf", "key": "a"}}}]},
    ],
)
def test_a_variable_of_bytes_that_are_no_text_is_refused(variables):
    """Which a person has to change; the container waits for it, the pod does not fail."""
    with pytest.raises(fields.UnknownError, match="'a' is not UTF-8 text"):
        environments.resolve(
            a.a_pod(),
            a.a_container(**variables),
            base={},
            sources=a.Sources(conf={"a": b"\xff\xfe"}),
            place=a.PLACE,
        )


def test_binary_data_of_a_config_map_is_for_files_alone():
    """As with kubelets: no variable of it, and a key of it is absent."""
    container = a.a_container(envFrom=[{"configMapRef": {"name": "conf"}}])
    assert {"b": "text"} == resolved(container, conf={"a": b"\xff", "b": b"text"})

    reference = {"configMapKeyRef": {"name": "conf", "key": "a"}}
    with pytest.raises(environments.MissingError, match="has no key 'a'"):
        resolved(a.a_container(env=[{"name": "A", "valueFrom": reference}]), conf={"a": b"\xff"})
