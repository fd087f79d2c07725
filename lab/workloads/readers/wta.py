"""Workflow Trace Archive: when the workflows of Shell's Chronos IoT system arrived.

The archive's files are Parquet; reading them needs pyarrow (170 MB), which nothing else does: it
is the extra `traces`. It is imported only here and only when asked for.
"""

import importlib

from lab import errors
from lab.workloads import packs

FILE = "wta_samples/wta_shell_workflows.parquet"


def arrivals_s(pack: packs.Pack) -> tuple[float, ...]:
    """Return the ascending arrival times of 3,403 workflows in seconds.

    Raises `SetupError` without pyarrow, `UsageError` where the file is missing or broken.
    """
    path = pack.file(FILE)
    try:
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise errors.SetupError(
            "reading the Parquet files of the Workflow Trace Archive needs pyarrow: "
            "`pip install 'tiphys[traces]'`, or choose other --arrivals than replay"
        ) from error
    try:
        submitted_ms = parquet.read_table(path, columns=["ts_submit"])["ts_submit"].to_pylist()
    except (ValueError, KeyError, OSError) as error:  # ArrowInvalid is a ValueError
        raise errors.UsageError(f"{path} is not a WTA table ({error}); copy it again") from error
    return tuple(sorted(float(at) / 1000 for at in submitted_ms))
