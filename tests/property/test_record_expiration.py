"""Any history of timed rows, other writers between the steps: no row that is young or without a time ever goes."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.compaction.job import run as compact
from maintenance.ports import JobKind
from maintenance.records.job import run as expire
from maintenance.report import Outcome
from tests.factories.lake import IDENT
from tests.factories.timed import NOW, by, timed_lake, write
from tests.fakes.jobs import FakeContext, job

DAYS = 30
LIMIT = NOW - timedelta(days=DAYS)

# Hours before now: near the limit, far beyond, young, to come; None: without a time.
hours = st.one_of(
    st.integers(DAYS * 24 - 50, DAYS * 24 + 50),
    st.integers(-100, 60 * 24),
    st.just(120 * 365 * 24),
    st.none(),
)
batches = st.lists(st.lists(hours, min_size=1, max_size=5), min_size=1, max_size=5)
tables = st.sampled_from(
    [
        ("timestamptz", "day"),
        ("timestamptz", "month"),
        ("timestamptz", "identity"),
        ("timestamptz", None),
        ("timestamp", "hour"),
        ("timestamp", "year"),
        ("date", "day"),
        ("date", None),
    ]
)


def context(lake, kind, **given_settings):
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={kind: {"status": "enabled", "settings": given_settings}},
        ident=IDENT,
    )


def is_old(row):
    at = row["at"]
    if at is None:
        return False
    if not hasattr(at, "hour"):
        return at < LIMIT.date()
    return at.replace(tzinfo=NOW.tzinfo) < LIMIT


def times(hours_before):
    # Never at the limit itself, which moves on while a commit is tried again.
    return [None if hour is None else NOW - timedelta(hours=hour, minutes=30) for hour in hours_before]


def key(row):
    return str(row["at"]), row["id"]


@settings(max_examples=25, deadline=None)
@given(tables, batches, st.lists(hours, max_size=4), st.booleans())
def test_only_old_rows_go_and_no_file_of_old_rows_is_left(table, history, late, compacted):
    kind, transform = table
    lake = timed_lake(kind=kind, spec=None if transform is None else by(transform))
    for batch in history:
        write(lake, times(batch))
    if compacted:
        tiers = [{"belowBytes": 1 << 20, "targetBytes": 1 << 21}]
        ctx = context(lake, JobKind.COMPACTION, tiers=tiers, minInputFiles=2)
        compact(ctx, job(JobKind.COMPACTION, IDENT, lake.metadata.uuid))
    before, head = lake.rows(), lake.metadata.current_snapshot_id
    if late:
        lake.catalog.before_commit.append(lambda: write(lake, times(late)))
        lake.catalog.before_commit.append(lambda: None)  # that append's own commit
    ctx = context(lake, JobKind.RECORDS, days=DAYS, column="at")
    report = expire(ctx, job(JobKind.RECORDS, IDENT, lake.metadata.uuid))
    while lake.catalog.before_commit:  # nothing was committed, so nobody came in between
        lake.catalog.before_commit.popleft()()
    written = [*before, *_late_rows(lake, late)]
    after = lake.rows()
    kept = {key(row) for row in after}
    assert [row for row in written if not is_old(row) and key(row) not in kept] == []
    assert kept <= {key(row) for row in written}
    for rows in _by_file(lake):
        expired_by_then = report.outcome is Outcome.DONE or not late
        assert not (all(map(is_old, rows)) and expired_by_then), "honest metrics prove a file's age"
    assert sorted(map(key, lake.rows(head))) == sorted(map(key, before))
    if report.outcome is Outcome.DONE:
        assert report.figures["deletedRecords"] == len(written) - len(after)
    again = expire(ctx, job(JobKind.RECORDS, IDENT, lake.metadata.uuid))
    assert again.outcome is Outcome.NOTHING or late


def _late_rows(lake, late):
    if not late:
        return []
    other = timed_lake(kind=_kind(lake))
    write(other, times(late))
    return other.rows()


def _kind(lake):
    return lake.metadata.schema()["fields"][1]["type"]


def _by_file(lake):
    from table_format.scan.deletes import read_task

    for task in lake.tasks():
        yield [row for batch in read_task(lake.store, task, lake.metadata) for row in batch.to_pylist()]
