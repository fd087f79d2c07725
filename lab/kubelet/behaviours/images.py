"""What images run by themselves (`images.yaml`); no registry is ever asked."""

import functools
from pathlib import Path

import msgspec
import yaml

FILE = Path(__file__).with_name("images.yaml")


class Image(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image's own command line, as in its configuration."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


@functools.cache
def known() -> dict[str, Image]:
    """Return the known images by name and tag."""
    return msgspec.convert(yaml.safe_load(FILE.read_text()), dict[str, Image])


def command_line(image: str, *, command: list[str], args: list[str] | None) -> list[str]:
    """Return what a container runs, by the rules of Kubernetes; empty for an unknown image.

    `command` replaces the image's entrypoint and its cmd, `args` alone replaces only the cmd.
    """
    if command:
        return [*command, *(args or [])]
    found = known().get(image)
    if found is None:
        return list(args or [])
    return [*found.entrypoint, *(found.cmd if args is None else args)]
