"""A stand-in for curl: HTTP to servers of the lab, and what the node answers for the internet."""

import sys
import urllib.parse
from pathlib import Path
from typing import Any

import webs  # type: ignore[import-not-found]

TAKES_VALUE = {
    "-X": "method",
    "--request": "method",
    "-d": "data",
    "--data": "data",
    "--data-urlencode": "encoded",
    "-H": "header",
    "--header": "header",
    "-o": "output",
    "--output": "output",
}
FLAGS = {"-G": "get", "--get": "get", "-f": "fail", "--fail": "fail"}
IGNORED = {"-s", "--silent", "-S", "--show-error", "-L", "--location", "-k", "--insecure", "-v"}


def parse(given: list[str]) -> dict[str, Any]:
    """Return the options by name; every value in a list."""
    chosen: dict[str, Any] = {"url": []}
    words = list(given)
    while words:
        word = words.pop(0)
        short = word[:2]
        if word in TAKES_VALUE and words:
            chosen.setdefault(TAKES_VALUE[word], []).append(words.pop(0))
        elif short in TAKES_VALUE and not word.startswith("--") and len(word) > 2:
            chosen.setdefault(TAKES_VALUE[short], []).append(word[2:])
        elif word in FLAGS:
            chosen[FLAGS[word]] = True
        elif word in IGNORED:
            continue
        elif word.startswith("-"):
            raise SystemExit(fail(2, f"option {word}: is unknown to this stand-in"))
        else:
            chosen["url"].append(word)
    return chosen


def fail(code: int, message: str) -> int:
    """Say as curl does what went wrong."""
    sys.stderr.write(f"curl: ({code}) {message}\n")
    return code


def encode(text: str) -> str:
    """Encode as `--data-urlencode` does: only what follows the first `=`."""
    name, equals, value = text.partition("=")
    if not equals:
        return urllib.parse.quote(text)
    return (f"{name}=" if name else "") + urllib.parse.quote(value)


def main() -> int:
    """Do one transfer."""
    chosen = parse(sys.argv[1:])
    if not chosen["url"]:
        return fail(2, "no URL specified")
    text = chosen["url"][0]
    url = urllib.parse.urlsplit(text if "://" in text else f"http://{text}")
    data = "&".join(chosen.get("data", []) + [encode(item) for item in chosen.get("encoded", [])])
    method = chosen.get("method", ["POST" if data and "get" not in chosen else "GET"])[0]
    query = url.query
    if "get" in chosen:
        query, data = "&".join(part for part in (query, data) if part), ""
    target = (url.path or "/") + (f"?{query}" if query else "")
    headers = [item.split(":", 1) for item in chosen.get("header", [])]
    name = url.hostname or ""
    if name.replace(".", "").isdigit() or name == "localhost":
        addresses = [name]
    else:
        answer = webs.ask(
            op="http",
            method=method,
            url=urllib.parse.urlunsplit((url.scheme, url.netloc, url.path, query, "")),
            body=data,
        )
        if "status" in answer:
            return show(chosen, answer["status"], answer["body"].encode())
        addresses = answer.get("addresses") or []
        if not addresses:
            return fail(6, f"Could not resolve host: {name}")
    port = url.port or 80
    for address in addresses:
        try:
            status, content = webs.fetch(
                address, port, method=method, target=target, headers=headers, body=data.encode()
            )
        except OSError:
            continue
        return show(chosen, status, content)
    return fail(7, f"Failed to connect to {name} port {port}: Connection refused")


def show(chosen: dict[str, Any], status: int, content: bytes) -> int:
    """Write the content where it was asked for."""
    if "fail" in chosen and status >= 400:
        return fail(22, f"The requested URL returned error: {status}")
    if "output" in chosen:
        Path(chosen["output"][0]).write_bytes(content)
    else:
        sys.stdout.buffer.write(content)
    return 0


sys.exit(main())
