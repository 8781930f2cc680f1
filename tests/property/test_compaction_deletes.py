"""Any history of appends, upserts and deletes, with compactions between and during them: the rows are the model's."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.report import Outcome
from table_format.commit.summary import count, totals_of
from table_format.io.memory import MemoryObjectStore
from table_format.scan.plan import snapshot_files
from tests.factories.delete_histories import History, steps
from tests.factories.lake import Lake
from tests.fakes.clock import ManualClock


def new_history(partitioned):
    clock = ManualClock()
    return History.of(partial(Lake, MemoryObjectStore(clock), clock=clock), partitioned=partitioned)


def weight(lake):
    return sum(1 + len(task.deletes) for task in lake.tasks())


@settings(max_examples=20, deadline=None)
@given(partitioned=st.booleans(), script=steps)
def test_no_row_is_lost_doubled_or_brought_back_and_it_ends(partitioned, script):
    history = new_history(partitioned)
    lake = history.lake
    for step in script:
        history.play(step)
        assert history.by_us() == sorted(history.rows)
    runs = 0
    while (report := history.compact()).outcome is not Outcome.NOTHING:
        assert report.outcome is Outcome.DONE
        assert history.by_us() == sorted(history.rows)
        runs += 1
        assert runs < 20
    assert [task for task in lake.tasks() if task.deletes] == []
    head = lake.metadata.current_snapshot
    if head is not None:
        files = snapshot_files(lake.store, lake.metadata)
        entries = [task.entry.data_file for task in files.tasks] + [e.data_file for e in files.delete_entries]
        totals = {key: value for key, value in lake.summary.items() if key.startswith("total-")}
        assert totals == totals_of(count(entries))
        # Data of an unpartitioned spec counts as within reach of a partition's deletes, though it need not.
        if lake.summary["operation"] == "replace" and len(lake.metadata.partition_specs) == 1:
            assert totals["total-delete-files"] == "0"
    for snapshot_id, rows in history.at.items():
        assert history.by_us(snapshot_id) == rows
    location = lake.table.metadata_location
    assert history.compact().outcome is Outcome.NOTHING
    assert lake.table.metadata_location == location
