"""Any history of appends, then compaction to the fixed point: same rows, outputs within their tiers, then nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.compaction.job import run
from maintenance.compaction.plan_types import CompactionPlan
from maintenance.compaction.tiers import tier_of
from maintenance.ports import JobKind, JobSettings
from maintenance.report import Outcome
from maintenance.setting_rules import Tier
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import BY_NAME, IDENT, Lake
from tests.fakes.clock import ManualClock
from tests.fakes.jobs import FakeContext, job

TIERS = (Tier(below_bytes=4096, target_bytes=8192), Tier(below_bytes=16384, target_bytes=24576))
ENCODING_OVERHEAD = 1536
"""Footer, page index and schema text: much for files of a few kilobytes, nothing for real ones."""

appends = st.lists(st.tuples(st.sampled_from(["x", "y", None]), st.integers(1, 900)), min_size=1, max_size=14)


def lake_of(history):
    clock = ManualClock()
    # The codec of the lake's files: others would be rewritten for the codec's sake.
    codec = {"write.parquet.compression-codec": "snappy"}
    lake = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME, **codec)
    start = 0
    for partition, rows in history:
        # Numbers that do not compress, so that sizes grow with rows.
        made = [{"id": (start + n) * 2_654_435_761 % 2**61, "name": partition} for n in range(rows)]
        lake.append_rows(*made, partition=(partition,))
        start += rows
    return lake


def context(lake, minimum, **limits):
    tiers = [{"belowBytes": tier.below_bytes, "targetBytes": tier.target_bytes} for tier in TIERS]
    document = {"status": "enabled", "settings": {"tiers": tiers, "minInputFiles": minimum}}
    return FakeContext(
        catalog=lake.catalog,
        clock=lake.clock,
        ids=lake.ids,
        store=lake.store,
        settings=JobSettings(**limits),
        documents={JobKind.COMPACTION: document},
        ident=IDENT,
    )


@settings(max_examples=15, deadline=None)
@given(
    history=appends,
    minimum=st.integers(2, 5),
    batch=st.integers(1, 3),
    per_run=st.integers(1, 4),
    least=st.sampled_from([1, 4 << 20]),
)
def test_compaction_reaches_a_fixed_point_and_changes_no_row(history, minimum, batch, per_run, least):
    """With row groups copied (`least` of one byte) and without."""
    lake = lake_of(history)
    rows, head = lake.rows(), lake.metadata.current_snapshot_id
    counts = [len(lake.tasks())]
    limits = {"groups_per_commit": batch, "max_groups_per_run": per_run, "min_copied_row_group_bytes": least}
    ctx = context(lake, minimum, **limits)
    wanted = job(JobKind.COMPACTION, IDENT, lake.metadata.uuid)
    while (report := run(ctx, wanted)).outcome is not Outcome.NOTHING:
        assert report.outcome is Outcome.DONE
        assert report.figures["groupsRewritten" if least == 1 else "groupsCopied"] == 0
        counts.append(len(lake.tasks()))
        assert counts[-1] < counts[-2]
        for group in CompactionPlan.from_json(report.plan).groups:
            assert {tier_of(file.size, TIERS) for file in group.inputs} == {
                Tier(below_bytes=group.below_bytes, target_bytes=group.target_bytes)
            }
            assert group.size <= group.target_bytes
            assert len({file.path for file in group.inputs}) == len(group.inputs) > 1
    assert lake.rows() == rows
    assert lake.rows(head) == rows
    for task in lake.tasks():
        if "compact-" in task.entry.data_file.file_path:
            assert task.entry.data_file.file_size_in_bytes <= TIERS[-1].target_bytes + ENCODING_OVERHEAD
    location = lake.table.metadata_location
    assert run(ctx, wanted).outcome is Outcome.NOTHING
    assert lake.table.metadata_location == location


@settings(max_examples=10, deadline=None)
@given(history=appends, late=st.lists(st.integers(1, 50), min_size=1, max_size=4))
def test_appends_and_upserts_between_any_two_steps_are_neither_lost_nor_doubled(history, late):
    """Each commit of the compaction is preceded by a commit of another writer: an append, or an upsert of a key."""
    lake = lake_of(history)
    upserted = {row["id"]: row["name"] for row in lake.rows()[: len(late)]}
    expected = [row for row in lake.rows() if row["id"] not in upserted]

    def upsert(key, name):
        lake.row_delta(
            [lake.data_file([{"id": key, "name": name}], partition=(name,))],
            [lake.equality_file([{"id": key}], [1], partition=(name,))],
        )

    for (key, name), size in zip(upserted.items(), late, strict=False):
        new = [{"id": -(size * 1000 + n), "name": "late"} for n in range(size)]
        expected += [*new, {"id": key, "name": name}]
        lake.catalog.before_commit.append(lambda new=new: lake.append_rows(*new, partition=("late",)))
        lake.catalog.before_commit.append(lambda: None)  # that append's own commit
        lake.catalog.before_commit.append(lambda key=key, name=name: upsert(key, name))
        lake.catalog.before_commit.append(lambda: None)
    ctx = context(lake, 2, groups_per_commit=1, min_copied_row_group_bytes=1)
    wanted = job(JobKind.COMPACTION, IDENT, lake.metadata.uuid)
    for _ in range(12):
        if run(ctx, wanted).outcome is Outcome.NOTHING:
            break
    while lake.catalog.before_commit:  # what came after the last commit of the compaction
        lake.catalog.before_commit.popleft()()

    def key_of(row):
        return (row["id"], str(row["name"]))

    assert sorted(lake.rows(), key=key_of) == sorted(expected, key=key_of)
