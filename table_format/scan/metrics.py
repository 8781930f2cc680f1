"""Whether a data file, or a manifest, can hold matching rows by its counts and bounds (Java's inclusive evaluators).

Unknown metrics exclude nothing, and neither does a bound that cannot be read. Bounds of text may be cut: a lower one is
a prefix, an upper one is raised, so both stay bounds and compare as bytes.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

from table_format.manifest.entries import DataFile, FieldSummary
from table_format.scan.binding import Bound, BoundPredicate, Test, compiled
from table_format.scan.comparables import bound_reader
from table_format.scan.expressions import TRUE, Operation
from table_format.scan.literals import Comparable
from table_format.scan.projection import PartitionTest

IN_LIMIT = 200
"""Longer lists are not compared with bounds one by one, as in Java and PyIceberg."""

Range: TypeAlias = tuple[Comparable | None, Comparable | None]
Summaries: TypeAlias = Sequence[FieldSummary]

_ORDERED = frozenset({Operation.LT, Operation.LT_EQ, Operation.GT, Operation.GT_EQ})
_POSITIVE = _ORDERED | {Operation.EQ, Operation.IN, Operation.STARTS_WITH}


def file_test(bound: Bound) -> Test[DataFile] | None:
    """Whether a data file may hold matching rows, by its own metrics; None when there is no filter.

    A file without rows matches no filter at all.
    """
    if bound == TRUE:
        return None
    test = compiled(bound, _file_leaf)

    def may_match(file: DataFile) -> bool:
        return file.record_count != 0 and (test is None or test(file))

    return may_match


def _file_leaf(predicate: BoundPredicate) -> Test[DataFile] | None:
    operation, term = predicate.operation, predicate.term
    column = _Column(term.field_id)
    if term.transform is not None and term.transform.name == "void":
        return None
    match operation:
        case Operation.IS_NULL:
            return column.may_be_null
        case Operation.NOT_NULL:
            return lambda file: not column.only_nulls(file)
        case Operation.IS_NAN:
            return lambda file: column.may_be_nan(file) and not column.only_nulls(file)
        case Operation.NOT_NAN:
            return lambda file: not column.only_nans(file)
    by_range = _file_range_test(predicate, column)
    if operation not in _POSITIVE:
        return by_range
    if by_range is None:
        return lambda file: not column.only_nulls(file) and not column.only_nans(file)
    return lambda file: not column.only_nulls(file) and not column.only_nans(file) and by_range(file)


def _file_range_test(predicate: BoundPredicate, column: "_Column") -> Test[DataFile] | None:
    term = predicate.term
    within = range_test(predicate.operation, predicate.values, uuid=_is_uuid(predicate))
    source = term.type if term.transform is None else term.transform.source
    transform = term.transform
    if within is None or source is None or (transform is not None and not transform.keeps_order):
        return None
    if transform is not None and predicate.operation in (Operation.STARTS_WITH, Operation.NOT_STARTS_WITH):
        return None
    read, field_id = bound_reader(source), term.field_id

    def bound(bounds: dict[int, bytes] | None) -> Comparable | None:
        raw = None if bounds is None else bounds.get(field_id)
        value = None if raw is None else read(raw)
        return value if transform is None or value is None else transform.apply(value)

    def may_match(file: DataFile) -> bool:
        return within((bound(file.lower_bounds), bound(file.upper_bounds)))

    if predicate.operation in _POSITIVE:
        return may_match
    # Unequal tests exclude a file only when no row is null or NaN, which are unequal to everything.
    real = source.name in ("float", "double")
    return lambda file: column.may_be_null(file) or (real and column.may_be_nan(file)) or may_match(file)


def _is_uuid(predicate: BoundPredicate) -> bool:
    return predicate.term.type is not None and predicate.term.type.name == "uuid"


class _Column:
    """The counts of one column in a file."""

    def __init__(self, field_id: int) -> None:
        self._id = field_id

    def may_be_null(self, file: DataFile) -> bool:
        return (file.null_value_counts or {}).get(self._id) != 0

    def may_be_nan(self, file: DataFile) -> bool:
        return (file.nan_value_counts or {}).get(self._id) != 0

    def only_nulls(self, file: DataFile) -> bool:
        return self._all(file, file.null_value_counts)

    def only_nans(self, file: DataFile) -> bool:
        return self._all(file, file.nan_value_counts)

    def _all(self, file: DataFile, counts: dict[int, int] | None) -> bool:
        if counts is None or file.value_counts is None:
            return False
        count = counts.get(self._id)
        return count is not None and count == file.value_counts.get(self._id)


def range_test(
    operation: Operation, values: Collection[Comparable], *, uuid: bool = False
) -> Callable[[Range], bool] | None:
    """Whether values between two bounds, either of which may be unknown, can pass the test; None when they always can.

    The bounds are of the values that are neither null nor NaN.
    """
    if uuid:
        return _uuid_test(operation, values)
    first = next(iter(values))
    if operation in _EDGES:
        edge, within = _EDGES[operation]
        return lambda found: found[edge] is None or within(found[edge], first)
    match operation:
        case Operation.EQ:
            return lambda found: _inside(first, found)
        case Operation.IN:
            return (
                None if len(values) > IN_LIMIT else lambda found: any(_inside(each, found) for each in values)
            )
        case Operation.NOT_EQ | Operation.NOT_IN:
            known = frozenset(values)
            return lambda found: not _one_of(known, found)
        case _:
            return _prefix_test(operation, first if isinstance(first, bytes) else b"")


_EDGES: dict[Operation, tuple[int, Callable[..., bool]]] = {
    Operation.LT: (0, operator.lt),
    Operation.LT_EQ: (0, operator.le),
    Operation.GT: (1, operator.gt),
    Operation.GT_EQ: (1, operator.ge),
}
"""Which of the two bounds has to be on the right side of the literal."""


def _inside(value: Comparable, found: Range) -> bool:
    low, high = found
    return (low is None or low <= value) and (high is None or high >= value)  # type: ignore[operator]


def _one_of(known: frozenset[Comparable], found: Range) -> bool:
    """Whether both bounds are the same value, and that one of these; zeros have signs, so they do not count."""
    low, high = found
    zero = isinstance(low, float) and low == 0
    return low is not None and low == high and not zero and low in known


def _uuid_test(operation: Operation, values: Collection[Comparable]) -> Callable[[Range], bool] | None:
    """Engines order UUIDs by signed halves or by unsigned bytes: only what both exclude is excluded."""
    if operation not in (Operation.EQ, Operation.IN) or len(values) > IN_LIMIT:
        return None
    raw, signed = list(values), [_signed(value) for value in values]

    def may_match(found: Range) -> bool:
        low, high = found
        if low is None or high is None or any(_inside(value, found) for value in raw):
            return True
        edges = (_signed(low), _signed(high))
        return any(_inside(value, edges) for value in signed)

    return may_match


def _signed(value: Comparable) -> bytes:
    """A key by whose bytes UUIDs sort as two signed numbers."""
    raw = bytearray(value if isinstance(value, bytes) else b"")
    for half in (0, 8):
        if len(raw) > half:
            raw[half] ^= 0x80
    return bytes(raw)


def _prefix_test(operation: Operation, prefix: bytes) -> Callable[[Range], bool]:
    size = len(prefix)

    def starts(found: Range) -> bool:
        low, high = found
        if isinstance(low, bytes) and low[:size] > prefix:
            return False
        return not (isinstance(high, bytes) and high < prefix)

    def starts_not(found: Range) -> bool:
        low, high = found
        both = isinstance(low, bytes) and isinstance(high, bytes)
        return not (both and low.startswith(prefix) and high.startswith(prefix))  # type: ignore[union-attr]

    return starts if operation is Operation.STARTS_WITH else starts_not


def summary_test(test: PartitionTest) -> Test[Summaries]:
    """Whether a manifest may hold partitions that pass an inclusive projection, by its summary of that field."""
    operation, field = test.operation, test.field
    transform = field.transform
    real = transform.result.name in ("float", "double")
    within = range_test(operation, test.values, uuid=transform.result.name == "uuid") if test.values else None
    read = bound_reader(transform.result)

    def bound(raw: bytes | None) -> Comparable | None:
        return None if raw is None else read(raw)

    def may_match(summaries: Summaries) -> bool:
        if field.position >= len(summaries):
            return True
        summary = summaries[field.position]
        nans = real and summary.contains_nan is not False
        decided = _decided_by_nulls(operation, summary, nans=nans)
        if decided is not None or within is None:
            return decided is not False
        low, high = bound(summary.lower_bound), bound(summary.upper_bound)
        # Truncated integers that wrapped around make the bounds those of something else.
        if transform.name == "truncate" and (
            low is None or high is None or transform.may_hide_wrapped(low, high)
        ):
            return True
        return within((low, high))

    return may_match


def _decided_by_nulls(operation: Operation, summary: FieldSummary, *, nans: bool) -> bool | None:
    """What nulls and NaNs alone say of a test; None when it is up to the bounds. `nans`: there may be some."""
    # A writer that only left out the bounds does not say that all values are null.
    only_nulls = summary.contains_null and summary.lower_bound is None and not nans
    match operation:
        case Operation.IS_NULL:
            return summary.contains_null
        case Operation.NOT_NULL:
            return not only_nulls
        case Operation.IS_NAN:
            return nans and not only_nulls
        case Operation.NOT_NAN:
            only_nans = summary.contains_nan and not summary.contains_null and summary.lower_bound is None
            return not only_nans
        case Operation.NOT_EQ | Operation.NOT_IN | Operation.NOT_STARTS_WITH:
            return True if summary.contains_null or nans else None
        case _ if only_nulls:
            return False
        case Operation.GT | Operation.GT_EQ if nans:
            return True
    return None
