"""The releaser's settings file; unknown keys are refused (docs/releaser.md).

operatorNamespace: tiphys-system
deadAfter: 10s
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from tiphys.models.domain import durations, errors, readings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The whole file."""

    operator_namespace: str = "tiphys-system"
    """Where the operators' Leases are."""
    host: str = ""
    """Address of the health page; empty = the pod's own (POD_IP), else the loopback."""
    metrics_port: int = 9080
    """Plain HTTP: /metrics, /healthz, /readyz; 0 = any free one."""
    look_s: float = 2.0
    """Seconds between two looks at the Leases."""
    dead_after_s: float = 10.0
    """An operator whose Lease does not change for so long is dead; longer than its Lease (8 s)."""
    leaderless_s: float = 20.0
    """Replicas may live for so long without one that leads; then gates open all the same."""
    per_second: float = 200.0
    """Gates opened in a second, at most."""
    callers: int = 16
    """Gates that are being opened at a time."""


KEYS = {
    "operatorNamespace": "operator_namespace",
    "host": "host",
    "metricsPort": "metrics_port",
    "look": "look_s",
    "deadAfter": "dead_after_s",
    "leaderless": "leaderless_s",
    "perSecond": "per_second",
    "callers": "callers",
}


def load(path: Path | None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the file; what it leaves out comes from the environment, then the defaults."""
    written: object = {}
    if path is not None:
        try:
            written = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise errors.InputError(f"settings {path}: {error}") from error
    found = read(written, where=str(path or "settings"))
    return dataclasses.replace(found, host=found.host or environ.get("POD_IP") or "127.0.0.1")


def read(written: object, *, where: str = "settings") -> Settings:
    """Read the decoded file.  Raises `InputError` naming the key."""
    fields = readings.mapping(written, where=where, keys=KEYS)
    given = Settings()

    def time_s(key: str, default: float) -> float:
        found_s = durations.read(fields[key], where=f"{where}.{key}") if key in fields else default
        return readings.number(found_s, where=f"{where}.{key}", least=0.1, most=3600)

    def text(key: str, default: str) -> str:
        return readings.text(fields[key], where=f"{where}.{key}") if key in fields else default

    def whole(key: str, default: int, least: int, most: int) -> int:
        return readings.whole(
            fields.get(key, default), where=f"{where}.{key}", least=least, most=most
        )

    found = Settings(
        operator_namespace=text("operatorNamespace", given.operator_namespace),
        host=text("host", given.host),
        metrics_port=whole("metricsPort", given.metrics_port, 0, 65535),
        look_s=time_s("look", given.look_s),
        dead_after_s=time_s("deadAfter", given.dead_after_s),
        leaderless_s=time_s("leaderless", given.leaderless_s),
        per_second=readings.number(
            fields.get("perSecond", given.per_second),
            where=f"{where}.perSecond",
            least=1,
            most=10_000,
        ),
        callers=whole("callers", given.callers, 1, 64),
    )
    if not found.look_s * 2 < found.dead_after_s <= found.leaderless_s:
        raise errors.InputError(f"{where}: needs 2 x look < deadAfter <= leaderless")
    return found
