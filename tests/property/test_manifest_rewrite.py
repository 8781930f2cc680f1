"""Any history of writes, with manifest rewrites at any moment: the same rows, at the head and at every snapshot.

Between a rewrite's plan and its commit others write, and merge or compact the manifests that it read.
"""

from dataclasses import replace
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.manifests.job import run
from maintenance.ports import JobKind
from maintenance.report import Outcome
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Status
from table_format.manifest.read import read_manifest
from table_format.scan.plan import snapshot_manifests
from tests.factories.delete_histories import WRITES, History, shown
from tests.factories.lake import IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

writes = st.tuples(st.sampled_from(WRITES), st.sampled_from(["x", "y"]), st.integers(0, 7))
compaction = st.tuples(st.just("compact"), st.just([]), st.just(1))
rewrites = st.tuples(
    st.just("manifests"),
    st.lists(writes | st.just("merge"), max_size=3),
    st.sampled_from([1, 6000, 1 << 20]),
    st.integers(2, 4),
)
scripts = st.lists(writes | compaction | rewrites | rewrites, min_size=3, max_size=14)


def rewrite(history, meanwhile, target, minimum):
    lake = history.lake
    ctx = FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        documents={JobKind.MANIFESTS: {"status": "enabled", "settings": {"minManifests": minimum}}},
        ident=IDENT,
    )
    policy = replace(ctx.policy(JobKind.MANIFESTS), target_size_bytes=target)
    ctx.policy = lambda kind: policy
    for write in meanwhile:
        lake.catalog.before_commit.append(lambda write=write: between(history, write))
    before = facts(lake)
    report = run(ctx, job(JobKind.MANIFESTS, IDENT, str(lake.metadata.uuid)))
    while lake.catalog.before_commit:
        lake.catalog.before_commit.popleft()()
    if not meanwhile:
        assert facts(lake) == before
    if report.outcome is Outcome.DONE and not meanwhile:
        for _ in range(3):
            report = run(ctx, job(JobKind.MANIFESTS, IDENT, str(lake.metadata.uuid)))
        assert report.outcome is Outcome.NOTHING
    note(history)


def note(history):
    head = history.lake.metadata.current_snapshot_id
    if head is not None:
        history.at.setdefault(head, sorted(history.rows))


def between(history, write):
    if write == "merge":
        pending = list(history.lake.catalog.before_commit)
        history.lake.catalog.before_commit.clear()
        history.lake.append(merge_min=1)
        history.lake.catalog.before_commit.extend(pending)
    else:
        history.write(*write)


def facts(lake):
    """What each live entry says, but for its status."""
    head = lake.metadata.current_snapshot
    return sorted(
        (entry.data_file.file_path, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for manifest in (snapshot_manifests(lake.store, head) if head else [])
        for entry in read_manifest(lake.store, manifest, lake.metadata)
        if entry.status is not Status.DELETED
    )


@settings(max_examples=30, deadline=None)
@given(partitioned=st.booleans(), script=scripts)
def test_rewrites_change_no_row_of_any_snapshot_and_settle(partitioned, script):
    clock = ManualClock()
    history = History.of(partial(Lake, MemoryObjectStore(clock), clock=clock), partitioned=partitioned)
    for step in script:
        if step[0] == "manifests":
            rewrite(history, *step[1:])
        else:
            history.play(step)
        assert sorted(map(shown, history.lake.rows())) == sorted(history.rows)
    for snapshot_id, rows in history.at.items():
        assert sorted(map(shown, history.lake.rows(snapshot_id))) == rows
