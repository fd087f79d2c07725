"""What may go wrong in the core; the type says what the caller does, the text what, where and how.

TiphysError
├── InputError       refuse it and tell whoever wrote it; asking again changes nothing
├── RefusedError     somebody is not who or what they say: no patch, counted, never retried
├── UnavailableError it may work in a moment: retry with back-off, meanwhile leave pods alone
└── StaleError       the world moved on: drop this decision and decide again
"""


class TiphysError(Exception):
    """The root of what this product raises on purpose."""


class InputError(TiphysError, ValueError):
    """A value from outside cannot be read; the text says what, where and how to write it."""


class RefusedError(TiphysError):
    """A signature, certificate, nonce or permission does not hold."""


class UnavailableError(TiphysError):
    """Something that is needed does not answer just now."""


class StaleError(TiphysError):
    """An object changed or vanished since it was read."""
