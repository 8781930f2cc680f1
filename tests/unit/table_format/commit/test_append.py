import pytest

from table_format.catalog import LoadedTable
from table_format.commit.append import append
from table_format.commit.change import Change
from table_format.errors import AlreadyExists, Invalid, Unavailable, Unsupported
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, DataFile, ManifestContent, Status
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_manifests
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import CountingIds, ManualClock


@pytest.fixture
def lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()))


def manifests_of(lake: Lake):  # type: ignore[no-untyped-def]
    head = lake.metadata.current_snapshot
    assert head is not None
    return snapshot_manifests(lake.store, head)


def test_first_append(lake: Lake) -> None:
    file = lake.data_file([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])
    table = lake.table
    change = append(lake.store, table, [file], summary={"k": "v"}, clock=lake.clock, ids=lake.ids)
    snapshot = change.updates[0]["snapshot"]
    base = table.metadata.location
    manifest_list = snapshot["manifest-list"]
    manifest = change.written[0]
    assert change.written == [manifest, manifest_list]
    assert manifest.startswith(f"{base}/metadata/")
    assert manifest.endswith("-m0.avro")
    assert manifest_list.startswith(f"{base}/metadata/snap-{snapshot['snapshot-id']}-1-")
    assert snapshot == {
        "snapshot-id": change.snapshot_id,
        "sequence-number": 1,
        "timestamp-ms": lake.clock.now_ms(),
        "manifest-list": manifest_list,
        "schema-id": 0,
        "summary": {
            "operation": "append",
            "k": "v",
            "engine-name": "frazil",
            "added-data-files": "1",
            "added-records": "2",
            "added-files-size": str(file.file_size_in_bytes),
            "changed-partition-count": "1",
            "total-records": "2",
            "total-files-size": str(file.file_size_in_bytes),
            "total-data-files": "1",
            "total-delete-files": "0",
            "total-position-deletes": "0",
            "total-equality-deletes": "0",
        },
    }
    assert change.updates[1] == {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": change.snapshot_id,
    }
    assert change.requirements == [
        {"type": "assert-table-uuid", "uuid": table.metadata.uuid},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    ]


def test_second_append_leaves_the_first_manifest_alone(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "a"})
    (first,) = manifests_of(lake)
    lake.append_rows({"id": 2, "name": "b"})
    new, old = manifests_of(lake)
    assert old == first
    assert (new.sequence_number, new.min_sequence_number, new.added_files_count) == (2, 2, 1)
    head = lake.metadata.current_snapshot
    assert head is not None
    assert head["parent-snapshot-id"] == first.added_snapshot_id
    assert lake.rows() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_append_without_files_records_its_summary(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "a"})
    lake.append(**{"ingest.offsets": "{}"})
    assert lake.summary["ingest.offsets"] == "{}"
    assert lake.summary["total-records"] == "1"
    assert lake.summary["changed-partition-count"] == "0"
    assert lake.rows() == [{"id": 1, "name": "a"}]


def test_append_without_files_to_an_empty_table(lake: Lake) -> None:
    lake.append()
    assert manifests_of(lake) == []
    assert lake.rows() == []


def test_head_of_main_keeps_its_retention(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "a"})
    head = lake.metadata.current_snapshot_id
    retention = {"min-snapshots-to-keep": 3, "max-snapshot-age-ms": 1000}
    lake.catalog.commit(
        IDENT,
        [],
        [
            {
                "action": "set-snapshot-ref",
                "ref-name": "main",
                "type": "branch",
                "snapshot-id": head,
                **retention,
            }
        ],
    )
    lake.append_rows({"id": 2, "name": "b"})
    assert lake.metadata.refs["main"] == {
        "type": "branch",
        "snapshot-id": lake.metadata.current_snapshot_id,
        **retention,
    }


def test_clock_behind_the_table_writes_no_history_backwards(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "a"})
    assert isinstance(lake.clock, ManualClock)
    lake.clock.advance(-500)
    before = lake.metadata.last_updated_ms
    change = append(lake.store, lake.table, [], summary={}, clock=lake.clock, ids=lake.ids)
    assert change.updates[0]["snapshot"]["timestamp-ms"] == before


def test_snapshot_id_that_is_taken_is_drawn_again(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "a"})
    taken = lake.metadata.current_snapshot_id
    drawn = iter([taken, taken, 77])
    lake.ids.snapshot_id = lambda: next(drawn)  # type: ignore[method-assign,assignment,return-value]
    assert append(lake.store, lake.table, [], summary={}, clock=lake.clock, ids=lake.ids).snapshot_id == 77


def test_write_metadata_path_is_honoured() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), **{"write.metadata.path": "memory://elsewhere/m/"})
    change = append(lake.store, lake.table, [lake.data_file([])], summary={}, clock=lake.clock, ids=lake.ids)
    assert all(path.startswith("memory://elsewhere/m/") for path in change.written)
    assert len(change.written) == 2


def test_v1_table_has_no_sequence_numbers() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), **{"format-version": "1"})
    lake.append_rows({"id": 1, "name": "a"})
    lake.append_rows({"id": 2, "name": "b"})
    head = lake.metadata.current_snapshot
    assert head is not None
    assert "sequence-number" not in head
    assert [manifest.sequence_number for manifest in manifests_of(lake)] == [0, 0]
    assert len(lake.rows()) == 2


def row_ids(lake: Lake) -> dict[str, int | None]:
    """Of each live file, the id of its first row."""
    return {task.entry.data_file.file_path: task.entry.data_file.first_row_id for task in lake.tasks()}


def v3_lake() -> Lake:
    return Lake(MemoryObjectStore(ManualClock()), **{"format-version": "3"})


def test_v3_rows_have_ids() -> None:
    lake = v3_lake()
    first = lake.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    second = lake.append_rows({"id": 3, "name": "c"})
    assert row_ids(lake) == {first.file_path: 0, second.file_path: 2}
    assert [(s["first-row-id"], s["added-rows"]) for s in lake.metadata.snapshots] == [(0, 2), (2, 1)]
    assert lake.metadata.next_row_id == 3


def test_v3_append_without_rows_uses_no_ids() -> None:
    lake = v3_lake()
    lake.append_rows({"id": 1, "name": "a"})
    lake.append(k="v")
    assert [(s["first-row-id"], s["added-rows"]) for s in lake.metadata.snapshots] == [(0, 1), (1, 0)]


def test_v3_retry_takes_the_ids_that_are_free_then() -> None:
    """The file of the commit that lost the race starts after the rows of the one that won."""
    lake = v3_lake()
    files = [lake.data_file([{"id": 1, "name": "a"}] * rows) for rows in (3, 4)]
    raced = False

    def build(table: LoadedTable) -> Change:
        nonlocal raced
        change = append(lake.store, table, files[:1], summary={}, clock=lake.clock, ids=lake.ids)
        if not raced:
            raced = True
            lake.append(files[1])
        return change

    lake.commit(build)
    assert row_ids(lake) == {files[1].file_path: 0, files[0].file_path: 4}
    assert lake.metadata.next_row_id == 7


def test_v3_merged_manifests_keep_the_ids_of_rows() -> None:
    lake = v3_lake()
    for number in range(4):
        lake.append_rows({"id": number, "name": "a"})
    before = row_ids(lake)
    lake.append(merge_min=1)
    assert len(manifests_of(lake)) == 1
    assert row_ids(lake) == before
    assert sorted(before.values(), key=str) == [0, 1, 2, 3]
    last = lake.append_rows({"id": 9, "name": "z"})
    assert row_ids(lake)[last.file_path] == lake.metadata.next_row_id - 1 >= 4


def test_rows_of_an_upgraded_table_get_ids_with_the_next_commit(lake: Lake) -> None:
    first = lake.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    lake.catalog.commit(IDENT, [], [{"action": "upgrade-format-version", "format-version": 3}])
    assert row_ids(lake) == {first.file_path: None}
    second = lake.append_rows({"id": 3, "name": "c"})
    found = row_ids(lake)
    assert sorted(found) == [first.file_path, second.file_path]
    assert found == {second.file_path: 0, first.file_path: 1}
    assert lake.metadata.next_row_id == 3
    lake.append(merge_min=1)
    assert row_ids(lake) == found


def test_encrypted_table_is_refused() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()), **{"format-version": "3", "encryption.key-id": "k"})
    with pytest.raises(Unsupported, match=r"table db\.t is encrypted"):
        lake.append()


def test_table_with_an_encrypted_manifest_list_is_refused() -> None:
    lake = v3_lake()
    lake.append_rows({"id": 1, "name": "a"})
    head = lake.metadata.current_snapshot
    assert head is not None
    encrypted = {**head, "snapshot-id": 99, "sequence-number": 2, "first-row-id": 1, "key-id": "k1"}
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 99}
    lake.catalog.commit(IDENT, [], [{"action": "add-snapshot", "snapshot": encrypted}, ref])
    with pytest.raises(Unsupported, match="is encrypted"):
        lake.append()
    with pytest.raises(Unsupported, match="snapshot 99 is encrypted"):
        lake.tasks()


def test_files_that_would_corrupt_the_table_are_refused(lake: Lake) -> None:
    file = lake.data_file([{"id": 1, "name": "a"}])
    delete = lake.position_file([(file.file_path, 0)])
    partitioned = DataFile(file_path="x", record_count=1, file_size_in_bytes=1, partition=("a",))
    unknown_spec = DataFile(file_path="x", record_count=1, file_size_in_bytes=1, spec_id=7)
    for files in ([file, file], [delete], [partitioned], [unknown_spec]):
        with pytest.raises(Invalid):
            lake.append(*files)
    assert lake.metadata.snapshots == []
    assert [o.path for o in lake.store.list(f"{lake.metadata.location}/metadata")] == [
        lake.table.metadata_location
    ]


def test_files_of_several_specs_go_to_several_manifests(lake: Lake) -> None:
    old = lake.data_file([{"id": 1, "name": "a"}])
    lake.catalog.commit(
        IDENT,
        [],
        [
            {"action": "add-spec", "spec": {"spec-id": 1, "fields": BY_NAME["fields"]}},
            {"action": "set-default-spec", "spec-id": -1},
        ],
    )
    new = lake.data_file([{"id": 2, "name": "b"}], partition=("b",))
    lake.append(new, old)
    assert [(m.spec_id, m.added_files_count) for m in manifests_of(lake)] == [(0, 1), (1, 1)]
    assert lake.summary["changed-partition-count"] == "2"
    assert len(lake.rows()) == 2


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
def test_attempt_that_fails_while_being_built_leaves_no_files(lake: Lake, nth: int, after: bool) -> None:
    file = lake.data_file([{"id": 1, "name": "a"}])
    before = {o.path for o in lake.store.list(lake.metadata.location)}
    failing = Failing(lake.store, [Rule(methods=frozenset({"put"}), nth=nth, after=after)])
    with pytest.raises(Unavailable):
        append(failing, lake.table, [file], summary={}, clock=lake.clock, ids=lake.ids)
    assert {o.path for o in lake.store.list(lake.metadata.location)} == before


def test_R44_merged_manifests_keep_each_entry_its_own_numbers(lake: Lake) -> None:
    for number in range(4):
        lake.append_rows({"id": number, "name": "a"})
    before = {t.entry.data_file.file_path: t.entry for t in lake.tasks()}
    lake.append(lake.data_file([{"id": 9, "name": "z"}]), merge_min=3)
    new, merged = manifests_of(lake)
    assert (new.added_files_count, merged.added_files_count, merged.existing_files_count) == (1, 0, 4)
    assert (merged.sequence_number, merged.min_sequence_number) == (5, 1)
    for entry in read_manifest(lake.store, merged, lake.metadata):
        known = before[entry.data_file.file_path]
        assert entry.status is Status.EXISTING
        assert (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number) == (
            known.snapshot_id,
            known.sequence_number,
            known.file_sequence_number,
        )
    assert sorted(before[path].sequence_number or 0 for path in before) == [1, 2, 3, 4]


def test_R44_deletes_reach_the_same_rows_after_a_merge(lake: Lake) -> None:
    lake.append_rows({"id": 1, "name": "old"})
    lake.append_rows({"id": 2, "name": "x"})
    lake.row_delta([lake.data_file([{"id": 1, "name": "new"}])], [lake.equality_file([{"id": 1}], [1])])
    expected = [{"id": 1, "name": "new"}, {"id": 2, "name": "x"}]
    assert lake.rows() == expected
    lake.append(merge_min=1)
    assert len([m for m in manifests_of(lake) if m.content is ManifestContent.DATA]) == 1
    assert lake.rows() == expected


def test_few_manifests_are_not_merged(lake: Lake) -> None:
    for number in range(3):
        lake.append_rows({"id": number, "name": "a"})
    lake.append(merge_min=3)
    assert len(manifests_of(lake)) == 3
    lake.append(merge_min=2)
    assert len(manifests_of(lake)) == 1
    lake.append(merge_min=0)
    assert len(manifests_of(lake)) == 1  # a merge of one would only write it again


def test_manifests_are_merged_up_to_the_target_size() -> None:
    lake = Lake(MemoryObjectStore(ManualClock()))
    for number in range(4):
        lake.append_rows({"id": number, "name": "a"})
    sizes = {manifest.length for manifest in manifests_of(lake)}
    target = str(2 * max(sizes) + 1)
    lake.catalog.commit(
        IDENT, [], [{"action": "set-properties", "updates": {"commit.manifest.target-size-bytes": target}}]
    )
    lake.append(merge_min=1)
    assert [m.existing_files_count for m in manifests_of(lake)] == [2, 2]
    lake.catalog.commit(
        IDENT, [], [{"action": "set-properties", "updates": {"commit.manifest.target-size-bytes": "10"}}]
    )
    before = manifests_of(lake)
    lake.append(merge_min=1)
    assert manifests_of(lake) == before


def test_unknown_keys_survive_our_commits(lake: Lake) -> None:
    document = {**lake.metadata.document, "x-invented": {"a": 1}}
    lake.catalog.put(IDENT, TableMetadata(document))
    lake.append_rows({"id": 1, "name": "a"})
    assert lake.metadata.document["x-invented"] == {"a": 1}


def test_delete_files_are_counted_by_kind(lake: Lake) -> None:
    file = lake.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    lake.row_delta([], [lake.position_file([(file.file_path, 0)]), lake.equality_file([{"id": 7}], [1])])
    assert {
        key: lake.summary[f"total-{key}"] for key in ("delete-files", "position-deletes", "equality-deletes")
    } == {
        "delete-files": "2",
        "position-deletes": "1",
        "equality-deletes": "1",
    }
    assert {task.entry.data_file.content for task in lake.tasks()} == {Content.DATA}


@pytest.mark.parametrize("which", [0, 1], ids=["manifest", "manifest list"])
def test_a_file_in_the_way_is_refused_and_stays(lake: Lake, which: int) -> None:
    """Its name can only be taken by a fault; then it is somebody else's, and may be live."""
    file, table = lake.data_file([{"id": 1, "name": "a"}]), lake.table

    def change(ids: CountingIds) -> Change:
        return append(lake.store, table, [file], summary={}, clock=lake.clock, ids=ids)

    written = change(CountingIds(first_snapshot_id=7000)).written
    theirs = {path: lake.store.get(path) for path in written}
    lake.store.delete_many(written[:which])  # with the manifest gone, the list is what is in the way
    with pytest.raises(AlreadyExists):
        change(CountingIds(first_snapshot_id=7000))
    assert lake.store.get(written[which]) == theirs[written[which]]
    assert not any(lake.store.exists(path) for path in written[:which])
