"""The purge job: all files of a dropped table, none of anybody else's."""

from dataclasses import replace

import pytest

from maintenance.ports import DroppedNeighbour, JobKind, JobSettings
from maintenance.purge.job import run
from maintenance.report import Outcome
from table_format.catalog import NewTable
from table_format.errors import Invalid, Unavailable
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import DeleteFailure
from table_format.manifest.entries import DataFile
from tests.factories.lake import IDENT, SCHEMA, Lake
from tests.factories.reach import files_reachable
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

HOUR_MS = 3_600_000


def lake_with(**properties):
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, **properties)
    for n in range(3):
        lake.append_rows({"id": n, "name": f"n{n}"})
    return lake


@pytest.fixture
def lake():
    return lake_with()


def context(lake, **settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),
    )


def purge(lake, ctx=None, **changes):
    table = lake.table
    payload = {
        "metadata_location": table.metadata_location,
        "location": table.metadata.location,
        "created_at_ms": lake.clock.now_ms() - HOUR_MS,
        "dropped_at_ms": lake.clock.now_ms() + HOUR_MS,
    }
    values = {"payload": payload, **changes}
    return run(ctx or context(lake), job(JobKind.PURGE, None, table.metadata.uuid or "", **values))


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def test_every_file_goes_and_the_last_metadata_file_last(lake):
    lake.store.put(f"{lake.metadata.location}/data/stray", b"x")
    order = []

    class Watching(Failing):
        def delete_many(self, paths):
            order.extend(paths)
            return super().delete_many(paths)

    ctx = context(lake)
    ctx.store = Watching(lake.store)
    before = objects(lake)
    report = purge(lake, ctx)
    assert objects(lake) == set()
    assert set(order) == before
    assert order[-1] == lake.table.metadata_location
    assert report.outcome is Outcome.DONE
    assert report.figures["filesDeleted"] == len(before)


@pytest.mark.parametrize("came_seconds", [-3600, 0, 299, 3600 - 299, 3600, 3660])
def test_what_the_metadata_does_not_reach_goes_only_if_it_came_while_the_table_was_there(lake, came_seconds):
    """A table made there next has files before the catalog knows of it; one that was forgotten has older ones."""
    made_ms = lake.clock.now_ms() + HOUR_MS
    lake.clock.advance(3600 + came_seconds)
    foreign, own = (f"{lake.metadata.location}/data/{name}" for name in ("of-another", "stray"))
    lake.store.put(foreign, b"x")
    lake.clock.advance(1800 - came_seconds)
    lake.store.put(own, b"x")
    table = lake.table
    payload = {
        "metadata_location": table.metadata_location,
        "location": table.metadata.location,
        "created_at_ms": made_ms,
        "dropped_at_ms": made_ms + HOUR_MS,
    }
    assert purge(lake, payload=payload).outcome is Outcome.DONE
    assert objects(lake) == {foreign}


def test_a_purge_of_before_the_life_of_a_table_was_noted_deletes_what_the_metadata_reaches(lake):
    stray = f"{lake.metadata.location}/data/stray"
    lake.store.put(stray, b"x")
    table = lake.table
    payload = {"metadata_location": table.metadata_location, "location": table.metadata.location}
    assert purge(lake, payload=payload).outcome is Outcome.DONE
    assert objects(lake) == {stray}


def test_a_second_attempt_finds_nothing_left_and_succeeds(lake):
    purge(lake)
    assert purge(lake).outcome is Outcome.DONE


def test_files_that_never_existed_are_no_error(lake):
    outside = DataFile(file_path="/path/to/data-a.parquet", record_count=1, file_size_in_bytes=10, spec_id=0)
    inside = DataFile(
        file_path=f"{lake.metadata.location}/data/never.parquet",
        record_count=1,
        file_size_in_bytes=10,
        spec_id=0,
    )
    lake.append(outside, inside)
    report = purge(lake)
    assert report.outcome is Outcome.DONE
    assert report.figures["filesOutsideTheTable"] == 1
    assert objects(lake) == set()


def test_files_outside_the_tables_location_stay(lake):
    elsewhere = "memory://warehouse/imported/x.parquet"
    lake.store.put(elsewhere, b"x")
    lake.append(DataFile(file_path=elsewhere, record_count=1, file_size_in_bytes=1, spec_id=0))
    purge(lake)
    assert lake.store.exists(elsewhere)


def test_data_files_at_write_data_path_go_too_but_no_other_file_there():
    clock = ManualClock()
    elsewhere = "memory://warehouse-data/t"
    lake = Lake(MemoryObjectStore(clock), clock=clock, **{"write.data.path": elsewhere})
    moved = replace(lake.data_file([{"id": 1, "name": "a"}]), file_path=f"{elsewhere}/1.parquet")
    for path in (moved.file_path, f"{elsewhere}/stranger.parquet"):
        lake.store.put(path, b"x")
    lake.append(moved)
    report = purge(lake)
    assert report.figures["filesOutsideTheTable"] == 0
    assert [info.path for info in lake.store.list(elsewhere)] == [f"{elsewhere}/stranger.parquet"]


def test_maint_A7_another_table_inside_keeps_its_files_and_only_reachable_ones_go(lake):
    location = lake.metadata.location
    theirs = f"{location}/inner/data/x.parquet"
    unknown = f"{location}/data/unknown"
    for path in (theirs, unknown):
        lake.store.put(path, b"x")
    lake.append(DataFile(file_path=theirs, record_count=1, file_size_in_bytes=1, spec_id=0))
    ctx = context(lake)
    ctx.others = [f"{location}/inner"]
    report = purge(lake, ctx)
    assert objects(lake) == {theirs, unknown}
    assert report.figures["filesOfOtherTables"] == 1


@pytest.mark.parametrize("other", ["same", "around"])
def test_maint_A7_a_location_that_is_another_tables_now_is_left_alone(lake, other):
    ctx = context(lake)
    ctx.others = [lake.metadata.location if other == "same" else "memory://warehouse"]
    before = objects(lake)
    report = purge(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "belongs to another table now" in report.reason
    assert objects(lake) == before


def test_a_table_registered_again_during_the_purge_keeps_the_rest(lake):
    ctx = context(lake, delete_batch=1)
    location = lake.metadata.location

    class Registering(Failing):
        def delete_many(self, paths):
            ctx.others = [location]
            return super().delete_many(paths)

    ctx.store = Registering(lake.store)
    before = objects(lake)
    purge(lake, ctx)
    assert len(before - objects(lake)) == 1


def test_a_table_registered_again_under_its_name_before_the_purge_keeps_everything(lake):
    before = objects(lake)
    payload = {"metadata_location": lake.table.metadata_location, "location": lake.metadata.location}
    report = run(context(lake), job(JobKind.PURGE, IDENT, lake.metadata.uuid, payload=payload))
    assert report.reason == "db.t was registered again and lives"
    assert objects(lake) == before


def test_statistics_go_too_when_only_reachable_files_may(lake):
    snapshot_id = lake.metadata.current_snapshot_id
    path = f"{lake.metadata.location}/metadata/s.puffin"
    lake.store.put(path, b"x")
    entry = {
        "snapshot-id": snapshot_id,
        "statistics-path": path,
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }
    update = {"action": "set-statistics", "snapshot-id": snapshot_id, "statistics": entry}
    lake.catalog.commit(IDENT, [], [update])
    ctx = context(lake)
    ctx.others = [f"{lake.metadata.location}/inner"]
    purge(lake, ctx)
    assert objects(lake) == set()


def test_a_table_that_is_not_there_any_more_under_its_name_is_purged(lake):
    payload = {"metadata_location": lake.table.metadata_location, "location": lake.metadata.location}
    wanted = job(JobKind.PURGE, IDENT, lake.metadata.uuid, payload=payload)
    location = lake.metadata.location
    ctx = context(lake)
    lake.catalog.drop(IDENT)
    assert run(ctx, wanted).outcome is Outcome.DONE
    assert list(lake.store.list(location)) == []


def test_another_table_of_the_same_name_is_no_obstacle(lake):
    table = lake.table
    payload = {
        "metadata_location": table.metadata_location,
        "location": table.metadata.location,
        "created_at_ms": lake.clock.now_ms() - HOUR_MS,
        "dropped_at_ms": lake.clock.now_ms() + HOUR_MS,
    }
    lake.catalog.drop(IDENT)
    wanted = job(JobKind.PURGE, IDENT, table.metadata.uuid, payload=payload)
    lake.catalog.create(IDENT, NewTable(schema=SCHEMA))
    assert run(context(lake), wanted).outcome is Outcome.DONE
    assert list(lake.store.list(table.metadata.location)) == []


def test_maint_A10_gc_enabled_false_keeps_everything():
    lake = lake_with(**{"gc.enabled": "false"})
    before = objects(lake)
    report = purge(lake)
    assert report.outcome is Outcome.SKIPPED
    assert "gc.enabled is false" in report.reason
    assert objects(lake) == before


def test_a_payload_that_contradicts_the_metadata_is_left_alone(lake):
    table = lake.table
    before = objects(lake)
    moved = {"metadata_location": table.metadata_location, "location": "memory://warehouse/else"}
    assert "the table's location is" in purge(lake, payload=moved).reason
    other = run(
        context(lake),
        job(
            JobKind.PURGE,
            None,
            "another",
            payload={"metadata_location": table.metadata_location, "location": table.metadata.location},
        ),
    )
    assert "is the metadata of another table" in other.reason
    with pytest.raises(Invalid, match="names metadata_location and location"):
        purge(lake, payload={"location": "x"})
    assert objects(lake) == before


def test_the_lease_is_asked_before_each_batch_and_a_later_attempt_goes_on(lake):
    ctx = context(lake, delete_batch=2)
    ctx.leases = [True, False]
    report = purge(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert lake.table.metadata_location in objects(lake)
    assert purge(lake).outcome is Outcome.DONE
    assert objects(lake) == set()


def test_a_manifest_that_is_gone_does_not_stop_the_purge(lake):
    lake.store.delete_many([path for path in objects(lake) if path.endswith(".avro")][:2])
    assert purge(lake).outcome is Outcome.DONE
    assert objects(lake) == set()


def test_what_an_interrupted_attempt_left_is_found_without_a_listing(lake):
    """A manifest that is gone hid its list and the other manifests; files of the last minutes stayed for ever."""
    wanted = files_reachable(lake.store, lake.metadata, [s["snapshot-id"] for s in lake.metadata.snapshots])
    lake.store.delete_many(
        [*wanted.data_files, min(wanted.manifests), lake.metadata.snapshots[0]["manifest-list"]]
    )
    ctx = context(lake)
    ctx.shared = True  # nothing but what the metadata reaches goes
    assert purge(lake, ctx).outcome is Outcome.DONE
    assert objects(lake) & wanted.all == set()


def test_nothing_goes_that_names_a_file_which_is_still_there(lake):
    """While the store refuses some of a stage, the next attempt can find them again."""

    class Refusing(Failing):
        def delete_many(self, paths):
            lake.store.delete_many(path for path in paths if path not in refused)
            return [DeleteFailure(path, "locked") for path in paths if path in refused]

    wanted = files_reachable(lake.store, lake.metadata, [s["snapshot-id"] for s in lake.metadata.snapshots])
    refused = {min(wanted.data_files), min(wanted.manifests), min(wanted.manifest_lists)}
    for kept in (wanted.manifests | wanted.manifest_lists, wanted.manifest_lists, set()):
        ctx = context(lake)
        ctx.store = Refusing(lake.store)
        with pytest.raises(Unavailable, match="refused"):
            purge(lake, ctx)
        assert objects(lake) >= kept | refused | {lake.table.metadata_location}
        refused.remove(
            min(refused, key=lambda path: (path not in wanted.data_files, path not in wanted.manifests))
        )
    assert purge(lake).outcome is Outcome.DONE
    assert objects(lake) == set()


def test_a_store_that_is_away_fails_the_attempt(lake):
    ctx = context(lake)
    ctx.store = Failing(lake.store, [Rule(methods=frozenset({"list"}))])
    before = objects(lake)
    with pytest.raises(Unavailable):
        purge(lake, ctx)
    assert objects(lake) == before


def test_a_store_that_refuses_some_files_fails_the_attempt(lake):
    class Refusing(Failing):
        def delete_many(self, paths):
            return [DeleteFailure(path, "locked") for path in paths]

    ctx = context(lake)
    ctx.store = Refusing(lake.store)
    with pytest.raises(Unavailable, match="refused"):
        purge(lake, ctx)


def test_a_dry_run_lists_and_deletes_nothing(lake):
    before = objects(lake)
    report = purge(lake, dry_run=True)
    assert set(report.plan["paths"]) == before == objects(lake)


def neighbour(lake, **changes):
    """Another dropped table at the same place, of which one data file is this table's too."""
    other = Lake(lake.store, clock=lake.clock, ids=lake.ids)
    assert other.metadata.location == lake.metadata.location
    return other, DroppedNeighbour(
        metadata_location=other.table.metadata_location,
        location=other.metadata.location,
        purged=False,
        **changes,
    )


def test_what_another_dropped_table_at_the_same_place_needs_stays_and_so_does_what_nobody_knows(lake):
    other, beside = neighbour(lake)
    shared = lake.append_rows({"id": 9, "name": "shared"})
    other.append(shared)
    beside = replace(beside, metadata_location=other.table.metadata_location)
    stray = f"{lake.metadata.location}/data/stray"
    lake.store.put(stray, b"x")
    needed = files_reachable(other.store, other.metadata, [other.metadata.current_snapshot_id]).all
    ctx = context(lake)
    ctx.neighbours = [beside]
    report = purge(lake, ctx)
    assert report.outcome is Outcome.DONE
    assert report.figures["filesOfDroppedTables"] == 1
    left = objects(lake)
    assert {shared.file_path, stray, other.table.metadata_location} | needed <= left
    assert lake.table.metadata_location not in left


@pytest.mark.parametrize("broken", ["metadata", "manifest"])
def test_nothing_goes_while_it_can_not_be_told_what_the_other_needs(lake, broken):
    other, beside = neighbour(lake)
    other.append(lake.data_file([{"id": 9, "name": "x"}]))
    at = other.table.metadata_location
    lists = [snapshot["manifest-list"] for snapshot in other.metadata.snapshots]
    lake.store.delete_many([at] if broken == "metadata" else lists)
    before = objects(lake)
    ctx = context(lake)
    ctx.neighbours = [replace(beside, metadata_location=at)]
    with pytest.raises(Unavailable, match="another dropped table has files at the same place"):
        purge(lake, ctx)
    assert objects(lake) == before


def test_another_that_is_purged_too_keeps_nothing(lake):
    _, beside = neighbour(lake)
    lake.store.delete_many([beside.metadata_location])
    ctx = context(lake)
    ctx.neighbours = [replace(beside, purged=True)]
    assert purge(lake, ctx).outcome is Outcome.DONE


def test_a_place_that_was_shared_once_is_not_emptied(lake):
    stray = f"{lake.metadata.location}/data/of-another"
    lake.store.put(stray, b"x")
    ctx = context(lake)
    ctx.shared = True
    assert purge(lake, ctx).outcome is Outcome.DONE
    assert objects(lake) == {stray}


def test_a_table_that_was_had_back_meanwhile_keeps_everything(lake):
    before = objects(lake)
    ctx = context(lake)
    ctx.wanted = False
    report = purge(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "is not to be purged any more" in report.reason
    assert objects(lake) == before


def test_a_table_that_is_had_back_during_the_purge_keeps_the_rest(lake):
    """It can not be, once the purge has begun; but if it were, nothing more would go."""
    ctx = context(lake, delete_batch=1)

    class Restoring(Failing):
        def delete_many(self, paths):
            ctx.wanted = False
            return super().delete_many(paths)

    ctx.store = Restoring(lake.store)
    before = objects(lake)
    purge(lake, ctx)
    assert len(before - objects(lake)) == 1


def test_a_table_dropped_at_the_same_place_during_the_purge_stops_it(lake):
    ctx = context(lake, delete_batch=1)
    _, beside = neighbour(lake)

    class Dropping(Failing):
        def delete_many(self, paths):
            ctx.neighbours = [beside]
            return super().delete_many(paths)

    ctx.store = Dropping(lake.store)
    with pytest.raises(Unavailable, match="dropped at the same place"):
        purge(lake, ctx)
