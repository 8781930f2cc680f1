"""The footer of one Parquet file, held against the file: what it says lies where, and nothing unexpected in it.

Whatever might hold an offset is known here by its field; a footer with fields that are not known is refused, since
copying could leave an offset in them wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectInfo, ObjectStore
from table_format.parquet.physical import Column, columns_of, tree
from table_format.parquet.thrift import Struct, read_struct

MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 16 << 10
"""Read of every file at first: most footers fit into it."""
_MOST_FOOTER: Final = 64 << 20

# Field numbers of parquet.thrift.
META_ROWS, META_GROUPS, META_PAIRS, META_CREATED_BY, META_ORDERS = 3, 4, 5, 6, 7
GROUP_CHUNKS, GROUP_BYTES, GROUP_ROWS, GROUP_OFFSET, GROUP_ORDINAL = 1, 2, 3, 5, 7
CHUNK_PATH, CHUNK_OFFSET, CHUNK_META = 1, 2, 3
CHUNK_OFFSET_INDEX, CHUNK_COLUMN_INDEX = (4, 5), (6, 7)
COLUMN_TYPE, COLUMN_PATH, COLUMN_CODEC, COLUMN_VALUES, COLUMN_SIZE = 1, 3, 4, 5, 7
COLUMN_DATA, COLUMN_INDEX_PAGE, COLUMN_DICTIONARY, COLUMN_BLOOM, COLUMN_BLOOM_SIZE = 9, 10, 11, 14, 15
_KNOWN_META: Final = frozenset(range(1, 8))
_KNOWN_GROUP: Final = frozenset(range(1, 8))
_KNOWN_CHUNK: Final = frozenset(range(1, 8))
_KNOWN_COLUMN: Final = frozenset(range(1, 18))

CODECS: Final = {
    0: "uncompressed",
    1: "snappy",
    2: "gzip",
    3: "lzo",
    4: "brotli",
    5: "lz4",
    6: "zstd",
    7: "lz4_raw",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The bytes [start, end) of a file."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """How many bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One column of one row group, and where its parts lie."""

    raw: Struct
    meta: Struct
    pages: Span
    """Dictionary and data pages."""
    data: int
    """Where the first data page begins."""
    bloom: Span | None
    offset_index: Span | None
    column_index: Span | None

    @property
    def dictionary(self) -> bool:
        """Whether there is a dictionary page."""
        return self.data > self.pages.start


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroup:
    """One row group."""

    raw: Struct
    rows: int
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footer:
    """What a file's footer says, checked against the file's size."""

    info: ObjectInfo
    meta: Struct
    columns: tuple[Column, ...]
    groups: tuple[RowGroup, ...]
    """Without those that have no rows."""
    data_end: int
    """Where the footer begins: all else lies before it."""
    tail: bytes
    """The end of the file, as far as it was read."""

    @property
    def rows(self) -> int:
        """Rows of the file."""
        return self.meta.number(META_ROWS)

    @property
    def created_by(self) -> str | None:
        """What wrote the file."""
        text = self.meta.binary(META_CREATED_BY)
        return None if text is None else text.decode(errors="replace")


def read_footer(store: ObjectStore, info: ObjectInfo) -> Footer:
    """Read and check the footer of the object that `info` tells of.

    Raises:
        Invalid: it is no Parquet file, or its footer contradicts itself or the file.
        Unsupported: it is encrypted, or has something that is not known here.
    """
    size = info.size
    if size < 12:
        raise Invalid("it is too short for a Parquet file")
    tail = store.get(info.path, (max(0, size - TAIL_BYTES), size))
    if tail[-4:] == b"PARE":
        raise Unsupported("its footer is encrypted")
    if tail[-4:] != MAGIC:
        raise Invalid("it does not end as a Parquet file does")
    length = int.from_bytes(tail[-8:-4], "little")
    if not 0 < length <= min(size - 12, _MOST_FOOTER):
        raise Invalid(f"its footer has an impossible length, {length} bytes")
    if length + 8 > len(tail):
        tail = store.get(info.path, (size - 8 - length, size))
        if len(tail) != length + 8:
            raise Invalid("its footer could not be read whole")
    meta, end = read_struct(tail, len(tail) - 8 - length)
    if end != len(tail) - 8:
        raise Invalid("its footer is followed by something else")
    return parse_footer(info, meta, size - 8 - length, tail)


def parse_footer(info: ObjectInfo, meta: Struct, data_end: int, tail: bytes) -> Footer:
    """Check a footer; all that it names must lie before `data_end`.

    Raises:
        Invalid: it contradicts itself or the file.
        Unsupported: it is encrypted, or has something that is not known here.
    """
    _check_known(meta, _KNOWN_META)
    columns = tuple(columns_of(tree(meta.structs(2))))
    groups = [_group(raw, columns, data_end) for raw in meta.structs(META_GROUPS)]
    if sum(group.rows for group in groups) != meta.number(META_ROWS):
        raise Invalid("its row groups have other rows than the whole")
    kept = tuple(group for group in groups if group.rows)
    _check_apart(spans_of(kept))
    return Footer(info=info, meta=meta, columns=columns, groups=kept, data_end=data_end, tail=tail)


def spans_of(groups: Sequence[RowGroup]) -> list[Span]:
    """All pages and Bloom filters, in the order in which they lie."""
    chunks = [chunk for group in groups for chunk in group.chunks]
    found = [chunk.pages for chunk in chunks] + [chunk.bloom for chunk in chunks if chunk.bloom is not None]
    return sorted(found, key=lambda span: span.start)


def _check_apart(spans: Sequence[Span]) -> None:
    if any(before.end > after.start for before, after in pairwise(spans)):
        raise Invalid("parts of it overlap, by its footer")


def _check_known(found: Struct, known: frozenset[int]) -> None:
    if not found.fields.keys() <= known:
        unknown = sorted(found.fields.keys() - known)
        raise Unsupported(f"its footer is encrypted or has fields that are not known here ({unknown})")


def _group(raw: Struct, columns: Sequence[Column], data_end: int) -> RowGroup:
    _check_known(raw, _KNOWN_GROUP)
    rows = raw.number(GROUP_ROWS)
    chunks = raw.structs(GROUP_CHUNKS)
    if rows < 0 or len(chunks) != len(columns):
        raise Invalid("a row group has other columns than the file")
    if rows == 0:
        return RowGroup(raw=raw, rows=0, chunks=())
    found = tuple(
        _chunk(chunk, column, rows, data_end) for chunk, column in zip(chunks, columns, strict=True)
    )
    return RowGroup(raw=raw, rows=rows, chunks=found)


def _chunk(raw: Struct, column: Column, rows: int, data_end: int) -> Chunk:
    _check_known(raw, _KNOWN_CHUNK)
    meta = raw.struct(CHUNK_META)
    if meta is None or raw.binary(CHUNK_PATH):
        raise Unsupported("columns of it lie in other files")
    _check_known(meta, _KNOWN_COLUMN)
    if meta.number(COLUMN_TYPE) != column.leaf.kind or _path(meta) != column.path:
        raise Invalid("a row group has other columns than the file")
    values = meta.number(COLUMN_VALUES)
    if values < rows or (values > rows and not column.repeated):
        raise Invalid(f"a column has {values} values in {rows} rows")
    if meta.integer(COLUMN_INDEX_PAGE):
        raise Unsupported("it has index pages")
    data = meta.number(COLUMN_DATA)
    start = meta.integer(COLUMN_DICTIONARY) or data
    pages = _span(start, meta.number(COLUMN_SIZE), data_end)
    if pages is None or not pages.start <= data < pages.end:
        raise Invalid("the pages of a column do not lie where they can, by its footer")
    return Chunk(
        raw=raw,
        meta=meta,
        pages=pages,
        data=data,
        bloom=_optional(meta, COLUMN_BLOOM, COLUMN_BLOOM_SIZE, data_end),
        offset_index=_optional(raw, *CHUNK_OFFSET_INDEX, data_end),
        column_index=_optional(raw, *CHUNK_COLUMN_INDEX, data_end),
    )


def _path(meta: Struct) -> tuple[bytes, ...]:
    found = meta.fields.get(COLUMN_PATH)
    values = getattr(found[1], "values", ()) if found else ()
    return tuple(value for value in values if isinstance(value, bytes))


def _optional(holder: Struct, offset: int, length: int, data_end: int) -> Span | None:
    """A part that a file need not have; one without a length cannot be told from what follows it."""
    start, size = holder.integer(offset), holder.integer(length)
    if start is None or size is None:
        return None
    span = _span(start, size, data_end)
    if span is None:
        raise Invalid("an index or Bloom filter does not lie where it can, by its footer")
    return span


def _span(start: int, size: int, data_end: int) -> Span | None:
    fits = len(MAGIC) <= start and size > 0 and start + size <= data_end
    return Span(start=start, end=start + size) if fits else None
