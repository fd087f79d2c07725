"""Paths of the webhook, and their secret part where the API server shows no client certificate.

Where a control plane cannot show a certificate to webhooks, the paths in the webhook configurations
end in a segment that nobody guesses:

    /mutate/5e2d0b…   (48 hexadecimal digits)

It is made from the private half of a key of the webhook's ring (HKDF, RFC 5869), which the leader
and the webhook hold anyhow, and tells nothing of it. So there is no second secret to keep: a
segment is used as long as its key signs, honoured as long as its key is, and replaced with it.
"""

import functools
import hmac

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf import hkdf

from tiphys.models.wire import keys

MUTATE, VALIDATE = "/mutate", "/validate"
CLIENTS = "tiphys.dev/client-certificates"
"""Annotation of the webhook configurations: whether the API server shows a certificate."""
REQUIRED, NONE = "required", "none"
"""Its values; a configuration without it is as with `REQUIRED`."""
EXPOSED = "tiphys.dev/webhook-reached-by-pods"
"""Annotation beside it, by the leader: `true` once it, a pod, reached the webhook all the same."""
SEGMENT_BYTES = 24
_PURPOSE = b"tiphys.dev path of the webhook, 1"


def current(ring: keys.Ring, at: float) -> str:
    """Return the segment of the key that signs at `at`, unix seconds.

    Raises `errors.UnavailableError` where no private key holds.
    """
    return _segment(ring.signing(at))


def honours(ring: keys.Ring, segment: str, at: float) -> bool:
    """Say whether `segment` belongs to a key that is honoured at `at`, unix seconds.

    The time that it takes does not depend on the segment: all keys are compared, each whole.
    """
    shown = segment.encode(errors="replace")
    found = False
    for key in ring.keys:
        if key.private is not None and key.holds(at, skew_s=keys.SKEW_S):
            found |= hmac.compare_digest(_segment(key).encode(), shown)
    return found


@functools.lru_cache(maxsize=2 * keys.MOST_KEYS)
def _segment(key: keys.Key) -> str:
    assert key.private is not None
    derive = hkdf.HKDF(algorithm=hashes.SHA256(), length=SEGMENT_BYTES, salt=None, info=_PURPOSE)
    return derive.derive(key.private).hex()
