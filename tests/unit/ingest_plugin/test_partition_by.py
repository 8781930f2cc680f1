import pytest

from ingest_plugin.keys import ConfigError
from ingest_plugin.partition_by import PartitionTerm, parse, spec_of
from table_format.jsontypes import JsonObject

SCHEMA: JsonObject = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "ts", "required": False, "type": "timestamptz"},
        {"id": 2, "name": "id", "required": False, "type": "long"},
        {"id": 3, "name": "region", "required": False, "type": "string"},
        {
            "id": 4,
            "name": "m",
            "required": False,
            "type": {
                "type": "struct",
                "fields": [{"id": 5, "name": "at", "required": False, "type": "timestamp"}],
            },
        },
        {"id": 6, "name": "price", "required": False, "type": "decimal(9, 2)"},
    ],
}


def test_all_transforms_in_any_case_and_plural() -> None:
    terms = parse(
        "[Year(ts), months(a), DAY( b ), hour(m.at), bucket(id,16), truncate(region, 4), void(x), region]"
    )
    assert [(term.iceberg_transform, term.column) for term in terms] == [
        ("year", "ts"),
        ("month", "a"),
        ("day", "b"),
        ("hour", "m.at"),
        ("bucket[16]", "id"),
        ("truncate[4]", "region"),
        ("void", "x"),
        ("identity", "region"),
    ]


def test_both_argument_orders_mean_the_same() -> None:
    assert parse("bucket(16, id)") == parse("[bucket(id,16)]") == parse(["bucket(id, 16)"])
    assert parse("truncate(4,region)") == (PartitionTerm(transform="truncate", column="region", width=4),)


@pytest.mark.parametrize("text", ["", "[]", "  ", " [ ] "])
def test_nothing_means_unpartitioned(text: str) -> None:
    assert parse(text) == ()


@pytest.mark.parametrize(
    "text",
    [
        "[day(ts)",
        "day(ts)]",
        "[day()]",
        "[bucket(id)]",
        "[bucket(1,2)]",
        "[bucket(id, 0)]",
        "[bucket(id, -1)]",
        "[truncate(a,b)]",
        "[days(a, b)]",
        "[week(ts)]",
        "[a,,b]",
        "[day(ts), day(ts)]",
        "[(a)]",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"partition\.by"):
        parse(text)


def test_an_unknown_transform_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'bucket'"):
        parse("buckt(id, 4)")


def test_the_spec_names_its_fields_as_java_does() -> None:
    spec = spec_of(
        parse("[month(ts), bucket(id, 8), truncate(region,2), price, hour(m.at), void(id)]"), SCHEMA
    )
    assert spec == {
        "spec-id": 0,
        "fields": [
            {"source-id": 1, "field-id": 1000, "name": "ts_month", "transform": "month"},
            {"source-id": 2, "field-id": 1001, "name": "id_bucket", "transform": "bucket[8]"},
            {"source-id": 3, "field-id": 1002, "name": "region_trunc", "transform": "truncate[2]"},
            {"source-id": 6, "field-id": 1003, "name": "price", "transform": "identity"},
            {"source-id": 5, "field-id": 1004, "name": "m.at_hour", "transform": "hour"},
            {"source-id": 2, "field-id": 1005, "name": "id_null", "transform": "void"},
        ],
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day(tss)", "did you mean 'ts'"),
        ("month(region)", "does not work on a string column"),
        ("hour(id)", "does not work on a long column"),
        ("truncate(ts, 3)", "does not work on a timestamptz column"),
        ("m", "does not work on a nested column"),
    ],
)
def test_a_spec_that_does_not_fit_the_columns(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        spec_of(parse(text), SCHEMA)
