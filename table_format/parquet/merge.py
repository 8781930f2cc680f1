"""Parquet files put one behind the other without being decoded: which bytes are copied, and the new footer. Pure.

All row groups move by their file's distance, and so does every offset to them; page indexes are written anew behind the
last row group, Bloom filters stay beside their row groups. What differs between the files, and may not, is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from table_format.errors import Invalid, Unsupported
from table_format.io.store import Piece, Range
from table_format.parquet.footer import (
    CHUNK_COLUMN_INDEX,
    CHUNK_META,
    CHUNK_OFFSET,
    CHUNK_OFFSET_INDEX,
    COLUMN_BLOOM,
    COLUMN_BLOOM_SIZE,
    COLUMN_DATA,
    COLUMN_DICTIONARY,
    COLUMN_INDEX_PAGE,
    GROUP_CHUNKS,
    GROUP_OFFSET,
    GROUP_ORDINAL,
    MAGIC,
    META_CREATED_BY,
    META_GROUPS,
    META_ORDERS,
    META_PAIRS,
    META_ROWS,
    Chunk,
    Footer,
    Span,
    spans_of,
)
from table_format.parquet.page_index import PageIndexes
from table_format.parquet.thrift import Field, Kind, Struct, i32, i64, structs, text, write_struct

SCHEMA_PAIR: Final = b"iceberg.schema"
_DROPPED_PAIRS: Final = (b"ARROW:schema", b"pandas")
"""They tell some readers how to show the columns, or about the rows of one file; others never needed them."""
_OWN_NAME: Final = b"frazil version 1.0 (build row-groups-copied)"
_MOST_GROUPS: Final = 32_767
_LEAST_GAP, _GAP_SHARE = 64 << 10, 50
_VERSION: Final = re.compile(r"(.*?)\s+version\s+v?(\d+)(?:\.(\d+))?", re.IGNORECASE)
# The oldest versions whose statistics and sizes are right, as readers take them; of others files are not mixed.
_SOUND: Final = {
    "parquet-mr": (1, 10),
    "parquet-cpp-arrow": (5, 0),
    "parquet-rs": (10, 0),
    "duckdb": (1, 0),
    "parquet-mr-trino": (0, 0),
    "frazil": (0, 0),
}
_NEVER: Final = ("parquet-mr", "parquet-cpp", "impala")
"""Old versions of these wrote sizes or statistics that readers correct by the writer's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One input."""

    footer: Footer
    indexes: PageIndexes


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a row group of the output came from."""

    source: int
    group: int
    delta: int
    """How much further on it lies in the output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The output: its pieces in order, its footer, and where its row groups are from."""

    pieces: tuple[Piece, ...]
    meta: Struct
    size: int
    data_end: int
    """Where its footer begins."""
    tail: bytes
    """The last of the pieces: page indexes and footer."""
    placed: tuple[Placed, ...]


def merge(sources: Sequence[Source], schema_text: bytes) -> Merged:
    """Put the files together; `schema_text` is the table's schema as JSON, for a footer that names it.

    Raises:
        Invalid: the files have no rows.
        Unsupported: they differ in what must be equal, or have more unused space between row groups than is copied.
    """
    filled = [number for number, source in enumerate(sources) if source.footer.groups]
    if not filled:
        raise Invalid("there is no row to copy")
    first = sources[filled[0]].footer
    for number in filled[1:]:
        _check_alike(first, sources[number].footer)
    pieces: list[Piece] = []
    placed: list[Placed] = []
    position = 0
    for number in filled:
        footer = sources[number].footer
        span = _copied(footer, whole_head=not pieces)
        info = footer.info
        pieces.append(Range(path=info.path, start=span.start, end=span.end, etag=info.etag))
        delta = position - span.start
        placed += [Placed(source=number, group=at, delta=delta) for at in range(len(footer.groups))]
        position += span.size
    if len(placed) > _MOST_GROUPS:
        raise Unsupported(f"{len(placed)} row groups are more than a file can have")
    tail, index_spans = _indexes(sources, placed, position)
    data_end = position + len(tail)
    footers = [sources[number].footer for number in filled]
    meta = first.meta.with_(
        {
            1: i32(max(footer.meta.number(1) for footer in footers)),
            META_ROWS: i64(sum(footer.rows for footer in footers)),
            META_GROUPS: structs(_groups(sources, placed, index_spans)),
            META_PAIRS: _pairs(footers, schema_text),
            META_CREATED_BY: text(_created_by(footers)),
        }
    )
    written = write_struct(meta)
    tail += written + len(written).to_bytes(4, "little") + MAGIC
    return Merged(
        pieces=(*pieces, tail),
        meta=meta,
        size=position + len(tail),
        data_end=data_end,
        tail=tail,
        placed=tuple(placed),
    )


def _check_alike(first: Footer, other: Footer) -> None:
    if [column.shape for column in first.columns] != [column.shape for column in other.columns]:
        raise Unsupported("the files store their columns in different ways")
    if first.meta.fields.get(META_ORDERS) != other.meta.fields.get(META_ORDERS):
        raise Unsupported("the files order the values of their columns in different ways")


def _copied(footer: Footer, *, whole_head: bool) -> Span:
    """The bytes that are copied: from the first of what is kept (the first file: from its start) to the last."""
    spans = spans_of(footer.groups)
    start = 0 if whole_head else spans[0].start
    end = max(span.end for span in spans)
    unused = end - start - sum(span.size for span in spans)
    if unused > _LEAST_GAP + (end - start) // _GAP_SHARE:
        raise Unsupported(f"{unused} bytes between its row groups are not used")
    return Span(start=start, end=end)


_Index = dict[tuple[int, int], Span]


def _indexes(
    sources: Sequence[Source], placed: Sequence[Placed], start: int
) -> tuple[bytes, tuple[_Index, _Index]]:
    """The page indexes as they lie from `start` on, and where: column indexes, then offset indexes.

    A column keeps its index when all of its chunks have one: readers know files that lack it for some columns, and
    some know none that lack it for some row groups.
    """
    out = bytearray()
    found: tuple[_Index, _Index] = ({}, {})
    columns = range(len(sources[placed[0].source].footer.columns))
    for kind, index in enumerate(found):
        chunks = [
            [_index_bytes(sources[one.source].indexes, one, n, kind) for n in columns] for one in placed
        ]
        whole = [all(group[number] is not None for group in chunks) for number in columns]
        for at, group in enumerate(chunks):
            for number, data in enumerate(group):
                if data is not None and whole[number]:
                    index[at, number] = Span(start=start + len(out), end=start + len(out) + len(data))
                    out += data
    return bytes(out), found


def _index_bytes(indexes: PageIndexes, one: Placed, column: int, kind: int) -> bytes | None:
    if kind == 0:
        return indexes.columns.get((one.group, column))
    offsets = indexes.offsets.get((one.group, column))
    return None if offsets is None else offsets.moved(one.delta)


def _groups(
    sources: Sequence[Source], placed: Sequence[Placed], indexes: tuple[_Index, _Index]
) -> Iterator[Struct]:
    columns, offsets = indexes
    for at, one in enumerate(placed):
        group = sources[one.source].footer.groups[one.group]
        chunks = [
            _moved(chunk, one.delta, columns.get((at, number)), offsets.get((at, number)))
            for number, chunk in enumerate(group.chunks)
        ]
        changes: dict[int, Field | None] = {GROUP_CHUNKS: structs(chunks)}
        if GROUP_OFFSET in group.raw.fields:
            changes[GROUP_OFFSET] = i64(group.chunks[0].pages.start + one.delta)
        if GROUP_ORDINAL in group.raw.fields:
            changes[GROUP_ORDINAL] = (Kind.I16, at)
        yield group.raw.with_(changes)


def _moved(chunk: Chunk, delta: int, column_index: Span | None, offset_index: Span | None) -> Struct:
    bloom = chunk.bloom
    meta = chunk.meta.with_(
        {
            COLUMN_DATA: i64(chunk.data + delta),
            COLUMN_DICTIONARY: i64(chunk.pages.start + delta) if chunk.dictionary else None,
            COLUMN_INDEX_PAGE: None,
            COLUMN_BLOOM: None if bloom is None else i64(bloom.start + delta),
            COLUMN_BLOOM_SIZE: None if bloom is None else i32(bloom.size),
        }
    )
    # A place within the chunk for some writers, nought for others, and not to be relied on.
    told = chunk.raw.integer(CHUNK_OFFSET) or 0
    inside = chunk.pages.start <= told <= chunk.pages.end
    return chunk.raw.with_(
        {
            CHUNK_OFFSET: i64(told + delta if inside else 0),
            CHUNK_META: (Kind.STRUCT, meta),
            **_at(CHUNK_OFFSET_INDEX, offset_index),
            **_at(CHUNK_COLUMN_INDEX, column_index),
        }
    )


def _at(fields: tuple[int, int], span: Span | None) -> Mapping[int, Field | None]:
    if span is None:
        return dict.fromkeys(fields)
    return {fields[0]: i64(span.start), fields[1]: i32(span.size)}


def _pairs(footers: Sequence[Footer], schema_text: bytes) -> Field | None:
    """The key-value metadata that all files share.

    Raises:
        Unsupported: the files differ in a key that is not known here.
    """
    told = [
        {pair.binary(1) or b"": pair.binary(2) for pair in footer.meta.structs(META_PAIRS)}
        for footer in footers
    ]
    kept: dict[bytes, bytes | None] = {}
    for key in dict.fromkeys(key for pairs in told for key in pairs):
        same = all(key in pairs and pairs[key] == told[0].get(key) for pairs in told)
        if key == SCHEMA_PAIR and not same:
            kept[key] = schema_text
        elif key == b"pandas" or (key in _DROPPED_PAIRS and not same):
            continue
        elif not same:
            raise Unsupported(f"the files differ in what they say of {key.decode(errors='replace')[:60]!r}")
        else:
            kept[key] = told[0][key]
    if not kept:
        return None
    return structs(
        Struct({1: text(key)} if value is None else {1: text(key), 2: text(value)})
        for key, value in kept.items()
    )


def _created_by(footers: Sequence[Footer]) -> bytes:
    """The writer's name by which readers know what to make of statistics.

    Raises:
        Unsupported: it is missing, too old, or one of several that are not known here.
    """
    names = {footer.created_by for footer in footers}
    sound = True
    for name in names:
        if not name or not name.strip():
            raise Unsupported("a file does not say what wrote it")
        match = _VERSION.match(name)
        writer = match[1].lower() if match else name.split()[0].lower()
        recent = match is not None and (int(match[2]), int(match[3] or 0)) >= _SOUND.get(writer, (1 << 30, 0))
        if writer in _NEVER and not recent:
            raise Unsupported(f"it was written by an old version: {name[:60]}")
        sound = sound and recent
    if len(names) == 1:
        return (next(iter(names)) or "").encode()
    if not sound:
        told = ", ".join(sorted(str(name)[:60] for name in names))
        raise Unsupported(f"the files were written by different programs: {told}")
    return _OWN_NAME
