"""The page indexes of a file: column indexes kept as bytes, offset indexes with the places of pages read out.

Column indexes hold no offsets and stay as they are; each page's place in an offset index is an offset in the file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.parquet.footer import Chunk, Footer, Span
from table_format.parquet.thrift import Items, Kind, Struct, i64, read_struct, structs, write_struct

_LOCATIONS: Final = 1
_OFFSET, _SIZE, _FIRST_ROW = 1, 2, 3
_KNOWN_INDEX: Final = frozenset({1, 2})
_KNOWN_LOCATION: Final = frozenset({1, 2, 3})
_GAP: Final = 64 << 10
_MOST_BYTES: Final = 32 << 20
"""Of one file; larger indexes are dropped."""
Place = tuple[int, int]
"""Row group and column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Where a data page lies, its header included, and the first of its rows in the row group."""

    span: Span
    first_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetIndex:
    """The offset index of one chunk."""

    raw: Struct
    pages: tuple[Page, ...]

    def moved(self, delta: int) -> bytes:
        """Its bytes for pages that lie so much further on."""
        locations = [
            location.with_({_OFFSET: i64(location.number(_OFFSET) + delta)})
            for location in self.raw.structs(_LOCATIONS)
        ]
        return write_struct(self.raw.with_({_LOCATIONS: structs(locations)}))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageIndexes:
    """What a file has of both kinds, by row group (of those with rows) and column."""

    columns: Mapping[Place, bytes]
    offsets: Mapping[Place, OffsetIndex]


def read_page_indexes(store: ObjectStore, footer: Footer) -> PageIndexes:
    """Read and check all page indexes.

    Raises:
        Invalid: one is damaged.
        Unsupported: one has something that is not known here.
    """
    wanted: dict[tuple[str, Place], Span] = {}
    for at, group in enumerate(footer.groups):
        for number, chunk in enumerate(group.chunks):
            if chunk.offset_index is not None:
                wanted["offset", (at, number)] = chunk.offset_index
            if chunk.column_index is not None:
                wanted["column", (at, number)] = chunk.column_index
    if sum(span.size for span in wanted.values()) > _MOST_BYTES:
        return PageIndexes(columns={}, offsets={})
    found = _Bytes(store, footer, list(wanted.values()))
    offsets: dict[Place, OffsetIndex] = {}
    columns: dict[Place, bytes] = {}
    for (kind, place), span in wanted.items():
        data = found.of(span)
        at, column = place
        group = footer.groups[at]
        if kind == "offset":
            offsets[place] = _offset_index(data, group.chunks[column], group.rows)
        else:
            columns[place] = data
    for where, data in columns.items():
        _check_column_index(data, offsets.get(where))
    return PageIndexes(columns=columns, offsets=offsets)


class _Bytes:
    """The bytes of many spans, read in few requests."""

    def __init__(self, store: ObjectStore, footer: Footer, spans: Sequence[Span]) -> None:
        tail_start = footer.info.size - len(footer.tail)
        self._windows = [(tail_start, footer.tail)]
        outside = sorted((span for span in spans if span.start < tail_start), key=lambda span: span.start)
        joined: list[Span] = []
        for span in outside:
            if joined and span.start <= joined[-1].end + _GAP:
                joined[-1] = Span(start=joined[-1].start, end=max(joined[-1].end, span.end))
            else:
                joined.append(span)
        for span in joined:
            self._windows.append((span.start, store.get(footer.info.path, (span.start, span.end))))

    def of(self, span: Span) -> bytes:
        for start, data in self._windows:
            if start <= span.start and span.end <= start + len(data):
                return data[span.start - start : span.end - start]
        raise Invalid("a page index could not be read whole")


def _offset_index(data: bytes, chunk: Chunk, rows: int) -> OffsetIndex:
    raw = _whole(data)
    locations = raw.structs(_LOCATIONS)
    if not raw.fields.keys() <= _KNOWN_INDEX or any(
        not location.fields.keys() <= _KNOWN_LOCATION for location in locations
    ):
        raise Unsupported("a page index has fields that are not known here")
    pages = tuple(
        Page(
            span=Span(start=start, end=start + location.number(_SIZE)),
            first_row=location.number(_FIRST_ROW),
        )
        for location in locations
        for start in (location.number(_OFFSET),)
    )
    inside = all(
        chunk.data <= page.span.start < page.span.end <= chunk.pages.end and 0 <= page.first_row <= rows
        for page in pages
    )
    ascending = all(
        before.span.end <= after.span.start and before.first_row <= after.first_row
        for before, after in pairwise(pages)
    )
    if not (pages and inside and ascending and pages[0].first_row == 0 and pages[0].span.start == chunk.data):
        raise Invalid("a page index contradicts the footer")
    return OffsetIndex(raw=raw, pages=pages)


def _check_column_index(data: bytes, offsets: OffsetIndex | None) -> None:
    nulls = _whole(data).fields.get(1, (Kind.LIST, None))[1]
    if not isinstance(nulls, Items) or (offsets is not None and len(nulls.values) != len(offsets.pages)):
        raise Invalid("the two page indexes of a column contradict each other")


def _whole(data: bytes) -> Struct:
    raw, end = read_struct(data)
    if end != len(data):
        raise Invalid("a page index is followed by something else")
    return raw
