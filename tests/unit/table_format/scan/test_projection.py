"""Every test of small values against every partition and range: what matches is kept, what must match does."""

from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any

import pytest

from table_format.manifest.entries import FieldSummary
from table_format.manifest.values import to_bytes
from table_format.scan.binding import Bound, BoundPredicate, bind
from table_format.scan.comparables import ValueTransform
from table_format.scan.expressions import parse_expression
from table_format.scan.metrics import file_test, summary_test
from table_format.scan.projection import PartitionField, inclusive, strict
from table_format.schema.types import parse_primitive
from tests.factories.manifests import new_file, new_metadata
from tests.factories.scan_worlds import COLUMNS, filter_json, holds, partition_value

HOUR = 3_600_000_000
DAY = 24 * HOUR
TEXTS = ["", "a", "aa", "aab", "ab", "ba", "bab", "é", "éa"]
DOMAINS: dict[str, list[Any]] = {
    "i": [-(2**31), -(2**31) + 1, *range(-5, 6), 2**31 - 2, 2**31 - 1],
    "l": [-(2**63), *range(-4, 5), 2**63 - 1],
    "g": [-1.5, 0.0, 1.0, 2.5],
    "s": TEXTS,
    "d": [-366, -365, -32, -31, -30, -1, 0, 1, 30, 31, 364, 365],
    "t": [-365 * DAY - 1, -DAY - 1, -DAY, -HOUR - 1, -HOUR, -1, 0, 1, HOUR - 1, HOUR, DAY - 1, DAY, 31 * DAY],
    "p": [Decimal(cents).scaleb(-2) for cents in range(-5, 6)],
    "b": [b"", b"a", b"aa", b"ab", b"b", b"\xff"],
}
TRANSFORMS = {
    "i": ["identity", "bucket[3]", "truncate[2]", "truncate[3]"],
    "l": ["identity", "truncate[3]"],
    "g": ["identity"],
    "s": ["identity", "bucket[3]", "truncate[1]", "truncate[2]"],
    "d": ["identity", "bucket[3]", "year", "month", "day"],
    "t": ["identity", "year", "month", "day", "hour"],
    "p": ["identity", "bucket[3]", "truncate[3]"],
    "b": ["identity", "truncate[1]"],
}
LITERALS = {**DOMAINS, "p": [*DOMAINS["p"], Decimal("0.005"), Decimal("-0.025"), Decimal(3)]}
COMPARED = ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]
CASES = [(name, transform) for name, transforms in TRANSFORMS.items() for transform in transforms]


def predicates_of(name: str) -> list[tuple[Any, ...]]:
    values = LITERALS[name]
    found: list[tuple[Any, ...]] = [(each, name, value) for each in COMPARED for value in values]
    found += [
        (each, name, [first, second])
        for each in ("in", "not-in")
        for first, second in zip(values, values[2:], strict=False)
    ]
    found += [("is-null", name), ("not-null", name)]
    if name == "s":
        found += [(each, name, value) for each in ("starts-with", "not-starts-with") for value in values]
    return found


def bound(name: str, test: tuple[Any, ...]) -> Bound:
    columns = {name: COLUMNS[name]}
    schema = new_metadata(columns).schema()
    return bind(parse_expression(filter_json(test, columns)), schema)


@pytest.mark.parametrize(("name", "transform"), CASES)
def test_projections(name: str, transform: str) -> None:
    made = ValueTransform.of(transform, parse_primitive(COLUMNS[name]))
    assert made is not None
    field = PartitionField(0, 1, made)
    partitions = [
        (value, (partition_value(value, COLUMNS[name], transform),)) for value in [*DOMAINS[name], None]
    ]
    decided = 0
    for test in predicates_of(name):
        predicate = bound(name, test)
        assert isinstance(predicate, BoundPredicate)
        may, must = inclusive(predicate, field), strict(predicate, field)
        for value, partition in partitions:
            matches = holds(test, {name: value})
            if may is not None and not may.may_match(partition):
                assert not matches, (test, value)
                decided += 1
            if must is not None and must.must_match(partition):
                assert matches, (test, value)
                decided += 1
    assert decided > 20


@pytest.mark.parametrize(("name", "transform"), CASES)
def test_summaries(name: str, transform: str) -> None:
    kind = parse_primitive(COLUMNS[name])
    made = ValueTransform.of(transform, kind)
    assert made is not None
    field = PartitionField(0, 1, made)
    ends = [(value, partition_value(value, COLUMNS[name], transform)) for value in DOMAINS[name]]
    pairs = [
        (
            (first[0], second[0]),
            FieldSummary(
                contains_null=False,
                contains_nan=False,
                lower_bound=to_bytes(made.result, min(first[1], second[1])),
                upper_bound=to_bytes(made.result, max(first[1], second[1])),
            ),
        )
        for first, second in combinations_with_replacement(ends, 2)
    ]
    excluded = 0
    for test in predicates_of(name):
        predicate = bound(name, test)
        assert isinstance(predicate, BoundPredicate)
        projected = inclusive(predicate, field)
        may_match = None if projected is None else summary_test(projected)
        for values, summary in pairs:
            if may_match is not None and not may_match([summary]):
                assert not any(holds(test, {name: value}) for value in values), (test, values)
                excluded += 1
    assert excluded > 20


@pytest.mark.parametrize("name", DOMAINS)
def test_ranges_of_a_file(name: str) -> None:
    kind = COLUMNS[name]
    metrics = {"value_counts": {1: 2}, "null_value_counts": {1: 0}, "nan_value_counts": {1: 0}}
    excluded = 0
    for test in predicates_of(name):
        may_match = file_test(bound(name, test))
        assert may_match is not None
        for low, high in combinations_with_replacement(sorted(DOMAINS[name]), 2):
            file = new_file(
                lower_bounds={1: to_bytes(kind, low)}, upper_bounds={1: to_bytes(kind, high)}, **metrics
            )
            matching = any(holds(test, {name: value}) for value in DOMAINS[name] if low <= value <= high)
            if may_match(file):
                continue
            assert not matching, (test, low, high)
            excluded += 1
    assert excluded > 50
