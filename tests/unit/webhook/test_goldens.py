"""Every shape of pod that Argo really makes, with each kind of decision: the patch as it was."""

from typing import Any

import pytest

from tests.fakes import patching, webhooks
from tests.goldens import admissions

PODS = admissions.pods_of_argo()


def test_the_patches_are_as_they_were() -> None:
    """`python -m tests.goldens write` rewrites them; look at the difference before a commit."""
    assert admissions.FILE.read_text() == admissions.text(PODS)


@pytest.mark.parametrize("pod", PODS, ids=lambda pod: pod["metadata"]["name"])
async def test_the_second_call_gives_no_patch(pod: dict[str, Any]) -> None:
    """And what the first one gave applies, and leaves all else as it was."""
    for name, plan in admissions.plans(pod):
        first, second = await admissions.answered(pod, plan)
        assert [] == webhooks.patch_of(second), name
        changed = patching.applied(pod, webhooks.patch_of(first))
        assert _images(pod) == _images(changed)


def _images(pod: dict[str, Any]) -> list[object]:
    return [container.get("image") for container in pod["spec"]["containers"]]
