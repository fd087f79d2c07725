"""Random factors as stable hashes of (seed, names): the order of calls never matters.

Every function returns the same number for the same arguments, on any machine and in any process.
"""

import hashlib
import math
from statistics import NormalDist

from . import constants

_NORMAL = NormalDist()
_STEPS = 2**53


def uniform(seed: int, *names: str | int) -> float:
    """Return a number strictly between 0 and 1 that belongs to the seed and the names."""
    text = "\x1f".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return ((int.from_bytes(digest, "big") >> 11) + 0.5) / _STEPS


def log_normal(seed: int, *names: str | int, sigma: float, median: float = 1.0) -> float:
    """Return a log-normal number that belongs to the seed and the names."""
    return median * math.exp(sigma * _NORMAL.inv_cdf(uniform(seed, *names)))


def affinity(
    seed: int, template: str, *, hardware: str, sigma: float = constants.AFFINITY_SIGMA
) -> float:
    """Return how much faster than its nominal speed a hardware runs a template."""
    return log_normal(seed, "affinity", template, hardware, sigma=sigma)


def attempt_sigma(seed: int, template: str) -> float:
    """Return the run-to-run sigma of a template, uniform between the two bounds."""
    least, most = constants.ATTEMPT_SIGMA_LEAST, constants.ATTEMPT_SIGMA_MOST
    return least + (most - least) * uniform(seed, "attempt sigma", template)


def work_factor(
    seed: int, template: str, *, run: str, host: str, task: str, attempt: int = 0
) -> float:
    """Return the factor on CPU and GPU seconds of one attempt: attempt x run x (host, template).

    Bytes are not noisy: provisioned disks vary by 0.01-0.4 % only (Azure VM noise).
    """
    return (
        log_normal(seed, "attempt", run, task, attempt, sigma=attempt_sigma(seed, template))
        * log_normal(seed, "run", run, sigma=constants.RUN_SIGMA)
        * log_normal(seed, "host", host, template, sigma=constants.HOST_TEMPLATE_SIGMA)
    )
