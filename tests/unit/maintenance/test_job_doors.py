"""What all job kinds do before anything else."""

import pytest

from maintenance.compaction.job import run as compact
from maintenance.expiration.job import run as expire
from maintenance.manifests.job import run as rewrite_manifests
from maintenance.orphans.job import run as remove
from maintenance.policies import COMPACTION, SNAPSHOTS, effective
from maintenance.ports import JobKind
from maintenance.records.job import run as expire_rows
from maintenance.statistics.job import run as compute_statistics
from maintenance.watched import WatchedCatalog
from table_format.catalog import NewTable
from table_format.errors import Unavailable
from table_format.ident import TableIdent
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import IDENT, SCHEMA, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job


@pytest.fixture
def lake():
    clock = ManualClock()
    return Lake(MemoryObjectStore(clock), clock=clock)


def context(lake, **changes):
    return FakeContext(
        catalog=lake.catalog, clock=lake.clock, ids=lake.ids, store=lake.store, ident=IDENT, **changes
    )


@pytest.mark.parametrize(
    ("run", "kind", "wrong"),
    [
        (compact, JobKind.COMPACTION, SNAPSHOTS),
        (expire, JobKind.SNAPSHOTS, COMPACTION),
        (remove, JobKind.UNREFERENCED, COMPACTION),
        (expire_rows, JobKind.RECORDS, COMPACTION),
        (rewrite_manifests, JobKind.MANIFESTS, COMPACTION),
        (compute_statistics, JobKind.STATISTICS, COMPACTION),
    ],
)
def test_a_policy_of_another_kind_is_a_bug_and_says_so(lake, run, kind, wrong):
    ctx = context(lake)
    ctx.policy = lambda kind: effective(wrong, [{}], {})
    with pytest.raises(TypeError, match=f"the job {kind} was given a "):
        run(ctx, job(kind, IDENT, lake.metadata.uuid))


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (compact, JobKind.COMPACTION),
        (expire, JobKind.SNAPSHOTS),
        (remove, JobKind.UNREFERENCED),
        (expire_rows, JobKind.RECORDS),
        (rewrite_manifests, JobKind.MANIFESTS),
        (compute_statistics, JobKind.STATISTICS),
    ],
)
def test_a_table_that_does_not_exist_is_skipped_before_its_policy_is_asked_for(lake, run, kind):
    ctx = context(lake)
    ctx.policy = None
    report = run(ctx, job(kind, TableIdent.of("db", "gone"), "u"))
    assert report.reason == "table db.gone does not exist any more"


def test_a_catalog_that_is_away_is_not_taken_for_a_missing_table(lake):
    uuid = lake.metadata.uuid
    lake.catalog.load_faults.append(Unavailable("away"))
    with pytest.raises(Unavailable):
        compact(context(lake), job(JobKind.COMPACTION, IDENT, uuid))


def test_the_watched_catalog_is_the_catalog(lake):
    watched = WatchedCatalog(lake.catalog)
    made = watched.create(TableIdent.of("db", "other"), NewTable(schema=SCHEMA))
    assert watched.load(made.ident) == made
    assert watched.in_doubt is False
