"""Manifests gone through line by line; that lines are what reading gives is asked wherever manifests are read."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from table_format.io.memory import MemoryObjectStore
from table_format.manifest import lines
from table_format.manifest.container import build_container
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, ManifestFile
from table_format.manifest.layout import layout_of
from table_format.manifest.lines import live_lines
from table_format.manifest.write import write_manifest
from tests.factories.lines import read_both_ways
from tests.factories.manifests import SNAPSHOT, added, full_file, kept, new_file, new_metadata, removed
from tests.fakes.clock import ManualClock


def measured(number: int, columns: int = 40, **fields: Any) -> DataFile:
    """A file with metrics of so many columns."""
    ids = range(1, columns + 1)
    file = new_file(f"memory://t/data/{number}.parquet", record_count=number, file_size_in_bytes=number << 20)
    return replace(
        file,
        **{
            "column_sizes": dict.fromkeys(ids, 1 << number % 40),
            "value_counts": dict.fromkeys(ids, number),
            "null_value_counts": dict.fromkeys(ids, 0),
            "lower_bounds": {column: b"a" * (column % 17) for column in ids},
            "upper_bounds": {column: b"z" * (column % 17) for column in ids},
            "split_offsets": [4],
            **fields,
        },
    )


def written(
    store: MemoryObjectStore, entries: list[ManifestEntry], version: int = 2, **changes: Any
) -> ManifestFile:
    manifest = write_manifest(
        store,
        f"memory://t/{len(store.puts)}.avro",
        entries,
        metadata=new_metadata(version=version),
        spec_id=0,
        content=ManifestContent.DATA,
        snapshot_id=SNAPSHOT,
    )
    return replace(manifest, **{"sequence_number": 9 if version > 1 else 0, **changes})


class Store(MemoryObjectStore):
    """Counts what was put, for names."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.puts: list[str] = []

    def put(self, path: str, data: bytes, *, if_absent: bool = False) -> None:
        self.puts.append(path)
        super().put(path, data, if_absent=if_absent)


@pytest.fixture
def read_slowly(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where entries begin that were left to the reader."""
    layout_of.cache_clear()
    found: list[int] = []
    by_reader = lines._Lines._by_reader

    def spied(self: Any, data: bytes, start: int, before: int) -> Any:
        found.append(start)
        return by_reader(self, data, start, before)

    monkeypatch.setattr(lines._Lines, "_by_reader", spied)
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_entries_of_a_known_shape_are_not_read(version: int, read_slowly: list[int]) -> None:
    store, metadata = Store(), new_metadata(version=version)
    entries = [added(measured(number)) for number in range(1, 200)]
    manifest = written(store, entries, version, **({"first_row_id": 1000} if version > 2 else {}))
    first_pass = list(live_lines(store, manifest, metadata))
    assert len(read_slowly) <= 1  # of the first, by which the layout is learnt
    read_slowly.clear()
    assert list(live_lines(store, manifest, metadata)) == first_pass
    assert read_slowly == []
    assert len(read_both_ways(store, manifest, metadata)) == 199
    rows = [line.first_row_id for line in first_pass[:4]]
    assert rows == ([1000, 1001, 1003, 1006] if version > 2 else [None] * 4)


def test_shapes_that_differ_are_learnt_until_there_are_too_many(read_slowly: list[int]) -> None:
    store, metadata = Store(), new_metadata()
    many = [added(measured(number, columns=number)) for number in range(1, 120)]
    manifest = written(store, many)
    read_both_ways(store, manifest, metadata)
    assert read_slowly.count(0) == 1
    assert read_slowly.count(max(read_slowly)) > 1


def test_there_is_no_layout_for_schemas_that_would_take_long_to_compile() -> None:
    assert layout_of(schema_with([]), "t") is not None
    text = [{"name": f"x{number}", "type": "string"} for number in range(200)]
    assert layout_of(schema_with(text), "t") is None
    assert layout_of(schema_with([{"name": "x", "type": ["int", "string"]}]), "t") is None
    assert layout_of(schema_with([{"name": "x", "type": {"type": "map", "values": "int"}}]), "t") is None
    assert layout_of(schema_with([{"name": "sort_order_id", "type": "int", "field-id": 103}]), "t") is None


def test_numbers_that_are_passed_over_may_be_of_any_size() -> None:
    """What reading refuses is not learnt from, and does no harm."""
    store, metadata = Store(), new_metadata()
    more = {"name": "x", "type": {"type": "array", "items": "long"}}
    data = bytes([2]) + b"\x08a://" + b"\x0ePARQUET" + b"\x02\x02" + b"\x02" + b"\xff" * 9 + b"\x7f" + b"\x00"
    store.put("memory://t/m.avro", build_container(orjson.loads(schema_with([more])), {}, [(1, data)]))
    manifest = ManifestFile(path="memory://t/m.avro", length=0, spec_id=0, sequence_number=1)
    for _ in range(2):
        assert [line.file_path for line in live_lines(store, manifest, metadata)] == ["a://"]


def schema_with(more: list[dict[str, Any]]) -> bytes:
    fields = [
        {"name": "file_path", "type": "string", "field-id": 100},
        {"name": "file_format", "type": "string", "field-id": 101},
        {"name": "partition", "type": {"type": "record", "name": "r102", "fields": []}, "field-id": 102},
        {"name": "record_count", "type": "long", "field-id": 103},
        {"name": "file_size_in_bytes", "type": "long", "field-id": 104},
        *more,
    ]
    status = {"name": "status", "type": "int", "field-id": 0}
    file = {"name": "data_file", "type": {"type": "record", "name": "r2", "fields": fields}, "field-id": 2}
    return orjson.dumps({"type": "record", "name": "manifest_entry", "fields": [status, file]})


@pytest.mark.parametrize(
    "odd",
    [
        full_file(),
        measured(7, key_metadata=b"k"),
        measured(7, upper_bounds={1: b"z" * 300}),
        measured(7, sort_order_id=-5),
        measured(7, referenced_data_file="x" * 200),
        measured(7, column_sizes=None, lower_bounds={}),
        replace(measured(7), file_path="memory://t/" + "x" * 5000),
        replace(measured(7), file_path="memory://t/\N{SNOWMAN}"),
        measured(7, file_format="avro"),
    ],
    ids=lambda file: f"{file.file_path[-20:]} {file.file_format}",
)
@pytest.mark.parametrize("first_row_id", [None, 50])
def test_an_odd_entry_among_others(odd: DataFile, first_row_id: int | None) -> None:
    store, metadata = Store(), new_metadata(version=3)
    known = kept(measured(4), snapshot_id=3, sequence_number=2, file_sequence_number=1)
    entries = [added(measured(1)), added(odd), removed(measured(3)), known, added(measured(5))]
    manifest = written(store, entries, 3, first_row_id=first_row_id)
    assert len(read_both_ways(store, manifest, metadata)) == 5
