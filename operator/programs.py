"""Credentials from a program that a kubeconfig names (`exec`), as client-go runs it.

So people of clouds and of single sign-on log in: the program prints an ExecCredential with a token
or a certificate. Run once, when the kubeconfig is read.
"""

import base64
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tiphys.models.domain import errors

LONGEST_S = 120.0
"""A program may open a browser and wait for a person."""
KIND = "ExecCredential"


def run(written: Mapping[str, Any], kubeconfig: Path) -> dict[str, str]:
    """Return what the program says, as the fields of a kubeconfig's user.  Raises `InputError`."""
    import subprocess  # most processes never need it

    command, where = str(written["command"]), f"{kubeconfig}: exec"
    if os.sep in command:
        command = str(kubeconfig.parent / command)
    version = str(written.get("apiVersion") or "client.authentication.k8s.io/v1")
    asked = {
        "apiVersion": version,
        "kind": KIND,
        "spec": {"interactive": written.get("interactiveMode") != "Never" and sys.stdin.isatty()},
    }
    named = {str(each["name"]): str(each["value"]) for each in written.get("env") or ()}
    try:
        done = subprocess.run(
            [command, *map(str, written.get("args") or ())],
            env={**os.environ, **named, "KUBERNETES_EXEC_INFO": json.dumps(asked)},
            stdout=subprocess.PIPE,
            timeout=LONGEST_S,
            check=True,
        )
    except FileNotFoundError as error:
        hint = str(written.get("installHint") or "install it, or name another user").strip()
        raise errors.InputError(f"{where}: there is no program {command}; {hint}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise errors.InputError(f"{where}: {error}") from error
    try:
        status = json.loads(done.stdout)["status"]
        found = {"token": str(status["token"])} if status.get("token") else {}
        for key, pem in (
            ("client-certificate-data", status.get("clientCertificateData")),
            ("client-key-data", status.get("clientKeyData")),
        ):
            if pem:
                found[key] = base64.b64encode(str(pem).encode()).decode()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise errors.InputError(f"{where}: {command} printed no {KIND}") from error
    if not found:
        raise errors.InputError(f"{where}: {command} gave neither a token nor a certificate")
    return found
