"""The unreferenced-file job: two phases, and every reason to stop."""

import pytest

from maintenance.orphans.job import Suspicious, run
from maintenance.ports import DroppedNeighbour, JobKind, JobSettings
from maintenance.report import Outcome
from table_format.errors import NoSuchFile, Unavailable
from table_format.io.faults import Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.io.store import ObjectInfo
from table_format.manifest.entries import DataFile
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

DAY = 86_400


@pytest.fixture
def lake():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock)
    for n in range(3):
        lake.append_rows({"id": n, "name": f"n{n}"})
    return lake


def context(lake, **settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),
        documents={JobKind.UNREFERENCED: {"status": "enabled", "settings": {}}},
        ident=IDENT,
    )


def remove(lake, ctx, **changes):
    return run(ctx, job(JobKind.UNREFERENCED, IDENT, lake.metadata.uuid, **changes))


def stray(lake, name="data/stray.parquet"):
    path = f"{lake.metadata.location}/{name}"
    lake.store.put(path, b"x" * 10)
    return path


def objects(lake):
    return {info.path for info in lake.store.list(lake.metadata.location)}


def test_a_stray_file_is_marked_after_three_days_and_deleted_after_ten_more(lake):
    path = stray(lake)
    before = objects(lake)
    ctx = context(lake)
    assert remove(lake, ctx).reason.startswith("0 of")
    lake.clock.advance(3 * DAY + 1)
    marked = remove(lake, ctx)
    assert (marked.outcome, marked.figures["filesMarked"]) == (Outcome.DONE, 1)
    assert ctx.unreferenced.known(lake.metadata.uuid) == {path: lake.clock.now_ms()}
    lake.clock.advance(10 * DAY - 1)
    assert remove(lake, ctx).outcome is Outcome.NOTHING
    assert objects(lake) == before
    lake.clock.advance(1)
    deleted = remove(lake, ctx)
    assert (deleted.outcome, deleted.again_after_ms) == (Outcome.DONE, 0)
    assert (deleted.figures["filesDeleted"], deleted.figures["bytesDeleted"]) == (1, 10)
    assert objects(lake) == before - {path}
    assert ctx.unreferenced.known(lake.metadata.uuid) == {}
    assert remove(lake, ctx).outcome is Outcome.NOTHING


def test_nothing_of_a_healthy_table_is_ever_marked(lake):
    lake.rewrite(lake.group())
    lake.clock.advance(1000 * DAY)
    report = remove(lake, context(lake))
    assert report.outcome is Outcome.NOTHING
    assert report.figures["filesMarked"] == 0
    assert report.figures["filesListed"] == len(objects(lake))


def test_maint_A1_a_file_of_a_commit_in_flight_is_too_young_to_be_marked(lake):
    stray(lake)
    lake.clock.advance(2 * DAY)
    report = remove(lake, context(lake))
    assert (report.figures["filesMarked"], report.figures["filesTooYoung"]) == (0, 1)
    assert report.again_after_ms is None  # due in a day and a bit: the scheduler comes by before


def test_maint_A1_a_marked_file_that_gets_committed_is_kept(lake):
    late = lake.data_file([{"id": 9, "name": "late"}])
    ctx = context(lake)
    lake.clock.advance(4 * DAY)
    assert remove(lake, ctx).figures["filesMarked"] == 1
    lake.append(late)
    lake.clock.advance(20 * DAY)
    report = remove(lake, ctx)
    assert (report.figures["filesForgotten"], report.figures["filesToDelete"]) == (1, 0)
    assert late.file_path in objects(lake)


def test_a_file_committed_between_the_listing_and_the_reading_of_references_is_no_orphan(lake):
    late = lake.data_file([{"id": 9, "name": "late"}])
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    ctx.store = During(lake.store, lambda: lake.append(late))
    report = remove(lake, ctx)
    assert (report.outcome, report.figures["filesMarked"]) == (Outcome.NOTHING, 0)


class During(Failing):
    """Something happens when the listing ends."""

    def __init__(self, store, happens):
        super().__init__(store)
        self._happens = happens

    def list(self, prefix):
        yield from super().list(prefix)
        self._happens()


def test_a_file_committed_just_before_its_batch_is_kept(lake):
    late = lake.data_file([{"id": 9, "name": "late"}])
    ctx = context(lake)
    lake.clock.advance(4 * DAY)
    remove(lake, ctx)
    lake.clock.advance(11 * DAY)
    saved = ctx.save_plan

    def save(plan):
        saved(plan)
        lake.append(late)

    ctx.save_plan = save
    report = remove(lake, ctx)
    assert (report.figures["filesToDelete"], report.figures["filesReferencedAfterAll"]) == (1, 1)
    assert late.file_path in objects(lake)
    assert ctx.unreferenced.known(lake.metadata.uuid) == {}


def ready_to_delete(lake, names=("data/a", "data/b", "data/c")):
    paths = [stray(lake, name) for name in names]
    ctx = context(lake, delete_batch=1)
    lake.clock.advance(4 * DAY)
    remove(lake, ctx)
    lake.clock.advance(11 * DAY)
    return ctx, paths


def test_the_lease_is_asked_before_each_batch(lake):
    ctx, paths = ready_to_delete(lake)
    ctx.leases = [True, False]
    report = remove(lake, ctx)
    assert report.outcome is Outcome.SKIPPED
    assert "2 left: the lease was lost" in report.reason
    assert len(set(paths) & objects(lake)) == 2
    assert len(ctx.unreferenced.known(lake.metadata.uuid)) == 2


def test_a_table_that_was_replaced_loses_no_file(lake):
    ctx, paths = ready_to_delete(lake)
    wanted = job(JobKind.UNREFERENCED, IDENT, lake.metadata.uuid)
    location = lake.metadata.location
    saved = ctx.save_plan

    def save(plan):
        saved(plan)
        metadata = lake.metadata
        lake.catalog.drop(IDENT)
        lake.catalog.put(IDENT, type(metadata)({**metadata.document, "table-uuid": "other"}))

    ctx.save_plan = save
    run(ctx, wanted)
    assert set(paths) <= {info.path for info in lake.store.list(location)}


def test_maint_A2_a_listing_that_spells_paths_differently_stops_everything(lake):
    stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)

    class Respelling(Failing):
        def list(self, prefix):
            for info in super().list(prefix):
                yield ObjectInfo(info.path.replace("/data/", "/DATA/"), info.size, info.modified_ms)

    ctx.store = Respelling(lake.store)
    with pytest.raises(Suspicious, match="3 referenced files are not among those listed"):
        remove(lake, ctx)
    assert ctx.unreferenced.seen == {}


def test_maint_A4_keys_with_odd_characters_that_are_referenced_stay(lake):
    for name in ("p=a#b", "p=a?b", "p=a%20b"):
        file = lake.data_file([{"id": 1, "name": "x"}])
        odd = f"{lake.metadata.location}/data/{name}/f.parquet"
        lake.store.put(odd, lake.store.get(file.file_path))
        lake.store.delete_many([file.file_path])
        lake.append(
            type(file)(file_path=odd, record_count=1, file_size_in_bytes=file.file_size_in_bytes, spec_id=0)
        )
    lake.clock.advance(100 * DAY)
    assert remove(lake, context(lake)).figures["filesMarked"] == 0


def test_maint_A5_load_20_registered_statistics_stay_and_others_go(lake):
    location, snapshot_id = lake.metadata.location, lake.metadata.current_snapshot_id
    for kind, extra in (
        ("statistics", {"file-footer-size-in-bytes": 1, "blob-metadata": []}),
        ("partition-statistics", {}),
    ):
        path = stray(lake, f"metadata/{kind}.bin")
        entry = {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": 10,
            **extra,
        }
        update = {"action": f"set-{kind}", "snapshot-id": snapshot_id, kind: entry}
        lake.catalog.commit(IDENT, [], [update])
    orphan = stray(lake, "metadata/orphan.puffin")
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    assert remove(lake, ctx).figures["filesMarked"] == 1
    assert list(ctx.unreferenced.known(lake.metadata.uuid)) == [orphan]
    assert f"{location}/metadata/statistics.bin" in objects(lake)


def test_beside_a_dropped_table_only_what_neither_needs_is_removed(lake):
    other = Lake(lake.store, clock=lake.clock, ids=lake.ids, first_file=100)
    other.append_rows({"id": 7, "name": "of the dropped one"})
    dropped = DroppedNeighbour(
        metadata_location=other.table.metadata_location, location=other.metadata.location, purged=False
    )
    path = stray(lake)
    needed = objects(lake) - {path}
    ctx = context(lake)
    ctx.neighbours = [dropped]
    for days in (4, 11, 11):
        lake.clock.advance(days * DAY)
        remove(lake, ctx)
    assert objects(lake) == needed
    # Forgotten, what only it needed is noted from then on.
    ctx.neighbours = []
    assert remove(lake, ctx).figures["filesMarked"] > 0
    assert objects(lake) == needed
    # Restored in place of the other, dropped and had back: what is marked is looked at again before it goes.
    lake.clock.advance(11 * DAY)
    ctx.neighbours = [dropped]
    remove(lake, ctx)
    assert objects(lake) == needed


def test_a_table_dropped_there_between_two_batches_keeps_its_files(lake):
    goes_first = stray(lake)
    other = Lake(lake.store, clock=lake.clock, ids=lake.ids, first_file=100)
    other.append_rows({"id": 7, "name": "of the dropped one"})
    needed = objects(lake) - {goes_first}
    ctx = context(lake, delete_batch=1)
    lake.clock.advance(4 * DAY)
    remove(lake, ctx)
    lake.clock.advance(11 * DAY)

    class Dropping(Failing):
        def delete_many(self, paths):
            ctx.neighbours = [
                DroppedNeighbour(
                    metadata_location=other.table.metadata_location,
                    location=other.metadata.location,
                    purged=False,
                )
            ]
            return super().delete_many(paths)

    ctx.store = Dropping(lake.store)
    assert remove(lake, ctx).figures["filesReferencedAfterAll"] > 0
    assert objects(lake) == needed


def test_nothing_is_removed_while_it_can_not_be_told_what_a_dropped_table_there_needs(lake):
    path = stray(lake)
    ctx = context(lake)
    lake.clock.advance(4 * DAY)
    remove(lake, ctx)
    lake.clock.advance(11 * DAY)
    ctx.neighbours = [
        DroppedNeighbour(
            metadata_location=f"{lake.metadata.location}/metadata/gone.metadata.json",
            location=lake.metadata.location,
            purged=False,
        )
    ]
    report = remove(lake, ctx)
    assert (report.outcome, lake.store.exists(path)) == (Outcome.SKIPPED, True)
    assert "let it be forgotten or purged first" in report.reason


def test_maint_A7_another_tables_location_inside_or_around_this_one_stops_the_job(lake):
    location = lake.metadata.location
    stray(lake)
    lake.clock.advance(100 * DAY)
    for other in (location, f"{location}/inner", "memory://warehouse"):
        ctx = context(lake)
        ctx.others = [other]
        report = remove(lake, ctx)
        assert report.outcome is Outcome.SKIPPED
        assert f"another table, {other}, overlaps" in report.reason
        assert ctx.unreferenced.seen == {}


def test_maint_A10_gc_enabled_false_is_skipped_with_its_reason():
    clock = ManualClock()
    lake = Lake(MemoryObjectStore(clock), clock=clock, **{"gc.enabled": "false"})
    stray(lake)
    lake.clock.advance(100 * DAY)
    report = remove(lake, context(lake))
    assert report.outcome is Outcome.SKIPPED
    assert "gc.enabled is false" in report.reason


def test_maint_A11_a_store_without_times_deletes_nothing(lake):
    stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)

    class Timeless(Failing):
        def list(self, prefix):
            for info in super().list(prefix):
                yield ObjectInfo(info.path, info.size, None)

    ctx.store = Timeless(lake.store)
    assert remove(lake, ctx).figures["filesTooYoung"] == 1


def test_maint_A13_the_root_is_the_catalogs_pointer_not_a_version_hint(lake):
    """A stale hint is kept like any hint, and what only the newest metadata knows is referenced."""
    hint = stray(lake, "metadata/version-hint.text")
    lake.append_rows({"id": 9, "name": "x"})
    lake.clock.advance(100 * DAY)
    report = remove(lake, context(lake))
    assert report.figures["filesMarked"] == 0
    assert hint in objects(lake)


def test_metadata_files_that_fell_off_the_log_are_unreferenced(lake):
    metadata = lake.metadata
    fallen = metadata.metadata_log[0]["metadata-file"]
    lake.catalog.put(IDENT, type(metadata)({**metadata.document, "metadata-log": metadata.metadata_log[1:]}))
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    remove(lake, ctx)
    marked = set(ctx.unreferenced.known(lake.metadata.uuid))
    assert fallen in marked
    assert not marked & {entry["metadata-file"] for entry in lake.metadata.metadata_log}


def test_too_large_a_share_stops_the_job_unless_confirmed(lake):
    for n in range(30):
        stray(lake, f"data/stray{n}")
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    with pytest.raises(Suspicious, match="allowLargeShare"):
        remove(lake, ctx)
    assert ctx.unreferenced.seen == {}
    confirmed = remove(lake, ctx, payload={"allowLargeShare": True})
    assert confirmed.figures["filesMarked"] == 30


@pytest.mark.parametrize("error", [NoSuchFile, Unavailable])
def test_a_manifest_that_cannot_be_read_stops_everything(lake, error):
    stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    ctx.store = Failing(lake.store, [Rule(pattern=r"\.avro$", times=None, error=lambda: error("no"))])
    with pytest.raises(error):
        remove(lake, ctx)
    assert ctx.unreferenced.seen == {}


def test_a_listing_that_breaks_off_stops_everything(lake):
    stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    ctx.store = Failing(lake.store, [Rule(methods=frozenset({"list"}), after=True)])
    with pytest.raises(Unavailable):
        remove(lake, ctx)
    assert ctx.unreferenced.seen == {}


def test_a_dry_run_changes_nothing(lake):
    path = stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)
    report = remove(lake, ctx, dry_run=True)
    assert report.plan["mark"] == [[path, 10, lake.clock.now_ms()]]
    assert report.figures["unreferencedSeconds"] == 3 * DAY
    assert (ctx.unreferenced.seen, ctx.plans) == ({}, [])


def test_short_ages_ask_for_the_next_run_in_time(lake):
    stray(lake)
    ctx = context(lake, allow_unsafe=True)
    ctx.documents[JobKind.UNREFERENCED]["settings"] = {"unreferencedSeconds": 1, "nonCurrentSeconds": 2}
    assert remove(lake, ctx).again_after_ms == 1001
    lake.clock.advance(1.001)
    marked = remove(lake, ctx)
    assert (marked.outcome, marked.again_after_ms) == (Outcome.DONE, 2001)
    lake.clock.advance(2.001)
    assert remove(lake, ctx).figures["filesDeleted"] == 1
    assert remove(lake, ctx).outcome is Outcome.NOTHING


def test_it_does_nothing_when_disabled(lake):
    ctx = context(lake)
    ctx.documents[JobKind.UNREFERENCED] = {"status": "disabled", "settings": {}}
    assert remove(lake, ctx).reason == "the policy is disabled"


def test_a_table_that_moved_during_the_listing_is_left_alone(lake):
    stray(lake)
    lake.clock.advance(100 * DAY)
    ctx = context(lake)

    def move():
        metadata = lake.metadata
        lake.catalog.put(IDENT, type(metadata)({**metadata.document, "location": "memory://warehouse/new"}))

    location = lake.metadata.location
    ctx.store = During(lake.store, move)
    report = remove(lake, ctx)
    assert report.reason == "the table was replaced or moved during the listing"
    assert len(list(lake.store.list(location))) > 3


def test_a_store_that_refuses_to_delete_keeps_the_mark(lake):
    ctx, paths = ready_to_delete(lake, names=("data/a",))

    class Refusing(Failing):
        def delete_many(self, paths):
            from table_format.io.store import DeleteFailure

            return [DeleteFailure(path, "locked") for path in paths]

    ctx.store = Refusing(lake.store)
    report = remove(lake, ctx)
    assert report.figures["deleteFailures"] == [f"{paths[0]}: locked"]
    assert report.again_after_ms is None
    assert list(ctx.unreferenced.known(lake.metadata.uuid)) == paths


def test_the_report_says_that_shorter_ages_were_not_taken(lake):
    stray(lake)
    ctx = context(lake)
    ctx.allow_unsafe = False
    ctx.documents[JobKind.UNREFERENCED]["settings"] = {"unreferencedSeconds": 1, "nonCurrentSeconds": 2}
    lake.clock.advance(60)
    for changes in ({"dry_run": True}, {}):
        report = remove(lake, ctx, **changes)
        (note,) = report.figures["notes"]
        assert note.startswith("unreferencedSeconds is 1 (level 0), below the floor: 86398 used; ")
        assert report.figures["filesMarked"] == 0


def test_a_held_file_is_not_deleted_and_keeps_its_time(lake):
    held, other = stray(lake, "data/held.parquet"), stray(lake, "data/other.parquet")
    ctx = context(lake)
    lake.clock.advance(3 * DAY + 1)
    remove(lake, ctx)
    noted = ctx.unreferenced.known(lake.metadata.uuid)[held]
    ctx.unreferenced.holds.add(held)
    lake.clock.advance(10 * DAY + 1)
    assert remove(lake, ctx, dry_run=True).figures["filesToDelete"] == 1
    report = remove(lake, ctx)
    assert (report.figures["filesDeleted"], report.figures["filesHeld"]) == (1, 1)
    assert objects(lake).intersection([held, other]) == {held}
    assert ctx.unreferenced.known(lake.metadata.uuid) == {held: noted}
    again = remove(lake, ctx)
    assert again.outcome is Outcome.NOTHING
    assert again.reason.endswith(", 1 held")
    ctx.unreferenced.holds.clear()
    assert remove(lake, ctx).figures["filesDeleted"] == 1
    assert held not in objects(lake)


def test_a_file_that_is_held_while_the_run_is_about_to_delete_it_stays(lake):
    path, other = stray(lake), stray(lake, "data/other.parquet")
    ctx = context(lake)
    lake.clock.advance(3 * DAY + 1)
    remove(lake, ctx)
    lake.clock.advance(10 * DAY + 1)
    ctx.unreferenced.before_claim = lambda: ctx.unreferenced.holds.add(path)
    report = remove(lake, ctx)
    assert objects(lake).intersection([path, other]) == {path}
    assert (report.figures["filesDeleted"], report.figures["filesHeld"]) == (1, 1)
    assert report.figures["filesReferencedAfterAll"] == 0
    assert path in ctx.unreferenced.known(lake.metadata.uuid)


def elsewhere(**properties):
    clock = ManualClock()
    places = {"write.data.path": "memory://data/of-t", "write.metadata.path": "memory://meta/of-t"}
    lake = Lake(MemoryObjectStore(clock), clock=clock, **{**places, **properties})
    # Lake puts its files below the location; a writer that follows the property puts them there.
    path = "memory://data/of-t/d.parquet"
    size = lake.parquet(lake.metadata.schema(), [{"id": 1, "name": "a"}], path)
    lake.append(DataFile(file_path=path, record_count=1, file_size_in_bytes=size))
    strays = ["memory://data/of-t/stray", "memory://meta/of-t/stray", f"{lake.metadata.location}/stray"]
    for stray_path in (*strays, "memory://data/of-u/other", "memory://data/of-t2/other"):
        lake.store.put(stray_path, b"x")
    return lake, strays


def everything(lake):
    return {
        info.path
        for place in ("memory://data", "memory://meta", "memory://warehouse")
        for info in lake.store.list(place)
    }


def both_phases(lake, ctx):
    lake.clock.advance(4 * DAY)
    first = remove(lake, ctx)
    lake.clock.advance(11 * DAY)
    return first, remove(lake, ctx)


def test_R46_places_that_properties_name_are_cleaned_too():
    lake, strays = elsewhere()
    before = everything(lake)
    first, second = both_phases(lake, context(lake))
    assert first.figures["filesMarked"] == second.figures["filesDeleted"] == 3
    assert everything(lake) == before.difference(strays)
    assert lake.rows() == [{"id": 1, "name": "a"}]
    assert "notes" not in first.figures


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("memory://data", "memory://data overlaps memory://data/of-u: whose files are whose cannot be told"),
        ("memory://data/of-u", "memory://data/of-u overlaps memory://data/of-u: whose files"),
        ("memory://data/of-u/below", "memory://data/of-u/below overlaps memory://data/of-u: whose files"),
        ("memory://warehouse", "memory://warehouse overlaps memory://warehouse/"),
        ("memory://far/of-t", "memory://far/of-t lies outside the table bucket"),
    ],
)
def test_R46_a_place_that_is_not_the_tables_alone_is_not_looked_at(place, told):
    lake, strays = elsewhere(**{"write.data.path": place})
    lake.store.put("memory://far/of-t/stray", b"x")
    before = everything(lake)
    ctx = context(lake)
    ctx.others = ["memory://data/of-u"]
    ctx.reaches = lambda path: not path.startswith("memory://far")
    first, _ = both_phases(lake, ctx)
    assert everything(lake) == before.difference(strays[1:])
    assert lake.store.exists("memory://far/of-t/stray")
    (note,) = first.figures["notes"]
    assert note.startswith(told)


def test_R46_what_was_noted_at_a_place_is_forgotten_when_it_is_the_tables_no_more():
    lake, strays = elsewhere()
    ctx = context(lake)
    lake.clock.advance(4 * DAY)
    remove(lake, ctx)
    assert set(ctx.unreferenced.known(lake.metadata.uuid)) == set(strays)
    lake.catalog.commit(IDENT, [], [{"action": "remove-properties", "removals": ["write.data.path"]}])
    lake.clock.advance(11 * DAY)
    remove(lake, ctx)
    assert lake.store.exists(strays[0])
    assert not any(lake.store.exists(path) for path in strays[1:])
    assert strays[0] not in ctx.unreferenced.known(lake.metadata.uuid)
    assert lake.store.exists("memory://data/of-t/d.parquet")


def test_R46_a_place_that_appears_during_the_listing_stops_the_run():
    lake, _ = elsewhere()
    ctx = context(lake)

    class Moving(Failing):
        def list(self, prefix):
            lake.catalog.commit(
                IDENT, [], [{"action": "set-properties", "updates": {"write.data.path": "memory://data/new"}}]
            )
            return super().list(prefix)

    ctx.store = Moving(lake.store)
    lake.clock.advance(4 * DAY)
    assert remove(lake, ctx).reason == "the table was replaced or moved during the listing"
