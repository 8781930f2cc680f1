"""Keyset pages: a token names the last key already given, so entries that come or go never shift a page.

Tokens are opaque text bound to the listing they belong to; a token never repeats because the key grows.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import orjson

from table_format.errors import Invalid

T = TypeVar("T")

DEFAULT_PAGE_SIZE = 100
MAX_PAGE_SIZE = 1000


class BadToken(Invalid):
    """A page token that the listing did not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """What the caller asked for; an empty token is the first page."""

    token: str = ""
    size: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """Some items; `next_token` is None on the last page."""

    items: list[T]
    next_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyset:
    """A page request in the terms of the database: rows after this key, at most so many (None: all)."""

    after: tuple[str, ...] | None
    limit: int | None


def keyset(page: PageRequest | None, listing: str) -> Keyset:
    """The rows to ask for; `listing` names what is listed and must match the token's.

    Raises:
        Invalid: the size is below 1.
        BadToken: the token was not made for this listing.
    """
    if page is None:
        return Keyset(after=None, limit=None)
    size = DEFAULT_PAGE_SIZE if page.size is None else page.size
    if size < 1:
        raise Invalid(f"pageSize must be at least 1, not {size}")
    return Keyset(after=_decode(page.token, listing) if page.token else None, limit=min(size, MAX_PAGE_SIZE))


async def paged(
    page: PageRequest | None,
    listing: str,
    fetch: Callable[[tuple[str, ...] | None, int | None], Awaitable[Sequence[T]]],
    key: Callable[[T], tuple[str, ...]],
) -> Page[T]:
    """Fetch one page: `fetch(after, limit)` gives rows in key order; one more than wanted tells of a next page.

    Raises:
        Invalid: as `keyset`.
    """
    wanted = keyset(page, listing)
    if wanted.limit is None:
        return Page(items=list(await fetch(None, None)), next_token=None)
    rows = list(await fetch(wanted.after, wanted.limit + 1))
    if len(rows) <= wanted.limit:
        return Page(items=rows, next_token=None)
    items = rows[: wanted.limit]
    return Page(items=items, next_token=_encode(key(items[-1]), listing))


def is_number(text: str) -> bool:
    """Whether a token's part is a row's id: a number that fits the database."""
    return text.isascii() and text.isdecimal() and len(text) < 19


def _encode(key: tuple[str, ...], listing: str) -> str:
    return base64.urlsafe_b64encode(orjson.dumps([listing, *key])).decode().rstrip("=")


def _decode(token: str, listing: str) -> tuple[str, ...]:
    try:
        parts = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error):
        parts = None
    if (
        not isinstance(parts, list)
        or len(parts) < 2
        or parts[0] != listing
        or not all(isinstance(part, str) and "\0" not in part for part in parts)
    ):
        raise BadToken("pageToken is not one that this listing gave")
    return tuple(parts[1:])
