"""Compaction that sorts: by the table's sort order, by z-order, and what it does where there is none to follow."""

from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from maintenance.compaction import rewrite
from maintenance.compaction.job import run
from maintenance.compaction.layout import Layout, Strategy, layout_of, why_not_sorted
from maintenance.compaction.plan_types import CompactionPlan
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from maintenance.setting_rules import SortField
from table_format.errors import Internal
from table_format.io.local import LocalObjectStore
from table_format.io.memory import MemoryObjectStore
from table_format.write.sorting import Sorter
from tests.factories.lake import BY_NAME, IDENT, SCHEMA, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = [{"belowBytes": 16 * 1024, "targetBytes": 64 * 1024}]


def field(source, transform="identity", direction="asc", nulls="nulls-first"):
    return {"source-id": source, "transform": transform, "direction": direction, "null-order": nulls}


def order(*fields, order_id=1):
    return {"order-id": order_id, "fields": list(fields)}


BY_ID_DOWN = order(field(1, direction="desc", nulls="nulls-last"))


def lake_of(wanted=BY_ID_DOWN, **more):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, order=wanted, **more)


def context(lake, strategy=None, tiers=TIERS, by=None):
    settings = {"tiers": tiers, "minInputFiles": 2} | ({} if strategy is None else {"strategy": strategy})
    settings |= {} if by is None else {"sortOrder": by}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": settings}},
        ident=IDENT,
    )


def compact(lake, strategy=None, **more):
    return run(context(lake, strategy, **more), job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))


def fill(lake, *numbers):
    for n in numbers:
        lake.append_rows({"id": n, "name": f"n{n}"}, {"id": None, "name": None})


def stored(lake, entry):
    """The rows of a file in the order in which they stand there, read by Arrow alone."""
    with lake.store.open_input(entry.data_file.file_path) as source:
        return pq.read_table(source).to_pylist()


def only(lake):
    (task,) = lake.tasks()
    return task.entry


@pytest.fixture(params=[None, 1], ids=["in memory", "in runs"])
def memory(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(rewrite, "Sorter", lambda schema, keys: Sorter(schema, keys, request.param))


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("strategy", [None, "auto", "sort"])
def test_a_table_with_a_sort_order_is_sorted_by_it_and_its_files_say_so(strategy):
    lake = lake_of()
    fill(lake, 3, 9, 1, 7)
    rows = lake.rows()
    report = compact(lake, strategy)
    assert report.outcome is Outcome.DONE
    assert lake.rows() == rows
    assert [row["id"] for row in stored(lake, only(lake))] == [9, 7, 3, 1, None, None, None, None]
    assert only(lake).data_file.sort_order_id == 1
    (group,) = CompactionPlan.from_json(report.plan).groups
    assert (group.strategy, group.order_id, group.reason) == (Strategy.SORT, 1, "remainder")
    assert "notes" not in report.figures
    assert compact(lake, strategy).outcome is Outcome.NOTHING


def test_binpack_leaves_the_order_of_a_table_that_has_one_alone():
    lake = lake_of()
    fill(lake, 3, 9, 1)
    compact(lake, "binpack")
    assert [row["id"] for row in stored(lake, only(lake))] == [3, None, 9, None, 1, None]
    assert only(lake).data_file.sort_order_id is None


@pytest.mark.parametrize("strategy", ["auto", "sort", "z-order"])
def test_a_table_without_a_sort_order_is_packed_with_a_note_where_one_was_asked_for(strategy):
    lake = lake_of(None)
    fill(lake, 3, 9, 1)
    report = compact(lake, strategy)
    assert [row["id"] for row in stored(lake, only(lake))] == [3, None, 9, None, 1, None]
    assert only(lake).data_file.sort_order_id is None
    note = f"strategy {strategy}: the table has no sort order, so files are packed unsorted"
    assert report.figures.get("notes", []) == ([] if strategy == "auto" else [note])


def test_large_files_are_sorted_one_by_one_and_then_left_alone():
    """Small ones wait for others to be merged with; whether a file is sorted its entry says."""
    lake = lake_of()
    tiers = [{"belowBytes": 1024, "targetBytes": 4096}]
    lake.append_rows(*({"id": n * 7919 % 1000, "name": f"{n}"} for n in range(1000)))
    lake.append_rows(*({"id": n * 7907 % 1000, "name": f"{n}"} for n in range(1000)))
    assert min(task.entry.data_file.file_size_in_bytes for task in lake.tasks()) > 1024
    rows = lake.rows()
    report = compact(lake, tiers=tiers)
    assert report.outcome is Outcome.DONE
    assert {group.reason for group in CompactionPlan.from_json(report.plan).groups} == {"unsorted"}
    assert lake.rows() == rows
    assert len(lake.tasks()) == 2
    for task in lake.tasks():
        ids = [row["id"] for row in stored(lake, task.entry)]
        assert ids == sorted(ids, reverse=True)
        assert task.entry.data_file.sort_order_id == 1
    location = lake.table.metadata_location
    again = compact(lake, tiers=tiers)
    assert again.outcome is Outcome.NOTHING
    assert again.figures["leftAlone"] == ["2 large enough"]
    assert lake.table.metadata_location == location


def test_large_files_are_sorted_anew_when_the_order_changes_and_not_when_files_are_only_packed():
    lake = lake_of()
    tiers = [{"belowBytes": 1024, "targetBytes": 4096}]
    lake.append_rows(*({"id": n, "name": f"{n * 7919 % 1000:04}"} for n in range(1000)))
    compact(lake, tiers=tiers)
    add = {"action": "add-sort-order", "sort-order": order(field(2), order_id=2)}
    lake.catalog.commit(IDENT, [], [add, {"action": "set-default-sort-order", "sort-order-id": -1}])
    for strategy in ("binpack", "z-order"):
        assert compact(lake, strategy, tiers=tiers).outcome is Outcome.NOTHING
    assert compact(lake, "sort", tiers=tiers).outcome is Outcome.DONE
    names = [row["name"] for row in stored(lake, only(lake))]
    assert names == sorted(names)
    assert only(lake).data_file.sort_order_id == 2
    assert compact(lake, "sort", tiers=tiers).outcome is Outcome.NOTHING


@pytest.mark.usefixtures("memory")
def test_a_z_order_brings_rows_together_that_are_near_in_all_fields_and_claims_no_order():
    lake = lake_of(order(field(1), field(3)), schema=grid_schema())
    for x in range(8):
        lake.append_rows(*({"x": x, "name": "n", "y": y} for y in range(8)))
    rows = lake.rows()
    assert compact(lake, "z-order").outcome is Outcome.DONE
    assert lake.rows() == rows
    entry = only(lake)
    assert entry.data_file.sort_order_id is None
    found = [(row["x"], row["y"]) for row in stored(lake, entry)]
    assert found[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    quarters = [{(x // 4, y // 4) for x, y in found[start : start + 16]} for start in range(0, 64, 16)]
    assert quarters == [{(0, 0)}, {(0, 1)}, {(1, 0)}, {(1, 1)}]
    assert compact(lake, "z-order").outcome is Outcome.NOTHING


def grid_schema():
    columns = [("x", "long"), ("name", "string"), ("y", "int")]
    fields = [
        {"id": n, "name": name, "required": False, "type": kind}
        for n, (name, kind) in enumerate(columns, start=1)
    ]
    return {"type": "struct", "schema-id": 0, "fields": fields}


def test_partitions_are_sorted_each_for_itself_and_deletes_of_others_still_apply():
    lake = lake_of(spec=BY_NAME)
    for n in (2, 5, 1, 4):
        for partition in ("x", "y"):
            lake.append_rows(
                {"id": n, "name": partition}, {"id": n + 10, "name": partition}, partition=(partition,)
            )
    later = lake.equality_file([{"id": 5}], [1], partition=("x",))
    lake.catalog.before_commit.append(lambda: lake.row_delta([], [later]))
    lake.catalog.before_commit.append(lambda: None)
    compact(lake)
    assert len(lake.tasks()) == 2
    for task in lake.tasks():
        assert [row["id"] for row in stored(lake, task.entry)] == [15, 14, 12, 11, 5, 4, 2, 1]
    left = [row["id"] for row in lake.rows() if row["name"] == "x"]
    assert sorted(left) == [1, 2, 4, 11, 12, 14, 15]


def test_an_order_that_cannot_be_followed_packs_with_a_note_and_is_told_to_who_asks():
    lake = lake_of()
    broken = dict(lake.metadata.document)
    broken["sort-orders"] = [order(field(1, "shuffle[3]"))]
    metadata = type(lake.metadata)(broken)
    reason = why_not_sorted(metadata)
    assert reason is not None
    assert "sort order 1 cannot be followed: " in reason
    assert "'shuffle[3]' is not known" in reason
    for strategy in ("auto", "sort", "z-order"):
        layout = layout_of(metadata, strategy)
        assert layout.strategy is Strategy.BINPACK
        assert layout.note == f"strategy {strategy}: {reason}, so files are packed unsorted"
    assert layout_of(metadata, "binpack") == Layout(strategy=Strategy.BINPACK)
    assert why_not_sorted(lake.metadata) is None


def test_a_row_that_sorting_loses_stops_the_group_and_nothing_is_committed(monkeypatch):
    class Losing(Sorter):
        def rows(self):
            for batch in super().rows():
                yield batch.slice(1)

    lake = lake_of()
    fill(lake, 3, 9, 1)
    before, rows = lake.table.metadata_location, lake.rows()
    monkeypatch.setattr(rewrite, "Sorter", Losing)
    with pytest.raises(Internal, match="by the manifests 6 rows, of which 0 are deleted, read 6, written 5"):
        compact(lake)
    assert lake.table.metadata_location == before
    assert lake.rows() == rows
    assert not [info for info in lake.store.list(lake.metadata.location) if "compact-" in info.path]


MANY = [
    ("b", "boolean"),
    ("i", "int"),
    ("l", "long"),
    ("f", "float"),
    ("d", "double"),
    ("dec", "decimal(38, 4)"),
    ("day", "date"),
    ("ts", "timestamptz"),
    ("s", "string"),
    ("u", "uuid"),
    ("bin", "binary"),
]


def many_schema():
    fields = [
        {"id": n, "name": name, "required": False, "type": kind}
        for n, (name, kind) in enumerate(MANY, start=1)
    ]
    inner = {"id": 51, "name": "deep", "required": False, "type": "string"}
    fields.append({"id": 50, "name": "st", "required": False, "type": {"type": "struct", "fields": [inner]}})
    listed = {"type": "list", "element-id": 53, "element": "long", "element-required": False}
    fields.append({"id": 52, "name": "li", "required": False, "type": listed})
    mapped = {
        "type": "map",
        "key-id": 55,
        "key": "string",
        "value-id": 56,
        "value": "int",
        "value-required": False,
    }
    fields.append({"id": 54, "name": "ma", "required": False, "type": mapped})
    return {"type": "struct", "schema-id": 0, "fields": fields}


def many_row(n):
    none = n % 11 == 0
    return {
        "b": None if none else n % 2 == 0,
        "i": None if n % 7 == 0 else n - 50,
        "l": n * 10**15 * (-1) ** n,
        "f": [1.5, -0.0, 0.0, None, float("nan"), float("-inf")][n % 6],
        "d": [n / 7, -n / 7, float("nan"), -0.0, 0.0, None][n % 6],
        "dec": Decimal(n * (-1) ** n * 10**20).scaleb(-4),
        "day": datetime(1960 + n % 40, 1 + n % 12, 1, tzinfo=UTC).date(),
        "ts": datetime(1960 + n % 40, 1, 1, n % 24, n % 60, tzinfo=UTC),
        "s": None if none else f"s{n % 5}é",
        "u": UUID(int=n * 2**120),
        "bin": b"\x00" * (n % 3) + bytes([n % 256]),
        "st": None if n % 5 == 0 else {"deep": f"d{n % 4}"},
        "li": [n, None] if n % 3 else None,
        "ma": [(f"k{n}", n)] if n % 4 else [],
    }


MANY_ORDERS = [
    order(field(9, direction="desc", nulls="nulls-last"), field(5), field(8, "month", "desc")),
    order(field(4, nulls="nulls-last"), field(10)),
    order(field(6, "truncate[1000]"), field(10, "bucket[4]", "desc"), field(1)),
    order(field(51), field(7, "year"), field(11)),
]


@pytest.mark.parametrize("strategy", ["sort", "z-order"])
@pytest.mark.parametrize("wanted", MANY_ORDERS, ids=range(len(MANY_ORDERS)))
def test_content_is_the_same_before_and_after_to_duckdb_and_pyiceberg(
    tmp_path, monkeypatch, strategy, wanted
):
    monkeypatch.setattr(rewrite, "Sorter", lambda schema, keys: Sorter(schema, keys, 20_000))
    clock = ManualClock()
    lake = Lake(
        LocalObjectStore(),
        clock=clock,
        location=f"file://{tmp_path}/w",
        schema=many_schema(),
        order=wanted,
    )
    for start in range(0, 120, 30):
        lake.append_rows(*(many_row(n) for n in range(start, start + 30)))
    before = by_duckdb(lake), by_pyiceberg(lake)
    assert len(before[0]) == len(before[1]) == 120
    report = compact(lake, strategy)
    assert (report.figures["filesRewritten"], report.figures["filesWritten"]) == (4, 1)
    assert (by_duckdb(lake), by_pyiceberg(lake)) == before
    assert only(lake).data_file.sort_order_id == (1 if strategy == "sort" else None)
    assert compact(lake, strategy).outcome is Outcome.NOTHING


def by_duckdb(lake):
    files = [task.entry.data_file.file_path.removeprefix("file://") for task in lake.tasks()]
    with duckdb.connect() as connection:
        return sorted(
            map(
                repr,
                connection.execute(
                    "SELECT * REPLACE (epoch_us(ts) AS ts) FROM read_parquet(?)", [files]
                ).fetchall(),
            )
        )


def by_pyiceberg(lake):
    scan = StaticTable.from_metadata(lake.table.metadata_location).scan()
    return sorted(map(repr, scan.to_arrow().to_pylist()))


def test_duckdb_agrees_that_a_sorted_file_is_in_order(tmp_path):
    clock = ManualClock()
    wanted = order(field(2, direction="desc", nulls="nulls-last"), field(1))
    lake = Lake(LocalObjectStore(), clock=clock, location=f"file://{tmp_path}/w", schema=SCHEMA, order=wanted)
    for n in range(20):
        lake.append_rows(
            {"id": n * 7 % 20, "name": ["a", None, "ü", "a\x00", "𝄞", ""][n % 6]}, {"id": None, "name": "a"}
        )
    compact(lake)
    path = only(lake).data_file.file_path.removeprefix("file://")
    with duckdb.connect() as connection:
        plain = connection.execute("SELECT id, name FROM read_parquet(?)", [path]).fetchall()
        wanted_rows = connection.execute(
            "SELECT id, name FROM read_parquet(?) ORDER BY name DESC NULLS LAST, id ASC NULLS FIRST", [path]
        ).fetchall()
    assert plain == wanted_rows


DOWN = {"column": "id", "direction": "desc"}


def test_a_policys_sort_order_is_followed_where_the_table_has_none():
    lake = lake_of(order(order_id=0))
    fill(lake, 3, 1, 2)
    report = compact(lake, by=[DOWN])
    assert report.outcome is Outcome.DONE
    assert [row["id"] for row in stored(lake, only(lake))] == [3, 2, 1, None, None, None]
    assert only(lake).data_file.sort_order_id in (None, 0)
    assert sorted(row["id"] or 0 for row in lake.rows()) == [0, 0, 0, 1, 2, 3]
    # No order of the table says so: what is large enough is not sorted again.
    assert compact(lake, by=[DOWN]).outcome is Outcome.NOTHING


def test_a_policys_sort_order_goes_before_the_tables_own():
    lake = lake_of(order(field(1)))
    fill(lake, 3, 1, 2)
    compact(lake, "sort", by=[{**DOWN, "nullOrder": "nulls-first"}])
    assert [row["id"] for row in stored(lake, only(lake))] == [None, None, None, 3, 2, 1]
    assert only(lake).data_file.sort_order_id in (None, 0)


def test_a_policys_sort_order_that_the_table_has_too_is_told_by_its_id():
    lake = lake_of()
    fill(lake, 3, 1, 2)
    compact(lake, by=[DOWN])
    assert only(lake).data_file.sort_order_id == 1


def test_a_plan_with_a_policys_sort_order_survives_json():
    lake = lake_of(order(order_id=0))
    fill(lake, 3, 1)
    layout = layout_of(lake.metadata, "z-order", (SortField.from_json(DOWN),))
    assert (layout.strategy, layout.order_id) == (Strategy.Z_ORDER, None)
    report = run(
        context(lake, "z-order", by=[DOWN]), job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=True)
    )
    planned = CompactionPlan.from_json(report.plan)
    assert planned.to_json() == report.plan
    (group,) = planned.groups
    assert (group.strategy, group.sort_fields) == (
        Strategy.Z_ORDER,
        (field(1, direction="desc", nulls="nulls-last"),),
    )


def test_a_column_that_the_table_has_not_packs_with_a_note():
    lake = lake_of(order(order_id=0))
    fill(lake, 2, 1)
    report = compact(lake, by=[{"column": "gone"}])
    assert report.outcome is Outcome.DONE
    (note,) = report.figures["notes"]
    assert note == (
        "strategy auto: the policy's sort order names a column 'gone' that the table does not have, "
        "so files are packed unsorted"
    )
    asked = (SortField.from_json({"column": "name", "transform": "day"}),)
    reason = why_not_sorted(lake.metadata, asked)
    assert reason is not None
    assert reason.startswith("the policy's sort order cannot be followed: ")
