"""Request bodies in, response encodings out: size limits, decompression, JSON, compression.

A body is bounded before and after decompression; every way in which it can be wrong is an error of the caller.
"""

import gzip
import re
import zlib

import anyio.to_thread
import zstandard
from starlette.requests import Request

from table_format.errors import Invalid, TooLarge
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

_MOST_DIGITS = 18
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_MOST_MEMBERS = 64  # each further member of a gzip body costs a copy of all that follows it
_THREAD_FROM_BYTES = 1 << 20  # parsing less than this takes the event loop under ten milliseconds


class UnknownEncoding(Invalid):
    """The body's Content-Encoding is none that is understood."""


def declared_length(header: str) -> int:
    """The bytes that a Content-Length header promises; 0 when it is not a number, since the body is counted anyway."""
    if not (header.isascii() and header.isdigit()):
        return 0
    # Python refuses to convert thousands of digits; so many are too many in any case.
    return int(header) if len(header) <= _MOST_DIGITS else 10**_MOST_DIGITS


async def read_body(request: Request, limit: int) -> bytes:
    """The request's body, decompressed.

    Raises:
        TooLarge: more than `limit` bytes, as sent or decompressed.
        UnknownEncoding: a Content-Encoding other than gzip and identity.
        Invalid: not the encoding it says it is.
    """
    if declared_length(request.headers.get("content-length", "")) > limit:
        raise _too_large(limit)
    encodings = [part.strip().lower() for part in request.headers.get("content-encoding", "").split(",")]
    encodings = [part for part in encodings if part not in {"", "identity"}]
    if any(part not in {"gzip", "x-gzip"} for part in encodings) or len(encodings) > 1:
        named = ", ".join(encodings)
        raise UnknownEncoding(f"Unsupported Content-Encoding {named!r}: send the body plain or as gzip")
    chunks: list[bytes] = []
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit:
            raise _too_large(limit)
        chunks.append(chunk)
    body = b"".join(chunks)
    if not encodings or not body:
        return body
    return await anyio.to_thread.run_sync(_gunzip, body, limit)


async def read_json_object(request: Request, limit: int, max_values: int) -> JsonObject:
    """The request's body as a JSON object of at most so many values.

    Raises:
        TooLarge: as for `read_body`, or more values: each takes far more memory than text.
        Invalid: as for `read_body`, or the body is not a JSON object.
    """
    body = await read_body(request, limit)
    if len(body) < _THREAD_FROM_BYTES:
        return _bounded_object(body, max_values)
    return await anyio.to_thread.run_sync(_bounded_object, body, max_values)


def _bounded_object(body: bytes, max_values: int) -> JsonObject:
    # A value takes two bytes at least, so short bodies need not be counted.
    if len(body) > 2 * max_values and jsontext.most_values(body) > max_values:
        raise TooLarge(f"Request body too large: its JSON may have at most {max_values} values")
    return parse_json_object(body)


def parse_json_object(body: bytes) -> JsonObject:
    """Strict JSON: no NaN, no comments, UTF-8 only.

    Raises:
        Invalid: not JSON, or not an object.
    """
    if not body:
        raise Invalid("Malformed request: the body is empty, a JSON object is needed")
    try:
        value = jsontext.loads(body)
    except Invalid as error:
        raise Invalid(f"Malformed request: the body is {error.message}") from None
    if not isinstance(value, dict):
        raise Invalid("Malformed request: the body must be a JSON object")
    return value


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"Request body too large: the limit is {limit} bytes")


def _gunzip(body: bytes, limit: int) -> bytes:
    """All members of a gzip body, never holding more than `limit` bytes of output."""
    parts: list[bytes] = []
    room = limit
    try:
        while body:
            if len(parts) == _MOST_MEMBERS:
                raise Invalid(f"Malformed request: the gzip body has more than {_MOST_MEMBERS} members")
            member = zlib.decompressobj(_GZIP_WINDOW)
            parts.append(member.decompress(body, room + 1))
            room -= len(parts[-1])
            if room < 0:
                raise _too_large(limit)
            if not member.eof:
                raise Invalid("Malformed request: the gzip body ends too early")
            body = member.unused_data
    except zlib.error as error:
        raise Invalid(f"Malformed request: the body is not valid gzip: {error}") from None
    return b"".join(parts)


_ENCODING = re.compile(r"^\s*([a-z*-]+)\s*(?:;\s*q\s*=\s*([0-9.]+)\s*)?$")


def accepted_encoding(header: str) -> str | None:
    """The best of zstd and gzip that an Accept-Encoding header allows; None for neither.

    A wildcard is not taken up: clients that really want compression name it.
    """
    allowed = set()
    for part in header.lower().split(","):
        match = _ENCODING.match(part)
        if match and _quality(match.group(2)) > 0:
            allowed.add(match.group(1))
    return next((encoding for encoding in ("zstd", "gzip") if encoding in allowed), None)


def _quality(text: str | None) -> float:
    try:
        return 1.0 if text is None else float(text)
    except ValueError:
        return 0.0


def compress(body: bytes, encoding: str) -> bytes:
    """The body in one of the encodings that `accepted_encoding` gives, at a speed that a hot route can pay."""
    if encoding == "zstd":
        return zstandard.ZstdCompressor(level=1).compress(body)
    return gzip.compress(body, compresslevel=1, mtime=0)
