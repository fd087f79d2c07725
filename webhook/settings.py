"""Settings of the webhook: one YAML file, read once; unknown keys are refused.

Keys in the file are the field names below in camelCase, nested as the classes are (docs/webhook.md
has a whole file). Everything has a default that suits the chart.
"""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from pathlib import Path

import yaml

from tiphys.models.domain import errors
from tiphys.models.wire import paths

T = typing.TypeVar("T", int, float)


def _number(default: T, least: float, most: float) -> T:
    """Declare a number with its default and both bounds."""
    found: T = dataclasses.field(default=default, metadata={"least": least, "most": most})
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """Where it serves."""

    address: str = ""
    """Own address; empty: the environment's `POD_IP`, and without that every address."""
    port: int = _number(8443, 0, 65535)
    """Admission calls, TLS with a client certificate.  0 takes a free one."""
    health_port: int = _number(8080, 0, 65535)
    """`/metrics`, `/healthz`, `/readyz`, plain HTTP.  0 takes a free one."""


class Certificates(enum.StrEnum):
    """Whether callers show a certificate."""

    REQUIRED = paths.REQUIRED
    NONE = paths.NONE
    """Only where the API server cannot have one: a secret part of the path stands in for it, which
    is weaker (ADR 0037)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """Who may call."""

    certificates: Certificates = Certificates.REQUIRED
    """Whether a client certificate is needed."""
    subjects: tuple[str, ...] = ("O=system:apiserver,CN=kube-apiserver",)
    """Subjects of client certificates, `KEY=VALUE` joined by commas, in any order of keys."""

    @property
    def certified(self) -> bool:
        """Say whether callers have to show a certificate."""
        return self.certificates is Certificates.REQUIRED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Who decides, and how long the webhook waits for it."""

    address: str = ""
    """`HOST:PORT` of the decision API; empty: TIPHYS_OPERATOR_SERVICE_HOST and _PORT."""
    server_name: str = "tiphys-operator.tiphys-system.svc"
    """The name that the operator's certificate has to hold."""
    deadline_s: float = _number(0.15, 0.005, 2.0)
    """Seconds from the question to the checked answer; later the pod passes untouched."""
    connections: int = _number(32, 1, 1024)
    """Kept-alive connections at most."""
    in_flight: int = _number(256, 1, 65536)
    """Questions at once at most; a pod beyond that passes untouched."""
    probe_s: float = _number(2.0, 0.05, 60.0)
    """Seconds between two looks whether the decision API can be reached."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """When it stops asking for a while, so that pods do not each wait for the deadline."""

    failures: int = _number(5, 1, 10_000)
    """Failed questions in a row that open it."""
    open_s: float = _number(1.0, 0.05, 60.0)
    """Seconds without questions at first; doubled by each trial that fails."""
    longest_open_s: float = _number(10.0, 0.05, 600.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one call may cost."""

    body_bytes: int = _number(3 * 2**20, 1024, 64 * 2**20)
    """The API server takes no larger object."""
    bodies_bytes: int = _number(24 * 2**20, 1024, 2**32)
    """Bodies at once, all together; a pod beyond that passes untouched.  Each takes about four
    times as much while it is answered."""
    read_s: float = _number(2.0, 0.05, 60.0)
    """Seconds for a body to arrive."""
    handshake_s: float = _number(5.0, 0.05, 60.0)
    """Seconds for a TLS handshake."""
    idle_s: float = _number(120.0, 1.0, 3600.0)
    """Seconds without a whole request head after which a connection is closed; longer than the
    90 s after which the API server itself closes one."""
    remembered: int = _number(65536, 1, 2**24)
    """Decision ids kept so that none is taken twice; the oldest go first."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """Keys and certificates from files, looked at once a second."""

    certificate: str
    """PEM chain; the leaf is for server and client use."""
    key: str
    authority: str
    """PEM: who signed the operator's certificate."""
    client_authority: str = ""
    """PEM: who signs the API server's client certificate; not read where none is shown."""
    ring: str
    """The webhook's own ring, with private halves."""
    operator_ring: str
    """Public halves of the operator's ring."""
    poll_s: float = _number(1.0, 0.05, 60.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Keys and certificates from the API, by watch; needs list and watch on these names only."""

    namespace: str = "tiphys-system"
    tls_secret: str = "tiphys-webhook-tls"
    """Holds tls.crt, tls.key and ca.crt."""
    ring_secret: str = "tiphys-webhook-keys"
    """Holds ring.json."""
    public_config_map: str = "tiphys-public-keys"
    """Holds operator.json."""
    client_authority_config_map: str = "tiphys-webhook-client-ca"
    """Holds ca.crt: who signs the API server's client certificate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All of it."""

    listen: Listen = Listen()
    clients: Clients = Clients()
    decisions: Decisions = Decisions()
    breaker: Breaker = Breaker()
    limits: Limits = Limits()
    files: Files | None = None
    """None: from the API, see `cluster`."""
    cluster: Cluster = Cluster()
    drain_s: float = _number(5.0, 0.0, 600.0)
    """Seconds after SIGTERM in which calls are still taken, each answered with Connection: close,
    while the Service forgets this pod."""
    log_level: str = "INFO"


def load(path: Path) -> Settings:
    """Read a settings file.  Raises `errors.InputError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise errors.InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise errors.InputError(f"{path}: no UTF-8 text ({error})") from error
    return parse(text, where=str(path))


def parse(text: str, *, where: str) -> Settings:
    """Read the text of a settings file; `where` names it in errors.  Raises `errors.InputError`."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise errors.InputError(f"{where}: no YAML ({error})") from error
    read = typing.cast("Settings", _build(Settings, {} if found is None else found, where=where))
    if read.clients.certified and not read.clients.subjects:
        raise errors.InputError(
            f"{where}: clients: subjects is empty, so nobody is answered; name the API server"
        )
    return read


def _build(kind: type, found: object, *, where: str) -> object:
    if not isinstance(found, Mapping):
        raise errors.InputError(f"{where}: expected keys and values")
    hints = typing.get_type_hints(kind)
    names = {_camel(field.name): field for field in dataclasses.fields(kind)}
    if unknown := [str(key) for key in found if key not in names]:
        raise errors.InputError(f"{where}: unknown key {unknown[0]!r}; known: {', '.join(names)}")
    values = {
        names[key].name: _value(
            hints[names[key].name], value, where=f"{where}: {key}", bounds=names[key].metadata
        )
        for key, value in found.items()
    }
    try:
        return kind(**values)
    except TypeError as error:
        needed = [key for key, field in names.items() if field.default is dataclasses.MISSING]
        raise errors.InputError(f"{where}: needs {', '.join(needed)}") from error


def _value(
    hint: object,
    value: object,
    *,
    where: str,
    bounds: Mapping[str, float] = types.MappingProxyType({}),
) -> object:
    if isinstance(hint, types.UnionType):
        given = typing.get_args(hint)[0]
        return None if value is None else _value(given, value, where=where, bounds=bounds)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _build(hint, value, where=where)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise errors.InputError(f"{where}: expected a list of texts")
        return tuple(value)
    if hint is str and isinstance(value, str):
        return value
    if isinstance(hint, type) and issubclass(hint, enum.StrEnum):
        if value not in list(hint):
            raise errors.InputError(
                f"{where}: expected {' or '.join(hint)}, got {str(value)[:40]!r}"
            )
        return hint(str(value))
    if hint in (int, float) and type(value) in (int, float):
        number = typing.cast("float", value)
        # Written this way round, NaN is outside as well.
        inside = bounds["least"] <= number <= bounds["most"]
        if not inside or (hint is int and type(value) is not int):
            kind = "a whole number" if hint is int else "a number"
            raise errors.InputError(
                f"{where}: expected {kind} from {bounds['least']} to {bounds['most']}, "
                f"got {str(value)[:40]}"
            )
        return value if hint is int else float(number)
    expected = {str: "text", int: "a whole number", float: "a number"}.get(hint, "another value")  # type: ignore[call-overload]
    raise errors.InputError(f"{where}: expected {expected}, got {str(value)[:40]!r}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
