"""Filters on files: types that grew, columns that went, specs of every age, metrics that are missing or odd."""

import struct
from collections.abc import Callable
from typing import Any

import pytest

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, FieldSummary, ManifestFile
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import TRUE, expression_json, parse_expression
from table_format.scan.matching import Matcher
from tests.factories.manifests import new_file, new_metadata


def compared(operation: str, term: Any, value: Any) -> JsonObject:
    return {"type": operation, "term": term, "value": value}


def matcher(metadata: TableMetadata, json: Any, *, case_sensitive: bool = True) -> Matcher:
    return Matcher(metadata, parse_expression(json), metadata.schema(), case_sensitive=case_sensitive)


def kept(metadata: TableMetadata, json: Any, file: DataFile) -> bool:
    return matcher(metadata, json).file_residual(file) is not None


def bounded(low: bytes, high: bytes, **more: Any) -> DataFile:
    return new_file(lower_bounds={1: low}, upper_bounds={1: high}, **more)


def int_bytes(value: int) -> bytes:
    return struct.pack("<i", value)


@pytest.mark.parametrize(
    ("kind", "low", "high", "inside", "outside"),
    [
        ("long", int_bytes(3), int_bytes(5), 4, 6),
        ("double", struct.pack("<f", 3), struct.pack("<f", 5), 4.5, 6.5),
        ("decimal(18, 2)", b"\x01", b"\x03", "0.02", "0.04"),
        ("timestamp", int_bytes(1), int_bytes(2), "1970-01-02T12:00:00", "1970-01-03T12:00:00"),
        ("timestamp_ns", int_bytes(1), int_bytes(2), "1970-01-02T12:00:00", "1970-01-03T12:00:00"),
    ],
)
def test_bounds_are_read_as_they_were_written_before_the_type_grew(
    kind: str, low: bytes, high: bytes, inside: Any, outside: Any
) -> None:
    metadata = new_metadata({"a": kind})
    file = bounded(low, high)
    assert kept(metadata, compared("eq", "a", inside), file)
    assert not kept(metadata, compared("eq", "a", outside), file)


@pytest.mark.parametrize("raw", [b"", b"\x00", b"\x00" * 9])
def test_bounds_that_cannot_be_read_exclude_nothing(raw: bytes) -> None:
    assert kept(new_metadata({"a": "long"}), compared("eq", "a", 5), bounded(raw, raw))


def test_a_bound_that_is_not_a_number_excludes_nothing() -> None:
    nan = struct.pack("<d", float("nan"))
    for operation in ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"):
        assert kept(new_metadata({"a": "double"}), compared(operation, "a", 5.0), bounded(nan, nan))


def test_cut_text_bounds_are_still_bounds() -> None:
    metadata, file = new_metadata({"a": "string"}), bounded(b"ab", b"ac")
    assert kept(metadata, compared("eq", "a", "abzzz"), file)
    assert kept(metadata, compared("starts-with", "a", "abz"), file)
    assert kept(metadata, compared("starts-with", "a", "a"), file)
    assert not kept(metadata, compared("starts-with", "a", "ad"), file)
    assert not kept(metadata, compared("starts-with", "a", "aa"), file)
    assert not kept(metadata, compared("eq", "a", "aa\U0001f600"), file)
    # Bytes of a character that was cut in the middle still sort.
    assert kept(metadata, compared("eq", "a", "a\U0001f600"), bounded(b"a\xf0\x9f", b"a\xf1"))


def test_unequal_excludes_only_a_file_of_that_one_value() -> None:
    metadata = new_metadata({"a": "string"})
    counted = {"value_counts": {1: 3}, "null_value_counts": {1: 0}}
    assert not kept(metadata, compared("not-eq", "a", "x"), bounded(b"x", b"x", **counted))
    assert kept(metadata, compared("not-eq", "a", "y"), bounded(b"x", b"x", **counted))
    assert kept(metadata, compared("not-eq", "a", "x"), bounded(b"x", b"x"))
    assert kept(metadata, compared("not-eq", "a", "x"), bounded(b"x", b"x", null_value_counts={1: 1}))
    assert not kept(metadata, compared("not-starts-with", "a", "x"), bounded(b"xa", b"xb", **counted))
    assert kept(metadata, compared("not-starts-with", "a", "xa"), bounded(b"xa", b"xb", **counted))


def test_a_file_of_nulls_holds_no_value() -> None:
    metadata = new_metadata({"a": "long"})
    nulls = new_file(value_counts={1: 3}, null_value_counts={1: 3})
    for operation in ("lt", "lt-eq", "gt", "gt-eq", "eq"):
        assert not kept(metadata, compared(operation, "a", 5), nulls)
    assert kept(metadata, compared("not-eq", "a", 5), nulls)
    assert not kept(metadata, {"type": "not-null", "term": "a"}, nulls)
    assert kept(metadata, {"type": "is-null", "term": "a"}, nulls)
    assert not kept(metadata, {"type": "is-null", "term": "a"}, new_file(null_value_counts={1: 0}))


def test_a_file_without_rows_is_left_out_only_by_a_filter() -> None:
    metadata = new_metadata({"a": "long"})
    empty = new_file(record_count=0)
    assert not kept(metadata, compared("not-eq", "a", 5), empty)
    assert kept(metadata, True, empty)


@pytest.mark.parametrize(
    ("json", "always"),
    [
        (compared("lt", "a", 2**40), True),
        (compared("gt-eq", "a", 2**40), False),
        (compared("eq", "a", 2**40), False),
        (compared("not-eq", "a", 2**40), True),
        (compared("gt", "a", -(2**40)), True),
        (compared("lt-eq", "a", -(2**40)), False),
        ({"type": "in", "term": "a", "values": [2**40]}, False),
        ({"type": "not-in", "term": "a", "values": [2**40]}, True),
        ({"type": "in", "term": "a", "values": []}, False),
        ({"type": "not", "child": compared("lt", "a", 2**40)}, False),
    ],
    ids=str,
)
def test_numbers_beyond_the_type_decide_for_every_row(json: Any, always: bool) -> None:
    found = matcher(new_metadata({"a": "int"}), json)
    assert found.file_residual(new_file()) == (TRUE if always else None)
    assert found.nothing is not always


def required(metadata: TableMetadata) -> TableMetadata:
    schema = metadata.schema()
    fields = [{**field, "required": True} for field in schema["fields"]]
    return TableMetadata({**metadata.document, "schemas": [{**schema, "fields": fields}]})


def test_a_required_column_has_no_nulls() -> None:
    metadata = required(new_metadata({"a": "int"}))
    assert matcher(metadata, {"type": "is-null", "term": "a"}).nothing
    assert matcher(metadata, {"type": "not-null", "term": "a"}).file_residual(new_file()) == TRUE


@pytest.mark.parametrize(
    ("json", "complaint"),
    [
        ({"type": "is-null", "term": "b"}, "the column 'b'"),
        ({"type": "is-null", "term": "A"}, "the column 'A'"),
        ({"type": "is-null", "child": {"type": "reference", "id": 77}}, "the column with the id 77"),
        ({"type": "is-nan", "term": "a"}, "is-nan of a, which is of type long"),
        (compared("starts-with", "a", "x"), "starts-with of a, which is of type long"),
        (compared("eq", "s", 1), "which is of type a struct"),
        ({"type": "is-nan", "term": "s"}, "which is of type a struct"),
        (compared("eq", "l.element", 1), "inside a list or map"),
        (compared("eq", "m.value.x", 1), "inside a list or map"),
        (compared("eq", {"type": "transform", "transform": "year", "term": "a"}, 1), "'year' to 'a'"),
        (compared("eq", {"type": "transform", "transform": "spiral[3]", "term": "a"}, 1), "'spiral\\[3\\]' to 'a'"),
        (compared("eq", {"type": "transform", "transform": "bucket[0]", "term": "a"}, 1), "'bucket\\[0\\]' to 'a'"),
        (compared("eq", {"type": "transform", "transform": "bucket[3]", "term": "a"}, "x"), "bucket\\[3\\]\\(a\\)"),
    ],
    ids=str,
)  # fmt: skip
def test_filters_that_do_not_fit_the_schema(json: Any, complaint: str) -> None:
    with pytest.raises(Invalid, match=complaint):
        matcher(nested(), json)


def nested() -> TableMetadata:
    leaf = {"id": 11, "name": "x", "type": "int", "required": False}
    fields: list[JsonObject] = [
        {"id": 1, "name": "a", "type": "long", "required": False},
        {"id": 2, "name": "s", "type": {"type": "struct", "fields": [leaf]}, "required": False},
        {
            "id": 3,
            "name": "l",
            "required": False,
            "type": {"type": "list", "element-id": 12, "element": "int", "element-required": False},
        },
        {
            "id": 4,
            "name": "m",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 13,
                "key": "string",
                "value-id": 14,
                "value": {"type": "struct", "fields": [{**leaf, "id": 15}]},
                "value-required": False,
            },
        },
    ]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return TableMetadata({**new_metadata().document, "schemas": [schema]})


def test_columns_inside_structs_are_named_with_dots() -> None:
    file = new_file(lower_bounds={11: int_bytes(3)}, upper_bounds={11: int_bytes(5)})
    assert kept(nested(), compared("eq", "s.x", 4), file)
    assert not kept(nested(), compared("eq", "s.x", 6), file)
    assert kept(nested(), {"type": "is-null", "term": "s"}, file)
    assert kept(nested(), {"type": "not-null", "term": "l"}, file)


def test_names_in_any_case_and_ids_are_found_where_asked_for() -> None:
    metadata = new_metadata({"Name": "long"})
    found = matcher(metadata, compared("eq", "nAME", 3), case_sensitive=False)
    residual = found.file_residual(new_file())
    assert residual is not None
    assert expression_json(residual) == compared("eq", "nAME", 3)
    by_id = matcher(metadata, {"type": "eq", "left": {"type": "reference", "id": 1}, "right": 3})
    residual = by_id.file_residual(new_file())
    assert residual is not None
    assert expression_json(residual) == compared("eq", "Name", 3)


def test_two_names_that_differ_in_case_only_are_not_guessed_between() -> None:
    metadata = new_metadata({"a": "long", "A": "long"})
    with pytest.raises(Invalid, match="'a' and 'A'"):
        matcher(metadata, compared("eq", "a", 3), case_sensitive=False)
    assert kept(metadata, compared("eq", "a", 3), new_file())


def test_each_file_is_asked_by_its_own_spec() -> None:
    fields = [
        [{"source-id": 1, "field-id": 1000, "name": "a", "transform": "identity"}],
        [{"source-id": 1, "field-id": 1001, "name": "a_bucket", "transform": "bucket[16]"}],
        [{"source-id": 1, "field-id": 1002, "name": "a_spiral", "transform": "spiral[3]"}],
        [{"source-id": 99, "field-id": 1003, "name": "gone", "transform": "identity"}],
        [],
    ]
    specs = [{"spec-id": number, "fields": each} for number, each in enumerate(fields)]
    metadata = TableMetadata({**new_metadata({"a": "long"}).document, "partition-specs": specs})
    json = compared("eq", "a", 34)
    found = matcher(metadata, json)

    def residual(spec_id: int, *partition: Any) -> Any:
        left = found.file_residual(new_file(spec_id=spec_id, partition=partition))
        return None if left is None else expression_json(left)

    assert residual(0, 34) is True
    assert residual(0, 35) is None
    assert residual(0, None) is None
    assert residual(1, 3) == json
    assert residual(1, 4) is None
    assert residual(2, 4) == json
    assert residual(3, "x") == json
    assert residual(4) == json


def test_a_transform_term_is_answered_by_that_partition_and_by_bounds() -> None:
    metadata = new_metadata({"a": "date"}, [("a", "bucket[16]"), ("a", "month")])
    bucket = matcher(
        metadata, compared("eq", {"type": "transform", "transform": "bucket[16]", "term": "a"}, 3)
    )
    assert bucket.file_residual(new_file(partition=(3, 0))) == TRUE
    assert bucket.file_residual(new_file(partition=(4, 0))) is None
    day = matcher(
        metadata, compared("lt", {"type": "transform", "transform": "day", "term": "a"}, "1970-01-03")
    )
    assert day.file_residual(bounded(int_bytes(2), int_bytes(9), partition=(0, 0))) is None
    assert day.file_residual(bounded(int_bytes(1), int_bytes(9), partition=(0, 0))) is not None


def test_truncated_integers_that_wrapped_around_are_found() -> None:
    """The least int, truncated to tens, is stored as 2147483646: below the least value there is nothing."""
    metadata = new_metadata({"a": "int"}, [("a", "truncate[10]")])
    wrapped = new_file(partition=(2_147_483_646,))
    assert kept(metadata, compared("lt", "a", 0), wrapped)
    assert kept(metadata, compared("eq", "a", -(2**31)), wrapped)
    assert not kept(metadata, compared("gt", "a", 0), wrapped)
    summaries = [
        FieldSummary(contains_null=False, lower_bound=int_bytes(0), upper_bound=int_bytes(2_147_483_646))
    ]
    manifest = ManifestFile(path="m", length=1, spec_id=0, partitions=summaries)
    assert matcher(metadata, compared("lt", "a", 0)).manifest_may_match(manifest)


def long_bytes(value: int) -> bytes:
    return struct.pack("<q", value)


def test_truncated_integers_that_wrapped_around_are_found_when_the_column_is_a_long_by_now() -> None:
    metadata = new_metadata({"a": "long"}, [("a", "truncate[10]")])
    for wrapped, least in [(2**31 - 2, -(2**31)), (2**63 - 2, -(2**63))]:
        file = new_file(partition=(wrapped,))
        assert kept(metadata, compared("lt", "a", 0), file)
        assert kept(metadata, compared("eq", "a", least), file)
        assert not kept(metadata, compared("gt", "a", 0), file)
        residual = matcher(metadata, compared("lt", "a", least)).file_residual(file)
        assert residual is None or residual != TRUE
    assert kept(metadata, compared("gt", "a", 2**31), new_file(partition=(2**31 + 10 - 2**31 % 10,)))


@pytest.mark.parametrize(
    ("kind", "low", "high", "kept_below"),
    [
        # 2147483643 is the least int truncated to sevens, and 2147483646 the greatest.
        ("int", int_bytes(0), int_bytes(2_147_483_646), True),
        ("int", int_bytes(0), int_bytes(2_147_483_639), False),
        ("long", int_bytes(0), long_bytes(7 * 2**40), True),
        ("long", long_bytes(7 * 2**30), long_bytes(7 * 2**40), False),
        ("long", long_bytes(7 * 2**40), long_bytes(2**63 - 1 - (2**63 - 1) % 7), True),
    ],
)
def test_a_manifest_whose_greatest_value_may_hide_one_that_wrapped_around_is_read(
    kind: str, low: bytes, high: bytes, kept_below: bool
) -> None:
    metadata = new_metadata({"a": kind}, [("a", "truncate[7]")])
    manifest = manifest_of(contains_null=False, lower_bound=low, upper_bound=high)
    assert matcher(metadata, compared("lt", "a", -7)).manifest_may_match(manifest) is kept_below
    whole = new_metadata({"a": kind}, [("a", "truncate[8]")])
    assert not matcher(whole, compared("lt", "a", -7)).manifest_may_match(manifest)


_COMPARE: dict[str, Callable[[int, list[int]], bool]] = {
    "lt": lambda unit, values: unit < values[0],
    "lt-eq": lambda unit, values: unit <= values[0],
    "gt": lambda unit, values: unit > values[0],
    "gt-eq": lambda unit, values: unit >= values[0],
    "eq": lambda unit, values: unit == values[0],
    "not-eq": lambda unit, values: unit != values[0],
    "in": lambda unit, values: unit in values,
    "not-in": lambda unit, values: unit not in values,
}


@pytest.mark.parametrize("operation", _COMPARE)
@pytest.mark.parametrize("name", ["year", "month", "day", "hour"])
def test_time_units_of_old_writers_are_found_when_the_unit_itself_is_asked_for(
    operation: str, name: str
) -> None:
    """Before 1970 they stored the unit after the right one."""
    metadata = new_metadata({"a": "timestamp"}, [("a", name)])
    units = range(-4, 5)
    decided = 0
    for values in ([first, second] for first in units for second in units):
        literal = {"values": values} if operation in ("in", "not-in") else {"value": values[0]}
        term = {"type": "transform", "transform": name, "term": "a"}
        asked = matcher(metadata, {"type": operation, "term": term, **literal})
        for unit in units:
            for stored in {unit, unit + 1} if unit < 0 else {unit}:
                matches, residual = _COMPARE[operation](unit, values), asked.file_residual(_of_unit(stored))
                assert residual is not None or not matches, (values, unit, stored)
                assert residual != TRUE or matches, (values, unit, stored)
                decided += residual is None or residual == TRUE
    assert decided > 300


def _of_unit(stored: int) -> DataFile:
    return new_file(partition=(stored,))


def manifest_of(**summary: Any) -> ManifestFile:
    return ManifestFile(path="m", length=1, spec_id=0, partitions=[FieldSummary(**summary)])


LOW, HIGH = struct.pack("<q", 3), struct.pack("<q", 5)


@pytest.mark.parametrize(
    ("json", "summary", "expected"),
    [
        (compared("eq", "a", 4), {"contains_null": False, "lower_bound": LOW, "upper_bound": HIGH}, True),
        (compared("eq", "a", 6), {"contains_null": True, "lower_bound": LOW, "upper_bound": HIGH}, False),
        (compared("eq", "a", 6), {"contains_null": True}, False),
        (compared("eq", "a", 6), {"contains_null": False}, True),
        (compared("not-eq", "a", 6), {"contains_null": True}, True),
        (compared("not-eq", "a", 3), {"contains_null": False, "lower_bound": LOW, "upper_bound": LOW}, False),
        (compared("not-eq", "a", 3), {"contains_null": True, "lower_bound": LOW, "upper_bound": LOW}, True),
        ({"type": "is-null", "term": "a"}, {"contains_null": False}, False),
        ({"type": "is-null", "term": "a"}, {"contains_null": True}, True),
        ({"type": "not-null", "term": "a"}, {"contains_null": True}, False),
        ({"type": "not-null", "term": "a"}, {"contains_null": True, "lower_bound": LOW}, True),
    ],
    ids=str,
)
def test_what_partition_summaries_exclude(json: Any, summary: dict[str, Any], expected: bool) -> None:
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    assert matcher(metadata, json).manifest_may_match(manifest_of(**summary)) is expected


def test_manifests_without_summaries_may_match() -> None:
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    for partitions in (None, []):
        manifest = ManifestFile(path="m", length=1, spec_id=0, partitions=partitions)
        assert matcher(metadata, compared("eq", "a", 6)).manifest_may_match(manifest)


def test_many_partitions_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table_format.scan.matching._REMEMBERED", 3)
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    found = matcher(metadata, compared("lt", "a", 50))
    assert [found.file_residual(new_file(partition=(n % 100,))) is not None for n in range(200)] == [
        n % 100 < 50 for n in range(200)
    ]


def test_a_long_list_is_compared_with_partitions_but_not_with_bounds() -> None:
    metadata = new_metadata({"a": "long"}, [("a", "identity")])
    json = {"type": "in", "term": "a", "values": list(range(0, 1000, 2))}
    assert matcher(metadata, json).file_residual(new_file(partition=(4,))) == TRUE
    assert not kept(metadata, json, new_file(partition=(5,)))
    plain = new_metadata({"a": "long"})
    assert kept(plain, json, bounded(struct.pack("<q", 5000), struct.pack("<q", 6000)))
