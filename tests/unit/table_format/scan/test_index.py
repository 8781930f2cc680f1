"""Which deletes apply to which data file: both boundaries of each rule."""

import math

import pytest

from table_format.errors import Internal, Invalid
from table_format.manifest.entries import Content, DataFile, ManifestEntry, Partition, Status
from table_format.scan.index import (
    FILE_PATH_FIELD_ID,
    DeleteIndex,
    may_reference,
    referenced_path,
    sequence_of,
)
from table_format.scan.partitions import is_unpartitioned, partition_key

UNPARTITIONED = {"spec-id": 0, "fields": []}
BY_NAME = {
    "spec-id": 1,
    "fields": [{"source-id": 1, "field-id": 1000, "name": "n", "transform": "identity"}],
}
VOIDED = {"spec-id": 2, "fields": [{"source-id": 1, "field-id": 1000, "name": "n", "transform": "void"}]}
SPECS = [UNPARTITIONED, BY_NAME, VOIDED]


def entry(path: str, sequence: int | None, **file: object) -> ManifestEntry:
    defaults: dict[str, object] = {"record_count": 1, "file_size_in_bytes": 1}
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=1,
        sequence_number=sequence,
        file_sequence_number=sequence,
        data_file=DataFile(file_path=path, **{**defaults, **file}),  # type: ignore[arg-type]
    )


def data(path: str, sequence: int, spec_id: int = 1, partition: Partition = ("a",)) -> ManifestEntry:
    return entry(path, sequence, spec_id=spec_id, partition=partition)


def equality(path: str, sequence: int, spec_id: int = 1, partition: Partition = ("a",)) -> ManifestEntry:
    return entry(
        path,
        sequence,
        spec_id=spec_id,
        partition=partition,
        content=Content.EQUALITY_DELETES,
        equality_ids=[1],
    )


def position(path: str, sequence: int, **file: object) -> ManifestEntry:
    where: dict[str, object] = {"spec_id": 1, "partition": ("a",)}
    return entry(path, sequence, content=Content.POSITION_DELETES, **{**where, **file})


def vector(path: str, sequence: int, **file: object) -> ManifestEntry:
    return position(path, sequence, file_format="PUFFIN", **file)


def applied(deletes: list[ManifestEntry], target: ManifestEntry) -> list[str]:
    return [found.data_file.file_path for found in DeleteIndex(deletes, SPECS).applying_to(target)]


def test_maint_E2_equality_delete_reaches_strictly_older_data_only() -> None:
    deletes = [equality("e4", 4), equality("e5", 5), equality("e6", 6)]
    assert applied(deletes, data("d", 5)) == ["e6"]
    assert applied(deletes, data("d", 4)) == ["e5", "e6"]
    assert applied(deletes, data("d", 3)) == ["e4", "e5", "e6"]
    assert applied(deletes, data("d", 6)) == []


def test_maint_E2_position_delete_reaches_data_of_its_own_age() -> None:
    deletes = [position("p4", 4), position("p5", 5), position("p6", 6)]
    assert applied(deletes, data("d", 5)) == ["p5", "p6"]
    assert applied(deletes, data("d", 6)) == ["p6"]
    assert applied(deletes, data("d", 7)) == []


def test_maint_C3_upserted_row_of_the_same_commit_survives() -> None:
    assert applied([equality("e", 2)], data("new row", 2)) == []


def test_deletes_keep_to_their_partition_and_spec() -> None:
    deletes = [equality("e-a", 9), equality("e-b", 9, partition=("b",)), position("p-b", 9, partition=("b",))]
    assert applied(deletes, data("d", 1)) == ["e-a"]
    assert applied(deletes, data("d", 1, partition=("b",))) == ["p-b", "e-b"]
    assert applied(deletes, data("d", 1, spec_id=0, partition=())) == []
    assert applied(deletes, data("d", 1, partition=(None,))) == []


@pytest.mark.parametrize(("spec_id", "partition"), [(0, ()), (2, (None,))])
def test_equality_delete_of_an_unpartitioned_spec_is_global(spec_id: int, partition: Partition) -> None:
    deletes = [equality("g", 5, spec_id=spec_id, partition=partition)]
    assert applied(deletes, data("d", 4)) == ["g"]
    assert applied(deletes, data("d", 4, spec_id=0, partition=())) == ["g"]
    assert applied(deletes, data("d", 5)) == []


def test_position_delete_of_an_unpartitioned_spec_is_not_global() -> None:
    deletes = [position("p", 5, spec_id=0, partition=())]
    assert applied(deletes, data("d", 4)) == []
    assert applied(deletes, data("d", 4, spec_id=0, partition=())) == ["p"]


def test_position_delete_that_names_its_file_applies_to_that_alone() -> None:
    deletes = [position("p", 5, referenced_data_file="d1")]
    assert applied(deletes, data("d1", 5)) == ["p"]
    assert applied(deletes, data("d2", 5)) == []
    assert applied(deletes, data("d1", 6)) == []


def bounds(lower: str, upper: str) -> dict[str, object]:
    return {
        "lower_bounds": {FILE_PATH_FIELD_ID: lower.encode()},
        "upper_bounds": {FILE_PATH_FIELD_ID: upper.encode()},
    }


def test_position_delete_with_equal_bounds_names_its_file() -> None:
    deletes = [position("p", 5, **bounds("d1", "d1"))]
    assert referenced_path(deletes[0].data_file) == "d1"
    assert applied(deletes, data("d1", 5)) == ["p"]
    assert applied(deletes, data("d2", 5)) == []


def test_position_delete_is_left_out_by_its_bounds() -> None:
    deletes = [position("p", 5, **bounds("d2", "d4"))]
    assert [path for path in ("d1", "d2", "d3", "d4", "d5") if applied(deletes, data(path, 5))] == [
        "d2",
        "d3",
        "d4",
    ]


def test_bounds_that_were_cut_exclude_nothing_they_should_not() -> None:
    cut = position("p", 5, **bounds("s3://b/da", "s3://b/db")).data_file
    assert may_reference(cut, "s3://b/data/x.parquet")
    assert may_reference(cut, "s3://b/db/longer-than-the-cut")
    assert not may_reference(cut, "s3://b/e")
    assert may_reference(position("p", 5).data_file, "anything")
    named = position("p", 5, referenced_data_file="d1").data_file
    assert (may_reference(named, "d1"), may_reference(named, "d2")) == (True, False)


def test_vector_replaces_position_deletes_of_its_file_only() -> None:
    deletes = [vector("v", 5, referenced_data_file="d1"), position("p", 5), equality("e", 5)]
    assert applied(deletes, data("d1", 4)) == ["v", "e"]
    assert applied(deletes, data("d2", 4)) == ["p", "e"]
    assert applied(deletes, data("d1", 5)) == ["v"]
    assert applied(deletes, data("d1", 6)) == []


def test_vectors_of_several_files_share_one_puffin_file() -> None:
    deletes = [
        vector("v", 5, referenced_data_file="d1", content_offset=4),
        vector("v", 5, referenced_data_file="d2", content_offset=90),
    ]
    index = DeleteIndex(deletes, SPECS)
    assert [e.data_file.content_offset for e in index.applying_to(data("d2", 1))] == [90]


def test_vectors_that_make_no_sense_are_refused() -> None:
    with pytest.raises(Invalid, match="does not say which"):
        DeleteIndex([vector("v", 5)], SPECS)
    with pytest.raises(Invalid, match="two deletion vectors"):
        DeleteIndex(
            [vector("v", 5, referenced_data_file="d"), vector("w", 6, referenced_data_file="d")], SPECS
        )


def test_entry_that_was_never_read_is_refused() -> None:
    with pytest.raises(Internal):
        sequence_of(entry("d", None))


def test_nan_partition_equals_itself_and_zeros_differ() -> None:
    nan, other = float("nan"), math.nan * 2
    assert partition_key((nan,)) == partition_key((other,))
    assert partition_key((0.0, "a")) != partition_key((-0.0, "a"))
    assert partition_key((0.0, "a")) == partition_key((0.0, "a"))
    deletes = [equality("e", 5, partition=(nan,))]
    assert applied(deletes, data("d", 1, partition=(other,))) == ["e"]


def test_only_void_transforms_count_as_unpartitioned() -> None:
    assert [is_unpartitioned(spec) for spec in SPECS] == [True, False, True]


def test_files_of_one_age_and_partition_share_their_deletes() -> None:
    index = DeleteIndex([equality(f"e{n}", 100 + n) for n in range(50)], SPECS)
    first, second = index.applying_to(data("d1", 7)), index.applying_to(data("d2", 7))
    assert first is second
    assert len(first) == 50
