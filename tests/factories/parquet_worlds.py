"""Parquet files of many kinds with the same columns, and the files that merging them by copying makes."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from table_format.io.store import ObjectStore
from table_format.parquet.footer import read_footer
from table_format.parquet.merge import Merged, Source, merge
from table_format.parquet.page_index import read_page_indexes

CODECS = ("none", "snappy", "gzip", "brotli", "zstd", "lz4")


def _field(name: str, kind: Any, number: int) -> Any:
    return pa.field(name, kind, metadata={b"PARQUET:field_id": str(number).encode()})


def _inner(kind: Any) -> Any:
    return pa.field("element", kind, metadata={b"PARQUET:field_id": b"90"})


COLUMNS: dict[str, tuple[Any, Any]] = {
    "long": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "int": (pa.int32(), st.integers(-3, 3)),
    "bool": (pa.bool_(), st.booleans()),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "text": (pa.string(), st.text(max_size=9)),
    "words": (pa.string(), st.sampled_from(["express", "regular", "", "ä"])),
    "bytes": (pa.binary(), st.binary(max_size=40)),
    "fixed": (pa.binary(5), st.binary(min_size=5, max_size=5)),
    "decimal": (pa.decimal128(20, 2), st.decimals(-(10**17), 10**17, places=2)),
    "time": (pa.timestamp("us", tz="UTC"), st.integers(0, 10**15)),
    "list": (pa.list_(pa.int32()), st.lists(st.one_of(st.none(), st.integers(-9, 9)), max_size=4)),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.one_of(st.none(), st.text(max_size=3))}),
    ),
    "map": (
        pa.map_(pa.string(), pa.list_(pa.float64())),
        st.lists(
            st.tuples(st.text(max_size=3), st.lists(st.floats(allow_nan=False), max_size=2)), max_size=3
        ),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Tables of equal columns, each with the options by which it is written."""

    tables: tuple[pa.Table, ...]
    options: tuple[dict[str, Any], ...]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=5, unique=True))
    schema = pa.schema([_field(name, COLUMNS[name][0], 1 + at) for at, name in enumerate(names)])
    row = st.fixed_dictionaries({name: st.one_of(st.none(), COLUMNS[name][1]) for name in names})
    tables = []
    options = []
    for _ in range(draw(st.integers(1, 4))):
        rows = draw(st.lists(row, max_size=6)) * draw(st.sampled_from([1, 1, 40]))
        tables.append(pa.Table.from_pylist(rows, schema=schema))
        dictionary: Any = draw(st.sampled_from([True, False, names[:1]]))
        options.append(
            {
                "compression": draw(st.sampled_from(CODECS)),
                "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
                "use_dictionary": dictionary,
                "write_page_index": draw(st.booleans()),
                "write_page_checksum": draw(st.booleans()),
                "write_statistics": draw(st.booleans()),
                "row_group_size": draw(st.sampled_from([1, 7, 100, 1000])),
                # Of a single byte it begins lists with an empty page, over which pyarrow's own reader stumbles.
                "data_page_size": draw(st.sampled_from([64, 200, 1 << 20])),
                "write_batch_size": draw(st.sampled_from([1, 5, 1024])),
                "bloom_filter_options": {
                    # Without a number pyarrow takes megabytes of memory for each of a column's row groups.
                    name: {"ndv": 50}
                    for name in names
                    if name in ("long", "text", "words", "bytes")
                }
                if draw(st.booleans())
                else None,
            }
        )
    return World(tables=tuple(tables), options=tuple(options))


def written(store: ObjectStore, base: str, world: World) -> list[str]:
    """Write the files; their paths."""
    paths = []
    for number, (table, options) in enumerate(zip(world.tables, world.options, strict=True)):
        buffer = io.BytesIO()
        pq.write_table(table, buffer, **options)
        paths.append(f"{base}/in-{number}.parquet")
        store.put(paths[-1], buffer.getvalue())
    return paths


def sources(store: ObjectStore, paths: Sequence[str]) -> list[Source]:
    found = [read_footer(store, store.head(path)) for path in paths]
    return [Source(footer=footer, indexes=read_page_indexes(store, footer)) for footer in found]


def merged(store: ObjectStore, paths: Sequence[str], output: str) -> tuple[list[Source], Merged]:
    """Merge the files into a new one."""
    inputs = sources(store, paths)
    made = merge(inputs, b"{}")
    store.compose(output, made.pieces, lambda: None)
    return inputs, made
