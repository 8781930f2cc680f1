"""Schemas and specs that nothing needs leave the metadata after an expiration, if asked for; others stay."""

import pytest

from maintenance.expiration.job import run
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from table_format.commit.delete import delete_files
from table_format.commit.tree import HeadTree, TreeCache
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.lines import FileLine
from tests.factories.lake import BY_NAME, IDENT, SCHEMA, Lake
from tests.fakes.catalog import fault
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

DAY = 86_400


def new_lake(**options):
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME, **options)


def context(lake, *, clean=True, **settings):
    asked = {"minSnapshotsToKeep": 1, "maxSnapshotAgeHours": 1, "cleanExpiredMetadata": clean}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**settings),
        documents={JobKind.SNAPSHOTS: {"status": "enabled", "settings": asked}},
        ident=IDENT,
    )


def expire(lake, ctx=None, **changes):
    return run(ctx or context(lake), job(JobKind.SNAPSHOTS, IDENT, lake.metadata.uuid, **changes))


def commit(lake, *updates):
    lake.catalog.commit(IDENT, [], list(updates))


def new_schema(lake, *fields):
    schema = {"type": "struct", "fields": [*SCHEMA["fields"], *fields]}
    commit(
        lake,
        {"action": "add-schema", "schema": schema, "last-column-id": 10},
        {"action": "set-current-schema", "schema-id": -1},
    )


def new_spec(lake, *fields):
    commit(
        lake,
        {"action": "add-spec", "spec": {"fields": list(fields)}},
        {"action": "set-default-spec", "spec-id": -1},
    )


def extra(number):
    return {"id": 2 + number, "name": f"c{number}", "required": False, "type": "long"}


def evolved():
    """Schemas 0 to 2 and specs 0 to 2, each written by until the next came; a rewrite left only files of the last."""
    lake = new_lake()
    lake.append_rows({"id": 1, "name": "a"}, partition=("a",))
    new_schema(lake, extra(1))
    lake.append_rows({"id": 2, "name": "a"}, partition=("a",))
    new_schema(lake, extra(1), extra(2))
    new_spec(lake, {"source-id": 1, "name": "b", "transform": "bucket[4]"})
    lake.append_rows({"id": 3, "name": "a"}, partition=(0,))
    new_spec(lake)
    lake.append_rows({"id": 4, "name": "a"})
    return lake


def known(lake):
    return (
        [one["schema-id"] for one in lake.metadata.schemas],
        [one["spec-id"] for one in lake.metadata.partition_specs],
    )


def only_the_head(lake):
    """What is left is read and written by the schema and the spec in force."""
    files = [task for task in lake.tasks() if task.entry.data_file.spec_id != lake.metadata.default_spec_id]

    def build(table):
        tree = HeadTree(lake.store, table.metadata, TreeCache())
        entries = [FileLine.of(task.entry) for task in files]
        return delete_files(table, tree, entries, summary={}, clock=lake.clock, ids=lake.ids)

    lake.commit(build)
    lake.append_rows({"id": 5, "name": "a"})


def test_what_no_snapshot_needs_goes_a_day_after_it_was_in_force():
    lake = evolved()
    only_the_head(lake)
    rows = lake.rows()
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
    lake.clock.advance(3 * DAY)
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)
    planned = expire(lake, dry_run=True)
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
    assert planned.figures.get("schemasRemoved") is None  # the old snapshots are still there
    report = expire(lake)
    assert known(lake) == ([2], [2])
    assert lake.rows() == rows
    assert (report.figures["schemasRemoved"], report.figures["specsRemoved"]) == (["0", "1"], ["0", "1"])
    assert report.reason.endswith("; 2 unused schemas and 2 unused specs left the metadata")
    again = expire(lake)
    assert (again.outcome, known(lake)) == (Outcome.NOTHING, ([2], [2]))


def test_it_is_off_unless_somebody_asks_for_it():
    lake = evolved()
    only_the_head(lake)
    lake.clock.advance(5 * DAY)
    expire(lake, context(lake, clean=False))
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
    policy = FakeContext(catalog=lake.catalog, clock=lake.clock, ids=lake.ids, store=lake.store).policy
    assert not policy(JobKind.SNAPSHOTS).clean_expired_metadata


def test_specs_of_live_files_and_schemas_of_their_columns_stay():
    lake = evolved()
    lake.clock.advance(2 * DAY)
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)
    expire(lake)
    # Files of all specs are live; the head was written by schema 2, which has every column.
    assert known(lake) == ([2], [0, 1, 2])
    assert len(lake.rows()) == 4


def test_a_tag_keeps_the_schema_of_its_snapshot():
    lake = evolved()
    first = lake.metadata.snapshots[0]["snapshot-id"]
    commit(lake, {"action": "set-snapshot-ref", "ref-name": "old", "type": "tag", "snapshot-id": first})
    lake.clock.advance(2 * DAY)
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)
    expire(lake)
    assert known(lake) == ([0, 2], [0, 1, 2])
    assert lake.rows(first) == [{"id": 1, "name": "a", "c1": None, "c2": None}]


def test_a_schema_with_a_dropped_column_that_an_equality_delete_compares_stays():
    lake = new_lake()
    new_schema(lake, extra(1))
    lake.append_rows({"id": 1, "name": "a", "c1": 7}, partition=("a",))
    lake.row_delta([], [lake.equality_file([{"c1": 7}], [3], partition=("a",))])
    new_schema(lake)  # without the column: schema 0 again
    lake.append_rows({"id": 2, "name": "a"}, partition=("a",))
    lake.clock.advance(2 * DAY)
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)
    rows = lake.rows()
    expire(lake)
    assert known(lake)[0] == [0, 1]
    assert lake.rows() == rows == [{"id": 2, "name": "a"}]


def test_what_was_in_force_within_a_day_stays_and_a_missing_version_keeps_all():
    lake = evolved()
    only_the_head(lake)
    lake.clock.advance(DAY // 2)
    expire(lake)
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
    gone = lake.metadata.metadata_log[-1]["metadata-file"]
    lake.store.delete_many([gone])
    lake.clock.advance(5 * DAY)
    report = expire(lake)
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
    assert report.figures["notes"] == [
        "an earlier metadata file of the last day cannot be read: unused schemas and specs stay until it is older"
    ]


@pytest.mark.parametrize("update", ["schema", "append"])
def test_a_change_meanwhile_is_looked_at_anew(update):
    lake = evolved()
    only_the_head(lake)
    lake.clock.advance(3 * DAY)
    expire(lake, context(lake, clean=False))
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)

    def meanwhile():
        if update == "schema":
            commit(lake, {"action": "set-current-schema", "schema-id": 1})
        else:
            lake.append_rows({"id": 9, "name": "a"})

    lake.catalog.before_commit.append(meanwhile)
    lake.catalog.before_commit.append(lambda: None)
    expire(lake)
    if update == "schema":
        assert known(lake) == ([1, 2], [2])
        assert lake.metadata.current_schema_id == 1
    else:
        assert known(lake) == ([2], [2])
        assert {row["id"] for row in lake.rows()} == {4, 5, 9}


def test_a_table_that_keeps_changing_and_a_lost_lease_change_nothing():
    lake = evolved()
    only_the_head(lake)
    lake.clock.advance(3 * DAY)
    expire(lake, context(lake, clean=False))
    commit(lake, {"action": "set-properties", "updates": {"a": "b"}})
    lake.clock.advance(2 * DAY)
    lost = context(lake)
    lost.leases = [False]
    assert "schemasRemoved" not in expire(lake, lost).figures
    lake.catalog.faults.append(fault("conflict"))
    report = expire(lake, context(lake, commit_attempts=1))
    assert report.figures["notes"][0].startswith("unused schemas and specs stay: the table kept changing")
    assert known(lake) == ([0, 1, 2], [0, 1, 2])
