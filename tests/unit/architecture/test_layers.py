"""The import rules of setup.cfg hold, and would notice if they did not."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.architecture import trees

# A namespace joins every portion on the path, so the installed tree has to leave it.
LINT = """
import os, sys
here = os.getcwd()
sys.path[:] = [f"{here}/.pkg", here, *(path for path in sys.path if not path.endswith(".pkg"))]
from importlinter.cli import lint_imports_command
lint_imports_command()
"""
# Contract id in setup.cfg, planted module, its text.
PLANTED = [
    ("domain", "tiphys.models.domain.a", "import yaml"),
    ("domain", "tiphys.models.domain.b", "from tiphys import argo"),
    ("argo", "tiphys.argo.a", "def f():\n    import numpy"),
    ("physics", "tiphys.models.physics.a", "import scipy"),
    ("models", "tiphys.models.a", "from lab import clocks"),
    ("models", "tiphys.models.b", "import kopf"),
    ("model-layers", "tiphys.models.bundles", "from tiphys.models import train"),
    ("model-layers", "tiphys.models.features", "from tiphys.models import sim"),
    ("wire", "tiphys.models.wire.a", "import yaml"),
    ("wire", "tiphys.models.wire.b", "from tiphys import argo"),
    ("model-layers", "tiphys.models.wire.c", "from tiphys.models import policies"),
    ("learning", "tiphys.models.estimators.a", "import torch"),
    ("learning", "tiphys.models.policies.a", "from tiphys.models import train"),
    ("webhook", "tiphys.webhook.a", "import kopf"),
    ("webhook", "tiphys.webhook.b", "from tiphys.models import physics"),
    ("ebpf", "tiphys.ebpf.a", "import kubernetes"),
    ("processes", "tiphys.ebpf.b", "from tiphys import webhook"),
    ("processes", "tiphys.operator.a", "from tiphys import webhook"),
    ("operator", "tiphys.operator.b", "import torch"),
    ("operator", "tiphys.operator.c", "from lab import clocks"),
    ("operator", "tiphys.operator.d", "from tiphys.models import sim"),
    ("dispatch", "tiphys.operator.dispatch", "import click"),
]
HARMLESS = [
    ("tiphys.models.sim", "import numpy"),
    ("tiphys.models.train", "import torch\nfrom tiphys.models import sim"),
    ("tiphys.models.planner.a", "from tiphys.models import sim"),
    ("tiphys.operator.e", "from tiphys.models import planner"),
    ("tiphys.operator.f", "from tiphys.models import wire"),
    ("tiphys.webhook.d", "from tiphys.models.wire import keys"),
    ("lab.a", "from tiphys import argo, ebpf, webhook\nfrom tiphys.operator import dispatch"),
]


def lint(root: Path, *, contract: str = "") -> subprocess.CompletedProcess[str]:
    """Run import-linter on the tree at `root`, not on the installed one."""
    only = ["--contract", contract] if contract else []
    return subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", *only],
        cwd=root,
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the tracked code in which every rule is broken, and some only bent."""
    root = tmp_path_factory.mktemp("planted")
    for path in trees.tracked(".py", "setup.cfg"):
        target = root / path.relative_to(trees.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copytree(trees.ROOT / ".pkg" / "tiphys", root / ".pkg" / "tiphys", symlinks=True)
    for module, text in [*(row[1:] for row in PLANTED), *HARMLESS]:
        path = root / f"{module.removeprefix('tiphys.').replace('.', '/')}.py"
        with path.open("a") as file:
            file.write(f"{text}\n")
    return root


def test_the_rules_hold() -> None:
    """No folder imports what its sentence forbids."""
    done = lint(trees.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken" in done.stdout


@pytest.mark.parametrize("contract", sorted({row[0] for row in PLANTED}))
def test_planted_violations_are_caught(planted: Path, contract: str) -> None:
    """Each rule alone names every module that breaks it, and no module that does not."""
    done = lint(planted, contract=contract)
    assert done.returncode == 1, done.stdout + done.stderr
    for name, module, _ in PLANTED:
        if name == contract:
            assert re.search(rf"^- +{re.escape(module)} ", done.stdout, re.MULTILINE)
    for module, _ in HARMLESS:
        assert not re.search(rf"^- +{re.escape(module)} ", done.stdout, re.MULTILINE)
