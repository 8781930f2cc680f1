"""A compaction that is cancelled, at every point: nothing half-done, and no file left that is in no table."""

import pytest

from maintenance.report import Outcome
from table_format.errors import CommitFailed, CommitStateUnknown
from table_format.io.memory import MemoryObjectStore
from tests.factories.lake import BY_NAME, Lake
from tests.fakes.clock import ManualClock
from tests.unit.maintenance.test_compaction_job import compact, context, data_objects, fill, live


@pytest.fixture
def lake():
    clock = ManualClock()
    made = Lake(MemoryObjectStore(clock), clock=clock, spec=BY_NAME)
    fill(made, 3, ("x",))
    fill(made, 3, ("y",))
    return made


class Cancelling:
    """A catalog during whose commit somebody cancels the job; `outcome` is raised after or instead of it."""

    def __init__(self, ctx, *, outcome=None, applied=True):
        self._inner, self._ctx, self._outcome, self._applied = ctx.catalog, ctx, outcome, applied
        self.commits = 0

    def load(self, ident):
        return self._inner.load(ident)

    def commit(self, ident, requirements, updates):
        self.commits += 1
        self._ctx.cancelled = True
        table = self._inner.commit(ident, requirements, updates) if self._applied else None
        if self._outcome is not None:
            raise self._outcome
        return table


def rows(lake):
    return sorted(task.entry.data_file.record_count for task in lake.tasks())


def test_amid_a_group_its_output_is_removed_and_nothing_is_committed(lake):
    before, location = data_objects(lake), lake.table.metadata_location
    ctx = context(lake)
    read, inputs = lake.store.open_input, []

    def begin(path):
        if "/data/" in path:
            inputs.append(path)
            ctx.cancelled = True
        return read(path)

    lake.store.open_input = begin
    report = compact(lake, ctx)
    assert len(set(inputs)) == 1  # not even the rest of its group is read
    assert (report.outcome, report.reason) == (Outcome.SKIPPED, "stopped after 0 groups: it was cancelled")
    assert (data_objects(lake), lake.table.metadata_location) == (before, location)


def test_a_commit_under_way_is_finished_and_no_other_follows(lake):
    ctx = context(lake, groups_per_commit=1)
    ctx.catalog = Cancelling(ctx)
    report = compact(lake, ctx)
    assert report.reason == "stopped after 1 group: it was cancelled"
    assert ctx.catalog.commits == 1
    assert rows(lake) == [1, 1, 1, 3]
    assert live(lake) <= data_objects(lake)
    assert len(data_objects(lake)) == 6 + 1  # the inputs, which older snapshots need, and one output


def test_a_commit_that_lost_its_race_is_not_tried_again_and_its_files_go(lake):
    before, location = data_objects(lake), lake.table.metadata_location
    ctx = context(lake)
    ctx.catalog = Cancelling(ctx, outcome=CommitFailed("another was faster"), applied=False)
    report = compact(lake, ctx)
    assert report.reason == "stopped after 0 groups: it was cancelled"
    assert report.figures["conflicts"] == 0
    assert ctx.catalog.commits == 1
    assert (data_objects(lake), lake.table.metadata_location) == (before, location)


@pytest.mark.parametrize("applied", [True, False])
def test_after_a_commit_whose_outcome_is_in_doubt_no_file_is_removed(lake, applied):
    before = data_objects(lake)
    ctx = context(lake)
    ctx.catalog = Cancelling(ctx, outcome=CommitStateUnknown("no answer"), applied=applied)
    if applied:
        compact(lake, ctx)
        assert rows(lake) == [3, 3]
    else:
        with pytest.raises(CommitStateUnknown):
            compact(lake, ctx)
        assert rows(lake) == [1] * 6
    assert len(data_objects(lake) - before) == 2
    assert live(lake) <= data_objects(lake)


def test_cancelled_before_it_begins_it_does_nothing(lake):
    before = data_objects(lake)
    ctx = context(lake)
    ctx.cancelled = True
    assert compact(lake, ctx).reason == "stopped after 0 groups: it was cancelled"
    assert data_objects(lake) == before
