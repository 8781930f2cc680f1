"""Equality deletes that cannot concern a file by the metrics of both; never one that can."""

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from table_format.manifest.entries import Content, DataFile
from table_format.manifest.values import to_bytes
from table_format.scan.overlap import Overlap
from tests.factories.manifests import new_file, new_metadata

KINDS = {"a": "long", "b": "string", "c": "double"}
METADATA = new_metadata(KINDS)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.none() | st.integers(0, 4),
    "b": st.none() | st.sampled_from(["", "a", "b", "ba"]),
    "c": st.none() | st.sampled_from([-0.0, 0.0, 1.0, float("nan")]),
}


def file_of(rows: list[dict[str, Any]], **more: Any) -> DataFile:
    """A file with the metrics of these rows."""
    metrics: dict[str, dict[int, Any]] = {
        name: {}
        for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for number, (name, kind) in enumerate(KINDS.items(), 1):
        cells = [row[name] for row in rows]
        present = [cell for cell in cells if cell is not None and cell == cell]  # noqa: PLR0124 - NaN
        metrics["value_counts"][number] = len(cells)
        metrics["null_value_counts"][number] = cells.count(None)
        metrics["nan_value_counts"][number] = len(cells) - len(present) - cells.count(None)
        if present:
            metrics["lower_bounds"][number] = to_bytes(kind, min(present))
            metrics["upper_bounds"][number] = to_bytes(kind, max(present))
    return new_file(record_count=len(rows), **{**metrics, **more})


def key(row: dict[str, Any], ids: list[int]) -> str:
    return repr([row["abc"[number - 1]] for number in ids])


rows = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=3)


@given(data=rows, deleted=rows, ids=st.lists(st.sampled_from([1, 2, 3]), min_size=1, unique=True))
def test_a_delete_with_a_row_of_the_file_concerns_it(data: Any, deleted: Any, ids: list[int]) -> None:
    delete = file_of(deleted, content=Content.EQUALITY_DELETES, equality_ids=ids)
    if {key(row, ids) for row in data} & {key(row, ids) for row in deleted}:
        assert Overlap(METADATA).may_concern(delete, file_of(data))


def concerns(data: list[Any], deleted: list[Any], *, name: str = "a", **more: Any) -> bool:
    empty: dict[str, Any] = dict.fromkeys(KINDS)
    made = file_of([{**empty, name: value} for value in data])
    delete = file_of(
        [{**empty, name: value} for value in deleted],
        **{"content": Content.EQUALITY_DELETES, "equality_ids": [list(KINDS).index(name) + 1], **more},
    )
    return Overlap(METADATA).may_concern(delete, made)


@pytest.mark.parametrize(
    ("name", "data", "deleted", "expected"),
    [
        ("a", [1, 3], [4, 5], False),
        ("a", [1, 3], [3, 5], True),
        ("a", [4, 5], [1, 3], False),
        ("a", [1, None], [4, None], True),
        ("a", [1, None], [4], False),
        ("a", [None], [4], False),
        ("a", [4], [None], False),
        ("b", ["a"], ["b"], False),
        ("c", [1.0], [2.0], False),
        ("c", [1.0, float("nan")], [2.0, float("nan")], True),
        ("c", [1.0, float("nan")], [2.0], False),
    ],
)
def test_what_metrics_prove(name: str, data: list[Any], deleted: list[Any], expected: bool) -> None:
    assert concerns(data, deleted, name=name) is expected


@pytest.mark.parametrize(
    "unknown",
    [
        {"lower_bounds": None, "upper_bounds": None},
        {"lower_bounds": {1: b"?"}, "upper_bounds": {1: b"?"}},
        {"equality_ids": [99]},
        {"equality_ids": None},
        {"content": Content.POSITION_DELETES},
    ],
    ids=str,
)
def test_what_is_unknown_proves_nothing(unknown: dict[str, Any]) -> None:
    assert not concerns([1], [5])
    assert concerns([1], [5], **unknown)


def test_without_null_counts_nulls_may_meet() -> None:
    one = struct.pack("<q", 1)
    bare = new_file(lower_bounds={1: one}, upper_bounds={1: one})
    far = file_of([{"a": 5, "b": None, "c": None}], content=Content.EQUALITY_DELETES, equality_ids=[1])
    assert not Overlap(METADATA).may_concern(far, bare)
    assert Overlap(METADATA).may_concern(replace(far, null_value_counts=None), bare)
    assert Overlap(METADATA).may_concern(replace(far, null_value_counts={1: 1}), bare)
