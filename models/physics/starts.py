"""What comes before and after a task's work: the start server, image pulls, freed requests."""

from . import constants, noises, tasks


def service_s(
    seed: int, key: str, *, node: str, median_s: float = constants.START_MEDIAN_S
) -> float:
    """Return how long the start server of a node works on one pod.

    The server is serial: a pod starts at max(asked, server free) + service, first come first served
    (`ready_s`). The image is pulled before (`pull`), in parallel with other starts.
    """
    return noises.log_normal(seed, "start", node, key, sigma=constants.START_SIGMA, median=median_s)


def ready_s(asked_s: float, *, free_s: float, service_s: float) -> float:
    """Return when a pod has started, which is also when the server is free for the next."""
    return max(asked_s, free_s) + service_s


def release_s(seed: int, key: str) -> float:
    """Return how long after the end of a task its requests are freed."""
    return noises.log_normal(
        seed, "release", key, sigma=constants.RELEASE_SIGMA, median=constants.RELEASE_MEDIAN_S
    )


def pull(image_bytes: float, *, key: str) -> tasks.Task:
    """Return an image pull as a task: bytes from the store to the disk, hardly any memory.

    The caller runs it once per node and image, as the first pod that needs the image would.
    """
    return tasks.Task(
        key=key,
        template="image pull",
        store_bytes=image_bytes,
        written_bytes=image_bytes,
        memory_curve=((0.0, 0.0), (1.0, 0.0)),
    )
