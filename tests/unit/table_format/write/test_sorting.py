"""Sorting in bounded memory: runs, their levels, what stays of them, and the last look at the order."""

import os
import random
import tempfile

import pyarrow as pa
import pytest

from table_format.errors import Internal, Invalid, Unavailable, Unsupported
from table_format.schema.arrow import to_arrow
from table_format.write.ordering import Ordering
from table_format.write.sorting import Sorter

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "key", "required": False, "type": "long"},
        {"id": 2, "name": "sort key", "required": False, "type": "string"},  # as our own column is called
        {
            "id": 3,
            "name": "place",
            "required": False,
            "type": {
                "type": "struct",
                "fields": [{"id": 4, "name": "city", "required": False, "type": "string"}],
            },
        },
        {
            "id": 5,
            "name": "tags",
            "required": False,
            "type": {"type": "list", "element-id": 6, "element": "string", "element-required": False},
        },
    ],
}
ARROW = to_arrow(SCHEMA)


def order(*fields):
    return {
        "order-id": 1,
        "fields": [
            {"source-id": source, "transform": transform, "direction": "asc", "null-order": "nulls-first"}
            for source, transform in fields
        ],
    }


BY_KEY = Ordering(order((1, "identity")), SCHEMA)


def rows(*numbers):
    made = [{"key": n, "sort key": f"text {n}", "place": {"city": str(n)}, "tags": [str(n)]} for n in numbers]
    return pa.RecordBatch.from_pylist(made, schema=ARROW)


def shuffled(count):
    numbers = list(range(count))
    random.Random(7).shuffle(numbers)
    return numbers


def open_runs():
    """Files of this process that have no name any more."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:
            continue
    return [path for path in found if path.startswith(tempfile.gettempdir()) and path.endswith("(deleted)")]


def test_what_fits_into_memory_makes_no_run():
    with Sorter(ARROW, BY_KEY.keys) as sorter:
        sorter.add(rows(3, 1))
        sorter.add(rows(2))
        assert [row["key"] for batch in sorter.rows() for row in batch.to_pylist()] == [1, 2, 3]
        assert sorter.spilled_runs == 0


@pytest.mark.parametrize("batches", [2, 15, 16, 17, 260])
def test_runs_on_disk_of_several_levels_come_together_and_leave_nothing(batches):
    """With 16 runs to a level, 260 runs are three levels."""
    before = open_runs()
    numbers = shuffled(batches * 3)
    with Sorter(ARROW, BY_KEY.keys, memory=1) as sorter:
        for start in range(0, len(numbers), 3):
            sorter.add(rows(*numbers[start : start + 3]))
        assert sorter.spilled_runs == batches
        assert 1 <= len(open_runs()) - len(before) <= 3 * 15
        out = pa.Table.from_batches(list(sorter.rows()), ARROW)
    assert out.to_pylist() == rows(*range(len(numbers))).to_pylist()
    assert open_runs() == before
    assert not [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("frazil-sort-")]


def test_blocks_keep_what_is_merged_at_once_small():
    with Sorter(ARROW, BY_KEY.keys, memory=16_000) as sorter:
        for start in range(0, 4_000, 200):
            sorter.add(rows(*((start + n) * 7919 % 4_000 for n in range(200))))
        assert sorter.spilled_runs == 10
        sizes = [batch.num_rows for batch in sorter.rows()]
    assert sum(sizes) == 4_000
    assert max(sizes) < 500


def test_no_rows_are_no_batches():
    with Sorter(ARROW, BY_KEY.keys) as sorter:
        sorter.add(rows())
        assert list(sorter.rows()) == []


def test_a_run_that_the_disk_does_not_take_is_told_with_the_place(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with (
        Sorter(ARROW, BY_KEY.keys, memory=1) as sorter,
        pytest.raises(Unavailable, match=r"temporary files to .*gone.*set TMPDIR"),
    ):
        sorter.add(rows(1))


def test_rows_in_the_wrong_order_are_not_given_out():
    """As a broken kernel would leave them: within a batch, and from one to the next."""
    given = {1: b"b", 2: b"a", 3: b"c"}

    def keys(batch):
        return pa.array([given[row["key"]] for row in batch.to_pylist()], pa.large_binary())

    class Unsorted(Sorter):
        def _in_order(self):
            table = pa.Table.from_batches(self._batches, self._keyed)
            self._batches, self._held = [], 0
            return table

    for batches in ([rows(1, 2)], [rows(3), rows(1)]):
        with Unsorted(ARROW, keys) as sorter:
            for batch in batches:
                sorter.add(batch)
            with pytest.raises(Internal, match="wrong order"):
                list(sorter.rows())


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ([(9, "identity")], Invalid, "no field with id 9"),
        ([(3, "identity")], Invalid, "'place' is not of a primitive type"),
        ([(6, "identity")], Invalid, "inside a list or map"),
        ([(1, "hour")], Invalid, "hour does not take type long"),
        ([(1, "zorder")], Unsupported, "'zorder' is not known"),
    ],
)
def test_orders_that_cannot_be_followed_are_refused_with_the_reason(fields, error, message):
    with pytest.raises(error, match=message):
        Ordering(order(*fields), SCHEMA)


def test_orders_of_several_columns_and_of_columns_without_values_are_refused():
    several = {"order-id": 1, "fields": [{"source-ids": [1, 2], "transform": "identity"}]}
    with pytest.raises(Unsupported, match="several source columns"):
        Ordering(several, SCHEMA)
    unknown = {"type": "struct", "fields": [{"id": 1, "name": "u", "required": False, "type": "unknown"}]}
    with pytest.raises(Unsupported, match="'u' of type unknown has no order"):
        Ordering(order((1, "identity")), unknown)


def test_a_nested_column_orders_by_what_is_in_it():
    ordering = Ordering(order((4, "identity")), SCHEMA)
    missing = pa.RecordBatch.from_pylist(
        [{"key": 0, "place": None}, {"key": 1, "place": {"city": ""}}], schema=ARROW
    )
    with Sorter(ARROW, ordering.keys) as sorter:
        sorter.add(rows(2, 10))
        sorter.add(missing)
        assert [row["key"] for batch in sorter.rows() for row in batch.to_pylist()] == [0, 1, 10, 2]


def test_bytes_of_zero_end_no_text_early():
    """Downwards, and before another field, a text that goes on with a zero byte is still the greater one."""
    texts = [None, "", "\x00", "\x00\x00", "a", "a\x00", "a\x00b", "a\x01", "ab"]
    made = [{"key": key, "sort key": text} for text in texts for key in (-1, 1)]
    batch = pa.RecordBatch.from_pylist(made, schema=ARROW)
    fields = order((2, "identity"), (1, "identity"))["fields"]
    for direction in ("asc", "desc"):
        wanted = {"order-id": 1, "fields": [{**fields[0], "direction": direction}, fields[1]]}
        keys = Ordering(wanted, SCHEMA).keys(batch).to_pylist()
        found = [made[n]["sort key"] for n in sorted(range(len(made)), key=keys.__getitem__)][::2]
        assert found == (texts if direction == "asc" else [None, *texts[:0:-1]])
