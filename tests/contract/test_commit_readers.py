"""What we commit, read by engines that share no code with us: PyIceberg and DuckDB."""

import importlib.util
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from table_format.catalog import LoadedTable
from table_format.clock import SystemClock, SystemIds
from table_format.commit.change import Change
from table_format.commit.delete import delete_files
from table_format.commit.producer import SnapshotProducer
from table_format.commit.retry import commit_with_retry
from table_format.commit.rewrite import RewriteGroup
from table_format.commit.summary import Changes, Operation
from table_format.commit.tree import HeadTree, TreeCache
from table_format.io.local import LocalObjectStore
from table_format.manifest.entries import ManifestContent, Status
from table_format.manifest.read import read_manifest
from table_format.scan.plan import snapshot_manifests
from tests.factories.lake import BY_NAME, IDENT, Lake

pytestmark = pytest.mark.engine


def row(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


def local_lake(path: Path, **options: Any) -> Lake:
    return Lake(
        LocalObjectStore(), location=f"file://{path}", clock=SystemClock(), ids=SystemIds(), **options
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return local_lake(tmp_path)


def by_pyiceberg(lake: Lake) -> list[dict[str, Any]]:
    table = StaticTable.from_metadata(lake.table.metadata_location)
    rows: list[dict[str, Any]] = table.scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda found: (found["id"], found["name"]))


@pytest.fixture(scope="module")
def duck() -> Any:
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("avro", "iceberg"):
        found = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert found is not None
        assert found.submodule_search_locations is not None
        folder = Path(found.submodule_search_locations[0]) / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / f'{name}.duckdb_extension'}'")
    yield connection
    connection.close()


def by_duckdb(duck: Any, lake: Lake) -> list[dict[str, Any]]:
    location = lake.table.metadata_location.removeprefix("file://")
    found = duck.execute(f"SELECT id, name FROM iceberg_scan('{location}') ORDER BY id, name").fetchall()
    return [row(*values) for values in found]


def test_appends_merges_and_a_rewrite_under_a_concurrent_append(lake: Lake, duck: Any) -> None:
    lake.append_rows(row(1, "a"), row(2, "b"))
    lake.append_rows(row(3, "c"))
    group = lake.group()
    lake.catalog.before_commit.append(lambda: lake.append_rows(row(4, "d")))
    result, dropped = lake.rewrite(group)
    assert (result.applied, dropped) == (True, [])
    lake.append(lake.data_file([row(5, "e")]), merge_min=1)
    expected = [row(1, "a"), row(2, "b"), row(3, "c"), row(4, "d"), row(5, "e")]
    assert lake.rows() == by_pyiceberg(lake) == by_duckdb(duck, lake) == expected
    table = StaticTable.from_metadata(lake.table.metadata_location)
    operations = [
        str(snapshot.summary.operation.value) for snapshot in table.metadata.snapshots if snapshot.summary
    ]
    assert operations == ["append", "append", "append", "replace", "append"]
    files = table.inspect.files().to_pylist()
    assert {found["file_path"] for found in files} == {t.entry.data_file.file_path for t in lake.tasks()}
    entries = table.inspect.entries().to_pylist()
    rewritten = next(e for e in entries if e["data_file"]["file_path"] == group.outputs[0].file_path)
    assert (rewritten["sequence_number"], rewritten["file_sequence_number"]) == (2, 4)


def test_old_snapshots_read_as_before(lake: Lake) -> None:
    lake.append_rows(row(1, "a"))
    lake.append_rows(row(2, "b"))
    before = lake.metadata.current_snapshot_id
    lake.rewrite(lake.group())
    table = StaticTable.from_metadata(lake.table.metadata_location)
    old = table.scan(snapshot_id=before).to_arrow().sort_by("id").to_pylist()
    assert old == table.scan().to_arrow().sort_by("id").to_pylist() == [row(1, "a"), row(2, "b")]


@pytest.mark.parametrize("version", ["1", "2"])
def test_partitioned_tables_of_both_versions(tmp_path: Path, duck: Any, version: str) -> None:
    lake = local_lake(tmp_path, spec=BY_NAME, **{"format-version": version})
    for number in range(3):
        lake.append_rows(row(number, "a"), partition=("a",))
    lake.append_rows(row(9, "b"), partition=("b",))
    lake.rewrite(lake.group([t for t in lake.tasks() if t.entry.data_file.partition == ("a",)]))
    expected = [row(0, "a"), row(1, "a"), row(2, "a"), row(9, "b")]
    assert lake.rows() == by_pyiceberg(lake) == by_duckdb(duck, lake) == expected
    table = StaticTable.from_metadata(lake.table.metadata_location)
    assert table.scan(row_filter="name = 'b'").to_arrow().to_pylist() == [row(9, "b")]


def test_position_deletes_before_and_after_a_rewrite(lake: Lake, duck: Any) -> None:
    first = lake.append_rows(row(1, "a"), row(2, "b"))
    lake.append_rows(row(3, "c"))
    lake.row_delta([], [lake.position_file([(first.file_path, 0)])])
    expected = [row(2, "b"), row(3, "c")]
    assert lake.rows() == by_pyiceberg(lake) == by_duckdb(duck, lake) == expected
    lake.rewrite(lake.group())
    assert lake.rows() == by_pyiceberg(lake) == by_duckdb(duck, lake) == expected
    table = StaticTable.from_metadata(lake.table.metadata_location)
    assert table.inspect.delete_files().num_rows == 0


def inherited(lake: Lake, group: RewriteGroup) -> None:
    """The mistake: the same rewrite with outputs that inherit the commit's sequence number."""

    def build(table: LoadedTable) -> Change:
        removed = {entry.data_file.file_path for entry in group.inputs}
        head = table.metadata.current_snapshot
        assert head is not None
        producer = SnapshotProducer(lake.store, table, clock=lake.clock, ids=lake.ids)
        with producer:
            manifests = producer.write_added((file, None) for file in group.outputs)
            for manifest in snapshot_manifests(lake.store, head):
                entries = read_manifest(lake.store, manifest, table.metadata)
                if manifest.content is ManifestContent.DELETES or any(
                    e.data_file.file_path not in removed for e in entries if e.status is Status.ADDED
                ):
                    manifests.append(manifest)
            return producer.finish(Operation.REPLACE, manifests, Changes(), extra={})

    commit_with_retry(lake.catalog, IDENT, build, store=lake.store, clock=lake.clock, ids=lake.ids)


@pytest.mark.parametrize("explicit", [True, False])
def test_maint_C2_sequence_rule_proved_by_another_reader(lake: Lake, duck: Any, explicit: bool) -> None:
    """With the planned snapshot's number the upsert that came meanwhile holds; inherited, the old row is back."""
    lake.append_rows(row(1, "a1"), row(2, "a2"))
    lake.append_rows(row(3, "a3"))
    group = lake.group()
    lake.row_delta([lake.data_file([row(2, "NEW")])], [lake.equality_file([row(2, "")], [1])])
    expected = [row(1, "a1"), row(2, "NEW"), row(3, "a3")]
    assert lake.rows() == by_duckdb(duck, lake) == expected
    if explicit:
        assert lake.rewrite(group)[0].applied
        assert lake.rows() == by_duckdb(duck, lake) == expected
    else:
        inherited(lake, group)
        resurrected = [row(1, "a1"), row(2, "NEW"), row(2, "a2"), row(3, "a3")]
        assert lake.rows() == by_duckdb(duck, lake) == resurrected
    numbers = {t.entry.data_file.file_path: t.entry.sequence_number for t in lake.tasks()}
    assert numbers[group.outputs[0].file_path] == (2 if explicit else 4)


def test_upserts_then_rewrite_then_pyiceberg_can_read(lake: Lake, duck: Any) -> None:
    """PyIceberg cannot read equality deletes; after the rewrite there are none left."""
    lake.append_rows(row(1, "old"), row(2, "x"))
    lake.row_delta([lake.data_file([row(1, "new")])], [lake.equality_file([row(1, "")], [1])])
    with pytest.raises(ValueError, match="equality deletes"):
        by_pyiceberg(lake)
    lake.rewrite(lake.group())
    assert lake.rows() == by_pyiceberg(lake) == by_duckdb(duck, lake) == [row(1, "new"), row(2, "x")]


def test_pyiceberg_table_maintained_by_us(tmp_path: Path) -> None:
    """A table that PyIceberg created and wrote: our append, rewrite and expiration on top, read by it again."""
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog

    catalog = SqlCatalog("c", uri="sqlite:///:memory:", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("db")
    theirs = catalog.create_table("db.t", schema=pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for number in range(3):
        theirs.append(pa.table({"id": [number, number + 10], "name": ["a", "b"]}))
    theirs.delete("id = 11")
    lake = local_lake(tmp_path / "ours")
    from table_format.metadata import codec

    lake.catalog.put(IDENT, codec.read(lake.store, theirs.metadata_location))
    before = lake.rows()
    assert [found["id"] for found in before] == [0, 1, 10, 12, 2]
    lake.rewrite(lake.group())
    assert lake.rows() == before
    assert sorted(found["id"] for found in by_pyiceberg(lake)) == [0, 1, 2, 10, 12]
    (task,) = lake.tasks()
    path = task.entry.data_file.file_path.removeprefix("file://")
    assert pq.read_metadata(path).num_rows == 5


def test_expired_rows_are_gone_for_every_reader_and_stay_in_the_old_snapshot(
    tmp_path: Path, duck: Any
) -> None:
    lake = local_lake(tmp_path, spec=BY_NAME)
    for number, name in enumerate(("a", "b", "a", "c")):
        lake.append_rows(row(number, name), partition=(name,))
    before = lake.metadata.current_snapshot_id

    def expire(table: LoadedTable) -> Change | None:
        tree = HeadTree(lake.store, table.metadata, TreeCache())
        old = [one.line for (one,) in tree.data_by_path(lambda _: False) if one.line.partition == ("a",)]
        return delete_files(table, tree, old, summary={}, clock=lake.clock, ids=lake.ids)

    lake.commit(expire)
    assert by_pyiceberg(lake) == by_duckdb(duck, lake) == [row(1, "b"), row(3, "c")]
    table = StaticTable.from_metadata(lake.table.metadata_location)
    assert len(table.scan(snapshot_id=before).to_arrow()) == 4
    assert table.inspect.snapshots().to_pylist()[-1]["operation"] == "delete"
    lake.append_rows(row(9, "a"), partition=("a",))
    assert by_pyiceberg(lake) == by_duckdb(duck, lake) == [row(1, "b"), row(3, "c"), row(9, "a")]
