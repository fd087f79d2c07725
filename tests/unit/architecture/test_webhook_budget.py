"""What the webhook's process may load and hold: it stands in the way of every pod."""

import asyncio
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.fakes import deciders, pods, webhooks

FORBIDDEN = {"kopf", "kubernetes", "numpy", "onnxruntime", "torch", "sqlalchemy", "gymnasium"}
MOST_MODULES = 900
MOST_IMPORT_MEMORY_BYTES = 80 * 2**20
MOST_SERVING_MEMORY_BYTES = 96 * 2**20
PROBE = """
import sys
from tiphys.webhook import processes
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
sys.stdout.write(f"{int(peak.split()[1]) * 1024}\\n{' '.join(sys.modules)}")
"""


def test_the_webhook_loads_no_heavy_library() -> None:
    """Neither kopf nor arrays nor the operator, and it stays small."""
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    memory, names = done.stdout.split("\n")
    modules = names.split()
    assert set() == {name.partition(".")[0] for name in modules} & FORBIDDEN
    assert [] == [name for name in modules if name.startswith("tiphys.operator")]
    assert len(modules) <= MOST_MODULES
    assert int(memory) <= MOST_IMPORT_MEMORY_BYTES


@pytest.mark.timeout(300)
async def test_the_serving_process_stays_small(tmp_path: Path) -> None:
    """The command as the chart starts it, with five hundred pods behind it; it ends in order."""
    deciders.write_folder(tmp_path)
    settings = deciders.write_settings(tmp_path, address="127.0.0.1:1")
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("tiphys")),
        "webhook",
        "--settings",
        str(settings),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        port, _ = await deciders.ports_of(process.stderr)
        context = deciders.caller_context(tmp_path)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(
            base_url=f"https://127.0.0.1:{port}", connector=connector
        ) as session:
            for _ in range(500):
                answer = await webhooks.called(session, "/mutate", pods.a_body())
                assert answer["allowed"]
        status = Path(f"/proc/{process.pid}/status").read_text()
        held = int(status.split("VmHWM:")[1].split()[0]) * 1024
    finally:
        process.terminate()
        await process.communicate()
    assert 0 == process.returncode
    assert held <= MOST_SERVING_MEMORY_BYTES
