"""Bodies: bounded before and after decompression, strict JSON, honest encodings."""

import asyncio
import gzip
from collections.abc import Sequence

import pytest
import zstandard
from starlette.requests import Request
from starlette.types import Message

from catalog_server.api.bodies import (
    UnknownEncoding,
    accepted_encoding,
    compress,
    declared_length,
    parse_json_object,
    read_body,
    read_json_object,
)
from table_format.errors import Invalid, TooLarge


def request(chunks: Sequence[bytes], **headers: str) -> Request:
    waiting = list(chunks)

    async def receive() -> Message:
        chunk = waiting.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(waiting)}

    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": raw}, receive)


def read(chunks: Sequence[bytes], limit: int = 100, **headers: str) -> bytes:
    return asyncio.run(read_body(request(chunks, **headers), limit))


def test_plain_and_gzip_bodies_arrive_whole() -> None:
    body = b'{"a": 1}'
    assert read([body[:3], body[3:]]) == body
    assert read([body], content_encoding="identity") == body
    assert read([gzip.compress(body)], content_encoding="gzip") == body
    assert read([gzip.compress(body)], content_encoding="GZIP") == body
    assert read([gzip.compress(body[:3]) + gzip.compress(body[3:])], content_encoding="x-gzip") == body


def test_a_body_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert read([b"x" * 100]) == b"x" * 100
    with pytest.raises(TooLarge):
        read([b"x" * 60, b"x" * 41])
    with pytest.raises(TooLarge):
        read([], content_length="101")


def test_a_gzip_bomb_is_stopped_at_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(TooLarge):
        read([bomb], limit=len(bomb), content_encoding="gzip")
    assert read([gzip.compress(b"x" * 100)], content_encoding="gzip") == b"x" * 100


@pytest.mark.parametrize("broken", ["nonsense", "cut short", "with a tail"])
def test_broken_gzip_is_the_callers_fault(broken: str) -> None:
    packed = gzip.compress(b"{}")
    body = {"nonsense": b"nonsense", "cut short": packed[:-4], "with a tail": packed + b"tail"}[broken]
    with pytest.raises(Invalid, match="gzip"):
        read([body], content_encoding="gzip")


@pytest.mark.parametrize("encoding", ["br", "deflate", "zstd", "gzip, gzip", "nonsense"])
def test_unknown_encodings_are_named(encoding: str) -> None:
    with pytest.raises(UnknownEncoding, match=encoding):
        read([b"{}"], content_encoding=encoding)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b"null",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff",
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b"{'a': 1}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"<html>",
    ],
)
def test_what_is_not_a_json_object_is_refused(body: bytes) -> None:
    with pytest.raises(Invalid, match="Malformed request"):
        parse_json_object(body)


def test_large_bodies_are_parsed_alike() -> None:
    body = b'{"a": "' + b"x" * (2 << 20) + b'"}'
    parsed = asyncio.run(read_json_object(request([body]), 10 << 20, 1 << 20))
    assert parsed == {"a": "x" * (2 << 20)}


@pytest.mark.parametrize(
    ("header", "encoding"),
    [
        ("", None),
        ("gzip", "gzip"),
        ("gzip, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("GZIP;q=0.5, zstd;q=0", "gzip"),
        ("zstd;q=0.0", None),
        ("*", None),
        ("identity", None),
        ("gzip;q=nonsense", None),
        ("gzip;q=1.2.3", None),
        ("ünï", None),
    ],
)
def test_accepted_encoding(header: str, encoding: str | None) -> None:
    assert accepted_encoding(header) == encoding


def test_compressed_answers_can_be_read() -> None:
    body = b"abc" * 10_000
    assert gzip.decompress(compress(body, "gzip")) == body
    assert zstandard.ZstdDecompressor().decompress(compress(body, "zstd")) == body


@pytest.mark.parametrize("header", ["", "x", "-1", "1e9", "\xb2", "\u0664", "1 2", "+5"])
def test_a_content_length_that_is_no_number_counts_as_none(header: str) -> None:
    assert declared_length(header) == 0


def test_a_content_length_of_any_number_of_digits_is_a_number() -> None:
    assert declared_length("17") == 17
    assert declared_length("0" * 18 + "5") > 10**17
    assert declared_length("9" * 5000) > 10**17


def test_a_body_with_a_superscript_as_its_length_is_read() -> None:
    """It was a 500: to Python a superscript two is a digit, but no number."""
    waiting = request([b"{}"])
    headers = [(b"content-length", b"\xb2")]
    assert (
        asyncio.run(read_body(Request({**waiting.scope, "headers": headers}, waiting.receive), 10)) == b"{}"
    )
