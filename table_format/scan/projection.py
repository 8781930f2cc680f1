"""Predicates on columns turned into predicates on partition values (Java's `Projections`).

The inclusive projection is true of every partition that can hold a matching row, the strict one only of partitions
where all rows match. None says nothing: every partition may, none must.
"""

import operator
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeAlias

from table_format.manifest.entries import Partition
from table_format.scan.binding import BoundPredicate
from table_format.scan.comparables import ValueTransform, comparable, is_nan
from table_format.scan.expressions import SETS, Operation
from table_format.scan.literals import Comparable

_NULLS = frozenset({Operation.IS_NULL, Operation.NOT_NULL})
_LESS = frozenset({Operation.LT, Operation.LT_EQ})
_GREATER = frozenset({Operation.GT, Operation.GT_EQ})
_UNEQUAL = frozenset({Operation.NOT_EQ, Operation.NOT_IN, Operation.NOT_STARTS_WITH, Operation.NOT_NAN})

Projected: TypeAlias = tuple[Operation, tuple[Comparable, ...]]


@dataclass(frozen=True, slots=True)
class PartitionField:
    """A field of a spec that filters can use: its place in the tuple and its transform of the scan's column."""

    position: int
    source_id: int
    transform: ValueTransform


@dataclass(frozen=True, slots=True)
class PartitionTest:
    """A test of one field of a partition tuple."""

    field: PartitionField
    operation: Operation
    values: Collection[Comparable]

    def may_match(self, partition: Partition) -> bool:
        """Whether rows of that partition can match."""
        value = self._value(partition)
        if is_nan(value) and self.operation in _GREATER:
            return True  # to some engines NaN is greater than every number
        return matches(self.operation, value, self.values)

    def must_match(self, partition: Partition) -> bool:
        """Whether all rows of that partition match, whatever an engine says of null and NaN being unequal."""
        value = self._value(partition)
        if self.operation in _UNEQUAL and (value is None or is_nan(value)):
            return False
        return matches(self.operation, value, self.values)

    def _value(self, partition: Partition) -> Comparable | None:
        return self.field.transform.stored(comparable(partition[self.field.position]))


def matches(operation: Operation, value: Comparable | None, values: Collection[Comparable]) -> bool:
    """Whether a value passes the test. Null and NaN are unequal to everything, and neither less nor greater."""
    first = next(iter(values), b"")
    match operation:
        case Operation.IS_NULL:
            return value is None
        case Operation.NOT_NULL:
            return value is not None
        case Operation.IS_NAN:
            return is_nan(value)
        case Operation.NOT_NAN:
            return not is_nan(value)
        case Operation.NOT_EQ | Operation.NOT_IN:
            return value not in values
        case Operation.NOT_STARTS_WITH:
            return not _starts_with(value, first)
    if value is None or is_nan(value):
        return False
    return _COMPARED[operation](value, values if operation is Operation.IN else first)


def _starts_with(value: Comparable | None, prefix: Comparable) -> bool:
    return isinstance(value, bytes) and isinstance(prefix, bytes) and value.startswith(prefix)


_COMPARED: dict[Operation, Callable[..., bool]] = {
    Operation.LT: operator.lt,
    Operation.LT_EQ: operator.le,
    Operation.GT: operator.gt,
    Operation.GT_EQ: operator.ge,
    Operation.EQ: operator.eq,
    Operation.IN: lambda value, values: value in values,
    Operation.STARTS_WITH: _starts_with,
}


def inclusive(predicate: BoundPredicate, field: PartitionField) -> PartitionTest | None:
    """What is true of the partition of every matching row."""
    return _test(predicate, field, _inclusive, _inclusive_of_units)


def strict(predicate: BoundPredicate, field: PartitionField) -> PartitionTest | None:
    """What is true only of partitions all of whose rows match."""
    return _test(predicate, field, _strict, _strict_of_units)


def _test(
    predicate: BoundPredicate,
    field: PartitionField,
    project: Callable[[BoundPredicate, ValueTransform], Projected | None],
    of_units: Callable[[BoundPredicate, ValueTransform], Projected | None],
) -> PartitionTest | None:
    transform = field.transform
    if predicate.term.field_id != field.source_id or transform.name == "void":
        return None
    if predicate.term.transform is not None:
        if predicate.term.transform != transform:
            return None
        asked = (
            of_units(predicate, transform) if transform.cuts_time else (predicate.operation, predicate.values)
        )
        return None if asked is None else _made(field, *asked)
    # Engines do not agree on the order of UUIDs.
    unordered = transform.source.name == "uuid" and predicate.operation in (_LESS | _GREATER)
    if unordered:
        return None
    projected = project(predicate, transform)
    return None if projected is None else _made(field, *projected)


def _made(field: PartitionField, operation: Operation, values: tuple[Comparable, ...]) -> PartitionTest:
    # Every partition is looked up among them.
    return PartitionTest(field, operation, frozenset(values) if operation in SETS else values)


def _inclusive(predicate: BoundPredicate, transform: ValueTransform) -> Projected | None:
    operation, values = predicate.operation, predicate.values
    if transform.name == "identity" or operation in _NULLS:
        return operation, values
    if operation is Operation.IN:
        return _corrected(transform, _each(Operation.IN, transform, values))
    if not values or operation is Operation.NOT_IN:
        return None
    if transform.name == "bucket":
        return _each(Operation.EQ, transform, values) if operation is Operation.EQ else None
    if not transform.ordinal:
        return _inclusive_text(operation, transform, values[0])
    return _corrected(transform, _inclusive_ordinal(operation, transform, values[0]))


def _each(
    operation: Operation, transform: ValueTransform, values: tuple[Comparable, ...]
) -> Projected | None:
    results: dict[Comparable, None] = {}
    for value in values:
        result = transform.apply(value)
        if result is None:
            return None
        results[result] = None
    return operation, tuple(results)


def _inclusive_ordinal(
    operation: Operation, transform: ValueTransform, value: Comparable
) -> Projected | None:
    below, above = transform.units(value)
    edges = {
        Operation.LT: (Operation.LT_EQ, above - 1),
        Operation.LT_EQ: (Operation.LT_EQ, below),
        Operation.GT: (Operation.GT_EQ, below + 1),
        Operation.GT_EQ: (Operation.GT_EQ, above),
        **({Operation.EQ: (Operation.EQ, below)} if below == above else {}),
    }
    return _at(edges.get(operation), transform)


def _at(edge: tuple[Operation, int] | None, transform: ValueTransform) -> Projected | None:
    result = None if edge is None else transform.of_units(edge[1])
    return None if edge is None or result is None else (edge[0], (result,))


def _inclusive_text(operation: Operation, transform: ValueTransform, value: Comparable) -> Projected | None:
    cut = transform.apply(value)
    if cut is None:
        return None
    whole = cut == value and _length(transform, value) < transform.width
    match operation:
        case Operation.LT | Operation.LT_EQ:
            return Operation.LT_EQ, (cut,)
        case Operation.GT | Operation.GT_EQ:
            return Operation.GT_EQ, (cut,)
        case Operation.EQ:
            return Operation.EQ, (cut,)
        case Operation.STARTS_WITH:
            return (Operation.STARTS_WITH if whole else Operation.EQ), (cut,)
        case Operation.NOT_STARTS_WITH if whole:
            return operation, (cut,)
        case Operation.NOT_STARTS_WITH if cut == value:
            return Operation.NOT_EQ, (cut,)
    return None


def _length(transform: ValueTransform, value: Comparable) -> int:
    raw = value if isinstance(value, bytes) else b""
    return len(raw.decode()) if transform.source.name == "string" else len(raw)


def _strict(predicate: BoundPredicate, transform: ValueTransform) -> Projected | None:
    operation, values = predicate.operation, predicate.values
    if transform.name == "identity" or operation in _NULLS:
        return operation, values
    if operation is Operation.NOT_IN:
        return _corrected_strictly(transform, _each(Operation.NOT_IN, transform, values))
    if not values or operation is Operation.IN:
        return None
    if transform.name == "bucket":
        return _each(Operation.NOT_EQ, transform, values) if operation is Operation.NOT_EQ else None
    if not transform.ordinal:
        return _strict_text(operation, transform, values[0])
    return _corrected_strictly(transform, _strict_ordinal(operation, transform, values[0]))


def _strict_ordinal(operation: Operation, transform: ValueTransform, value: Comparable) -> Projected | None:
    below, above = transform.units(value)
    edges = {
        Operation.LT: (Operation.LT, above),
        Operation.LT_EQ: (Operation.LT, below + 1),
        Operation.GT: (Operation.GT, below),
        Operation.GT_EQ: (Operation.GT, above - 1),
        **({Operation.NOT_EQ: (Operation.NOT_EQ, below)} if below == above else {}),
    }
    return _at(edges.get(operation), transform)


def _strict_text(operation: Operation, transform: ValueTransform, value: Comparable) -> Projected | None:
    cut = transform.apply(value)
    if cut is None:
        return None
    whole = cut == value and _length(transform, value) < transform.width
    match operation:
        case Operation.LT | Operation.LT_EQ:
            return Operation.LT, (cut,)
        case Operation.GT | Operation.GT_EQ:
            return Operation.GT, (cut,)
        case Operation.NOT_EQ:
            return Operation.NOT_EQ, (cut,)
        case Operation.STARTS_WITH if whole:
            return operation, (cut,)
        case Operation.STARTS_WITH if cut == value:
            return Operation.EQ, (cut,)
        case Operation.NOT_STARTS_WITH:
            return (operation if whole else Operation.NOT_EQ), (cut,)
    return None


def _corrected(transform: ValueTransform, projected: Projected | None) -> Projected | None:
    """Wide enough for files of old writers, whose time units before 1970 were one too high (Java's correction)."""
    if projected is None or not transform.cuts_time:
        return projected
    operation, values = projected
    numbers = [value for value in values if isinstance(value, int)]
    if operation is Operation.LT_EQ and numbers[0] < 0:
        return operation, (numbers[0] + 1,)
    if operation in (Operation.EQ, Operation.IN) and any(number < 0 for number in numbers):
        both = [*numbers, *(number + 1 for number in numbers if number < 0)]
        return Operation.IN, tuple(dict.fromkeys(both))
    return projected


def _corrected_strictly(transform: ValueTransform, projected: Projected | None) -> Projected | None:
    """Narrow enough for the same files."""
    if projected is None or not transform.cuts_time:
        return projected
    operation, values = projected
    numbers = [value for value in values if isinstance(value, int)]
    if operation is Operation.GT and numbers[0] <= 0:
        return operation, (numbers[0] + 1,)
    if operation in (Operation.NOT_EQ, Operation.NOT_IN) and any(number < 0 for number in numbers):
        both = [*numbers, *(number + 1 for number in numbers if number < 0)]
        return Operation.NOT_IN, tuple(dict.fromkeys(both))
    return projected


def _inclusive_of_units(predicate: BoundPredicate, transform: ValueTransform) -> Projected | None:
    """A test of the time units themselves, for the stored ones: those up to 0 may stand for the one before."""
    operation, values = predicate.operation, predicate.values
    numbers = [value for value in values if isinstance(value, int)]
    if operation is Operation.LT:
        return _corrected(transform, (Operation.LT_EQ, (numbers[0] - 1,)))
    if operation in (Operation.NOT_EQ, Operation.NOT_IN):
        sure = tuple(number for number in numbers if number > 0)
        return (Operation.NOT_IN, sure) if sure else None
    return _corrected(transform, (operation, values))


def _strict_of_units(predicate: BoundPredicate, transform: ValueTransform) -> Projected | None:
    operation, values = predicate.operation, predicate.values
    numbers = [value for value in values if isinstance(value, int)]
    if operation is Operation.GT_EQ:
        return _corrected_strictly(transform, (Operation.GT, (numbers[0] - 1,)))
    if operation in (Operation.EQ, Operation.IN):
        sure = tuple(number for number in numbers if number > 0)
        return (Operation.IN, sure) if sure else None
    return _corrected_strictly(transform, (operation, values))
