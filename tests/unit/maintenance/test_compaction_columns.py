"""Compaction of columns of every kind: to the bit what it was, or the table stays as it is and the report says why."""

import pyarrow as pa
import pytest

from maintenance.report import Outcome
from table_format.io.memory import MemoryObjectStore
from table_format.scan.deletes import read_task
from table_format.scan.lineage import LAST_UPDATED, ROW_ID
from table_format.schema.arrow import to_arrow
from tests.factories.column_kinds import KINDS, rows_of, table_schema
from tests.factories.lake import Lake
from tests.factories.lineage_histories import put_vectors
from tests.fakes.clock import ManualClock
from tests.unit.maintenance.test_compaction_lineage import compact

TIERS = [{"belowBytes": 2**20, "targetBytes": 2**24}]


def new_lake(schema, version=3):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, schema=schema, **{"format-version": str(version)})


def content(lake, **options):
    """All rows as one table, in the order of their ids."""
    batches = [
        batch for task in lake.tasks() for batch in read_task(lake.store, task, lake.metadata, **options)
    ]
    return pa.Table.from_batches(batches).sort_by("id").combine_chunks()


def shown(table):
    """Columns as text, in which NaN is equal to NaN, and 0.0 is not -0.0; nanoseconds as their number."""
    return [
        repr((column.cast(pa.int64()) if "[ns" in str(column.type) else column).to_pylist())
        for column in table.columns
    ]


def append(lake, rows, schema):
    for start in range(0, len(rows), 2):
        lake.append(lake.data_file(rows[start : start + 2], schema=schema))


@pytest.mark.parametrize(
    ("kind", "version"),
    [(kind, version) for kind in KINDS for version in (2, 3) if version == 3 or "_ns" not in kind],
)
def test_rows_of_every_kind_stay_as_they_are(kind, version):
    lake = new_lake(table_schema(kind), version)
    schema = lake.metadata.schema()
    rows = [{**row, "id": 10 * turn + row["id"]} for turn in range(3) for row in rows_of(kind)]
    append(lake, rows, schema)
    before = content(lake, lineage=version > 2)
    expected = pa.Table.from_pylist(sorted(rows, key=lambda row: row["id"]), to_arrow(schema))
    assert shown(before.select(schema_names(schema))) == shown(expected)
    assert compact(lake, tiers=TIERS).outcome is Outcome.DONE
    assert len(lake.tasks()) == 1
    after = content(lake, lineage=version > 2)
    assert after.schema == before.schema
    assert shown(after) == shown(before)


def schema_names(schema):
    return [field["name"] for field in schema["fields"]]


def test_a_column_of_type_unknown_stands_in_no_file_and_stays_null():
    schema = table_schema("long")
    unknown = {"id": 900, "name": "u", "required": False, "type": "unknown"}
    lake = new_lake({**schema, "fields": [schema["fields"][0], unknown, *schema["fields"][1:]]})
    stored = {**schema, "fields": [f for f in lake.metadata.schema()["fields"] if f["type"] != "unknown"]}
    append(lake, [{"id": n, "c0": n * n} for n in range(8)], stored)
    assert compact(lake, tiers=TIERS).outcome is Outcome.DONE
    (task,) = lake.tasks()
    with lake.store.open_input(task.entry.data_file.file_path) as source:
        assert pa.parquet.ParquetFile(source).schema_arrow.names == ["id", "c0", ROW_ID, LAST_UPDATED]
    wanted = [{"id": n, "u": None, "c0": n * n, ROW_ID: n, LAST_UPDATED: n // 2 + 1} for n in range(8)]
    assert content(lake, lineage=True).to_pylist() == wanted


@pytest.mark.parametrize(
    "kind", ["variant", "geometry", "geometry(OGC:CRS84)", "geography(OGC:CRS84, vincenty)"]
)
def test_a_table_with_a_column_that_is_not_rewritten_stays_as_it_is(kind):
    schema = table_schema("long")
    odd = {"id": 900, "name": "odd", "required": False, "type": kind}
    lake = new_lake({**schema, "fields": [*schema["fields"], odd]})
    fields = lake.metadata.schema()["fields"]
    append(lake, [{"id": n, "c0": n} for n in range(8)], {**schema, "fields": fields[:2]})
    location = lake.table.metadata_location
    report = compact(lake, tiers=TIERS)
    assert report.outcome is Outcome.NOTHING
    name = kind.split("(")[0]
    assert (
        report.reason
        == f"the table is left alone: column 'odd' is of type {name}, which is not rewritten here"
    )
    assert lake.table.metadata_location == location


def test_deletes_and_a_later_default_go_with_any_kind():
    """All kinds in one table, rows deleted by a vector, a column added since with an initial default."""
    kinds = [*KINDS]
    lake = new_lake(table_schema(*kinds))
    schema = lake.metadata.schema()
    rows = [{**row, "id": 10 * turn + row["id"]} for turn in range(2) for row in rows_of(*kinds)]
    append(lake, rows, schema)
    late = {"id": 9000, "name": "late", "required": False, "type": "fixed[2]", "initial-default": "00FF"}
    lake.catalog.commit(
        lake.ident,
        [],
        [
            {
                "action": "add-schema",
                "schema": {**schema, "schema-id": 1, "fields": [*schema["fields"], late]},
            },
            {"action": "set-current-schema", "schema-id": -1},
        ],
    )
    put_vectors(lake, [(lake.tasks()[0], [0])])
    before = content(lake, lineage=True)
    assert set(before.column("late").to_pylist()) == {b"\x00\xff"}
    assert compact(lake, tiers=TIERS).figures["rowsDeleted"] == 1
    after = content(lake, lineage=True)
    assert (len(lake.tasks()), after.num_rows) == (1, len(rows) - 1)
    assert shown(after) == shown(before)
