"""Position deletes stored anew without their data files: merged in format v2, as vectors in v3; the same rows stay."""

from dataclasses import replace

import pytest

from maintenance.compaction import delete_plan, delete_rewrite
from maintenance.compaction.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.commit.delete import delete_files as remove_files
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import Internal, Invalid
from table_format.manifest.entries import Content
from table_format.scan.index import is_vector, referenced_path, sequence_of
from table_format.scan.plan import snapshot_files
from tests.factories.lake import BY_NAME, IDENT
from tests.factories.lineage_histories import ONLY_DELETES, put_vectors
from tests.fakes.jobs import FakeContext, job
from tests.unit.maintenance.test_compaction_deletes import new_lake, recounted, totals
from tests.unit.maintenance.test_compaction_lineage import lines, task_of, upgrade


def big(number, rows=200, name="a"):
    """Rows of a file that is large enough."""
    return [{"id": number * 1000 + n, "name": name + "x" * 20 + str(n * 7919)} for n in range(rows)]


def context(lake, settings=None, **changes):
    asked = {**ONLY_DELETES, **(settings or {})}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(),
        documents={JobKind.COMPACTION: {"status": "enabled", "settings": asked}},
        ident=IDENT,
        **changes,
    )


def compact(lake, ctx=None, *, dry_run=False, **settings):
    wanted = job(JobKind.COMPACTION, IDENT, lake.metadata.uuid, dry_run=dry_run)
    return run(ctx or context(lake, settings), wanted)


def delete(lake, file, *places, **more):
    found = lake.position_file(
        [(file.file_path, place) for place in places], partition=file.partition, **more
    )
    lake.row_delta([], [found])
    return found


def delete_files(lake):
    return snapshot_files(lake.store, lake.metadata).delete_entries


def vectors(lake):
    return [entry.data_file for entry in delete_files(lake) if is_vector(entry.data_file)]


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def test_maint_D7_small_position_delete_files_become_one():
    lake = new_lake()
    files = [lake.append_rows(*big(n)) for n in range(3)]
    for place in range(7):
        for file in files:
            delete(lake, file, place)
    rows, data = lake.rows(), [task.entry for task in lake.tasks()]
    assert totals(lake)["total-delete-files"] == 21
    report = compact(lake)
    assert report.outcome is Outcome.DONE
    assert report.reason == (
        "position deletes were stored anew in 1 commit; 1 delete file or vector written; 21 delete files are gone"
    )
    assert (lake.rows(), len(rows)) == (rows, 579)
    assert [task.entry.data_file for task in lake.tasks()] == [entry.data_file for entry in data]
    (merged,) = delete_files(lake)
    assert (merged.data_file.record_count, sequence_of(merged)) == (21, 24)
    assert totals(lake) == recounted(lake)
    assert lake.summary["operation"] == "replace"
    assert report.again_after_ms == 0
    assert compact(lake).outcome is Outcome.NOTHING


def test_positions_that_reach_nothing_are_left_out():
    """Of data files that are gone, or that are younger than the delete."""
    lake = new_lake()
    file = lake.append_rows(*big(1))
    young = lake.data_file(big(2))
    gone = [("memory://warehouse/gone.parquet", 1), (young.file_path, 5)]
    lake.row_delta([], [lake.position_file([(file.file_path, 0), *gone])])
    lake.append(young)
    delete(lake, file, 0, 3, 4)
    rows = lake.rows()
    assert len(rows) == 397
    compact(lake)
    (merged,) = delete_files(lake)
    assert (merged.data_file.record_count, lake.rows()) == (3, rows)
    assert referenced_path(merged.data_file) == file.file_path
    assert sequence_of(merged) >= sequence_of(task_of(lake, young).entry)


def test_files_that_reach_nothing_at_all_go_without_a_successor():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    for number in range(3):
        lake.row_delta([], [lake.position_file([(f"memory://warehouse/gone-{number}.parquet", 1)])])
    report = compact(lake)
    assert (report.outcome, report.figures["deleteFilesRemoved"]) == (Outcome.DONE, 3)
    assert (delete_files(lake), report.figures["deleteFilesWritten"]) == ([], 0)
    assert len(lake.rows()) == file.record_count


def test_partitions_and_specs_are_merged_apart():
    lake = new_lake(spec=BY_NAME)
    files = [lake.append_rows(*big(n, name=name), partition=(name,)) for n, name in enumerate("aab")]
    for place in range(3):
        for file in files:
            delete(lake, file, place)
    rows = lake.rows()
    compact(lake)
    found = {entry.data_file.partition: entry.data_file.record_count for entry in delete_files(lake)}
    assert found == {("a",): 6, ("b",): 3}
    assert lake.rows() == rows
    inside = {entry.data_file.file_path.split("/data/")[1].split("/")[0] for entry in delete_files(lake)}
    assert inside == {"name=a", "name=b"}


def test_a_table_that_wants_a_file_each_gets_one_each():
    lake = new_lake(**{"write.delete.granularity": "file"})
    files = [lake.append_rows(*big(n)) for n in range(2)]
    for place in range(3):
        for file in files:
            delete(lake, file, place, referenced_data_file=file.file_path)
    rows = lake.rows()
    compact(lake)
    found = {entry.data_file.referenced_data_file for entry in delete_files(lake)}
    assert (found, len(delete_files(lake))) == ({file.file_path for file in files}, 2)
    assert lake.rows() == rows


def test_a_large_file_is_not_written_again_for_a_few_small_ones():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    large = delete(lake, file, *range(50))
    small = [delete(lake, file, 60 + n) for n in range(2)]
    compact(lake)
    found = {entry.data_file.file_path: entry.data_file.record_count for entry in delete_files(lake)}
    assert found.pop(large.file_path) == 50
    assert list(found.values()) == [2]
    assert not found.keys() & {one.file_path for one in small}
    assert compact(lake).outcome is Outcome.NOTHING
    assert len(lake.rows()) == 148


def test_too_few_files_and_the_setting_leave_them_alone():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    for place in range(4):
        delete(lake, file, place)
    assert compact(lake, minInputFiles=5).outcome is Outcome.NOTHING
    assert compact(lake, mergePositionDeletes=False).outcome is Outcome.NOTHING
    assert len(delete_files(lake)) == 4
    assert compact(lake, minInputFiles=4).outcome is Outcome.DONE


def test_a_dry_run_tells_what_would_be_done():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    for place in range(4):
        delete(lake, file, place)
    location = lake.table.metadata_location
    report = compact(lake, dry_run=True)
    assert report.reason.endswith("; 4 position delete files would be stored anew")
    assert report.figures["deleteFilesToRewrite"] == 4
    assert lake.table.metadata_location == location


def test_deletes_of_files_that_are_rewritten_are_not_merged_beside():
    """Whatever becomes of the one commit, the other must stay right."""
    lake = new_lake()
    file = lake.append_rows(*big(1))
    small = [lake.append_rows({"id": n, "name": "s"}, {"id": n + 10, "name": "s"}) for n in range(2)]
    for place in range(2):
        delete(lake, file, place)
        lake.row_delta([], [lake.position_file([(file.file_path, 5 + place), (small[place].file_path, 0)])])
    rows = lake.rows()
    tiers = [{"belowBytes": 1500, "targetBytes": 2**20}]
    report = compact(lake, tiers=tiers)
    assert report.figures["filesRewritten"] == 2
    assert lake.rows() == rows
    # Those that named rewritten files were left; now nothing keeps them apart.
    compact(lake, tiers=tiers)
    assert (lake.rows(), len(delete_files(lake))) == (rows, 1)
    assert delete_files(lake)[0].data_file.record_count == 4


def test_a_misfiled_delete_file_is_left_alone():
    """DuckDB files deletes of data of an old spec under the new one, and applies them; to us that is doubt."""
    lake = new_lake()
    file = lake.append_rows(*big(1))
    spec = {"fields": [{"source-id": 2, "name": "by_name", "transform": "identity"}]}
    updates = [{"action": "add-spec", "spec": spec}, {"action": "set-default-spec", "spec-id": -1}]
    lake.catalog.commit(IDENT, [], updates)
    for place in range(3):
        lake.row_delta([], [lake.position_file([(file.file_path, place)], partition=("a",))])
    assert compact(lake).outcome is Outcome.NOTHING
    assert len(delete_files(lake)) == 3


def test_a_data_file_removed_meanwhile_is_no_conflict_and_a_delete_file_is():
    lake = new_lake()
    files = [lake.append_rows(*big(n)) for n in range(2)]
    found = [delete(lake, file, place) for place in range(2) for file in files]

    def remove(*which):
        def build(table):
            tree = HeadTree(lake.store, table.metadata, TreeCache())
            entries = [tree.at(file.file_path)[0] for file in which]
            return remove_files(table, tree, entries, summary={}, clock=lake.clock, ids=lake.ids)

        lake.commit(build)

    lake.catalog.before_commit.append(lambda: remove(files[0]))
    report = compact(lake)
    # Its delete files went with it, so that not all that were read are live any more.
    assert report.outcome is Outcome.CONFLICT
    assert len(lake.rows()) == 198
    assert {e.data_file.file_path for e in delete_files(lake)} < {f.file_path for f in found}
    compact(lake)
    assert (len(lake.rows()), len(delete_files(lake))) == (198, 1)


def test_deletes_that_arrive_meanwhile_stay_beside_the_merged_ones():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    for place in range(3):
        delete(lake, file, place)
    lake.catalog.before_commit.append(lambda: delete(lake, file, 9))
    assert compact(lake).outcome is Outcome.DONE
    assert (len(delete_files(lake)), len(lake.rows())) == (2, 196)


def test_files_of_a_merge_that_lost_are_removed():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    for place in range(3):
        delete(lake, file, place)
    lake.catalog.before_commit.append(lambda: upgrade(lake))
    before = {path for path in objects(lake) if "/data/" in path}
    assert compact(lake).outcome is Outcome.CONFLICT
    assert {path for path in objects(lake) if "/data/" in path} == before
    assert len(lake.rows()) == 197


def test_what_was_written_is_read_back_before_it_is_committed(monkeypatch):
    for version in (2, 3):
        lake = new_lake()
        file = lake.append_rows(*big(1))
        for place in range(3):
            delete(lake, file, place)
        if version == 3:
            upgrade(lake)
        location = lake.table.metadata_location
        with monkeypatch.context() as patched:
            real = delete_rewrite.write_vectors if version == 3 else delete_rewrite.write_positions

            def short(store, path, deleted, real=real, **more):
                if isinstance(deleted, dict):
                    deleted = {name: places[1:] for name, places in deleted.items()}
                else:
                    deleted = [(one, places[1:]) for one, places in deleted]
                return real(store, path, deleted, **more)

            patched.setattr(delete_rewrite, real.__name__, short)
            with pytest.raises(Internal, match="nothing of it is committed"):
                compact(lake)
        assert lake.table.metadata_location == location
        assert not [path for path in objects(lake) if "compact-" in path]


def test_delete_files_that_are_not_small_or_not_readable_are_left_alone():
    lake = new_lake()
    file = lake.append_rows(*big(1))
    delete(lake, file, 0)
    delete(lake, file, 1)
    lake.row_delta(
        [],
        [lake.position_file([(file.file_path, 5)], key_metadata=b"k", referenced_data_file=file.file_path)],
    )
    compact(lake)
    assert len(delete_files(lake)) == 2
    odd = [entry.data_file for entry in delete_files(lake) if entry.data_file.key_metadata]
    assert len(odd) == 1


def test_a_delete_file_of_many_rows_is_not_read_for_this(monkeypatch):
    monkeypatch.setattr(delete_plan, "MOST_RECORDS", 5)
    for version in (2, 3):
        lake = new_lake()
        file = lake.append_rows(*big(1))
        many = delete(lake, file, *range(6))
        for place in range(10, 12):
            delete(lake, file, place)
        if version == 3:
            upgrade(lake)
        compact(lake)
        assert many in [entry.data_file for entry in delete_files(lake)]
        assert len(lake.rows()) == 192


# Format version 3


def upgraded(rows=200, files=2):
    """A table that was version 2: data files with position deletes, shared and their own."""
    lake = new_lake()
    found = [lake.append_rows(*big(n, rows)) for n in range(files)]
    lake.row_delta([], [lake.position_file([(file.file_path, n) for n, file in enumerate(found)])])
    for file in found:
        delete(lake, file, 7, referenced_data_file=file.file_path)
    upgrade(lake)
    return lake, found


def test_position_deletes_become_vectors_when_the_table_is_version_3():
    lake, files = upgraded()
    rows = lake.rows()
    report = compact(lake)
    assert (report.outcome, report.figures["deleteFilesWritten"]) == (Outcome.DONE, 2)
    assert report.figures["deleteFilesRemoved"] == 3
    assert lake.rows() == rows
    found = vectors(lake)
    assert len(delete_files(lake)) == len(found) == 2
    assert {vector.referenced_data_file for vector in found} == {file.file_path for file in files}
    assert len({vector.file_path for vector in found}) == 1
    assert {vector.record_count for vector in found} == {2}
    assert totals(lake) == recounted(lake)
    summary = lake.summary
    assert (summary["added-dvs"], summary["removed-position-delete-files"]) == ("2", "3")
    # This was the first commit of version 3: rows have ids now, and are as old as their files.
    assert {changed for _, changed in lines(lake).values()} == {1, 2}
    assert compact(lake).outcome is Outcome.NOTHING


def test_a_single_position_delete_file_is_enough_for_vectors():
    lake, _ = upgraded(files=1)
    rows = lake.rows()
    compact(lake, minInputFiles=9)
    assert (lake.rows(), len(vectors(lake)), len(delete_files(lake))) == (rows, 1, 1)


def test_the_setting_keeps_position_deletes_of_version_3():
    lake, _ = upgraded()
    assert compact(lake, mergePositionDeletes=False).outcome is Outcome.NOTHING
    assert vectors(lake) == []


def test_position_deletes_of_a_rewritten_file_go_and_others_become_vectors():
    lake, files = upgraded()
    for number in range(2):
        lake.append_rows({"id": number, "name": "s"})
    rows, before = lake.rows(), lines(lake)
    report = compact(lake, tiers=[{"belowBytes": 1500, "targetBytes": 2**20}])
    assert (report.figures["filesRewritten"], report.figures["deleteFilesWritten"]) == (2, 2)
    assert (lake.rows(), lines(lake)) == (rows, before)
    assert len(vectors(lake)) == len(delete_files(lake)) == len(files)


def test_a_vector_of_a_writer_that_came_first_drops_that_one_only():
    lake, (first, second) = upgraded()
    # The writer merged what was deleted of the file, as it must, and adds a row.
    lake.catalog.before_commit.append(lambda: put_vectors(lake, [(task_of(lake, first), [0, 7, 9])]))
    report = compact(lake)
    assert (report.outcome, report.figures["conflicts"]) == (Outcome.DONE, 1)
    by_path = {vector.referenced_data_file: vector for vector in vectors(lake)}
    assert by_path[first.file_path].record_count == 3
    assert by_path[second.file_path].record_count == 2
    assert len(delete_files(lake)) == 2, "position deletes that vectors supersede are gone"
    assert len(lake.rows()) == 395


def test_a_data_file_that_went_meanwhile_gets_no_vector():
    lake, (first, second) = upgraded()
    other = replace(lake.group([task_of(lake, first)]), keeps_lineage=True)
    lake.catalog.before_commit.append(lambda: lake.rewrite(other))
    report = compact(lake)
    assert report.figures["conflicts"] == 1
    assert {vector.referenced_data_file for vector in vectors(lake)} == {second.file_path}
    assert len(lake.rows()) == 396


def test_position_delete_files_that_vectors_of_others_supersede_go():
    """Readers pass over them."""
    lake, files = upgraded()
    put_vectors(lake, [(task_of(lake, file), [0, 1, 7]) for file in files])
    assert len(delete_files(lake)) == 5
    rows = lake.rows()
    report = compact(lake)
    assert (report.outcome, report.figures["deleteFilesRemoved"]) == (Outcome.DONE, 3)
    assert (lake.rows(), len(vectors(lake)), len(delete_files(lake))) == (rows, 2, 2)
    assert totals(lake) == recounted(lake)
    assert compact(lake).outcome is Outcome.NOTHING


def test_they_go_with_the_next_rewrite_too():
    lake, files = upgraded()
    put_vectors(lake, [(task_of(lake, file), [0, 1, 7]) for file in files])
    for number in range(2):
        lake.append_rows({"id": number, "name": "s"})
    rows = lake.rows()
    assert compact(lake, mergePositionDeletes=False).figures["filesRewritten"] == 2
    assert (lake.rows(), len(vectors(lake)), len(delete_files(lake))) == (rows, 2, 2)


def test_they_stay_when_the_vector_is_taken_away_meanwhile():
    """Then readers heed them again."""
    lake, files = upgraded(files=1)
    with_deletes = lake.metadata.current_snapshot_id
    put_vectors(lake, [(task_of(lake, files[0]), [0, 7, 9])])

    def back():
        ref = {
            "action": "set-snapshot-ref",
            "ref-name": "main",
            "type": "branch",
            "snapshot-id": with_deletes,
        }
        lake.catalog.commit(IDENT, [], [ref])

    lake.catalog.before_commit.append(back)
    assert compact(lake).outcome is Outcome.CONFLICT
    assert (len(lake.rows()), len(delete_files(lake))) == (198, 2)


def test_a_table_with_columns_that_are_not_rewritten_gets_vectors_all_the_same():
    """Its data is not touched for that."""
    lake, _ = upgraded()
    schema = lake.metadata.schema()
    odd = {"id": 900, "name": "odd", "required": False, "type": "variant"}
    lake.catalog.commit(
        IDENT,
        [],
        [
            {
                "action": "add-schema",
                "schema": {**schema, "schema-id": 1, "fields": [*schema["fields"], odd]},
            },
            {"action": "set-current-schema", "schema-id": -1},
        ],
    )
    report = compact(lake)
    assert (report.outcome, len(vectors(lake)), len(delete_files(lake))) == (Outcome.DONE, 2, 2)
    assert report.figures["leftAlone"] == ["2 column 'odd' is of type variant, which is not rewritten here"]


def test_equality_deletes_stay_as_they_are():
    lake, _ = upgraded()
    lake.row_delta([], [lake.equality_file([{"id": 3}], [1])])
    rows = lake.rows()
    compact(lake)
    contents = sorted(entry.data_file.content for entry in delete_files(lake))
    assert contents == [Content.POSITION_DELETES, Content.POSITION_DELETES, Content.EQUALITY_DELETES]
    assert lake.rows() == rows


def test_a_broken_delete_file_fails_its_own_rewrite_alone():
    lake = new_lake(spec=BY_NAME)
    files = [lake.append_rows(*big(n, name=name), partition=(name,)) for n, name in enumerate("ab")]
    found = [
        delete(lake, file, place, referenced_data_file=file.file_path) for place in range(3) for file in files
    ]
    lake.store.delete_many([found[0].file_path])
    lake.store.put(found[0].file_path, b"no parquet")
    with pytest.raises(Invalid, match="not a readable Parquet file"):
        compact(lake)
    by_partition = [entry.data_file.partition for entry in delete_files(lake)]
    assert sorted(by_partition) == [("a",)] * 3 + [("b",)]
