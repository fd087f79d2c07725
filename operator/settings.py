"""The operator's settings file, parsed once; unknown keys are refused (docs/operator.md).

    listen: {decisionsPort: 9443, metricsPort: 9080}
    lease: {duration: 8s}
    history: {url: "sqlite:////var/lib/tiphys/history.db"}

Times are written as 30s, 5m or 1h30m. Policies are no part of it: they are objects of the cluster.
"""

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import yaml

from tiphys.models.domain import durations, errors, readings

T = TypeVar("T")
DISABLED = "TIPHYS_DISABLED"
LONGEST_S = 3650 * 86400.0
"""Seconds; no time in the file is longer."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where the process answers."""

    host: str = ""
    """Address; empty = the pod's own (POD_IP), else the loopback."""
    decisions_port: int = 9443
    """Mutual TLS, for the webhook and other replicas; 0 = any free one."""
    metrics_port: int = 9080
    """Plain HTTP: /metrics, /healthz, /readyz; 0 = any free one."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """How leadership and life are announced."""

    duration_s: float = 8.0
    """A Lease that was not renewed for so long may be taken by another replica."""
    renew_s: float = 2.0
    """Seconds between two renewals."""
    fence_s: float = 6.0
    """A leader whose last renewal began longer ago stops acting; less than `duration_s`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """How single pods are answered."""

    deadline_s: float = 0.150
    """The caller waits no longer, from its request's beginning."""
    lookup_s: float = 0.080
    """Most of that which one read of a Workflow that is not cached yet may take."""
    stale_after_s: float = 10.0
    """With caches older than that nothing is gated or placed."""
    assume_s: float = 30.0
    """For how long a placed pod counts as being on its node before it is seen there."""
    most_body_bytes: int = 4 * 2**20
    """Larger requests are refused."""
    callers: tuple[str, ...] = ("tiphys-webhook", "tiphys-operator")
    """Common names of client certificates that are answered."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What is remembered of tasks that ran."""

    url: str = "sqlite:////var/lib/tiphys/history.db"
    """SQLAlchemy's URL of the store; `sqlite://` keeps it in memory."""
    flush_s: float = 1.0
    """Seconds between two writes."""
    publish_s: float = 10.0
    """Seconds between two new sets of estimates, on the leader, and pulls by the others."""
    recent: int = 200
    """Most attempts of one template that estimates are made of, the latest."""
    most_rows: int = 2_000_000
    """Attempts that are kept at most, the latest; a million take about 0.3 GB in SQLite."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How signing keys live."""

    rotate_s: float = 12 * 3600.0
    """Seconds between two keys of a ring."""
    life_s: float = 24 * 3600.0
    """For how long a key is honoured, at most 24 h."""
    ahead_s: float = 3600.0
    """The next key is in the ring so long before it is used."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """How our own certificates live."""

    authority_life_s: float = 365 * 86400.0
    leaf_life_s: float = 30 * 86400.0
    renew_at: float = 2 / 3
    """Share of its life after which a certificate is replaced."""
    overlap_s: float = 3600.0
    """A new authority is trusted by all for so long before it signs anything."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """How gates are opened (docs/dispatcher.md)."""

    callers: int = 16
    """Gates that are being opened at a time."""
    most_per_tick: int = 100
    """Gates that one plan opens at most; the next plan follows at once."""
    stale_after_s: float = 10.0
    """With caches older than that no gate is opened in turn."""
    assume_s: float = 30.0
    """For how long a released pod counts as being on its node before it is seen there."""
    explain_after_s: float = 20.0
    """A pod that waits longer is told why, on itself and in Events."""
    explanations_per_second: int = 5
    """Pods that are told so in a second, at most."""
    events_per_second: int = 10
    """Events that are written in a second, at most."""
    recover_after_s: float = 30.0
    """A released pod that its nodeSelector keeps unbound for longer may be given back to Argo."""
    recover_most: int = 2
    """So often at most for one task of a workflow."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The whole file."""

    namespace: str = ""
    """Namespace of the installation; empty = the pod's own (POD_NAMESPACE), else tiphys-system."""
    log_level: str = "info"
    """debug, info, warning or error."""
    excluded_namespaces: tuple[str, ...] = ("kube-system", "kube-public", "kube-node-lease")
    """Never steered, beside our own."""
    listen: Listen = Listen()
    lease: Lease = Lease()
    decisions: Decisions = Decisions()
    history: History = History()
    keys: Keys = Keys()
    certificates: Certificates = Certificates()
    dispatch: Dispatch = Dispatch()

    @property
    def excluded(self) -> frozenset[str]:
        """The namespaces that are never steered, ours among them."""
        return frozenset({*self.excluded_namespaces, self.namespace})


def load(path: Path | None, environ: Mapping[str, str] = os.environ) -> OperatorSettings:
    """Read the settings file; what it leaves out comes from the environment, then the defaults."""
    written: object = {}
    if path is not None:
        try:
            written = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise errors.InputError(f"settings {path}: {error}") from error
    found = read(written, where=str(path or "settings"))
    host = found.listen.host or environ.get("POD_IP") or "127.0.0.1"
    return dataclasses.replace(
        found,
        namespace=found.namespace or environ.get("POD_NAMESPACE") or "tiphys-system",
        listen=dataclasses.replace(found.listen, host=host),
    )


def read(written: object, *, where: str = "settings") -> OperatorSettings:
    """Read the decoded file.  Raises `InputError` naming the key."""
    given = OperatorSettings()
    fields = _Fields(written, where, given)
    found = OperatorSettings(
        namespace=fields.text("namespace"),
        log_level=fields.one("log_level", among=("debug", "info", "warning", "error")),
        excluded_namespaces=fields.texts("excluded_namespaces"),
        listen=fields.group("listen", _listen),
        lease=fields.group("lease", _lease),
        decisions=fields.group("decisions", _decisions),
        history=fields.group("history", _history),
        keys=fields.group("keys", _keys),
        certificates=fields.group("certificates", _certificates),
        dispatch=fields.group("dispatch", _dispatch),
    )
    if not found.lease.renew_s < found.lease.fence_s < found.lease.duration_s:
        raise errors.InputError(f"{where}.lease: needs renew < fence < duration")
    if found.keys.rotate_s + found.keys.ahead_s >= found.keys.life_s:
        raise errors.InputError(f"{where}.keys: needs rotate + ahead < life, so that keys overlap")
    return found


class _Fields:
    """The fields of one group: camelCase outside, the dataclass' names inside."""

    def __init__(self, written: object, where: str, given: object) -> None:
        self._given = given
        self._where = where
        names = [field.name for field in dataclasses.fields(given)]  # type: ignore[arg-type]
        self._outside = {name: _outside(name) for name in names}
        self._found = readings.mapping(written, where=where, keys=[*self._outside.values()])

    def _get(self, name: str, reader: Callable[[object, str], T]) -> T:
        key = self._outside[name]
        if key not in self._found:
            default: T = getattr(self._given, name)
            return default
        return reader(self._found[key], f"{self._where}.{key}")

    def text(self, name: str) -> str:
        return self._get(name, lambda value, where: readings.text(value, where=where))

    def texts(self, name: str) -> tuple[str, ...]:
        return self._get(name, lambda value, where: readings.texts(value, where=where))

    def one(self, name: str, *, among: tuple[str, ...]) -> str:
        return self._get(
            name, lambda value, where: readings.choice(value, where=where, among=among)
        )

    def time_s(self, name: str, *, least: float, most: float = LONGEST_S) -> float:
        """Return seconds within both bounds, which are seconds too."""

        def reader(value: object, where: str) -> float:
            found_s = durations.read(value, where=where)
            if not least <= found_s <= most:
                raise errors.InputError(
                    f"{where}: expected a time from {least:g}s to {most:g}s, got {value!r}"
                )
            return found_s

        return self._get(name, reader)

    def share(self, name: str) -> float:
        return self._get(
            name, lambda v, where: readings.number(v, where=where, least=0.1, most=0.95)
        )

    def whole(self, name: str, *, least: int = 0, most: int = 2**31) -> int:
        return self._get(
            name, lambda value, where: readings.whole(value, where=where, least=least, most=most)
        )

    def group(self, name: str, reader: Callable[["_Fields"], T]) -> T:
        given: T = getattr(self._given, name)
        key = self._outside[name]
        return reader(_Fields(self._found.get(key), f"{self._where}.{key}", given))


def _outside(name: str) -> str:
    """Return a field's name in the file: `duration_s` is `duration`, `log_level` is `logLevel`."""
    first, *rest = name.removesuffix("_s").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _listen(fields: _Fields) -> Listen:
    return Listen(
        host=fields.text("host"),
        decisions_port=fields.whole("decisions_port", most=65535),
        metrics_port=fields.whole("metrics_port", most=65535),
    )


def _lease(fields: _Fields) -> Lease:
    return Lease(
        duration_s=fields.time_s("duration_s", least=0.5, most=3600.0),
        renew_s=fields.time_s("renew_s", least=0.1, most=3600.0),
        fence_s=fields.time_s("fence_s", least=0.1, most=3600.0),
    )


def _decisions(fields: _Fields) -> Decisions:
    return Decisions(
        deadline_s=fields.time_s("deadline_s", least=0.005, most=10.0),
        lookup_s=fields.time_s("lookup_s", least=0.0, most=10.0),
        stale_after_s=fields.time_s("stale_after_s", least=0.5, most=3600.0),
        assume_s=fields.time_s("assume_s", least=1.0, most=3600.0),
        most_body_bytes=fields.whole("most_body_bytes", least=1024, most=4 * 2**20),
        callers=fields.texts("callers"),
    )


def _history(fields: _Fields) -> History:
    return History(
        url=fields.text("url"),
        flush_s=fields.time_s("flush_s", least=0.01, most=3600.0),
        publish_s=fields.time_s("publish_s", least=0.1, most=3600.0),
        recent=fields.whole("recent", least=1, most=10_000),
        most_rows=fields.whole("most_rows", least=1000),
    )


def _keys(fields: _Fields) -> Keys:
    return Keys(
        rotate_s=fields.time_s("rotate_s", least=1.0, most=86400.0),
        life_s=fields.time_s("life_s", least=1.0, most=86400.0),
        ahead_s=fields.time_s("ahead_s", least=0.0, most=86400.0),
    )


def _certificates(fields: _Fields) -> Certificates:
    return Certificates(
        authority_life_s=fields.time_s("authority_life_s", least=60.0),
        leaf_life_s=fields.time_s("leaf_life_s", least=60.0),
        renew_at=fields.share("renew_at"),
        overlap_s=fields.time_s("overlap_s", least=0.0),
    )


def _dispatch(fields: _Fields) -> Dispatch:
    return Dispatch(
        callers=fields.whole("callers", least=1, most=128),
        most_per_tick=fields.whole("most_per_tick", least=1, most=10_000),
        stale_after_s=fields.time_s("stale_after_s", least=0.5, most=3600.0),
        assume_s=fields.time_s("assume_s", least=1.0, most=3600.0),
        explain_after_s=fields.time_s("explain_after_s", least=0.0, most=86400.0),
        explanations_per_second=fields.whole("explanations_per_second", least=1, most=1000),
        events_per_second=fields.whole("events_per_second", least=1, most=1000),
        recover_after_s=fields.time_s("recover_after_s", least=0.1, most=86400.0),
        recover_most=fields.whole("recover_most", most=100),
    )
