"""Any history of a table that becomes format version 3, compacted between and during writes: no row changes its id."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maintenance.report import Outcome
from table_format.commit.summary import count, totals_of
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content
from table_format.scan.index import is_vector
from table_format.scan.plan import snapshot_files
from tests.factories.lake import Lake
from tests.factories.lineage_histories import ONLY_DELETES, LineageHistory, delete_steps, read_lineage, steps
from tests.fakes.clock import ManualClock

pytestmark = pytest.mark.timeout(240)


def new_history(version, *, partitioned):
    clock = ManualClock()
    make = partial(Lake, MemoryObjectStore(clock), clock=clock)
    return LineageHistory.of(make, partitioned=partitioned, version=version)


def vectors_are_right(lake):
    """Each is for a live file and its only one; the summary counts what there is."""
    files = snapshot_files(lake.store, lake.metadata)
    live = {task.entry.data_file.file_path for task in files.tasks}
    vectors = [entry.data_file for entry in files.delete_entries if is_vector(entry.data_file)]
    named = [vector.referenced_data_file for vector in vectors]
    assert len(set(named)) == len(named)
    assert live.issuperset(named)
    entries = [task.entry.data_file for task in files.tasks] + [e.data_file for e in files.delete_entries]
    totals = {key: value for key, value in lake.summary.items() if key.startswith("total-")}
    assert totals == totals_of(count(entries))


@settings(max_examples=15, deadline=None)
@given(partitioned=st.booleans(), version=st.sampled_from([2, 3]), script=steps)
def test_maint_C14_ids_and_last_changes_stay_whatever_happens(partitioned, version, script):
    history = new_history(version, partitioned=partitioned)
    lake = history.lake
    for step in script:
        history.play(step)
        history.check()
    runs = 0
    while (report := history.compact()).outcome is not Outcome.NOTHING:
        assert report.outcome is Outcome.DONE
        history.check()
        vectors_are_right(lake)
        runs += 1
        assert runs < 20
    assert [task for task in lake.tasks() if task.deletes] == []
    for snapshot_id, rows in history.at.items():
        assert read_lineage(lake, snapshot_id) == rows


@settings(max_examples=15, deadline=None)
@given(partitioned=st.booleans(), version=st.sampled_from([2, 3]), script=delete_steps)
def test_maint_D7_deletes_stored_anew_delete_the_same_rows(partitioned, version, script):
    history = new_history(version, partitioned=partitioned)
    lake = history.lake
    for step in script:
        history.play(step)
        history.check()
    while (report := history.compact(ONLY_DELETES)).outcome is not Outcome.NOTHING:
        assert report.outcome is Outcome.DONE
        history.check()
        vectors_are_right(lake)
    if history.is_v3:
        files = snapshot_files(lake.store, lake.metadata).delete_entries
        kept = [entry for entry in files if not is_vector(entry.data_file)]
        assert [entry for entry in kept if entry.data_file.content == Content.POSITION_DELETES] == []
    for snapshot_id, rows in history.at.items():
        assert read_lineage(lake, snapshot_id) == rows
