"""Estimates on every replica: the leader learns them from its store, the others pull them.

What travels is one JSON document with a version; a follower that cannot reach the leader keeps the
last one and its age is a metric. A replica that becomes leader with an empty store goes on from
what it pulled until its own rows say more.
"""

import dataclasses
import hashlib
from collections.abc import Mapping

import orjson

from tiphys.models.domain import errors, snapshots, workflows
from tiphys.models.estimators import books

FORMAT = 1


@dataclasses.dataclass(slots=True)
class Estimates:
    """What history says just now; `snapshots.Estimates`."""

    book: books.Book = dataclasses.field(default_factory=books.Book)
    version: int = 0
    """Rises with each that was taken here; each leader counts for itself."""
    tag: str = ""
    """Of the document that was pulled; empty on a replica that learned."""
    made_at: float = 0.0
    """Unix seconds; 0 = never."""
    published: bytes | None = None
    """The document for followers; None on a replica that pulled it."""

    def learn(self, book: books.Book, *, at: float) -> None:
        """Take a new book on the leader and publish it."""
        version = self.version + 1
        self.published = encode(book, version=version, made_at=at)
        self.book, self.version, self.made_at, self.tag = book, version, at, ""

    def pull(self, document: bytes) -> None:
        """Take the leader's document.  Raises `InputError`."""
        self.book, _, self.made_at = decode(document)
        self.version, self.tag = self.version + 1, tag(document)
        self.published = None


def tag(document: bytes) -> str:
    """Return what tells a document from every other."""
    return hashlib.blake2b(document, digest_size=16).hexdigest()


def encode(book: books.Book, *, version: int, made_at: float) -> bytes:
    """Return the document of a book."""
    return orjson.dumps(
        {
            "format": FORMAT,
            "version": version,
            "madeAt": made_at,
            "entries": [
                {
                    "identity": dataclasses.asdict(identity),
                    "estimate": dataclasses.asdict(entry.estimate),
                    "retries": None if entry.retries is None else dataclasses.asdict(entry.retries),
                    "factors": dict(entry.factors),
                    "width": entry.width,
                    "exponent": entry.exponent,
                    "inputBytes": entry.input_bytes,
                }
                for identity, entry in book.entries.items()
            ],
            "groupFactors": dict(book.group_factors),
            "siblings": {
                name: {
                    key: dataclasses.asdict(estimate)
                    for key, estimate in getattr(book, name).items()
                }
                for name in SIBLINGS
            },
            "defaultS": book.default_s,
            "defaultWidth": book.default_width,
        }
    )


def decode(document: bytes) -> tuple[books.Book, int, float]:
    """Return book, version and unix seconds of a document.  Raises `InputError`."""
    try:
        found = orjson.loads(document)
        if found["format"] != FORMAT:
            raise errors.InputError(
                f"estimates of format {found['format']}, this version reads {FORMAT}"
            )
        siblings = {
            name: {key: snapshots.Estimate(**each) for key, each in found["siblings"][name].items()}
            for name in SIBLINGS
        }
        book = books.Book(
            entries={
                workflows.Identity(**each["identity"]): _entry(each) for each in found["entries"]
            },
            group_factors=tuple(sorted(found["groupFactors"].items())),
            default_s=float(found["defaultS"]),
            default_width=float(found["defaultWidth"]),
            **siblings,
        )
        return book, int(found["version"]), float(found["madeAt"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise errors.InputError(f"estimates cannot be read: {error!r}") from error


SIBLINGS = ("by_source", "by_image", "by_template")


def _entry(found: Mapping[str, object]) -> books.Entry:
    retries, factors = found["retries"], found["factors"]
    assert isinstance(factors, dict)
    return books.Entry(
        estimate=snapshots.Estimate(**found["estimate"]),  # type: ignore[arg-type]
        retries=None if retries is None else snapshots.Estimate(**retries),  # type: ignore[arg-type]
        factors=tuple(sorted(factors.items())),
        width=found["width"],  # type: ignore[arg-type]
        exponent=found["exponent"],  # type: ignore[arg-type]
        input_bytes=found["inputBytes"],  # type: ignore[arg-type]
    )
