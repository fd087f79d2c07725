"""`python -m tests.goldens`: rewrite golden files. Never part of CI, which only compares.

write                     rewrite the texts from the inputs as they are
record KUBECONFIG FILE    record a lab while `python -m lab corpus` runs on it; end with Ctrl-C
take EXAMPLES FILE        make new inputs from Argo's examples and a recording, then write
"""

import asyncio
import contextlib
import json
import lzma
import sys
from pathlib import Path

from tests.goldens import admissions, argo, recordings


def main(words: list[str]) -> int:
    """Run one command; returns the exit code."""
    match words:
        case ["write"]:
            _write()
        case ["record", kubeconfig, file]:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(recordings.record(Path(kubeconfig), Path(file)))
        case ["take", folder, file]:
            taken = argo.inputs(Path(folder), Path(file))
            packed = lzma.compress(json.dumps(taken, separators=(",", ":")).encode(), preset=9)
            argo.INPUTS.write_bytes(packed)
            _write()
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


def _write() -> None:
    for name, text in argo.texts(argo.load()).items():
        (argo.FOLDER / name).write_text(text)
    admissions.FILE.write_text(admissions.text(admissions.pods_of_argo()))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
