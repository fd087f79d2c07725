"""What all tests share: how long an example of hypothesis may take, and what an interrupt does.

Examples have no time limit of their own: a machine that is busy with something else would fail
them, and pytest's limit holds for the whole test.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("tiphys", deadline=None)
settings.load_profile("tiphys")


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> None:
    """Let programs that tests start be interrupted although pytest runs in the background.

    Shells start background jobs with SIGINT ignored, and what is ignored stays so in children.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
