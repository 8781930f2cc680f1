"""Which files hold only rows that are old enough to go: proofs, doubts, and which column tells."""

from dataclasses import replace

import pytest

from maintenance.policy_types import RecordPolicy
from maintenance.records.plan import column_of, plan
from table_format.commit.tree import HeadTree, Listed, TreeCache
from table_format.errors import Invalid
from table_format.manifest.lines import FileLine
from tests.factories.timed import NOW, ago, by, timed_lake, write

NOW_MS = int(NOW.timestamp() * 1000)
AT = 2


def policy(days=10, column=None, share=1):
    return RecordPolicy(
        disabled_reason=None, interval_seconds=1, days=days, column=column, row_delete_share=share
    )


def planned(lake, change=None, **settings):
    """The plan for the lake's files, each changed first."""
    tree = HeadTree(lake.store, lake.metadata, TreeCache())

    def changed(listed):
        if change is None:
            return listed
        entry = replace(listed.line.data_entry(), data_file=change(listed.whole))
        return Listed(FileLine.of(entry), entry.data_file)

    def listing(_):
        return [[changed(one) for one in same] for same in tree.data_by_path(lambda _: True)]

    found = plan(listing, lake.metadata, policy(**settings), NOW_MS)
    if change is None:  # what is listed without metrics needs none
        assert found == plan(tree.data_by_path, lake.metadata, policy(**settings), NOW_MS)
    return found


def test_a_file_of_a_partition_before_the_limit_goes_and_younger_ones_stay():
    lake = timed_lake(spec=by("day"))
    (old,) = write(lake, [ago(12)])
    write(lake, [ago(3)])
    found = planned(lake)
    assert [file.file_path for file in found.files] == [old.file_path]
    assert (found.records, found.data_files, found.left_alone) == (1, 2, {"with younger rows": 1})
    assert found.older_than_ms == NOW_MS - 10 * 86_400_000


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour", "identity"])
@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
def test_the_partition_alone_proves_it(kind, transform):
    if kind == "date" and transform == "hour":
        transform = "day"
    lake = timed_lake(kind=kind, spec=by(transform))
    write(lake, [ago(900)])
    write(lake, [ago(0)])

    def bare(file):
        return replace(file, value_counts=None, null_value_counts=None, lower_bounds=None, upper_bounds=None)

    assert len(planned(lake, bare, column="at").files) == 1


@pytest.mark.parametrize("kind", ["timestamp", "timestamptz", "date"])
def test_metrics_alone_prove_it_where_there_is_no_partition(kind):
    lake = timed_lake(kind=kind)
    (old,) = write(lake, [ago(900), ago(12)])
    write(lake, [ago(900), ago(3)])
    found = planned(lake, column="at")
    assert [file.file_path for file in found.files] == [old.file_path]


def test_a_row_exactly_at_the_limit_stays_and_one_a_microsecond_older_goes():
    lake = timed_lake()
    write(lake, [ago(10)])
    assert planned(lake, column="at").files == ()
    lake = timed_lake()
    write(lake, [ago(10 + 1e-6 / 86_400)])
    assert len(planned(lake, column="at").files) == 1
    lake = timed_lake()
    write(lake, [ago(12), ago(10)])
    assert planned(lake, column="at").files == ()


def test_a_date_goes_when_its_whole_day_is_older():
    lake = timed_lake(kind="date")
    write(lake, [ago(10)])  # this day began more than ten days ago, and ended less than that
    assert planned(lake, column="at").files == ()
    lake = timed_lake(kind="date")
    write(lake, [ago(11)])
    assert len(planned(lake, column="at").files) == 1


def test_a_partition_that_straddles_the_limit_is_decided_by_metrics():
    lake = timed_lake(spec=by("month"))
    (old,) = write(lake, [ago(12), ago(11)])
    write(lake, [ago(12), ago(9)])
    assert [file.file_path for file in planned(lake).files] == [old.file_path]


DOUBTS = {
    "a null": (lambda f: replace(f, null_value_counts={AT: 1}), "with rows without a time"),
    "nulls not counted": (lambda f: replace(f, null_value_counts=None), "neither"),
    "values not counted": (lambda f: replace(f, value_counts=None), "neither"),
    "fewer values than rows": (lambda f: replace(f, value_counts={AT: 1}), "with counts that do not fit"),
    "no upper bound": (lambda f: replace(f, upper_bounds={}), "neither"),
    "no metrics": (
        lambda f: replace(f, upper_bounds=None, lower_bounds=None, value_counts=None, null_value_counts=None),
        "neither",
    ),
    "a cut upper bound": (lambda f: replace(f, upper_bounds={AT: f.upper_bounds[AT][:5]}), "neither"),
    "an empty upper bound": (lambda f: replace(f, upper_bounds={AT: b""}), "neither"),
    "bounds the wrong way round": (
        lambda f: replace(f, lower_bounds=f.upper_bounds, upper_bounds=f.lower_bounds),
        "with bounds that do not fit",
    ),
    "no rows": (lambda f: replace(f, record_count=0), "without rows"),
}


@pytest.mark.parametrize("doubt", list(DOUBTS))
def test_a_doubt_keeps_the_file(doubt):
    change, reason = DOUBTS[doubt]
    lake = timed_lake()
    write(lake, [ago(900), ago(12)])
    assert len(planned(lake, column="at").files) == 1
    found = planned(lake, change, column="at")
    assert found.files == ()
    (told,) = found.left_alone
    assert told.startswith(reason)


def test_metrics_that_contradict_the_partition_keep_the_file():
    lake = timed_lake(spec=by("day"))
    write(lake, [ago(12)])
    young = timed_lake()
    (other,) = write(young, [ago(1)])
    assert planned(lake, lambda f: replace(f, upper_bounds=other.upper_bounds)).files == ()
    assert planned(lake, lambda f: replace(f, null_value_counts={AT: 1})).files == ()
    # … and a partition that contradicts the metrics
    assert planned(lake, lambda f: replace(f, partition=(20_618,))).files == ()
    assert planned(lake, lambda f: replace(f, partition=(None,))).files == ()


def test_a_file_that_is_listed_twice_stays():
    lake = timed_lake(spec=by("day"))
    write(lake, [ago(12)])
    tree = HeadTree(lake.store, lake.metadata, TreeCache())
    ((listed,),) = tree.data_by_path(lambda _: True)
    found = plan(lambda _: [[listed, listed]], lake.metadata, policy(), NOW_MS)
    assert (found.files, found.left_alone) == ((), {"listed more than once": 2})


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour"])
def test_the_column_is_that_of_the_one_time_transform(transform):
    assert column_of(timed_lake(spec=by(transform)).metadata, None).name == "at"


@pytest.mark.parametrize(
    ("spec", "name", "message"),
    [
        (None, None, "not partitioned by the time of any top-level column: name the column"),
        (by("bucket[4]"), None, "not partitioned by the time of any"),
        (by("identity"), None, "not partitioned by the time of any"),
        (by(), "nope", "no top-level column 'nope'"),
        (by(), "id", "column 'id' is of type long: rows expire by a date or timestamp"),
        (by(), "deep", "column 'deep' is of type a struct, list or map"),
        (by(), "inner", "no top-level column 'inner'"),
    ],
)
def test_a_table_whose_rows_have_no_age_is_refused(spec, name, message):
    inner = [{"id": 4, "name": "inner", "required": False, "type": "date"}]
    deep = {"id": 3, "name": "deep", "required": False, "type": {"type": "struct", "fields": inner}}
    with pytest.raises(Invalid, match=message):
        column_of(timed_lake(spec=spec, more=[deep]).metadata, name)


def test_two_time_columns_are_refused_and_two_transforms_of_one_are_not():
    more = [{"id": 3, "name": "other", "required": False, "type": "date"}]
    second = {"source-id": 3, "field-id": 1001, "name": "b", "transform": "day"}
    two = {"spec-id": 0, "fields": [*by()["fields"], second]}
    with pytest.raises(Invalid, match="partitioned by 2 top-level columns"):
        column_of(timed_lake(spec=two, more=more).metadata, None)
    same = {"spec-id": 0, "fields": [*by("day")["fields"], {**second, "source-id": 2, "transform": "hour"}]}
    assert column_of(timed_lake(spec=same, more=more).metadata, None).name == "at"
