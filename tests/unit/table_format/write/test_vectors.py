"""Deletion vectors as we write them: our reader, the Roaring library and PyIceberg find the same rows."""

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap64

from table_format.errors import AlreadyExists, Invalid
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, DataFile
from table_format.scan.vectors import read_vector
from table_format.write.vectors import vector_blob, write_vectors
from tests.fakes.clock import ManualClock

PATH = "memory://w/t/data/x.puffin"


def data_file(name="a", **changes):
    return DataFile(
        file_path=f"memory://w/t/data/{name}.parquet", record_count=10, file_size_in_bytes=9, **changes
    )


def array(*positions):
    return np.array(positions, dtype=np.int64)


@pytest.fixture
def store():
    return MemoryObjectStore(ManualClock())


def read(store, file):
    return np.concatenate(list(read_vector(store, file).positions())).tolist()


@pytest.mark.parametrize(
    "positions",
    [
        [0],
        [0, 65535, 65536, 2**32 - 1, 2**32, 2**40, 2**62],
        range(4096),
        range(4097),
        range(200_000),
        [*range(0, 131072, 2), 2**33, 2**33 + 5],
    ],
    ids=str,
)
def test_every_kind_of_container(store, positions):
    file = data_file()
    (entry,) = write_vectors(store, PATH, [(file, np.array(positions, dtype=np.int64))], created_by="x")
    assert read(store, entry) == list(positions)
    blob = vector_blob(np.array(positions, dtype=np.int64))
    assert list(BitMap64.deserialize(blob[8:-4])) == list(positions)
    assert entry.record_count == len(positions)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.integers(0, 300_000) | st.integers(2**32 - 50, 2**32 + 70_000) | st.integers(0, 2**62), min_size=1
    )
)
def test_any_positions(positions):
    store = MemoryObjectStore(ManualClock())
    (entry,) = write_vectors(store, PATH, [(data_file(), array(*positions))], created_by="x")
    assert read(store, entry) == sorted(set(positions))
    assert list(BitMap64.deserialize(vector_blob(np.unique(array(*positions)))[8:-4])) == sorted(
        set(positions)
    )


def test_several_vectors_in_one_file(store):
    first = data_file("a", spec_id=1, partition=("x",))
    second = data_file("b", spec_id=0, partition=())
    one, two = write_vectors(store, PATH, [(first, array(3, 1, 3)), (second, array(7))], created_by="us")
    assert (read(store, one), read(store, two)) == ([1, 3], [7])
    content = store.get(PATH)
    assert {one.file_size_in_bytes, two.file_size_in_bytes} == {len(content)}
    assert (one.content_offset, two.content_offset) == (4, 4 + one.content_size_in_bytes)
    assert [file.referenced_data_file for file in (one, two)] == [first.file_path, second.file_path]
    assert [(file.spec_id, file.partition) for file in (one, two)] == [(1, ("x",)), (0, ())]
    assert {(file.content, file.file_format) for file in (one, two)} == {(Content.POSITION_DELETES, "PUFFIN")}
    size = int.from_bytes(content[-12:-8], "little")
    footer = orjson.loads(content[-12 - size : -12])
    assert content[:4] == content[-4:] == content[-16 - size : -12 - size] == b"PFA1"
    assert footer["properties"] == {"created-by": "us"}
    assert footer["blobs"][1] == {
        "type": "deletion-vector-v1",
        "fields": [2147483645],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": two.content_offset,
        "length": two.content_size_in_bytes,
        "properties": {"referenced-data-file": second.file_path, "cardinality": "1"},
    }
    vectors = deletion_vectors_from_puffin_file(PuffinFile(content))
    assert {vector.referenced_data_file: vector.to_vector().to_pylist() for vector in vectors} == {
        first.file_path: [1, 3],
        second.file_path: [7],
    }


@pytest.mark.parametrize("positions", [[], [-1, 3], [2**63 - 1]])
def test_positions_that_no_vector_can_have_are_refused(store, positions):
    with pytest.raises(Invalid, match=r"a\.parquet cannot have a vector"):
        write_vectors(store, PATH, [(data_file(), array(*positions))], created_by="x")
    assert not store.exists(PATH)


def test_a_file_in_the_way_stays(store):
    store.put(PATH, b"x")
    with pytest.raises(AlreadyExists):
        write_vectors(store, PATH, [(data_file(), array(1))], created_by="x")
    assert store.get(PATH) == b"x"
