"""SPDY/3.1 as far as `exec` needs it: frames in, frames out, no input or output of its own.

The API server hands a client's SPDY connection through to the kubelet as it is, and Argo's
controller ends daemons and stopped workflows over such a connection (`kill` in each container).
Source: draft-mbelshe-httpbis-spdy-00 and Chromium's SPDY/3 draft; tried against client-go 0.36.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

SYN_STREAM, SYN_REPLY, PING = 1, 2, 6
CONTROL = 0x8000
VERSION = 3
FIN = 1
HEAD_BYTES = 8
MOST_FRAME_BYTES = 1 << 20
"""Of a frame that is accepted; `exec` without input sends some hundred bytes."""

_WORDS = (
    "options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|"
    "accept-ranges|age|allow|authorization|cache-control|connection|content-base|"
    "content-encoding|content-language|content-length|content-location|content-md5|"
    "content-range|content-type|date|etag|expect|expires|from|host|if-match|"
    "if-modified-since|if-none-match|if-range|if-unmodified-since|last-modified|location|"
    "max-forwards|pragma|proxy-authenticate|proxy-authorization|range|referer|retry-after|"
    "server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|"
    "www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|"
    "keep-alive|origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, "
    "Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,application/xml,"
    "application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in _WORDS.split("|"))
    + _TAIL.encode()
)
"""What both sides' compressors know before the first header (fixed by the protocol)."""


class SpdyError(ValueError):
    """The peer sent something that is no SPDY/3 frame; the connection is of no further use."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opened a stream."""

    stream: int
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Pinged:
    """The peer wants its ping back; `frame` is the answer."""

    frame: bytes


class Connection:
    """One side of one connection; headers share one compression context each way."""

    def __init__(self) -> None:
        self._rest = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def receive(self, data: bytes) -> Iterator[Opened | Pinged]:
        """Yield what the frames mean that are complete now; others are passed over."""
        self._rest += data
        while len(self._rest) >= HEAD_BYTES:
            first, second, length = struct.unpack(">HHI", self._rest[:HEAD_BYTES])
            length &= 0xFFFFFF
            if length > MOST_FRAME_BYTES:
                raise SpdyError(f"a frame of {length} bytes is too long")
            if len(self._rest) < HEAD_BYTES + length:
                return
            frame = self._rest[: HEAD_BYTES + length]
            self._rest = self._rest[HEAD_BYTES + length :]
            if not first & CONTROL:
                continue
            if second == SYN_STREAM:
                yield self._opened(frame[HEAD_BYTES:])
            elif second == PING:
                yield Pinged(frame)

    def reply(self, stream: int) -> bytes:
        """Return the frame that accepts a stream."""
        block = self._deflate.compress(struct.pack(">I", 0))
        block += self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_REPLY, struct.pack(">I", stream) + block)

    def open(self, stream: int, headers: dict[str, str]) -> bytes:
        """Return the frame that opens a stream."""
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            block += struct.pack(">I", len(name)) + name.encode()
            block += struct.pack(">I", len(value)) + value.encode()
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return _control(SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + packed)

    def _opened(self, body: bytes) -> Opened:
        try:
            stream, _, _ = struct.unpack(">IIH", body[:10])
            block = self._inflate.decompress(body[10:])
            (count,) = struct.unpack_from(">I", block)
            position, headers = 4, {}
            for _ in range(count):
                name, position = _text(block, position)
                value, position = _text(block, position)
                headers[name.lower()] = value
        except (struct.error, zlib.error, UnicodeDecodeError) as error:
            raise SpdyError(f"a stream's headers cannot be read: {error}") from error
        return Opened(stream & 0x7FFFFFFF, headers)


def data(stream: int, payload: bytes, *, last: bool = False) -> bytes:
    """Return a frame with bytes of a stream; `last` closes this side of it."""
    flags = FIN if last else 0
    return struct.pack(">II", stream, flags << 24 | len(payload)) + payload


def _control(kind: int, body: bytes) -> bytes:
    return struct.pack(">HHI", CONTROL | VERSION, kind, len(body)) + body


def _text(block: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">I", block, position)
    end = position + 4 + length
    if end > len(block):
        raise SpdyError("a stream's headers end too early")
    return block[position + 4 : end].decode(), end
