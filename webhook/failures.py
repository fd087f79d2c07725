"""Why a pod passed without a decision: closed words for metrics, a sentence for people."""

import enum

from tiphys.models.domain import errors


class Kind(enum.StrEnum):
    """What failed."""

    BREAKER = "breaker"
    """Too many failures just before: not asked."""
    OVERLOAD = "overload"
    """Too many questions at once: not asked."""
    KEYS = "keys"
    """No key to sign or to check with."""
    DEADLINE = "deadline"
    UNREACHABLE = "unreachable"
    """No connection, or it broke; also a certificate that does not hold."""
    STATUS = "status"
    """The decision API refused the question."""
    UNREADABLE = "unreadable"
    SIGNATURE = "signature"
    NONCE = "nonce"
    """An answer to another question: replayed."""
    UID = "uid"
    """An answer for another admission."""
    EXPIRED = "expired"
    MISMATCH = "mismatch"
    """A decision for another pod, one that contradicts this one, or no room on the pod for one."""
    OVERWRITTEN = "overwritten"
    """Another webhook changed after us what we had written."""
    INTERNAL = "internal"
    """A fault of the webhook itself."""


SICK = frozenset(Kind) - {
    Kind.BREAKER,
    Kind.OVERLOAD,
    Kind.MISMATCH,
    Kind.OVERWRITTEN,
    Kind.INTERNAL,
}
"""What speaks against the decision API as a whole and counts for the breaker."""


class FailedError(errors.UnavailableError):
    """No decision for this pod: leave it alone."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
