"""HTTP that leaves a pod: loopback is really called, the internet answers from a file of the lab.

Simulated nodes have no network. `HOME/web.yaml` says what sites answer (`lab corpus` writes it for
Argo's examples); any other host does not resolve, as on a node without a way out.
"""

import urllib.parse
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import msgspec
import yaml

from lab import errors

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Answer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a site answers to one URL."""

    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""


class WebError(Exception):
    """The request got no answer; the text is what a client would say."""


def sites(file: Path) -> dict[str, Answer]:
    """Return the simulated internet: answers by URL (a URL that ends in `*` stands for all below).

    Raises `UsageError` naming what is wrong with the file.
    """
    try:
        return msgspec.convert(yaml.safe_load(file.read_text()) or {}, dict[str, Answer])
    except FileNotFoundError:
        return {}
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise errors.UsageError(f"{file}: {error}") from error


def answer(known: Mapping[str, Answer], url: str) -> Answer | None:
    """Return what a site answers; 404 for another page of a known host; None for no such host."""
    if url in known:
        return known[url]
    for pattern, found in known.items():
        if pattern.endswith("*") and url.startswith(pattern[:-1]):
            return found
    hosts = {urllib.parse.urlsplit(pattern).hostname for pattern in known}
    if urllib.parse.urlsplit(url).hostname in hosts:
        return Answer(status=404, body="404: Not Found")
    return None


async def request(
    file: Path,
    *,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_s: float | None,
) -> Answer:
    """Send one request; raises `WebError`."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if host not in LOOPBACK:
        found = answer(sites(file), url)
        if found is None:
            shown = f'{method.capitalize()} "{url}"'
            raise WebError(f"{shown}: dial tcp: lookup {host}: no such host")
        return found
    timeout = aiohttp.ClientTimeout(total=timeout_s or 30.0)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, headers=dict(headers), data=body) as response,
        ):
            text = await response.text()
            return Answer(status=response.status, headers=dict(response.headers), body=text)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise WebError(f'{method.capitalize()} "{url}": {error}') from error
