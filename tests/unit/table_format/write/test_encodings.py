"""Which columns of a file get a dictionary: all but those that clearly have no use for one."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table_format.io.memory import MemoryObjectStore
from table_format.schema.arrow import to_arrow
from table_format.write.encodings import dictionary_columns
from table_format.write.files import DataFileWriter, FileOptions
from tests.fakes.clock import ManualClock

LIMIT = 2 << 20
ROWS = 300_000


def spread(different, rows=ROWS, seed=1):
    return np.random.default_rng(seed).integers(0, different, rows)


def kept(**columns):
    table = pa.table(columns)
    found = dictionary_columns(table, LIMIT)
    return set(columns) if found is True else set(found)


@pytest.mark.parametrize(
    ("column", "worth_it"),
    [
        (pa.array(range(ROWS)), False),
        (pa.array(spread(10**12)), False),
        (pa.array(np.random.default_rng(1).random(ROWS)), False),
        (pa.array(spread(1000)), True),
        (pa.array(spread(100_000)), True),
        (pa.array(spread(30_000).astype("float64") / 7), True),
        (pa.array([f"{n:064d}" for n in spread(100_000)]), False),
        (pa.array([f"{n:064d}" for n in spread(10_000)]), True),
        (pa.array([f"k{n}" for n in range(ROWS)]), False),
        (pa.nulls(ROWS, pa.int64()), True),
        (pa.array([None if n % 100 else n for n in range(ROWS)], pa.int64()), False),
        (pa.array(range(50)), False),
        (pa.array([7] * 50), True),
        (pa.array([], pa.int64()), True),
        # Half of the rows are one value, the others all different: not clear from a sample.
        (pa.array([0 if n % 2 else n for n in range(ROWS)]), True),
        (pa.array(spread(10), pa.int64()).dictionary_encode(), True),
    ],
)
def test_columns_whose_values_hardly_repeat_get_none(column, worth_it):
    assert (kept(x=column) == {"x"}) is worth_it


def test_files_have_dictionaries_where_they_pay_at_any_depth_and_whatever_the_names():
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "key", "required": True, "type": "long"},
            {"id": 2, "name": "dotted.name", "required": False, "type": "string"},
            {"id": 3, "name": "tags", "required": False,
             "type": {"type": "list", "element-id": 4, "element": "string", "element-required": False}},
            {"id": 5, "name": "more", "required": False,
             "type": {"type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "string",
                      "value-required": False}},
            {"id": 8, "name": "inner", "required": False,
             "type": {"type": "struct", "fields": [{"id": 9, "name": "word", "required": False, "type": "string"}]}},
            {"id": 10, "name": "guid", "required": False, "type": "uuid"},
        ],
    }  # fmt: skip
    rows = [
        {
            "key": n,
            "dotted.name": f"d{n % 5}",
            "tags": [f"t{n % 3}", None],
            "more": [(f"k{n % 2}", "v")],
            "inner": {"word": f"w{n % 4}"},
            "guid": bytes(16),
        }
        for n in range(2000)
    ]
    table = pa.Table.from_pylist(rows, schema=to_arrow(schema))
    store = MemoryObjectStore(ManualClock())
    writer = DataFileWriter(store, "memory://w/f.parquet", FileOptions.of(schema, {}).suited_to(table))
    writer.write_group(table)
    writer.finish((), 0)
    file = pq.ParquetFile(io.BytesIO(store.get("memory://w/f.parquet")))
    group = file.metadata.row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    without = {chunk.path_in_schema for chunk in chunks if not chunk.has_dictionary_page}
    assert without == {"key"}
    assert file.read().to_pylist() == table.to_pylist()
