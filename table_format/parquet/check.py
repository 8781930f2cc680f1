"""The check of a file that was put together: what it says of itself, by two readers, and samples of its pages.

Nothing of it trusts what was meant to be written: size, ends and footer are read back. Of each row group a column is
drawn whose first and last page are read from both sides, compared, and decoded by the output's own footer. How much
is read is limited, since over a network the bytes that are not copied here are the point of copying.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.errors import Internal, Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.parquet.footer import (
    COLUMN_BLOOM,
    COLUMN_BLOOM_SIZE,
    COLUMN_DATA,
    COLUMN_DICTIONARY,
    COLUMN_SIZE,
    COLUMN_VALUES,
    MAGIC,
    META_CREATED_BY,
    Chunk,
    Footer,
    RowGroup,
    Span,
    parse_footer,
)
from table_format.parquet.merge import Merged, Source
from table_format.parquet.page_index import PageIndexes, read_page_indexes
from table_format.parquet.physical import Column
from table_format.parquet.thrift import Kind, Struct, i32, i64, read_struct, structs, text, write_struct

_LEAST_BUDGET: Final = 256 << 10
_BUDGET_SHARE: Final = 250
_END_BYTES: Final = 2 << 10
"""Read of both ends of a chunk of which no page is small enough."""
_ODD: Final = (OSError, ValueError, OverflowError)
"""What pyarrow raises beside its own errors about what it does not expect."""
_DATA_PAGE, _DATA_PAGE_V2 = 0, 3


def parsed_by_arrow(merged: Merged) -> pq.FileMetaData:
    """The new footer as pyarrow understands it, before anything is written.

    Raises:
        Invalid: it does not.
    """
    try:
        return pq.read_metadata(pa.BufferReader(MAGIC + merged.tail))
    except (pa.ArrowException, *_ODD) as error:
        raise Invalid(f"the joint footer is not understood: {error}") from error


def check_merged(
    store: ObjectStore,
    path: str,
    sources: Sequence[Source],
    merged: Merged,
    draw: Callable[[int], int],
    go_on: Callable[[], None],
) -> None:
    """Make sure that the written object is the inputs' row groups, one after the other.

    `draw(n)` gives a number below n; `go_on` is asked between row groups.

    Raises:
        Internal: it is not.
    """
    try:
        output = _read_back(store, path, merged)
        indexes = read_page_indexes(store, output)
        rows = [sources[one.source].footer.groups[one.group].rows for one in merged.placed]
        if [group.rows for group in output.groups] != rows:
            raise Internal(f"{path}: its row groups are not those of the inputs")
        budget = max(_LEAST_BUDGET, merged.size // _BUDGET_SHARE)
        for at, one in enumerate(merged.placed):
            go_on()
            source = sources[one.source]
            here = _Side(store, output, indexes, at)
            there = _Side(store, source.footer, source.indexes, one.group)
            _sample(here, there, draw, budget // len(merged.placed))
    except (Invalid, Unsupported, pa.ArrowException, *_ODD) as error:
        raise Internal(
            f"{path}, which was put together of copied row groups, is not right: {error}"
        ) from error


def _read_back(store: ObjectStore, path: str, merged: Merged) -> Footer:
    info = store.head(path)
    if info.size != merged.size:
        raise Internal(f"{path} has {info.size} bytes, not {merged.size}")
    tail = store.get(path, (merged.size - len(merged.tail), merged.size))
    if store.get(path, (0, len(MAGIC))) != MAGIC or tail != merged.tail:
        raise Internal(f"{path} does not begin or end with what was written")
    meta, _ = read_struct(tail, merged.data_end - (merged.size - len(tail)))
    footer = parse_footer(info, meta, merged.data_end, tail)
    arrow = pq.read_metadata(pa.BufferReader(MAGIC + tail))
    if (arrow.num_rows, arrow.num_row_groups) != (footer.rows, len(footer.groups)):
        raise Internal(f"{path}: {footer.rows} rows by one reader, {arrow.num_rows} by another")
    return footer


@dataclass(frozen=True, slots=True)
class _Side:
    """One row group, in the output or in an input."""

    store: ObjectStore
    footer: Footer
    indexes: PageIndexes
    at: int

    @property
    def group(self) -> RowGroup:
        return self.footer.groups[self.at]

    def bytes_of(self, span: Span) -> bytes:
        data = self.store.get(self.footer.info.path, (span.start, span.end))
        if len(data) != span.size:
            raise Internal(f"{self.footer.info.path} ends before byte {span.end}")
        return data


def _sample(here: _Side, there: _Side, draw: Callable[[int], int], budget: int) -> None:
    number = len(here.footer.columns)
    first = draw(number)
    for step in range(number):
        column = (first + step) % number
        spans = _page_spans(here, column)
        if spans and 2 * sum(span.size for span in spans) <= budget:
            _compare_pages(here, there, column, spans)
            return
    _compare_ends(here, there, first)


def _page_spans(side: _Side, column: int) -> list[Span]:
    """The chunk's first page with the dictionary before it, and its last one."""
    chunk = side.group.chunks[column]
    index = side.indexes.offsets.get((side.at, column))
    if index is None:
        return [chunk.pages]  # whole, or not at all
    first, last = index.pages[0].span, index.pages[-1].span
    spans = [Span(start=chunk.pages.start, end=first.end)]
    return spans if last == first else [*spans, last]


def _compare_pages(here: _Side, there: _Side, column: int, spans: Sequence[Span]) -> None:
    chunk, origin = here.group.chunks[column], there.group.chunks[column]
    parts = []
    for span in spans:
        data = here.bytes_of(span)
        moved = Span(
            start=span.start - chunk.pages.start + origin.pages.start,
            end=span.end - chunk.pages.start + origin.pages.start,
        )
        if data != there.bytes_of(moved):
            raise Internal(f"{here.footer.info.path}: bytes {span.start} to {span.end} are not the input's")
        parts.append(data)
    index = here.indexes.offsets.get((here.at, column))
    rows = here.group.rows
    dictionary = parts[0][: chunk.data - chunk.pages.start]
    pages = [parts[0][len(dictionary) :], *parts[1:]]
    if index is None:
        _decode(here.footer, column, chunk, dictionary, pages[0], rows)
        return
    known = index.pages
    counts = [known[1].first_row if len(known) > 1 else rows, rows - known[-1].first_row]
    for page, count in zip(pages, counts[: len(pages)], strict=True):
        _decode(here.footer, column, chunk, dictionary, page, count)


def _compare_ends(here: _Side, there: _Side, column: int) -> None:
    chunk, origin = here.group.chunks[column].pages, there.group.chunks[column].pages
    size = min(_END_BYTES, chunk.size)
    for start in (0, chunk.size - size):
        one = here.bytes_of(Span(start=chunk.start + start, end=chunk.start + start + size))
        other = there.bytes_of(Span(start=origin.start + start, end=origin.start + start + size))
        if one != other:
            raise Internal(f"{here.footer.info.path}: a column of row group {here.at} is not the input's")


def _decode(footer: Footer, number: int, chunk: Chunk, dictionary: bytes, pages: bytes, rows: int) -> None:
    """Read these pages as a file of their own.

    Raises:
        Internal: they do not hold that many rows.
    """
    column = footer.columns[number]
    data = len(MAGIC) + len(dictionary)
    changes = {
        COLUMN_DATA: i64(data),
        COLUMN_DICTIONARY: i64(len(MAGIC)) if dictionary else None,
        COLUMN_SIZE: i64(len(dictionary) + len(pages)),
        COLUMN_VALUES: i64(_values(pages)),
        COLUMN_BLOOM: None,
        COLUMN_BLOOM_SIZE: None,
        12: None,
        13: None,
        16: None,
    }
    meta = Struct(
        {
            1: i32(2),
            2: structs([Struct({4: text(b"sample"), 5: i32(1)}), *_alone(column)]),
            3: i64(rows),
            4: structs(
                [
                    Struct(
                        {
                            1: structs([Struct({2: i64(0), 3: (Kind.STRUCT, chunk.meta.with_(changes))})]),
                            2: i64(len(pages)),
                            3: i64(rows),
                        }
                    )
                ]
            ),
            META_CREATED_BY: footer.meta.fields[META_CREATED_BY],
        }
    )
    written = write_struct(meta)
    whole = MAGIC + dictionary + pages + written + len(written).to_bytes(4, "little") + MAGIC
    table = pq.ParquetFile(pa.BufferReader(whole), page_checksum_verification=True).read(use_threads=False)
    table.validate(full=True)
    if table.num_rows != rows:
        raise Internal(f"{footer.info.path}: a page has {table.num_rows} rows, not {rows}")


def _alone(column: Column) -> list[Struct]:
    """The column without its neighbours: groups around it lose what only a complete list or map may be called."""
    above = [
        Struct(
            {
                3: i32(node.repetition),
                4: text(node.name),
                5: i32(1),
            }
        )
        for node in column.nodes[:-1]
    ]
    return [*above, column.leaf.element]


def _values(pages: bytes) -> int:
    """How many values the pages hold, by their headers."""
    position = values = 0
    while position < len(pages):
        header, position = read_struct(pages, position)
        kind = header.number(1)
        told = header.struct(8 if kind == _DATA_PAGE_V2 else 5)
        if kind not in (_DATA_PAGE, _DATA_PAGE_V2) or told is None:
            raise Invalid("something else than data pages lies where they should")
        values += told.number(1)
        position += header.number(3)
    if position != len(pages):
        raise Invalid("a page does not end where it should")
    return values
