import pytest

from table_format.metadata import transforms


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("identity", "identity"),
        ("YEAR", "year"),
        ("month", "month"),
        ("day", "day"),
        ("Hour", "hour"),
        ("void", "void"),
        ("bucket[16]", "bucket[16]"),
        ("Truncate[04]", "truncate[4]"),
        ("bucket[2147483647]", "bucket[2147483647]"),
        ("bucket[2147483648]", None),
        ("bucket[0]", None),
        ("bucket[-1]", None),
        ("bucket", None),
        ("bucket[١]", None),
        ("day[3]", None),
        ("zorder", None),
        ("", None),
        (" identity", None),
    ],
)
def test_canonical(text: str, canonical: str | None) -> None:
    assert transforms.canonical(text) == canonical


@pytest.mark.parametrize(
    ("transform", "yes", "no"),
    [
        (
            "identity",
            ["boolean", "double", "fixed[3]", "string"],
            ["variant", "geometry(EPSG:3857)", "geography"],
        ),
        ("void", ["variant", "boolean"], []),
        ("year", ["date", "timestamp", "timestamptz", "timestamp_ns"], ["time", "string", "long"]),
        ("month", ["date"], ["int"]),
        ("day", ["timestamptz_ns"], ["int"]),
        ("hour", ["timestamp", "timestamptz"], ["date", "time"]),
        (
            "bucket[8]",
            ["int", "long", "decimal(9, 2)", "fixed[3]", "uuid", "binary", "time", "date"],
            ["double", "float", "boolean"],
        ),
        ("truncate[8]", ["int", "long", "decimal(9, 2)", "string", "binary"], ["fixed[3]", "uuid", "date"]),
    ],
)
def test_takes(transform: str, yes: list[str], no: list[str]) -> None:
    assert [primitive for primitive in yes if not transforms.takes(transform, primitive)] == []
    assert [primitive for primitive in no if transforms.takes(transform, primitive)] == []
