"""Position delete files as we write them: ordered, with whole bounds, read back to the row."""

import io

import numpy as np
import pyarrow.parquet as pq
import pytest

from table_format.errors import Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import FILE_PATH_FIELD_ID, POSITION_FIELD_ID, Content
from table_format.scan.index import may_reference, referenced_path
from table_format.scan.positions import read_positions
from table_format.write import positions
from table_format.write.positions import write_positions
from tests.fakes.clock import ManualClock

PATH = "memory://w/t/data/p.parquet"
LONG = "memory://w/t/data/" + "x" * 100


def array(*found):
    return np.array(found, dtype=np.int64)


@pytest.fixture
def store():
    return MemoryObjectStore(ManualClock())


def written(store, deleted, **properties):
    return write_positions(store, PATH, deleted, partition=("x",), spec_id=1, properties=properties)


def test_rows_are_ordered_and_each_is_there_once(store):
    file = written(store, {f"{LONG}b": array(5, 1, 5), f"{LONG}a": array(9)})
    table = pq.read_table(io.BytesIO(store.get(PATH)))
    assert table.to_pylist() == [
        {"file_path": f"{LONG}a", "pos": 9},
        {"file_path": f"{LONG}b", "pos": 1},
        {"file_path": f"{LONG}b", "pos": 5},
    ]
    ids = [int(field.metadata[b"PARQUET:field_id"]) for field in table.schema]
    assert ids == [FILE_PATH_FIELD_ID, POSITION_FIELD_ID]
    assert (file.content, file.record_count, file.partition, file.spec_id) == (
        Content.POSITION_DELETES,
        3,
        ("x",),
        1,
    )
    assert file.file_size_in_bytes == len(store.get(PATH))


def test_bounds_are_whole_paths(store):
    file = written(
        store, {f"{LONG}a": array(1), f"{LONG}c": array(1)}, **{"write.metadata.metrics.default": "none"}
    )
    bounds = (file.lower_bounds[FILE_PATH_FIELD_ID], file.upper_bounds[FILE_PATH_FIELD_ID])
    assert bounds == (f"{LONG}a".encode(), f"{LONG}c".encode())
    assert referenced_path(file) is None
    assert [may_reference(file, f"{LONG}{end}") for end in "abcd"] == [True, True, True, False]


def test_a_file_about_one_data_file_says_so(store):
    assert written(store, {LONG: array(3), "memory://other": array()}).referenced_data_file == LONG


@pytest.mark.parametrize("rows", [1, 3, 4, 5])
def test_row_groups_hold_every_row(store, monkeypatch, rows):
    monkeypatch.setattr(positions, "_GROUP_ROWS", rows)
    deleted = {f"{LONG}{n}": np.arange(n, dtype=np.int64) for n in range(1, 8)}
    file = written(store, deleted)
    assert {path: found.tolist() for path, found in read_positions(store, file).items()} == {
        path: found.tolist() for path, found in deleted.items()
    }
    groups = pq.ParquetFile(io.BytesIO(store.get(PATH))).metadata
    assert max(groups.row_group(at).num_rows for at in range(groups.num_row_groups)) <= rows


@pytest.mark.parametrize("deleted", [{}, {LONG: array()}, {LONG: array(-1, 2)}])
def test_no_rows_and_rows_before_the_first_are_refused(store, deleted):
    with pytest.raises(Invalid, match="would delete no row"):
        written(store, deleted)
    assert not store.exists(PATH)
