"""A stand-in for InfluxDB 1.x: creates databases, takes points, gives them back."""

import json
import urllib.parse

import webs  # type: ignore[import-not-found]

DATABASES: dict[str, list[str]] = {}
"""Points by database, each a list of line-protocol lines."""


def answer(method: str, target: str, body: bytes) -> tuple[int, bytes]:
    """Answer /ping, /query and /write as InfluxDB does."""
    url = urllib.parse.urlsplit(target)
    fields = dict(urllib.parse.parse_qsl(url.query))
    if url.path == "/ping":
        return 204, b""
    if url.path == "/write":
        if fields.get("db") not in DATABASES:
            return 404, error(f'database not found: "{fields.get("db")}"')
        DATABASES[fields["db"]] += body.decode().splitlines()
        return 204, b""
    if url.path == "/query":
        fields.update(urllib.parse.parse_qsl(body.decode()))
        words = fields.get("q", "").split()
        if [word.upper() for word in words[:2]] == ["CREATE", "DATABASE"]:
            DATABASES.setdefault(words[2], [])
            return 200, results({})
        points = DATABASES.get(fields.get("db", ""))
        if points is None:
            return 404, error(f'database not found: "{fields.get("db")}"')
        return 200, results({"series": [{"name": "cpu", "values": points}]})
    return 404, error("not found")


def results(found: dict[str, object]) -> bytes:
    """Encode the answer to one statement."""
    return json.dumps({"results": [{"statement_id": 0, **found}]}).encode() + b"\n"


def error(text: str) -> bytes:
    """Encode a refusal."""
    return json.dumps({"error": text}).encode() + b"\n"


webs.serve(8086, answer)
