"""Helm, the program: found or built, and run against the API server of one lab."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from lab import apis, errors, homes, invocations
from lab.controlplane import binaries, builds, tools

ANSWERS_WITHIN_S = 180.0


def find(*, report: builds.Report = lambda progress: None) -> Path:
    """Return Helm; raises `SetupError` where it can neither be found nor built."""
    return binaries.command_line(tools.helm(), "helm", report=report)


def run(
    program: Path,
    arguments: Sequence[str],
    *,
    home: homes.Home | None = None,
    values: Mapping[str, object] | None = None,
) -> str:
    """Run Helm and return what it printed; `home` names the lab, `values` go in as a file.

    Helm's own folders are of this call alone: no repository or plugin of the person who runs the
    lab is used. Raises `UsageError` with Helm's words where it refuses.
    """
    with tempfile.TemporaryDirectory(prefix="tiphys-helm-") as folder:
        command = [str(program), *arguments]
        if values is not None:
            path = Path(folder) / "values.yaml"
            path.write_text(json.dumps(values))  # JSON is YAML
            command += ["--values", str(path)]
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": folder,
            **{f"HELM_{name}_HOME": folder for name in ("CACHE", "CONFIG", "DATA")},
            **({"KUBECONFIG": str(home.kubeconfig)} if home else {}),
        }
        try:
            answer = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ANSWERS_WITHIN_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise errors.LabError(
                f"helm {arguments[0]} did not end within {ANSWERS_WITHIN_S:.0f} s: "
                f"see `{invocations.lab()} status`, and repeat"
            ) from error
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip()
        raise errors.UsageError(f"helm {arguments[0]} refuses: {said.removeprefix('Error: ')}")
    return answer.stdout


def objects(manifest: str) -> list[apis.Object]:
    """Return the objects of a rendered manifest."""
    return [item for item in yaml.safe_load_all(manifest) if item]
