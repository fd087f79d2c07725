"""Argo's examples as they are shipped: one object each, with the name that the lab calls it by."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from lab import apis, errors, invocations

SUBMITTED = ("Workflow",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One object of the examples."""

    name: str
    """File without `.yaml`, below `examples/`; `FILE#NAME` where the file holds several."""
    text: str
    """The file as it is, for edits that its comments ask for."""
    body: apis.Object

    @property
    def kind(self) -> str:
        """What it is."""
        return str(self.body["kind"])

    @property
    def source(self) -> str:
        """The file's text without comments."""
        return "\n".join(line for line in self.text.splitlines() if line.strip()[:1] != "#")

    @property
    def is_workflow(self) -> bool:
        """Whether it is submitted and comes to an end."""
        return self.kind in SUBMITTED

    def edited(self, edits: dict[str, str]) -> apis.Object:
        """Return the object with text replaced in the file that it came from."""
        if not edits:
            return self.body
        text = self.text
        for old, new in edits.items():
            if old not in text:
                raise errors.UsageError(f"example {self.name}: {old!r} is not in it any more")
            text = text.replace(old, new)
        (body,) = (item.body for item in _read(text, self.name) if item.name == self.name)
        return body


def load(folder: Path) -> dict[str, Example]:
    """Return all examples by name; raises `UsageError` where there are none."""
    found = {
        example.name: example
        for path in sorted(folder.rglob("*.yaml"))
        for example in _read(path.read_text(), str(path.relative_to(folder).with_suffix("")))
    }
    if not any(example.is_workflow for example in found.values()):
        raise errors.UsageError(
            f"no Argo examples in {folder}: build the lab's programs with "
            f"`{invocations.lab()} build`, or name the folder "
            "`examples` of Argo's Go module with --examples"
        )
    return found


def _read(text: str, file: str) -> Iterator[Example]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    bodies = [body for body in yaml.load_all(text, Loader=loader) if body]
    stem = file.partition("#")[0]
    for body in bodies:
        name = stem if len(bodies) == 1 else f"{stem}#{body['metadata'].get('name')}"
        yield Example(name=name, text=text, body=body)
