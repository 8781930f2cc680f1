"""Large delete files: applied through hashes and files on disk, they take away what small ones would."""

import random
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from table_format.errors import Internal, Invalid, Unavailable
from table_format.io.faults import Counting
from table_format.io.memory import MemoryObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestEntry, Status
from table_format.scan import hash_runs, sweep
from table_format.scan.deletes import DeleteCache, read_task
from table_format.scan.equality_join import KeySource, RowSource, bits_within, joined, set_bits
from table_format.scan.hash_runs import HashRuns
from table_format.scan.key_hash import hashes
from table_format.scan.plan import FileTask
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock

FIELDS: list[JsonObject] = [
    {"id": 1, "name": "a", "type": "long"},
    {"id": 2, "name": "b", "type": "string"},
]


def go_on() -> None:
    """Nothing stops."""


@pytest.fixture
def lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()))


@pytest.fixture
def nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "MOST_KEYS_HELD", 0)
    monkeypatch.setattr(sweep, "MOST_POSITIONS_HELD", 0)


def row(number: int | None, name: str | None = "a") -> dict[str, Any]:
    return {"id": number, "name": name}


def task(sequence: int, data: DataFile, *deletes: tuple[int, DataFile]) -> FileTask:
    """A data file of that age with those of the deletes that are younger."""

    def entry(file: DataFile, age: int) -> ManifestEntry:
        return ManifestEntry(
            status=Status.ADDED, snapshot_id=1, sequence_number=age, file_sequence_number=age, data_file=file
        )

    return FileTask(entry(data, sequence), tuple(entry(file, age) for age, file in deletes if age > sequence))


def columns(rows: list[tuple[int | None, str | None]]) -> list[pa.Array]:
    return [pa.array([a for a, _ in rows], pa.int64()), pa.array([b for _, b in rows], pa.large_string())]


def in_batches(rows: list[tuple[int | None, str | None]], size: int) -> list[list[pa.Array]]:
    return [columns(rows[start : start + size]) for start in range(0, len(rows), size)]


@pytest.mark.parametrize("part_rows", [1, 40, 10_000])
@pytest.mark.parametrize("held", [3, 1 << 20])
def test_joined_finds_what_a_loop_finds(monkeypatch: pytest.MonkeyPatch, part_rows: int, held: int) -> None:
    monkeypatch.setattr(hash_runs, "_HELD_ROWS", held)
    dice = random.Random(f"{part_rows} {held}")

    def some(count: int) -> list[tuple[int | None, str | None]]:
        numbers = [None, *range(12)]
        return [(dice.choice(numbers), dice.choice([None, "", "x", "y", "ä" * 200])) for _ in range(count)]

    for _ in range(5):
        files = [some(dice.randrange(60)) for _ in range(4)]
        deletes = [(dice.randrange(5), some(dice.randrange(40))) for _ in range(5)]
        found = joined(
            FIELDS,
            [
                RowSource(name=str(n), rows=len(rows), batches=lambda rows=rows: in_batches(rows, 7))
                for n, rows in enumerate(files)
            ],
            [
                KeySource(reach=reach, keys=len(keys), batches=lambda keys=keys: in_batches(keys, 5))
                for reach, keys in deletes
            ],
            go_on,
            part_rows=part_rows,
        )
        for number, (rows, bits) in enumerate(zip(files, found, strict=True)):
            keys = {key for reach, keys in deletes for key in keys if number < reach}
            assert bits_within(bits, 0, len(rows)).tolist() == [each in keys for each in rows]


def test_joined_finds_what_duckdb_finds() -> None:
    dice = np.random.default_rng(5)
    rows = pa.table({"a": dice.integers(0, 40_000, 30_000), "b": dice.integers(0, 3, 30_000).astype(str)})
    keys = pa.table({"a": dice.integers(0, 40_000, 50_000), "b": dice.integers(0, 3, 50_000).astype(str)})

    def batches(table: pa.Table) -> Iterator[list[pa.Array]]:
        for batch in table.cast(pa.schema({"a": pa.int64(), "b": pa.large_string()})).to_batches(4096):
            yield batch.columns

    found = joined(
        FIELDS,
        [RowSource(name="d", rows=rows.num_rows, batches=lambda: batches(rows))],
        [KeySource(reach=1, keys=keys.num_rows, batches=lambda: batches(keys))],
        go_on,
        part_rows=5000,
    )
    wanted = duckdb.sql(
        "select exists (from keys where keys.a = rows.a and keys.b = rows.b) from rows"
    ).fetchall()
    assert bits_within(found[0], 0, rows.num_rows).tolist() == [hit for (hit,) in wanted]
    assert 1000 < sum(hit for (hit,) in wanted) < 29_000


def test_more_rows_than_the_manifest_says_are_refused() -> None:
    source = RowSource(name="memory://d", rows=1, batches=lambda: in_batches([(1, "x"), (2, "y")], 9))
    with pytest.raises(Invalid, match="memory://d has more than the 1 rows"):
        joined(FIELDS, [source], [], go_on)


def test_without_room_on_the_disk_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hash_runs.tempfile, "TemporaryFile", full)
    with HashRuns(1) as runs:
        runs.add(pa.table({"a": [1]}), np.zeros(1, dtype=np.uint64))
        with pytest.raises(Unavailable, match=r"No space left.*TMPDIR"):
            runs.finish()


def test_bits() -> None:
    bits = np.zeros(3, dtype=np.uint8)
    set_bits(bits, np.array([0, 7, 8, 19, 7], dtype=np.int64))
    every = [place in (0, 7, 8, 19) for place in range(20)]
    assert all(
        bits_within(bits, start, end).tolist() == every[start:end]
        for start in range(20)
        for end in range(start, 21)
    )


HASHED: list[pa.Array] = [
    pa.array([1, None, -1, 2**40], pa.int64()),
    pa.array([1, None, -1], pa.int32()),
    pa.array([True, None, False]),
    pa.array([1.5, None, -1.5, float("nan")], pa.float64()),
    pa.array([1.5, None, -1.5, float("nan")], pa.float32()),
    pa.array([Decimal("1.50"), None, Decimal("-1.50")], pa.decimal128(38, 2)),
    pa.array([b"1" * 16, None, b"2" * 16], pa.binary(16)),
    pa.array([b"12345", None, b"12346"], pa.binary(5)),
    pa.array([1, None, 2], pa.timestamp("us")),
    pa.array([1, None, 2], pa.date32()),
    pa.array([b"", None, b"\0", b"\0\0", b"x" * 256, b"x" * 257, b"y" + b"x" * 256], pa.large_binary()),
    pa.array(["", None, "a", "b" * 999, "b" * 499 + "a" + "b" * 499], pa.large_string()),
    pa.nulls(1),
]


@pytest.mark.parametrize("column", HASHED, ids=lambda column: str(column.type))
def test_hashes_follow_from_the_value_alone(column: pa.Array) -> None:
    found = hashes([column])
    for place, one in enumerate(column):
        alone = pa.array([one.as_py()], column.type)
        apart = pa.concat_arrays([pa.nulls(3, column.type), alone]).slice(3)
        assert found[place] == hashes([alone])[0] == hashes([apart])[0] == hashes([column.slice(place, 1)])[0]
    # Differences in the middle of long texts are not seen; all others should be.
    assert len(set(found.tolist())) >= len(column) - (column.type == pa.large_string())


def test_zeros_and_nans_are_hashed_as_one() -> None:
    payload = np.array([0x7FF8000000000001, 0xFFF8000000000002], dtype=np.uint64).view(np.float64)
    same = hashes([pa.array([0.0, -0.0])])
    assert (same[0] == same[1], len({*hashes([pa.array(payload)]).tolist()})) == (True, 1)


def test_texts_of_many_megabytes_are_hashed_in_pieces() -> None:
    texts = [str(number) * 30 for number in range(20_000)]
    found = hashes([pa.array(texts, pa.large_string())])
    assert len(set(found.tolist())) == len(texts)
    assert found[19_999] == hashes([pa.array(texts[19_999:], pa.large_string())])[0]


def test_columns_that_are_no_keys_are_refused() -> None:
    with pytest.raises(Internal, match="not hashed"):
        hashes([pa.array([[1]])])


@pytest.mark.usefixtures("nothing_held")
def test_swept_deletes_reach_older_files_only_and_are_read_once(lake: Lake) -> None:
    files = [lake.data_file([row(n) for n in range(20)]) for _ in range(3)]
    deletes = [
        (2, lake.equality_file([row(1), row(None)], [1])),
        (3, lake.equality_file([row(2), row(1)], [1])),
        (3, lake.equality_file([row(3, "a"), row(4, "b")], [1, 2])),
        (4, lake.equality_file([row(5)], [1])),
        (9, lake.position_file([(files[0].file_path, 7), (files[2].file_path, 9), ("memory://gone", 0)])),
    ]
    tasks = [task(age, file, *deletes) for age, file in zip((1, 2, 3), files, strict=True)]
    counting, cache = Counting(lake.store), DeleteCache()
    cache.sweep(counting, tasks, lake.metadata, go_on)
    left = [
        {
            found["id"]
            for batch in read_task(counting, each, lake.metadata, cache=cache)
            for found in batch.to_pylist()
        }
        for each in tasks
    ]
    every = set(range(20))
    assert left == [every - {1, 2, 3, 5, 7}, every - {1, 2, 3, 5}, every - {5, 9}]
    assert {counting.paths["open_input"].count(file.file_path) for _, file in deletes} == {1}


@pytest.mark.usefixtures("nothing_held")
def test_files_whose_deletes_are_not_nested_are_swept_apart(lake: Lake) -> None:
    files = [lake.data_file([row(n) for n in range(6)]) for _ in range(2)]
    first, second, both = (lake.equality_file([row(n)], [1]) for n in range(3))
    tasks = [task(1, files[0], (2, first), (2, both)), task(1, files[1], (2, both), (2, second))]
    cache = DeleteCache()
    cache.sweep(lake.store, tasks, lake.metadata, go_on)
    left = [
        [
            found["id"]
            for batch in read_task(lake.store, each, lake.metadata, cache=cache)
            for found in batch.to_pylist()
        ]
        for each in tasks
    ]
    assert left == [[1, 3, 4, 5], [0, 3, 4, 5]]


KINDS: list[tuple[str, list[Any]]] = [
    ("double", [float("nan"), 1.5, None]),
    ("float", [float("nan"), 1.5, None]),
    ("boolean", [True, False, None]),
    ("uuid", [b"\x01" * 16, b"\x02" * 16, None]),
    ("decimal(9, 2)", [Decimal("1.00"), Decimal("2.00"), None]),
    ("timestamptz", [0, 1, None]),
    ("binary", [b"", b"\x00", None]),
    ("fixed[3]", [b"123", b"124", None]),
    ("int", [1, -1, None]),
    ("string", ["", "x" * 3000, None]),
]


@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=lambda value: str(value)[:12])
def test_swept_keys_of_every_kind(kind: str, values: list[Any]) -> None:
    schema = {"type": "struct", "fields": [{"id": 1, "name": "k", "required": False, "type": kind}]}
    lake = Lake(MemoryObjectStore(ManualClock()), schema=schema)
    data = lake.data_file([{"k": value} for value in values])
    for place in range(len(values)):
        each = task(1, data, (2, lake.equality_file([{"k": values[place]}], [1])))
        left = [found for batch in read_task(lake.store, each, lake.metadata) for found in batch.column(0)]
        kept = [found.as_py() for found in left]
        wanted = [value for at, value in enumerate(values) if at != place]
        assert len(kept) == 2
        assert [value is None for value in kept] == [value is None for value in wanted]


@pytest.mark.usefixtures("nothing_held")
def test_a_file_with_fewer_rows_than_its_manifest_says_is_refused(lake: Lake) -> None:
    data = lake.data_file([row(1), row(2)])
    delete = lake.equality_file([row(1)], [1])
    with pytest.raises(Invalid, match="has 2 rows, its manifest says 3"):
        list(read_task(lake.store, task(1, replace(data, record_count=3), (2, delete)), lake.metadata))
    with pytest.raises(Invalid, match="has more than the 1 rows"):
        list(read_task(lake.store, task(1, replace(data, record_count=1), (2, delete)), lake.metadata))


@pytest.mark.usefixtures("nothing_held")
def test_a_sweep_ends_when_it_is_told_to(lake: Lake) -> None:
    class Enough(Exception):
        pass

    def stop() -> None:
        raise Enough

    data = lake.data_file([row(1)])
    for delete in (lake.equality_file([row(1)], [1]), lake.position_file([(data.file_path, 0)])):
        with pytest.raises(Enough):
            sweep.sweep(lake.store, [task(1, data, (2, delete))], lake.metadata, stop)


def test_long_keys_are_swept_though_they_are_few(lake: Lake) -> None:
    large = replace(lake.equality_file([row(1)], [1]), file_size_in_bytes=9 << 20)
    found = sweep.sorted_deletes(task(1, lake.data_file([row(1)]), (2, large)))
    assert (found.held_keys, list(found.swept_keys)) == ({}, [(1,)])
