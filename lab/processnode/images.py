"""What an image would start: there are no images here, so a container says what it runs.

`command` (and `args`) of the container are all that is needed. For images of Tiphys itself the
entrypoint is known: `…/tiphys[:TAG]` starts `tiphys`, `…/tiphys-ROLE[:TAG]` starts `tiphys ROLE`,
both from the environment of the interpreter that runs the node. More can be listed in
`HOME/images.yaml`: `entrypoints: {postgres: [postgres, -D, /data]}`, by image without tag or
digest, or by its last word.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from lab import apis

OWN = "tiphys"


class UnknownImageError(ValueError):
    """Nobody knows what to run; `str()` says what to write."""


def command(container: apis.Object, *, table: Mapping[str, Sequence[str]]) -> list[str]:
    """Return program and arguments of a container, `$(VAR)` as it stands.

    Raises `UnknownImageError`.
    """
    arguments = list(container.get("args") or ())
    if given := container.get("command"):
        return [*given, *arguments]
    image = str(container.get("image", ""))
    entrypoint = _entrypoint(image, table)
    if entrypoint is None:
        raise UnknownImageError(
            f"image {image!r} is not pulled here and its entrypoint is not known: give the "
            "container a `command`, or list the image under `entrypoints` in images.yaml in the "
            "lab's home"
        )
    return [*entrypoint, *arguments]


def read_table(path: Path) -> dict[str, list[str]]:
    """Return the entrypoints that a person listed; an absent file lists none.

    Raises `UnknownImageError` for a file that is not of the form.
    """
    try:
        content = yaml.safe_load(path.read_text()) or {}
        listed = content["entrypoints"] if content else {}
        return {str(image): [str(word) for word in words] for image, words in listed.items()}
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
        raise UnknownImageError(
            f"{path} is not of the form `entrypoints: {{IMAGE: [WORD, ...]}}`: {error!r}"
        ) from error


def _entrypoint(image: str, table: Mapping[str, Sequence[str]]) -> list[str] | None:
    bare = image.partition("@")[0]
    head, _, last = bare.rpartition("/")
    last = last.partition(":")[0]
    whole = f"{head}/{last}" if head else last
    for key in (image, whole, last):
        if key in table:
            return list(table[key])
    if last == OWN:
        return [OWN]
    role = last.removeprefix(f"{OWN}-")
    return [OWN, role] if role != last and role else None
