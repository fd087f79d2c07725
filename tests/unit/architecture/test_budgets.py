"""What a process may load before it does its own work."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(sys.executable).with_name("tiphys")
HEAVY = {
    "aiohttp",
    "click",
    "cryptography",
    "kopf",
    "kubernetes",
    "msgspec",
    "numpy",
    "rich",
    "torch",
}
MOST_MODULES = 250
MOST_MEMORY_BYTES = 48 * 2**20
PROBE = """
import runpy, sys
sys.argv = [sys.argv[1], "--help"]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as ended:
    assert not ended.code, ended.code
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stderr.write(f"{int(peak.split()[1]) * 1024}\\n{' '.join(sys.modules)}")
"""


def test_help_loads_almost_nothing() -> None:
    """`tiphys --help` imports no library of any subcommand and stays small."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(SCRIPT)], capture_output=True, text=True, check=True
    )
    memory, names = done.stderr.split("\n")
    modules = {name.partition(".")[0] for name in names.split()}
    assert "usage: tiphys" in done.stdout
    assert set() == modules & HEAVY
    assert len(names.split()) <= MOST_MODULES
    assert int(memory) <= MOST_MEMORY_BYTES
