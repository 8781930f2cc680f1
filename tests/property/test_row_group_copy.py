"""Files merged by copying their row groups: equal to their concatenation for pyarrow and DuckDB, offsets and all."""

import io
import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from table_format.errors import Internal, Invalid, TableFormatError
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from table_format.parquet.check import check_merged, parsed_by_arrow
from table_format.parquet.footer import read_footer
from table_format.parquet.merge import merge
from table_format.parquet.thrift import read_struct, write_struct
from tests.factories.parquet_worlds import World, merged, sources, worlds, written
from tests.fakes.clock import ManualClock

_PLACES = itertools.count()


def whatever() -> None:
    """Go on."""


def read_whole(data: bytes) -> pa.Table:
    return pq.read_table(io.BytesIO(data), page_checksum_verification=True)


@settings(max_examples=20, deadline=None)
@given(world=worlds(), draws=st.integers(0, 99))
def test_the_merged_file_is_the_concatenation(world: World, draws: int) -> None:
    store = MemoryObjectStore(ManualClock())
    paths = written(store, "memory://w", world)
    expected = pa.concat_tables(world.tables)
    if not expected.num_rows:
        with pytest.raises(Invalid, match="no row"):
            merged(store, paths, "memory://w/out")
        return
    inputs, made = merged(store, paths, "memory://w/out")
    data = store.get("memory://w/out")
    assert len(data) == made.size
    found = read_whole(data)
    found.validate(full=True)
    assert found.equals(expected)
    check_merged(store, "memory://w/out", inputs, made, lambda below: draws % below, whatever)
    # The file is one that can be merged again, and twice is as good as once.
    again, _ = merged(store, ["memory://w/out", *paths], "memory://w/again")
    assert read_whole(store.get("memory://w/again")).equals(pa.concat_tables([expected, expected]))
    assert sum(len(source.footer.groups) for source in again) == 2 * len(made.placed)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(world=worlds())
def test_duckdb_reads_the_merged_file_as_it_reads_the_inputs(tmp_path: Path, world: World) -> None:
    if not sum(table.num_rows for table in world.tables):
        return
    store = LocalObjectStore()
    base = f"file://{tmp_path}/{next(_PLACES)}"
    paths = written(store, base, world)
    merged(store, paths, f"{base}/out.parquet")

    def read(*names: str) -> list[Any]:
        files = [name.removeprefix("file://") for name in names]
        found = duckdb.execute("SELECT COLUMNS(*)::VARCHAR FROM read_parquet(?)", [files]).fetchall()
        return sorted(map(repr, found))

    assert read(f"{base}/out.parquet") == read(*paths)


@settings(max_examples=20, deadline=None)
@given(world=worlds())
def test_statistics_page_indexes_and_bloom_filters_stay(world: World) -> None:
    if not sum(table.num_rows for table in world.tables):
        return
    store = MemoryObjectStore(ManualClock())
    paths = written(store, "memory://w", world)
    inputs, _ = merged(store, paths, "memory://w/out")
    output = read_footer(store, store.head("memory://w/out"))
    (out,) = sources(store, ["memory://w/out"])
    before = [(source, at) for source in inputs for at in range(len(source.footer.groups))]
    columns = range(len(output.columns))
    complete = {
        number: all((at, number) in source.indexes.offsets for source, at in before) for number in columns
    }
    bounded = {
        number: all((at, number) in source.indexes.columns for source, at in before) for number in columns
    }
    for place, (source, at) in enumerate(before):
        for number in columns:
            old, new = source.footer.groups[at].chunks[number], output.groups[place].chunks[number]
            delta = new.pages.start - old.pages.start
            old_bytes = store.get(source.footer.info.path, (old.pages.start, old.pages.end))
            assert store.get("memory://w/out", (new.pages.start, new.pages.end)) == old_bytes
            assert new.meta.fields.get(12) == old.meta.fields.get(12)  # statistics
            assert (new.bloom is None) == (old.bloom is None)
            if new.bloom is not None and old.bloom is not None:
                filter_bytes = store.get(source.footer.info.path, (old.bloom.start, old.bloom.end))
                assert store.get("memory://w/out", (new.bloom.start, new.bloom.end)) == filter_bytes
            wanted = source.indexes.columns.get((at, number)) if bounded[number] else None
            assert out.indexes.columns.get((place, number)) == wanted
            if complete[number]:
                told = out.indexes.offsets[place, number].pages
                was = source.indexes.offsets[at, number].pages
                assert [(p.span.start - delta, p.span.end - delta, p.first_row) for p in told] == [
                    (p.span.start, p.span.end, p.first_row) for p in was
                ]
            else:
                assert (place, number) not in out.indexes.offsets


@settings(max_examples=20, deadline=None)
@given(world=worlds())
def test_a_footer_written_again_is_the_same_bytes(world: World) -> None:
    store = MemoryObjectStore(ManualClock())
    for path in written(store, "memory://w", world):
        data = store.get(path)
        length = int.from_bytes(data[-8:-4], "little")
        raw = data[-8 - length : -8]
        meta, end = read_struct(raw)
        assert end == length
        assert write_struct(meta) == raw


def files_to_damage() -> Iterator[tuple[bytes, pa.Table]]:
    rows = range(50)
    table = pa.table(
        {
            "id": pa.array(rows),
            "word": [f"x{n % 5}" for n in rows],
            "list": [[n] * (n % 3) for n in rows],
            "part": pa.array([n / 3 if n % 4 else None for n in rows]),
            "map": pa.array([[("k", [1.0])]] * 50, pa.map_(pa.string(), pa.list_(pa.float64()))),
        }
    )
    for index, groups, version in ((True, 10, "1.0"), (False, 100, "2.0")):
        buffer = io.BytesIO()
        more = {
            "bloom_filter_options": {"word": {"ndv": 50}},
            "data_page_version": version,
            "compression": "zstd",
        }
        pq.write_table(table, buffer, write_page_index=index, row_group_size=groups, **more)
        yield buffer.getvalue(), table


@pytest.mark.parametrize(("data", "table"), list(files_to_damage()), ids=["indexed", "plain"])
def test_a_damaged_footer_is_refused_or_harmless(data: bytes, table: pa.Table) -> None:
    """Bits of the footer flipped: refused with an error of ours, or all that is kept is copied as it was.

    (Read by nobody else here: pyarrow itself crashes on some damaged footers.)
    """
    length = int.from_bytes(data[-8:-4], "little")
    flips = Random(7)
    outcomes: Counter[str] = Counter()
    for _ in range(250):
        damaged = bytearray(data)
        damaged[flips.randrange(len(data) - 8 - length, len(data))] ^= 1 << flips.randrange(8)
        store = MemoryObjectStore(ManualClock())
        paths = ["memory://w/0", "memory://w/1"]
        for path, content in zip(paths, (bytes(damaged), data), strict=True):
            store.put(path, content)
        try:
            inputs = sources(store, paths)
            made = merge(inputs, b"{}")
            parsed_by_arrow(made)
            store.compose("memory://w/out", made.pieces, whatever)
            check_merged(store, "memory://w/out", inputs, made, flips.randrange, whatever)
        except TableFormatError:
            outcomes["refused"] += 1
            continue
        outcomes["copied"] += 1
        output = read_footer(store, store.head("memory://w/out"))
        assert output.rows == sum(source.footer.rows for source in inputs) == 2 * table.num_rows
        before = [(source, group) for source in inputs for group in source.footer.groups]
        for (source, old), new in zip(before, output.groups, strict=True):
            for was, told in zip(old.chunks, new.chunks, strict=True):
                raw = store.get(source.footer.info.path, (was.pages.start, was.pages.end))
                assert store.get("memory://w/out", (told.pages.start, told.pages.end)) == raw
    assert min(outcomes["refused"], outcomes["copied"]) > 50


@given(data=st.binary(max_size=200))
@example(data=b"\x19\xfc\xff\xff\xff\xff\x0f")
@example(data=b"\x1c" * 300)
@example(data=b"\x15" + b"\x80" * 20)
def test_bytes_that_are_no_struct_are_refused(data: bytes) -> None:
    try:
        value, end = read_struct(data)
    except Invalid:
        return
    assert read_struct(write_struct(value))[0] == value
    assert end <= len(data)


@settings(max_examples=20, deadline=None)
@given(world=worlds(), data=st.data())
def test_the_check_tells_what_is_not_the_inputs_footer(world: World, data: st.DataObject) -> None:
    """A byte changed in the beginning or the tail of the output never passes."""
    if not sum(table.num_rows for table in world.tables):
        return
    store = MemoryObjectStore(ManualClock())
    inputs, made = merged(store, written(store, "memory://w", world), "memory://w/out")
    broken = bytearray(store.get("memory://w/out"))
    tail = st.integers(len(broken) - len(made.tail), len(broken) - 1)
    broken[data.draw(st.one_of(st.integers(0, 3), tail))] ^= 1 << data.draw(st.integers(0, 7))
    store.put("memory://w/out", bytes(broken))
    with pytest.raises(Internal):
        check_merged(store, "memory://w/out", inputs, made, lambda below: 0, whatever)
    store.put("memory://w/out", bytes(broken[:-1]))
    with pytest.raises(Internal):
        check_merged(store, "memory://w/out", inputs, made, lambda below: 0, whatever)
