"""Whose name a process speaks in: the ServiceAccount of its pod, or a person's kubeconfig."""

import base64
import binascii
import dataclasses
import os
import ssl
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from tiphys.models.domain import errors
from tiphys.operator import programs

MOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
UNUSABLE = (
    OSError,
    KeyError,
    TypeError,
    AttributeError,
    UnicodeDecodeError,
    binascii.Error,
    yaml.YAMLError,
)
"""What comes of reading a kubeconfig that somebody spoiled."""
REREAD_S = 60.0
"""A projected token lives an hour and is renewed at 80 % of that; client-go re-reads as often."""


class AbsentError(errors.InputError):
    """No kubeconfig is where one was looked for."""


class Login(Protocol):
    """What the client needs to know about a server and its caller."""

    @property
    def server(self) -> str:
        """`https://host:port`."""

    @property
    def context(self) -> ssl.SSLContext:
        """TLS with the cluster's CA and, where there is one, the caller's certificate."""

    def token(self, now_s: float) -> str:
        """Return the bearer token to use at the monotonic second `now_s`; empty = none."""


class ServiceAccount:
    """The account that the kubelet mounted; token and CA are read again when they changed."""

    def __init__(self, environ: Mapping[str, str], mount: Path = MOUNT) -> None:
        try:
            host, port = environ["KUBERNETES_SERVICE_HOST"], environ["KUBERNETES_SERVICE_PORT"]
        except KeyError as error:
            raise errors.InputError(
                f"{error.args[0]} is not set: this is no pod; name a kubeconfig with --kubeconfig"
            ) from error
        self._mount = mount
        self.server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        # Only the cluster's own authority is trusted, none of the system's.
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._token = ""
        self._read_at_s = float("-inf")
        self._authority = b""
        self.token(0.0)

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        return (self._mount / "namespace").read_text().strip()

    def token(self, now_s: float) -> str:
        """Return the mounted token, at most `REREAD_S` old."""
        if now_s - self._read_at_s < REREAD_S:
            return self._token
        try:
            self._token = (self._mount / "token").read_text().strip()
            authority = (self._mount / "ca.crt").read_bytes()
        except OSError as error:
            if self._token:
                return self._token
            raise errors.InputError(
                f"{error.filename}: {error.strerror}; the pod needs its ServiceAccount's token "
                "(automountServiceAccountToken)"
            ) from error
        if authority != self._authority:
            # A context takes more authorities while it is in use: nothing has to be reconnected.
            self.context.load_verify_locations(cadata=authority.decode())
            self._authority = authority
        self._read_at_s = now_s
        return self._token


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """One context of a kubeconfig; `bearer` is a static token."""

    server: str
    context: ssl.SSLContext
    bearer: str = ""
    namespace: str = "default"
    impersonation: tuple[tuple[str, str], ...] = ()
    """Headers by which the API server is asked to take the caller for somebody else."""

    def token(self, now_s: float) -> str:
        """Return the token as it was read."""
        return self.bearer


def find(
    kubeconfig: Path | None, environ: Mapping[str, str] = os.environ, *, context: str = ""
) -> Login:
    """Choose: a kubeconfig that was named, else the pod's account, else the person's default.

    `context` names one of the kubeconfig's; empty = its current one.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in environ and MOUNT.exists()
    if kubeconfig is None and in_pod and not context:
        return ServiceAccount(environ)
    if kubeconfig is not None:
        return person(kubeconfig, named=context)
    listed = [Path(each) for each in environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return person(*(listed or [Path.home() / ".kube" / "config"]), named=context)


def impersonation(
    user: str, groups: Sequence[str] = (), uid: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers by which the API server takes the caller for somebody else.

    Raises `InputError` for groups or a uid without a user, which the API server refuses.
    """
    if not user and (groups or uid):
        raise errors.InputError("a group or uid is impersonated with a user only: name one (--as)")
    return (
        *((("Impersonate-User", user),) if user else ()),
        *(("Impersonate-Group", group) for group in groups),
        *((("Impersonate-Uid", uid),) if uid else ()),
    )


def person(*paths: Path, named: str = "") -> Person:
    """Read a context of a kubeconfig: files or inline data, certificate, token or a program.

    Of several files, as `KUBECONFIG` may list them, the first with an entry of that name counts,
    and those that are not there are passed over, as kubectl does.
    """
    try:
        there = [path for path in paths if path.exists()]
        if not there:
            raise AbsentError(f"there is no kubeconfig {os.pathsep.join(map(str, paths))}")
        configs = [(path, yaml.safe_load(path.read_text()) or {}) for path in there]
        wanted = named or next(
            (str(each["current-context"]) for _, each in configs if each.get("current-context")), ""
        )
        chosen, _ = _named(configs, "context", wanted)
        cluster, where = _named(configs, "cluster", chosen["cluster"])
        server = cluster["server"]
        context = ssl.create_default_context(
            cafile=_beside(where, cluster.get("certificate-authority")),
            cadata=_text(cluster.get("certificate-authority-data")),
        )
        user, where = _named(configs, "user", chosen["user"])
        if "exec" in user:
            user = {**user, **programs.run(user["exec"], where)}
        _identify(context, user, where)
        bearer = user.get("token", "")
        if "tokenFile" in user:
            bearer = Path(_beside(where, user["tokenFile"]) or "").read_text().strip()
    except UNUSABLE as error:
        listed = os.pathsep.join(map(str, paths))
        raise errors.InputError(
            f"{listed} is no kubeconfig that can be used: {_why(error)}"
        ) from error
    return Person(
        server=server,
        context=context,
        bearer=bearer,
        namespace=chosen.get("namespace", "default"),
        impersonation=impersonation(
            user.get("as", ""), user.get("as-groups") or (), user.get("as-uid", "")
        ),
    )


def _identify(context: ssl.SSLContext, user: Mapping[str, Any], path: Path) -> None:
    """Load the person's certificate; inline data has to pass through files (OpenSSL wants them)."""
    if "client-certificate" in user:
        context.load_cert_chain(
            _beside(path, user["client-certificate"]) or "", _beside(path, user["client-key"])
        )
    elif "client-certificate-data" in user:
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder, "crt"), Path(folder, "key")
            certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
            key.write_bytes(base64.b64decode(user["client-key-data"]))
            context.load_cert_chain(certificate, key)


def _why(error: Exception) -> str:
    """Return in words what is wrong with a kubeconfig."""
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing in it"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def _beside(path: Path, named: str | None) -> str | None:
    """Return a path of a kubeconfig, which is relative to its folder."""
    return str(path.parent / named) if named else None


def _text(data: str | None) -> str | None:
    return base64.b64decode(data).decode() if data else None


def _named(
    configs: Sequence[tuple[Path, Mapping[str, Any]]], kind: str, name: str
) -> tuple[dict[str, Any], Path]:
    """Return an entry (`context`, `cluster` or `user`) by its name, and the file it stands in."""
    listed = [(item, path) for path, each in configs for item in each.get(f"{kind}s") or ()]
    for item, path in listed:
        if item["name"] == name:
            return item[kind], path
    files = os.pathsep.join(str(path) for path, _ in configs)
    if not name:
        raise errors.InputError(f"{files}: no {kind} is chosen there; name one (--context)")
    there = ", ".join(str(item["name"]) for item, _ in listed) or "none"
    raise errors.InputError(f"{files}: there is no {kind} {name!r}; there are: {there}")
