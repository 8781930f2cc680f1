"""Faults of other catalogs' built-in maintenance, each made impossible here (the rows are listed in tests/house)."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from maintenance.compaction import job as compaction
from maintenance.expiration import job as expiration
from maintenance.orphans import job as orphans
from maintenance.policies import PolicyType, validate
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import DataFile
from table_format.schema.arrow import to_arrow
from tests.factories.lake import IDENT, SCHEMA, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

HOUR, DAY = 3600, 86_400
COMPACTION = {"tiers": [{"belowBytes": 1024 * 16, "targetBytes": 1024 * 64}], "minInputFiles": 2}
RUNS = {
    JobKind.COMPACTION: compaction.run,
    JobKind.SNAPSHOTS: expiration.run,
    JobKind.UNREFERENCED: orphans.run,
}


def a_lake(**options):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, **options)


def context(lake, kind, settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(),
        documents={kind: {"status": "enabled", "settings": settings}},
        ident=IDENT,
    )


def carry_out(lake, kind, settings, ctx=None):
    return RUNS[kind](ctx or context(lake, kind, settings), job(kind, IDENT, lake.metadata.uuid))


def objects(lake, below=None):
    return {info.path for info in lake.store.list(below or lake.metadata.location)}


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("page", ["1.0", "2.0"])
def test_R37_files_of_the_old_dictionary_encoding_keep_their_values(page, compression):
    lake = a_lake()
    for n in range(3):
        # Dictionaries of different order, some pages too large for theirs, and nulls.
        rows = [
            {
                "id": row * (n + 1),
                "name": None if row % 7 == n else f"{'wide' * 50}{(row * 31 + n) % (9 + n)}",
            }
            for row in range(2000)
        ]
        table = pa.Table.from_pylist(rows, schema=to_arrow(SCHEMA))
        buffer, path = io.BytesIO(), lake.path("old")
        pq.write_table(
            table,
            buffer,
            version="1.0",
            data_page_version=page,
            compression=compression,
            dictionary_pagesize_limit=4096,
            data_page_size=2048,
        )
        buffer.seek(0)
        assert "PLAIN_DICTIONARY" in pq.ParquetFile(buffer).metadata.row_group(0).column(1).encodings
        lake.store.put(path, buffer.getvalue())
        size = len(buffer.getvalue())
        lake.append(DataFile(file_path=path, record_count=len(rows), file_size_in_bytes=size, spec_id=0))
    before = lake.rows()
    assert len(before) == 6000
    tiers = {"tiers": [{"belowBytes": 1 << 20, "targetBytes": 1 << 24}], "minInputFiles": 2}
    report = carry_out(lake, JobKind.COMPACTION, tiers)
    assert (report.outcome, report.figures["dataFilesAfter"]) == (Outcome.DONE, 1)
    assert lake.rows() == before


def test_R40_maintenance_follows_the_location_in_the_metadata():
    """Also of a table that moved: the place where the catalog would have put it is nobody's to clean."""
    lake = a_lake(location="memory://warehouse")
    first = lake.metadata.location
    elsewhere = "memory://another-bucket/deep/place"
    lake.catalog.commit(IDENT, [], [{"action": "set-location", "location": elsewhere}])
    for n in range(4):
        lake.append_rows({"id": n, "name": f"n{n}"})
    rows = lake.rows()
    for place in (first, elsewhere, "memory://warehouse/other", "memory://another-bucket/deep"):
        lake.store.put(f"{place}/data/stray.parquet", b"stray")
    report = carry_out(lake, JobKind.COMPACTION, COMPACTION)
    assert report.outcome is Outcome.DONE
    assert all(task.entry.data_file.file_path.startswith(f"{elsewhere}/data/") for task in lake.tasks())
    ctx = context(lake, JobKind.UNREFERENCED, {})
    lake.clock.advance(5 * DAY)
    assert carry_out(lake, JobKind.UNREFERENCED, {}, ctx).figures["filesMarked"] == 1
    lake.clock.advance(11 * DAY)
    assert carry_out(lake, JobKind.UNREFERENCED, {}, ctx).figures["filesDeleted"] == 1
    assert f"{elsewhere}/data/stray.parquet" not in objects(lake)
    for place in (first, "memory://warehouse/other", "memory://another-bucket/deep"):
        assert f"{place}/data/stray.parquet" in objects(lake, place)
    assert lake.rows() == rows


def test_R41_snapshots_that_tags_and_branches_hold_are_kept_with_every_file():
    lake = a_lake()
    kept = {}
    for n in range(6):
        lake.append_rows({"id": n, "name": f"n{n}"})
        lake.clock.advance(60)
        kind, name = (("tag", f"t{n}"), ("branch", f"b{n}"), (None, None))[n % 3]
        if kind:
            head = lake.metadata.current_snapshot_id
            update = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": head}
            lake.catalog.commit(IDENT, [], [update])
            kept[head] = lake.rows(head)
    lake.rewrite(lake.group())
    lake.clock.advance(1000 * DAY)
    report = carry_out(lake, JobKind.SNAPSHOTS, {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1})
    assert report.outcome is Outcome.DONE
    left = {snapshot["snapshot-id"] for snapshot in lake.metadata.snapshots}
    assert left == {*kept, lake.metadata.current_snapshot_id}
    assert {head: lake.rows(head) for head in kept} == kept


def accepted(kind, settings):
    try:
        validate(kind, {"status": "enabled", "settings": settings}, allow_unsafe=True)
    except Invalid:
        return False
    return True


def largest(fits):
    """The largest number that fits, found by halving."""
    low, high = 1, 1 << 80
    assert fits(low)
    assert not fits(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize("unit", ["Days", "Seconds"])
def test_R43_the_longest_retention_that_can_be_written_deletes_nothing(unit):
    """A cut-off that overflows lies in the future, and every file before it."""
    names = (f"unreferenced{unit}", f"nonCurrent{unit}")
    longest = largest(lambda ages: accepted(PolicyType.UNREFERENCED, dict.fromkeys(names, ages)))
    lake = a_lake()
    lake.append_rows({"id": 1, "name": "a"})
    lake.store.put(f"{lake.metadata.location}/data/stray.parquet", b"stray")
    before = objects(lake)
    settings = dict.fromkeys(names, longest)
    ctx = context(lake, JobKind.UNREFERENCED, settings)
    for _ in range(3):
        lake.clock.advance(365 * DAY)
        report = carry_out(lake, JobKind.UNREFERENCED, settings, ctx)
        assert report.figures["filesMarked"] == 0
    assert objects(lake) == before


def test_R43_the_oldest_snapshot_age_that_can_be_written_expires_nothing():
    def fits(hours):
        return accepted(PolicyType.SNAPSHOTS, {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": hours})

    longest = largest(fits)
    lake = a_lake()
    for n in range(3):
        lake.append_rows({"id": n, "name": "a"})
    lake.clock.advance(1000 * DAY)
    settings = {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": longest}
    assert carry_out(lake, JobKind.SNAPSHOTS, settings).outcome is Outcome.NOTHING
    assert len(lake.metadata.snapshots) == 3


def test_R46_what_is_written_to_other_paths_is_found_and_kept():
    properties = {"write.data.path": "memory://data/of-t", "write.metadata.path": "memory://meta/of-t"}
    lake = a_lake()
    lake.catalog.commit(IDENT, [], [{"action": "set-properties", "updates": properties}])
    for n in range(4):
        file = lake.data_file([{"id": n, "name": f"n{n}"}])
        moved = f"memory://data/of-t/{n}.parquet"
        lake.store.put(moved, lake.store.get(file.file_path))
        lake.store.delete_many([file.file_path])
        lake.append(
            DataFile(file_path=moved, record_count=1, file_size_in_bytes=file.file_size_in_bytes, spec_id=0)
        )
    rows = lake.rows()
    assert carry_out(lake, JobKind.COMPACTION, COMPACTION).outcome is Outcome.DONE
    assert all(task.entry.data_file.file_path.startswith("memory://data/of-t/") for task in lake.tasks())
    assert lake.table.metadata_location.startswith("memory://meta/of-t/")
    ctx = context(lake, JobKind.UNREFERENCED, {})
    for _ in range(3):
        lake.clock.advance(50 * DAY)
        report = carry_out(lake, JobKind.UNREFERENCED, {}, ctx)
        assert report.outcome is not Outcome.CONFLICT
    assert lake.rows() == rows


def test_load_19_a_long_insert_beside_endless_removal_loses_no_file():
    lake = a_lake()
    lake.append_rows({"id": 0, "name": "before"})
    ctx = context(lake, JobKind.UNREFERENCED, {})
    written = []
    for hour in range(24 * 12):
        lake.clock.advance(HOUR)
        if hour % 12 == 0:
            written.append(lake.data_file([{"id": hour + 1, "name": "under way"}]))
        report = carry_out(lake, JobKind.UNREFERENCED, {}, ctx)
        assert "filesDeleted" not in report.figures
    lake.append(*written)
    assert len(lake.rows()) == 1 + len(written)
    # Committed at last: the marks are taken back, and nothing of it ever goes.
    for _ in range(3):
        lake.clock.advance(30 * DAY)
        carry_out(lake, JobKind.UNREFERENCED, {}, ctx)
    assert len(lake.rows()) == 1 + len(written)
    assert ctx.unreferenced.known(lake.metadata.uuid) == {}
