"""What the releaser may load: it must work when what others depend on does not."""

import os
import subprocess
import sys

from tests.unit.architecture.test_budgets import HEAVY

FOREIGN = HEAVY | {"joserfc", "orjson", "prometheus_client", "rfc8785", "sqlalchemy", "structlog"}
MOST_MODULES = 260
MOST_MEMORY_BYTES = 40 * 2**20
PROBE = """
import sys
from tiphys.operator.releaser import entries
try:
    entries.main(["--watch", "--help"])
except SystemExit as ended:
    assert not ended.code, ended.code
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"{int(peak.split()[1]) * 1024}\\n{' '.join(sys.modules)}")
"""


def test_the_releaser_loads_almost_nothing() -> None:
    """The standard library, PyYAML, and a few of our own pure modules."""
    # Coverage measures child processes too, by loading itself into them.
    environ = {name: text for name, text in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], env=environ, capture_output=True, text=True, check=True
    )
    memory, names = done.stderr.split("\n")
    modules = {name.partition(".")[0] for name in names.split()}
    assert set() == modules & FOREIGN
    assert "yaml" in modules
    assert len(names.split()) <= MOST_MODULES
    assert int(memory) <= MOST_MEMORY_BYTES
