"""Which statistics are due: of which columns, continued or anew, and when too little has changed."""

import pytest

from maintenance.policies import STATISTICS, effective
from maintenance.statistics.plan import THETA, TYPE_PROPERTY, Nothing, plan
from table_format.metadata.document import TableMetadata

FIELDS = [
    {"id": 1, "name": "id", "required": False, "type": "long"},
    {"id": 2, "name": "name", "required": False, "type": "string"},
    {
        "id": 3,
        "name": "tags",
        "required": False,
        "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False},
    },
    {"id": 5, "name": "shape", "required": False, "type": "geometry"},
    {"id": 6, "name": "none", "required": False, "type": "unknown"},
]


def snapshot(number, operation="append", parent=True, **summary):
    rows = {"added-records": "10", "total-records": str(10 * number)} if operation == "append" else {}
    made = {
        "snapshot-id": number,
        "sequence-number": number,
        "timestamp-ms": number,
        "summary": {"operation": operation, **rows, **summary},
    }
    return made | ({"parent-snapshot-id": number - 1} if parent and number > 1 else {})


def blob(column, snapshot_id, kind="long", **more):
    properties = {"ndv": "1"} | ({} if kind is None else {TYPE_PROPERTY: kind})
    return {
        "type": THETA,
        "snapshot-id": snapshot_id,
        "sequence-number": 1,
        "fields": [column],
        "properties": properties,
    } | more


def entry(snapshot_id, *blobs):
    return {
        "snapshot-id": snapshot_id,
        "statistics-path": "s",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": list(blobs),
    }


def own(snapshot_id):
    return entry(snapshot_id, blob(1, snapshot_id), blob(2, snapshot_id, "string"))


def table(*snapshots, statistics=(), partitions=(), spec=(), fields=FIELDS):
    return TableMetadata(
        {
            "format-version": 3,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
            "partition-specs": [{"spec-id": 0, "fields": list(spec)}],
            "default-spec-id": 0,
            "snapshots": list(snapshots),
            "current-snapshot-id": snapshots[-1]["snapshot-id"] if snapshots else -1,
            "statistics": list(statistics),
            "partition-statistics": list(partitions),
        }
    )


def planned(metadata, *, asked=False, **settings):
    document = {"status": "enabled", "settings": settings}
    return plan(metadata, effective(STATISTICS, [document], {}), asked=asked)


def columns(found):
    return {column.name: column.continued for column in found.columns}


def test_a_table_without_snapshots_has_none():
    assert planned(table()) == Nothing(reason="the table has no snapshot")


def test_at_first_every_column_that_has_values_is_counted_anew():
    found = planned(table(snapshot(1)))
    assert columns(found) == {"id": False, "name": False}
    assert (found.snapshot_id, found.sequence_number, found.since, found.partitions) == (1, 1, None, False)
    assert found.told == ("no partition statistics: the table is not partitioned",)


def test_named_columns_that_cannot_be_counted_are_told():
    found = planned(table(snapshot(1)), columns=["name", "gone", "tags", "shape", "none"])
    assert columns(found) == {"name": False}
    assert found.told[:4] == (
        "column 'gone' is no top-level column of the table",
        "column 'tags' is a struct, list or map",
        "column 'shape' is of type geometry, whose values have no form to be counted by",
        "column 'none' is of type unknown: it has no values",
    )


def test_none_of_them_left_is_told_too():
    found = planned(table(snapshot(1)), columns=["gone"])
    assert isinstance(found, Nothing)
    assert "no column can be counted" in found.reason


def test_columns_beyond_the_bound_are_left_out():
    found = planned(table(snapshot(1)), maxColumns=1)
    assert columns(found) == {"id": False}
    assert found.told[0] == "1 columns beyond the first 1"


def test_what_the_head_has_is_not_computed_again():
    spec = [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}]
    done = table(snapshot(1), statistics=[own(1)], partitions=[{"snapshot-id": 1}], spec=spec)
    found = planned(done, asked=True)
    assert found == Nothing(
        reason="the head has the distinct values of these columns; the head has partition statistics"
    )


def test_others_sketches_of_the_head_count():
    found = planned(table(snapshot(1), statistics=[entry(1, blob(1, 1, kind=None))]))
    assert columns(found) == {"name": False}


def test_partitions_are_due_by_themselves():
    spec = [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "identity"}]
    done = table(snapshot(1), snapshot(2), statistics=[own(2)], partitions=[{"snapshot-id": 1}], spec=spec)
    found = planned(done)
    assert (found.columns, found.partitions) == ((), True)
    assert isinstance(planned(done, partitionStatistics=False), Nothing)
    only = planned(table(snapshot(1), spec=spec), ndv=False)
    assert (only.columns, only.partitions) == ((), True)
    void = [{"source-id": 2, "field-id": 1000, "name": "name", "transform": "void"}]
    assert not planned(table(snapshot(1), spec=void)).partitions


@pytest.mark.parametrize(
    ("since", "continued", "unchanged"),
    [
        ([snapshot(2)], True, False),
        ([snapshot(2), snapshot(3, "replace"), snapshot(4)], True, False),
        ([snapshot(2, "replace"), snapshot(3, "replace")], True, True),
        ([snapshot(2, "overwrite", **{"added-records": "9"})], False, False),
        ([snapshot(2, "delete", **{"deleted-records": "9"}), snapshot(3)], False, False),
        ([snapshot(2, **{"added-delete-files": "1"})], False, False),
        ([snapshot(2, **{"deleted-data-files": "1"})], False, False),
    ],
)
def test_sketches_are_continued_where_nothing_was_taken_away(since, continued, unchanged):
    found = planned(table(snapshot(1), *since, statistics=[own(1)]), asked=True)
    assert columns(found) == {"id": continued, "name": continued}
    assert (found.since, found.unchanged) == (1 if continued else None, unchanged)


def test_across_an_expired_snapshot_nothing_is_continued():
    found = planned(table(snapshot(1), snapshot(3), snapshot(4), statistics=[own(1)]))
    assert (columns(found), found.since) == ({"id": False, "name": False}, None)


def test_the_nearest_earlier_sketches_are_continued():
    found = planned(table(*map(snapshot, range(1, 5)), statistics=[own(3), own(1)]))
    assert found.since == 3


@pytest.mark.parametrize(
    "other",
    [
        entry(1, blob(1, 1, kind=None)),  # another engine's, which may mean anything by it
        entry(1, blob(1, 1, type="else")),
        entry(1, blob(1, 1, fields=[1, 2])),
        entry(1, blob(1, 9)),  # carried over from another snapshot
    ],
)
def test_only_our_own_are_continued(other):
    found = planned(table(snapshot(1), snapshot(2), statistics=[other]))
    assert (columns(found), found.since) == ({"id": False, "name": False}, None)


def test_a_column_of_another_type_is_counted_anew_and_so_is_a_new_one():
    before = entry(1, blob(1, 1, "int"))
    found = planned(table(snapshot(1), snapshot(2), statistics=[before]))
    assert (columns(found), found.since) == ({"id": False, "name": False}, None)
    found = planned(table(snapshot(1), snapshot(2), statistics=[entry(1, blob(1, 1))]))
    assert (columns(found), found.since) == ({"id": True, "name": False}, 1)


class TestChange:
    def changed(self, rows, **settings):
        later = snapshot(2, **{"added-records": str(rows), "total-records": "100"})
        return planned(table(snapshot(1), later, statistics=[own(1)]), **settings)

    def test_too_few_rows_are_not_worth_counting(self):
        found = self.changed(9)
        assert isinstance(found, Nothing)
        assert found.reason.startswith(
            "9 of 100 rows changed since the distinct values were counted, a smaller share than 0.1"
        )

    def test_enough_are(self):
        assert columns(self.changed(10)) == {"id": True, "name": True}
        assert isinstance(self.changed(49, minChangeRatio=0.5), Nothing)

    def test_whoever_asks_does_not_wait(self):
        assert columns(self.changed(1, asked=True)) == {"id": True, "name": True}

    @pytest.mark.parametrize(
        "summary",
        [
            {"operation": "overwrite"},
            {"operation": "append", "added-records": "1"},  # and no total
            {},
        ],
    )
    def test_what_cannot_be_told_is_worth_it(self, summary):
        later = {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": 2, "summary": summary}
        assert columns(planned(table(snapshot(1), later, statistics=[own(1)])))

    def test_deleted_rows_count(self):
        deletes = {"added-position-deletes": "6", "added-equality-deletes": "5", "total-records": "100"}
        later = snapshot(2, "delete", **deletes)
        assert columns(planned(table(snapshot(1), later, statistics=[own(1)])))
        few = {**deletes, "added-equality-deletes": "3"}
        assert isinstance(
            planned(table(snapshot(1), snapshot(2, "delete", **few), statistics=[own(1)])), Nothing
        )

    def test_a_new_column_does_not_wait(self):
        later = snapshot(2, **{"added-records": "1", "total-records": "100"})
        found = planned(table(snapshot(1), later, statistics=[entry(1, blob(1, 1))]))
        assert columns(found) == {"id": True, "name": False}
