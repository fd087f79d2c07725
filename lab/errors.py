"""What can go wrong in the lab, as one tree; the type is the exit code, the text says what to do.

LabError            1  something failed; the sentence says what, where and how to fix it
├── UsageError      2  the person's input is wrong (unknown cluster, bad file, bad flag)
├── SetupError      3  the machine lacks something (no Go, Go too old, disk full, port taken)
├── StartError      4  a component did not come up; carries the tail of its log
├── StaleError      5  state of another version or of a crashed lab is in the way
└── RunError        6  a run ended, but not as it must (workflows failed, pods unaccounted for)
"""

from pathlib import Path


class LabError(Exception):
    """A failure that a person can act on; `str()` is one sentence or a few short lines."""

    exit_code = 1


class UsageError(LabError):
    """The input is wrong; nothing was started or written."""

    exit_code = 2


class SetupError(LabError):
    """The machine lacks something that the lab needs; nothing was left behind."""

    exit_code = 3


class StartError(LabError):
    """A component did not come up in time; whatever had been started was ended again."""

    exit_code = 4

    def __init__(self, message: str, *, log: Path | None = None, tail: str = "") -> None:
        self.log = log
        self.tail = tail
        shown = f"\n--- the last lines of {log} ---\n{tail.rstrip()}" if log and tail else ""
        super().__init__(message + shown)


class StaleError(LabError):
    """What an earlier lab left cannot be continued; the text names the command that clears it."""

    exit_code = 5


class RunError(LabError):
    """A run came to its end, but a promise about it does not hold."""

    exit_code = 6
