"""The statistics job over real files: what it enters, what it continues, races, what is left behind, reports."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from maintenance.compaction.job import run as compact
from maintenance.expiration.job import run as expire
from maintenance.orphans.job import run as remove
from maintenance.ports import URGENT_PRIORITY, JobKind
from maintenance.report import Outcome
from maintenance.statistics import job as module
from maintenance.statistics.job import run
from maintenance.statistics.partitions import read_partitions
from maintenance.statistics.plan import THETA
from table_format.commit.delete import delete_files
from table_format.commit.tree import HeadTree, TreeCache
from table_format.errors import CommitStateUnknown, Invalid, NoSuchFile
from table_format.io.memory import MemoryObjectStore
from table_format.scan.lines import snapshot_lines
from table_format.scan.puffin import read_footer, read_payload
from table_format.write.puffin import Blob, statistics_entry, write_puffin
from table_format.write.vectors import write_vectors
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.catalog import fault, unknown
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

SMALL = {"tiers": [{"belowBytes": 1 << 20, "targetBytes": 1 << 21}], "minInputFiles": 2}


def new_lake(version=2, spec=BY_NAME):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, spec=spec, **{"format-version": str(version)})


def add(lake, first, count=10, name="x"):
    rows = [{"id": number, "name": name} for number in range(first, first + count)]
    return lake.append_rows(*rows, partition=(name,) if lake.metadata.spec()["fields"] else ())


@pytest.fixture
def lake():
    made = new_lake()
    for number, name in enumerate(("x", "y", "x")):
        add(made, number * 5, name=name)
    return made


def context(lake, *, status="enabled", kind=JobKind.STATISTICS, within=None, **settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={kind: {"status": status, "settings": settings}},
        ident=IDENT,
        within=within,
    )


def compute(lake, ctx=None, **changes):
    return run(ctx or context(lake), job(JobKind.STATISTICS, IDENT, lake.metadata.uuid, **changes))


def other_job(lake, run, kind, **settings):
    return run(context(lake, kind=kind, **settings), job(kind, IDENT, lake.metadata.uuid))


def head(lake):
    return lake.metadata.current_snapshot_id


def entry(lake, member="statistics", snapshot_id=None):
    wanted = snapshot_id or head(lake)
    return next((e for e in lake.metadata.document[member] if e["snapshot-id"] == wanted), None)


def ndv(lake, snapshot_id=None):
    blobs = entry(lake, snapshot_id=snapshot_id)["blob-metadata"]
    return {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in blobs if blob["type"] == THETA}


def rows(lake):
    path = entry(lake, "partition-statistics")["statistics-path"]
    return pq.read_table(io.BytesIO(lake.store.get(path))).to_pylist()


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def stray(lake):
    """Statistics files that no metadata names."""
    named = {e["statistics-path"] for e in (*lake.metadata.statistics, *lake.metadata.partition_statistics)}
    made = {path for path in objects(lake) if path.endswith(".stats") or "partition-stats-" in path}
    return made - named


def test_nobody_asked_for_it(lake):
    ctx = context(lake)
    ctx.documents = {}
    assert compute(lake, ctx).reason == "no policy asks for it"
    both_off = compute(lake, context(lake, ndv=False, partitionStatistics=False))
    assert (
        both_off.reason == "the policy has both ndv and partitionStatistics off: there is nothing to compute"
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_heads_statistics_are_entered_once(version):
    lake = new_lake(version)
    for number, name in enumerate(("x", "y", "x")):
        add(lake, number * 5, name=name)
    report = compute(lake)
    assert report.outcome is Outcome.DONE
    assert report.reason == "statistics of the distinct values of 2 columns and of 2 partitions were entered"
    assert report.figures["distinctValues"] == ["id 20", "name 2"]
    assert (report.figures["filesRead"], report.figures["rowsRead"]) == (3, 30)
    assert ndv(lake) == {1: 20, 2: 2}
    file = entry(lake)
    assert lake.store.head(file["statistics-path"]).size == file["file-size-in-bytes"]
    blobs = read_footer(lake.store, file["statistics-path"], file["file-size-in-bytes"])
    told = lake.metadata.current_snapshot
    assert {(b.snapshot_id, b.sequence_number, b.codec) for b in blobs} == {
        (told["snapshot-id"], told.get("sequence-number", 0), "zstd")
    }
    assert [(row["partition"], row["data_record_count"]) for row in rows(lake)] == [
        ({"name": "x"}, 20),
        ({"name": "y"}, 10),
    ]
    names = list(rows(lake)[0])
    assert ("dv_count" in names) is (version == 3)
    schema = pq.read_schema(
        io.BytesIO(lake.store.get(entry(lake, "partition-statistics")["statistics-path"]))
    )
    required = {field.name for field in schema if not field.nullable}
    always = {"partition", *names[1:5]}
    assert required == always | ({*names[5:9], "dv_count"} if version == 3 else set())
    assert compute(lake).outcome is Outcome.NOTHING
    assert stray(lake) == set()


def test_appended_files_alone_are_read_the_next_time(lake):
    compute(lake)
    add(lake, 100, name="z")
    report = compute(lake)
    assert ndv(lake) == {1: 30, 2: 3}
    assert (report.figures["columnsContinued"], report.figures["filesRead"]) == (2, 1)


def test_a_compacted_table_is_not_read_again(lake):
    add(lake, 0)
    compute(lake)
    assert other_job(lake, compact, JobKind.COMPACTION, **SMALL).outcome is Outcome.DONE
    report = compute(lake)
    assert ndv(lake) == {1: 20, 2: 2}
    assert (report.figures["columnsContinued"], report.figures["filesRead"]) == (2, 0)
    assert [row["data_file_count"] for row in rows(lake)] == [1, 1]


def test_after_appends_and_a_compaction_what_is_stored_anew_is_read(lake):
    compute(lake)
    add(lake, 100)
    assert other_job(lake, compact, JobKind.COMPACTION, **SMALL).outcome is Outcome.DONE
    report = compute(lake)
    assert ndv(lake) == {1: 30, 2: 2}
    assert (report.figures["columnsContinued"], report.figures["filesRead"]) == (2, 1)


def test_rows_that_deletes_take_away_do_not_count(lake):
    compute(lake)
    lake.row_delta(
        [], [lake.equality_file([{"id": 7, "name": "y"}, {"id": 12, "name": "y"}], [1], partition=("y",))]
    )
    report = compute(lake, priority=URGENT_PRIORITY)
    assert ndv(lake) == {1: 20, 2: 2}  # another partition has them too
    lake.row_delta([], [lake.equality_file([{"id": 0, "name": "x"}], [1], partition=("x",))])
    report = compute(lake, priority=URGENT_PRIORITY)
    assert ndv(lake) == {1: 19, 2: 2}
    assert (report.figures["columnsContinued"], report.figures["rowsRead"]) == (0, 27)
    assert [row["equality_delete_record_count"] for row in rows(lake)] == [1, 2]
    assert {row["total_record_count"] for row in rows(lake)} == {None}


def test_deletes_by_columns_that_are_not_counted_or_not_there_any_more_count():
    lake = new_lake(3, spec=None)
    first = lake.append_rows({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})
    lake.row_delta([], [lake.equality_file([{"id": 2}], [1])])
    path = f"{lake.metadata.location}/data/v.puffin"
    lake.row_delta([], write_vectors(lake.store, path, [(first, np.array([2]))], created_by="me"))
    compute(lake, context(lake, columns=["name"]))
    assert ndv(lake) == {2: 1}
    without_id = {"type": "struct", "fields": [f for f in lake.metadata.schema()["fields"] if f["id"] != 1]}
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": without_id}, {"action": "set-current-schema", "schema-id": -1}],
    )
    lake.append_rows({"name": "d"})
    report = compute(lake, priority=URGENT_PRIORITY)
    assert ndv(lake) == {2: 2}
    assert report.figures["columnsContinued"] == 1
    lake.row_delta([], [lake.equality_file([{"name": "d"}], [2])])
    compute(lake, priority=URGENT_PRIORITY)  # all of it is read, with the delete by a column that is gone
    assert ndv(lake) == {2: 1}


def test_files_that_went_are_not_counted(lake):
    compute(lake)
    gone = [line for line in snapshot_lines(lake.store, lake.metadata).lines if line.partition == ("y",)]
    lake.commit(
        lambda table: delete_files(
            table,
            HeadTree(lake.store, table.metadata, TreeCache()),
            gone,
            summary={},
            clock=lake.clock,
            ids=lake.ids,
        )
    )
    compute(lake)
    assert ndv(lake) == {1: 20, 2: 1}
    assert [row["partition"]["name"] for row in rows(lake)] == ["x"]


def test_few_changes_wait_unless_somebody_asks(lake):
    compute(lake, context(lake, partitionStatistics=False))
    add(lake, 100, count=1)
    ctx = context(lake, partitionStatistics=False)
    report = compute(lake, ctx)
    assert report.outcome is Outcome.NOTHING
    assert report.reason.startswith("1 of 31 rows changed since the distinct values were counted")
    assert compute(lake, ctx, priority=URGENT_PRIORITY).outcome is Outcome.DONE


def test_only_a_new_column_is_counted_where_the_rows_are_the_same(lake):
    compute(lake)
    before = {b["fields"][0]: b for b in entry(lake)["blob-metadata"]}
    fields = [*lake.metadata.schema()["fields"], {"id": 3, "name": "more", "required": False, "type": "int"}]
    schema = {"type": "struct", "fields": fields}
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}],
    )
    report = compute(lake)
    assert report.figures["distinctValues"] == ["more 0"]
    assert ndv(lake) == {1: 20, 2: 2, 3: 0}
    assert {b["fields"][0]: b for b in entry(lake)["blob-metadata"] if b["fields"] != [3]} == before
    assert len(stray(lake)) == 1  # the file before, which somebody may be reading
    # Sketches of both runs are continued.
    add(lake, 100)
    report = compute(lake)
    assert (report.figures["columnsContinued"], report.figures["filesRead"]) == (3, 1)


def test_a_promoted_column_is_counted_anew_by_its_new_bytes():
    clock = ManualClock()
    fields = [{"id": 1, "name": "n", "required": False, "type": "int"}]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    lake = Lake(MemoryObjectStore(clock), clock=clock, schema=schema)
    lake.append_rows({"n": 1}, {"n": 2})
    compute(lake)
    wider = {"type": "struct", "fields": [{**fields[0], "type": "long"}]}
    lake.catalog.commit(
        IDENT,
        [],
        [{"action": "add-schema", "schema": wider}, {"action": "set-current-schema", "schema-id": -1}],
    )
    lake.append_rows({"n": 2}, {"n": 3})
    report = compute(lake)
    assert ndv(lake) == {1: 3}
    assert (report.figures["columnsContinued"], report.figures["filesRead"]) == (0, 2)


def foreign(lake, *blobs):
    path = f"{lake.metadata.location}/metadata/foreign-{len(lake.metadata.statistics)}.stats"
    file = write_puffin(lake.store, path, blobs, created_by="somebody")
    made = statistics_entry(path, head(lake), file, blobs)
    lake.catalog.commit(IDENT, [], [{"action": "set-statistics", "statistics": made}])
    return path


def foreign_blob(lake, kind, column, **more):
    values = {"payload": b"whatever", "properties": {"ndv": "5"}, **more}
    return Blob(type=kind, fields=[column], snapshot_id=head(lake), sequence_number=1, **values)


def test_others_statistics_of_the_head_are_added_to(lake):
    foreign(lake, foreign_blob(lake, THETA, 1), foreign_blob(lake, "histogram", 2, codec="lz4"))
    before = entry(lake)["blob-metadata"]
    report = compute(lake)
    assert report.figures["distinctValues"] == ["name 2"]
    assert entry(lake)["blob-metadata"][:2] == before
    path, size = entry(lake)["statistics-path"], entry(lake)["file-size-in-bytes"]
    kept = read_footer(lake.store, path, size)[:2]
    assert [(b.type, b.codec, read_payload(lake.store, path, b)) for b in kept] == [
        (THETA, None, b"whatever"),
        ("histogram", "lz4", b"whatever"),
    ]


def test_others_statistics_that_cannot_be_added_to_stay(lake, monkeypatch):
    path = foreign(lake, foreign_blob(lake, "histogram", 2))
    monkeypatch.setattr("maintenance.statistics.files.MOST_KEPT_BYTES", 7)
    report = compute(lake)
    assert report.reason == "statistics of 2 partitions were entered"
    assert "too large to be added to" in report.figures["leftAlone"][0]
    assert entry(lake)["statistics-path"] == path
    size = entry(lake)["file-size-in-bytes"]
    content = bytearray(lake.store.get(path))
    content[-8] |= 1
    lake.store.put(path, bytes(content))
    report = compute(lake)
    assert "cannot be added to: the footer" in report.reason
    assert (entry(lake)["statistics-path"], entry(lake)["file-size-in-bytes"]) == (path, size)


def test_statistics_that_nobody_can_read_are_replaced(lake):
    path = foreign(lake, foreign_blob(lake, "histogram", 2))
    lake.store.delete_many([path])
    assert compute(lake).outcome is Outcome.DONE
    assert ndv(lake) == {1: 20, 2: 2}


def test_earlier_sketches_that_are_gone_or_damaged_are_counted_anew(lake):
    for spoil in (
        lambda path: lake.store.delete_many([path]),
        lambda path: lake.store.put(path, b"?" * lake.store.head(path).size),
    ):
        compute(lake)
        spoil(entry(lake)["statistics-path"])
        add(lake, 0, name="y")
        report = compute(lake, priority=URGENT_PRIORITY)
        assert report.figures["columnsContinued"] == 0
        assert ndv(lake)[2] == 2


def test_a_dry_run_tells_and_writes_nothing(lake):
    before = objects(lake)
    report = compute(lake, dry_run=True)
    assert report.reason.startswith("dry run: the distinct values of 2 columns would be counted in 3 files (")
    assert report.reason.endswith("and partition statistics would be written")
    assert report.plan["columns"] == [["id", "long", "counted anew"], ["name", "string", "counted anew"]]
    assert objects(lake) == before
    compute(lake)
    add(lake, 100)
    report = compute(lake, dry_run=True)
    assert (report.figures["filesToRead"], report.plan["columns"][0][2]) == (1, "continued")


class TestMeanwhile:
    def test_a_writer_is_not_stopped_and_does_not_stop_it(self, lake):
        before = head(lake)
        lake.catalog.before_commit.append(lambda: add(lake, 100))
        assert compute(lake).outcome is Outcome.DONE
        assert head(lake) != before
        assert ndv(lake, before) == {1: 20, 2: 2}
        assert entry(lake) is None

    def test_an_expired_snapshot_gets_none(self, lake):
        before = head(lake)

        def moved_on():
            add(lake, 100)
            lake.catalog.commit(IDENT, [], [{"action": "remove-snapshots", "snapshot-ids": [before]}])

        lake.catalog.before_commit.append(moved_on)
        report = compute(lake)
        assert report.outcome is Outcome.CONFLICT
        assert "the snapshot was expired meanwhile" in report.reason
        assert report.again_after_ms > 0
        assert (lake.metadata.statistics, stray(lake)) == ([], set())

    def test_others_statistics_stay(self, lake):
        # On the first attempt the head moves, so that there is a second one.
        def moved_on():
            foreign(lake, foreign_blob(lake, THETA, 1))
            add(lake, 100)

        before = head(lake)
        lake.catalog.before_commit.append(moved_on)
        report = compute(lake, context(lake, partitionStatistics=False))
        assert report.outcome is Outcome.CONFLICT
        assert "others entered theirs meanwhile" in report.reason
        assert "foreign" in entry(lake, snapshot_id=before)["statistics-path"]
        assert stray(lake) == set()

    def test_another_table_of_the_name_gets_none(self, lake):
        def another():
            lake.catalog.drop(IDENT)
            Lake(lake.store, clock=lake.clock, catalog=lake.catalog, spec=BY_NAME)

        ctx, uuid, before = context(lake), lake.metadata.uuid, objects(lake)
        lake.catalog.before_commit.append(another)
        report = run(ctx, job(JobKind.STATISTICS, IDENT, uuid))
        assert report.outcome is Outcome.CONFLICT
        assert "became another table" in report.reason
        assert lake.metadata.statistics == []
        left = {info.path for info in lake.store.list("memory://warehouse")} - before
        assert [path for path in left if not path.endswith(".metadata.json")] == []

    def test_files_that_went_with_the_snapshot_are_no_failure(self, lake, monkeypatch):
        def gone(*_):
            before = lake.metadata.current_snapshot_id
            add(lake, 100)
            lake.catalog.commit(IDENT, [], [{"action": "remove-snapshots", "snapshot-ids": [before]}])
            raise NoSuchFile("a data file is gone")

        monkeypatch.setattr(module, "measure", gone)
        report = compute(lake)
        assert report.outcome is Outcome.CONFLICT
        assert stray(lake) == set()

    def test_a_file_that_is_missing_is_a_failure_of_a_table_that_others_write_to_all_the_time(
        self, lake, monkeypatch
    ):
        """Else it would be read anew every few seconds, for ever."""

        def gone(*_):
            add(lake, 100)
            raise NoSuchFile("a data file is gone")

        monkeypatch.setattr(module, "measure", gone)
        with pytest.raises(NoSuchFile):
            compute(lake)
        assert stray(lake) == set()

    def test_a_file_that_is_missing_for_good_is_one(self, lake):
        lake.store.delete_many([lake.tasks()[0].entry.data_file.file_path])
        with pytest.raises(NoSuchFile):
            compute(lake)
        assert stray(lake) == set()


class TestEnds:
    @pytest.mark.parametrize("leases", [[False], [True, False]])
    def test_without_its_lease_it_enters_nothing(self, lake, leases):
        ctx = context(lake)
        ctx.leases = leases
        report = compute(lake, ctx)
        assert report.outcome is Outcome.SKIPPED
        assert report.reason == "nothing was entered: the lease was lost, another worker takes over"
        assert (lake.metadata.statistics, stray(lake)) == ([], set())

    def test_cancelled_it_ends_between_two_batches(self, lake, monkeypatch):
        ctx = context(lake)
        real = ctx.still_leased

        def then_cancelled():
            answer = real()
            ctx.cancelled = True
            return answer

        monkeypatch.setattr(FakeContext, "still_leased", lambda _: then_cancelled())
        report = compute(lake, ctx)
        assert (report.outcome, report.reason) == (Outcome.SKIPPED, "nothing was entered: it was cancelled")
        assert stray(lake) == set()

    def test_a_refusal_is_tried_again(self, lake):
        lake.catalog.faults.extend([fault("conflict"), fault("unavailable")])
        assert compute(lake).outcome is Outcome.DONE
        assert stray(lake) == set()

    def test_a_table_that_keeps_changing_is_left_for_later(self, lake):
        lake.catalog.faults.extend([fault("conflict")] * 50)
        report = compute(lake)
        assert report.outcome is Outcome.CONFLICT
        assert report.reason.startswith("the table kept changing")
        assert (lake.metadata.statistics, stray(lake)) == ([], set())

    def test_an_answer_that_was_lost_is_found_out(self, lake):
        lake.catalog.faults.append(unknown(applied=True))
        assert compute(lake).outcome is Outcome.DONE
        assert ndv(lake) == {1: 20, 2: 2}
        assert stray(lake) == set()

    def test_in_doubt_no_file_is_deleted(self, lake):
        lake.catalog.faults.extend([unknown(late=True), *[fault("conflict")] * 50])
        with pytest.raises(CommitStateUnknown):
            compute(lake)
        assert len(stray(lake)) == 2
        assert lake.catalog.deliver_late() == [True]
        assert ndv(lake) == {1: 20, 2: 2}
        assert stray(lake) == set()

    def test_a_late_request_for_an_expired_snapshot_finds_its_files(self, lake, monkeypatch):
        """The catalog may still apply what it did not answer, whatever became of the snapshot."""
        before, real = head(lake), module.write_statistics

        def moved_on(*args):
            real(*args)
            add(lake, 100)
            lake.catalog.before_commit.append(expired)
            lake.catalog.faults.extend([None, unknown(late=True)])  # of what expires it, and of ours

        def expired():
            lake.catalog.commit(IDENT, [], [{"action": "remove-snapshots", "snapshot-ids": [before]}])

        monkeypatch.setattr(module, "write_statistics", moved_on)
        report = compute(lake, context(lake, partitionStatistics=False))
        assert report.outcome is Outcome.CONFLICT
        assert lake.catalog.deliver_late() == [True]
        (late,) = lake.metadata.statistics
        assert late["snapshot-id"] == before
        assert lake.store.exists(late["statistics-path"])


class TestOutside:
    def test_data_files_outside_the_bucket_are_not_read(self, lake):
        ctx = context(lake, within=f"{lake.metadata.location}/metadata")
        report = compute(lake, ctx)
        assert report.reason == "statistics of 2 partitions were entered"
        assert "lies outside the table bucket and is not read" in report.figures["leftAlone"][0]
        assert lake.metadata.statistics == []

    def test_a_dry_run_tells_so(self, lake):
        ctx = context(lake, within=f"{lake.metadata.location}/metadata", partitionStatistics=False)
        report = compute(lake, ctx, dry_run=True)
        assert report.outcome is Outcome.NOTHING
        assert "lies outside the table bucket" in report.reason

    def test_a_statistics_file_outside_is_neither_read_nor_replaced(self, lake):
        made = entry_outside(lake)
        report = compute(lake, context(lake, within=lake.metadata.location))
        assert (
            "outside the table bucket, which is neither read nor replaced" in report.figures["leftAlone"][0]
        )
        assert entry(lake) == made


def entry_outside(lake):
    made = {
        "snapshot-id": head(lake),
        "statistics-path": "memory://elsewhere/s.stats",
        "file-size-in-bytes": 100,
        "file-footer-size-in-bytes": 50,
        "blob-metadata": [],
    }
    lake.catalog.commit(IDENT, [], [{"action": "set-statistics", "statistics": made}])
    return made


def test_a_file_that_cannot_be_read_stops_the_count_not_the_partitions(lake):
    lake.store.put(lake.tasks()[0].entry.data_file.file_path, b"no Parquet")
    with pytest.raises(Invalid, match="not a readable Parquet file"):
        compute(lake)
    assert lake.metadata.statistics == []
    assert len(rows(lake)) == 2
    with pytest.raises(Invalid, match="not a readable Parquet file"):
        compute(lake)
    assert stray(lake) == set()


def test_too_many_partitions_are_told(lake, monkeypatch):
    few = lambda *args: read_partitions(*args, most=1)  # noqa: E731
    monkeypatch.setattr(module, "read_partitions", few)
    report = compute(lake)
    assert report.figures["leftAlone"] == ["no partition statistics: the table has more than 1 partitions"]
    assert (ndv(lake), lake.metadata.partition_statistics) == ({1: 20, 2: 2}, [])


class TestOtherJobs:
    def test_orphan_removal_takes_the_file_that_was_replaced_alone(self, lake):
        compute(lake, context(lake, columns=["id"]))
        replaced = entry(lake)["statistics-path"]
        compute(lake)
        kept = {entry(lake)["statistics-path"], entry(lake, "partition-statistics")["statistics-path"]}
        settings = {"unreferencedSeconds": 0, "nonCurrentSeconds": 0}
        lake.clock.advance(10 * 86_400)
        ctx = context(lake, kind=JobKind.UNREFERENCED, **settings)
        for _ in range(2):
            remove(ctx, job(JobKind.UNREFERENCED, IDENT, lake.metadata.uuid))
            lake.clock.advance(10 * 86_400)
        assert not lake.store.exists(replaced)
        assert all(lake.store.exists(path) for path in kept)
        assert stray(lake) == set()

    def test_files_go_with_their_snapshot_and_those_of_lost_ones_from_the_metadata(self, lake):
        compute(lake)
        first = entry(lake)["statistics-path"], entry(lake, "partition-statistics")["statistics-path"]
        add(lake, 100)
        compute(lake)
        second = entry(lake)["statistics-path"], entry(lake, "partition-statistics")["statistics-path"]
        lost = {**entry(lake), "snapshot-id": 4711}
        lake.catalog.commit(IDENT, [], [{"action": "set-statistics", "statistics": lost}])
        lake.clock.advance(10 * 86_400)
        report = other_job(lake, expire, JobKind.SNAPSHOTS, maxSnapshotAgeHours=1)
        assert report.outcome is Outcome.DONE
        assert not any(lake.store.exists(path) for path in first)
        assert all(lake.store.exists(path) for path in second)
        assert [e["snapshot-id"] for e in lake.metadata.statistics] == [head(lake)]
