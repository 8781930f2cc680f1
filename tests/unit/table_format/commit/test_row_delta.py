"""Data and equality deletes in one snapshot: what is readable after it, and what its summary says."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from table_format.commit.change import Change
from table_format.commit.row_delta import row_delta
from table_format.errors import Invalid, Unsupported
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile, ManifestContent
from table_format.scan.plan import snapshot_manifests
from table_format.write.deletes import EqualityDeleteWriter, Reach, key_schema, reach
from tests.factories.lake import BY_NAME, Lake
from tests.fakes.clock import ManualClock

BY_ID = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"}]}


def lake(spec: Any = None, **properties: str) -> Lake:
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), spec=spec, clock=clock, **properties)


def deletes(lake: Lake, *rows: dict[str, Any], key: Sequence[int] = (1,)) -> list[DataFile]:
    writer = EqualityDeleteWriter(
        store=lake.store, metadata=lake.metadata, ids=lake.ids, target_bytes=10**6, key_ids=key
    )
    writer.write(pa.RecordBatch.from_pylist(list(rows), schema=writer.arrow_schema))
    return writer.flush()


def commit(lake: Lake, data: list[DataFile], gone: list[DataFile], merge_min: int | None = None) -> Change:
    kept: list[Change] = []

    def build(table: Any) -> Change:
        change = row_delta(
            lake.store,
            table,
            data,
            gone,
            summary={"who": "x"},
            clock=lake.clock,
            ids=lake.ids,
            merge_min=merge_min,
        )
        kept.append(change)
        return change

    lake.commit(build)
    return kept[-1]


def ids(lake: Lake) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in lake.rows())


def test_rows_of_older_commits_go_and_those_of_the_same_stay() -> None:
    table = lake()
    table.append_rows({"id": 1, "name": "old"}, {"id": 2, "name": "stays"})
    data = table.data_file([{"id": 1, "name": "new"}])
    gone = deletes(table, {"id": 1})
    commit(table, [data], gone)
    assert ids(table) == [(1, "new"), (2, "stays")]
    assert {
        key: value for key, value in table.summary.items() if "size" not in key and key != "engine-name"
    } == {
        "operation": "overwrite",
        "who": "x",
        "added-data-files": "1",
        "added-records": "1",
        "added-delete-files": "1",
        "added-equality-delete-files": "1",
        "added-equality-deletes": "1",
        "changed-partition-count": "1",
        "total-records": "3",
        "total-data-files": "2",
        "total-delete-files": "1",
        "total-position-deletes": "0",
        "total-equality-deletes": "1",
    }


def test_deletes_alone_are_a_delete_and_none_an_append() -> None:
    table = lake()
    table.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    commit(table, [], deletes(table, {"id": 1}))
    assert table.summary["operation"] == "delete"
    assert ids(table) == [(2, "b")]
    commit(table, [table.data_file([{"id": 3, "name": "c"}])], [])
    assert table.summary["operation"] == "append"
    assert ids(table) == [(2, "b"), (3, "c")]


def test_keys_of_several_columns_and_null() -> None:
    table = lake()
    table.append_rows({"id": 1, "name": "a"}, {"id": 1, "name": None}, {"id": 2, "name": None})
    gone = deletes(table, {"id": 1, "name": None}, key=(1, 2))
    assert gone[0].equality_ids == [1, 2]
    commit(table, [], gone)
    assert sorted((row["id"], row["name"]) for row in table.rows()) == [(1, "a"), (2, None)]


def test_a_key_that_tells_the_partition_is_deleted_within_it() -> None:
    table = lake(BY_ID)
    assert reach(table.metadata, [1]) == Reach(spec_id=0, whole_table=False)
    gone = deletes(table, *({"id": number} for number in range(20)))
    assert {len(file.partition) for file in gone} == {1}
    assert len(gone) == len({file.partition for file in gone}) > 1


def test_ingest_case_38_a_key_that_does_not_tell_the_partition_needs_a_spec_that_reaches_all() -> None:
    table = lake(BY_NAME)
    assert reach(table.metadata, [1]) is None
    with pytest.raises(Invalid, match="no unpartitioned spec"):
        deletes(table, {"id": 1})
    table.append(table.data_file([{"id": 1, "name": "x"}], partition=("x",)))
    table.append(table.data_file([{"id": 1, "name": "y"}, {"id": 2, "name": "y"}], partition=("y",)))
    table.catalog.commit(table.ident, [], [{"action": "add-spec", "spec": {"fields": []}}])
    found = reach(table.metadata, [1])
    assert found is not None
    assert found.whole_table
    assert found.spec_id != table.metadata.default_spec_id
    commit(table, [table.data_file([{"id": 1, "name": "z"}], partition=("z",))], deletes(table, {"id": 1}))
    assert ids(table) == [(1, "z"), (2, "y")]


def test_a_table_that_had_another_spec_needs_one_that_reaches_all() -> None:
    table = lake(BY_ID)
    spec = {"fields": [{"source-id": 1, "name": "b8", "transform": "bucket[8]"}]}
    updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    table.catalog.commit(table.ident, [], updates)
    assert reach(table.metadata, [1]) is None


@pytest.mark.parametrize(
    ("key", "reason"), [((), "at least one"), ((9,), "no top-level column"), ((3,), "'x' cannot be part")]
)
def test_what_cannot_be_a_key(key: tuple[int, ...], reason: str) -> None:
    schema = {
        "type": "struct",
        "fields": [
            {"id": 1, "name": "id", "required": False, "type": "long"},
            {"id": 3, "name": "x", "required": False, "type": "double"},
        ],
    }
    with pytest.raises(Invalid, match=reason):
        key_schema(schema, key)


def test_a_first_version_table_takes_no_deletes() -> None:
    table = lake(**{"format-version": "1"})
    with pytest.raises(Invalid, match="format version 1"):
        deletes(table, {"id": 1})
    other = deletes(lake(), {"id": 1})
    with pytest.raises(Unsupported, match="version 1"):
        row_delta(table.store, table.table, [], other, summary={}, clock=table.clock, ids=table.ids)


def test_files_of_the_wrong_kind_are_refused() -> None:
    table = lake()
    data = table.data_file([{"id": 1, "name": "a"}])
    (gone,) = deletes(table, {"id": 1})
    for files, removed in (([gone], [gone]), ([], [data]), ([], [gone, gone]), ([data, data], [gone])):
        with pytest.raises(Invalid):
            commit(table, files, removed)
    assert table.metadata.current_snapshot_id is None


def test_delete_manifests_are_merged_when_there_are_many() -> None:
    table = lake()
    table.append_rows(*({"id": number, "name": "a"} for number in range(9)))
    for number in range(6):
        commit(table, [], deletes(table, {"id": number}), merge_min=3)
        table.append_rows({"id": number, "name": "again"})
    head = table.metadata.current_snapshot
    assert head is not None
    manifests = snapshot_manifests(table.store, head)
    of_deletes = [manifest for manifest in manifests if manifest.content is ManifestContent.DELETES]
    assert len(of_deletes) <= 4
    assert sum(manifest.added_files_count + manifest.existing_files_count for manifest in of_deletes) == 6  # type: ignore[operator]
    # The merged deletes reach what they reached, and not the rows that came after them.
    assert ids(table) == [(n, "again") for n in range(6)] + [(n, "a") for n in range(6, 9)]
