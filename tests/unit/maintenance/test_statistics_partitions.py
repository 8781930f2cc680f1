"""Partitions of a snapshot by its manifests: the unified type over several specs, order, vectors, updates."""

import io
from decimal import Decimal
from uuid import UUID

import numpy as np
import pyarrow.parquet as pq
import pytest

from maintenance.executors.port import Stopped
from maintenance.statistics.partition_file import content
from maintenance.statistics.partitions import read_partitions, unified
from table_format.errors import Unsupported
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from table_format.write.vectors import write_vectors
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock


def go_on():
    return None


def lake_of(spec=BY_NAME, version=3, **more):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, spec=spec, **{"format-version": str(version)}, **more)


def read(lake, **more):
    found = read_partitions(lake.store, lake.metadata, lake.metadata.current_snapshot_id, go_on, **more)
    raw = content(found, lake.metadata.format_version)
    return pq.read_table(io.BytesIO(raw)).to_pylist()


def field(source, number, name, transform):
    return {"source-id": source, "field-id": number, "name": name, "transform": transform}


def specs(*of_specs, version=2):
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "a", "required": False, "type": "long"},
            {"id": 2, "name": "b", "required": False, "type": "string"},
        ],
    }
    return TableMetadata(
        {
            "format-version": version,
            "schemas": [schema],
            "current-schema-id": 0,
            "partition-specs": [{"spec-id": n, "fields": list(fields)} for n, fields in enumerate(of_specs)],
        }
    )


def told(metadata):
    return [(column.field_id, column.name, str(column.type)) for column in unified(metadata)]


def test_the_unified_type_has_every_field_that_any_spec_ever_had():
    one, two = field(1, 1000, "a", "identity"), field(2, 1001, "b_cut", "truncate[3]")
    three = field(1, 1002, "a_bucket", "bucket[4]")
    assert told(specs([one, two], [two], [two, three])) == [
        (1000, "a", "long"),
        (1001, "b_cut", "string"),
        (1002, "a_bucket", "int"),
    ]


def test_the_newest_name_counts_and_of_a_dropped_field_what_it_was():
    one, renamed = field(1, 1000, "a", "identity"), field(1, 1000, "a_then", "identity")
    dropped = field(1, 1000, "a_then", "void")
    assert told(specs([one], [renamed])) == [(1000, "a_then", "long")]
    assert told(specs([one], [dropped], version=1)) == [(1000, "a", "long")]
    assert told(specs([dropped], version=1)) == [(1000, "a_then", "long")]


def test_fields_of_one_name_are_told_apart():
    assert told(specs([field(1, 1000, "p", "identity")], [field(1, 1001, "p", "bucket[4]")])) == [
        (1000, "p_1000", "long"),
        (1001, "p", "int"),
    ]


@pytest.mark.parametrize(
    "of_specs",
    [
        ([field(1, 1000, "a", "identity")], [field(2, 1000, "b", "identity")]),
        ([field(1, 1000, "a", "identity")], [field(1, 1000, "a", "bucket[4]")]),
        ([field(1, 1000, "a", "somehow")],),
    ],
)
def test_what_cannot_be_unified_is_refused(of_specs):
    with pytest.raises(Unsupported):
        unified(specs(*of_specs))


def test_partitions_stand_in_order_nulls_first_each_spec_for_itself():
    lake = lake_of()
    for name in ("b", None, "a", "é"):
        lake.append_rows({"id": 1, "name": name}, partition=(name,))
    spec = {"fields": [field(2, 1000, "name", "identity"), field(1, 1001, "id_bucket", "bucket[4]")]}
    updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    lake.catalog.commit(IDENT, [], updates)
    lake.append_rows({"id": 1, "name": "a"}, partition=("a", 3))
    lake.append_rows({"id": 2, "name": "a"}, partition=("a", None))
    found = [(row["partition"]["name"], row["partition"]["id_bucket"], row["spec_id"]) for row in read(lake)]
    assert found == [
        (None, None, 0),
        ("a", None, 0),
        ("a", None, 1),
        ("a", 3, 1),
        ("b", None, 0),
        ("é", None, 0),
    ]


VALUES = {
    "float": [None, float("-inf"), -0.0, 0.0, 1.5, float("nan")],
    "uuid": [UUID(int=1), UUID(int=2**127)],
    "decimal(9, 2)": [Decimal("-1.50"), Decimal("2.25")],
    "binary": [b"\x01", b"\x80"],
    "fixed[2]": [b"ab", b"zz"],
    "date": [-1, 20_000],
    "time": [0, 86_399_999_999],
    "timestamptz": [-1, 1_700_000_000_000_000],
    "timestamp_ns": [-1, 1_700_000_000_000_000_000],
    "boolean": [False, True],
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_are_kept_and_ordered(kind):
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "id", "required": False, "type": "long"},
            {"id": 2, "name": "v", "required": False, "type": kind},
        ],
    }
    lake = lake_of({"spec-id": 0, "fields": [field(2, 1000, "v", "identity")]}, schema=schema)
    for value in reversed(VALUES[kind]):
        lake.append_rows({"id": 1}, partition=(value,))
    found = read_partitions(lake.store, lake.metadata, lake.metadata.current_snapshot_id, go_on)
    assert repr([row.values[0] for row in found.rows]) == repr(VALUES[kind])
    column = pq.read_table(io.BytesIO(content(found, 3))).column("partition").combine_chunks().field(0)
    plain = column.storage if hasattr(column, "storage") else column
    assert plain.null_count == VALUES[kind].count(None)
    assert len(plain.drop_null().unique()) == len(VALUES[kind]) - VALUES[kind].count(None)


def test_vectors_tell_the_rows_that_are_left():
    lake = lake_of()
    first = lake.append_rows(*({"id": n, "name": "a"} for n in range(5)), partition=("a",))
    lake.append_rows({"id": 9, "name": "b"}, partition=("b",))
    path = f"{lake.metadata.location}/data/v.puffin"
    vectors = write_vectors(lake.store, path, [(first, np.array([1, 3]))], created_by="me")
    lake.row_delta([], vectors)
    a, b = read(lake)
    assert (a["dv_count"], a["position_delete_record_count"], a["position_delete_file_count"]) == (1, 2, 0)
    assert (a["data_record_count"], a["total_record_count"]) == (5, 3)
    assert (b["dv_count"], b["total_record_count"]) == (0, 1)


def test_who_stored_files_anew_updated_their_partition():
    lake = lake_of(version=2)
    for name in ("a", "a", "b"):
        lake.append_rows({"id": 1, "name": name}, partition=(name,))
    lake.clock.advance(60)
    result, _ = lake.rewrite(lake.group([lake.tasks()[-1]]))
    a, b = read(lake)
    assert (a["last_updated_snapshot_id"], a["data_file_count"]) == (result.snapshot_id, 2)
    assert a["last_updated_snapshot_id"] != b["last_updated_snapshot_id"]
    assert a["last_updated_at"] == lake.clock.now_ms()
    assert b["last_updated_at"] < a["last_updated_at"]


def test_more_partitions_than_are_held_are_refused():
    lake = lake_of()
    for name in ("a", "b"):
        lake.append_rows({"id": 1, "name": name}, partition=(name,))
    assert len(read(lake, most=2)) == 2
    with pytest.raises(Unsupported, match="more than 1 partitions"):
        read(lake, most=1)


def test_it_ends_when_it_is_to():
    lake = lake_of()
    lake.append_rows({"id": 1, "name": "a"}, partition=("a",))

    def stop():
        raise Stopped

    with pytest.raises(Stopped):
        read_partitions(lake.store, lake.metadata, lake.metadata.current_snapshot_id, stop)
