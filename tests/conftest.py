"""What all tests share: examples of hypothesis have no time limit of their own.

A machine that is busy with something else would fail them; pytest's limit holds for the whole test.
"""

from hypothesis import settings

settings.register_profile("tiphys", deadline=None)
settings.load_profile("tiphys")
