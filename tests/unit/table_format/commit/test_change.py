import logging

import pytest

from table_format.commit.change import Change, assert_same_table, delete_quietly
from table_format.commit.producer import unused_snapshot_id
from table_format.errors import Internal
from table_format.io.faults import Counting, Failing, Rule
from table_format.io.memory import MemoryObjectStore
from table_format.metadata.document import TableMetadata
from tests.fakes.clock import CountingIds, ManualClock


def test_snapshot_id_is_that_of_the_snapshot_added() -> None:
    other = {"action": "set-properties", "updates": {}}
    assert Change([other], []).snapshot_id is None
    assert Change([other, {"action": "add-snapshot", "snapshot": {"snapshot-id": 7}}], []).snapshot_id == 7


def test_table_without_uuid_has_nothing_to_be_told_by() -> None:
    assert assert_same_table(TableMetadata({})) == []


def test_files_that_cannot_be_deleted_are_left_and_told(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryObjectStore(ManualClock())
    store.put("memory://w/a", b"")
    with caplog.at_level(logging.WARNING):
        delete_quietly(Failing(store, [Rule()]), ["memory://w/a"])
    assert "left 1 unreferenced metadata files behind" in caplog.text
    delete_quietly(store, ["memory://w/a"])
    assert not store.exists("memory://w/a")


def test_nothing_to_delete_calls_nothing() -> None:
    counting = Counting(MemoryObjectStore(ManualClock()))
    delete_quietly(counting, [])
    assert not counting.calls


def test_ids_that_repeat_for_ever_are_an_error_not_a_loop() -> None:
    ids = CountingIds()
    ids.snapshot_id = lambda: 5  # type: ignore[method-assign]
    with pytest.raises(Internal):
        unused_snapshot_id(TableMetadata({"snapshots": [{"snapshot-id": 5}]}), ids)
