"""Filters bound to a schema: columns found, literals converted, opposites pushed down to the predicates.

By Java's rules: a literal out of the type's range makes the predicate true or false for every row, a null test of a
column that cannot be null too. A bound predicate keeps the unbound one, which is what clients get as residual.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.scan.comparables import ValueTransform
from table_format.scan.expressions import (
    FALSE,
    NEGATED,
    TRUE,
    UNARY,
    And,
    Constant,
    Expression,
    Not,
    Operation,
    Predicate,
    Term,
)
from table_format.scan.literals import Beyond, Comparable, convert
from table_format.scan.request import Names
from table_format.schema.types import FieldView, Primitive, Slot, parse_primitive

_PREFIXES = frozenset({Operation.STARTS_WITH, Operation.NOT_STARTS_WITH})
_NANS = frozenset({Operation.IS_NAN, Operation.NOT_NAN})
_NULLS = frozenset({Operation.IS_NULL, Operation.NOT_NULL})
_TRUE_BELOW = frozenset({Operation.LT, Operation.LT_EQ, Operation.NOT_EQ})
_TRUE_ABOVE = frozenset({Operation.GT, Operation.GT_EQ, Operation.NOT_EQ})


@dataclass(frozen=True, slots=True)
class BoundTerm:
    """A column of the schema, or a transform of one; `type` is None for structs, lists, maps and types like them."""

    field_id: int
    path: str
    type: Primitive | None
    transform: ValueTransform | None = None


@dataclass(frozen=True, slots=True)
class BoundPredicate:
    """A test of a term; `values` are comparables of its type, distinct, as many as the operation takes."""

    operation: Operation
    term: BoundTerm
    values: tuple[Comparable, ...]
    source: Predicate


@dataclass(frozen=True, slots=True)
class All:
    """A conjunction of at least two."""

    children: tuple["Bound", ...]


@dataclass(frozen=True, slots=True)
class Either:
    """A disjunction of at least two."""

    children: tuple["Bound", ...]


Bound: TypeAlias = Constant | All | Either | BoundPredicate
X = TypeVar("X")
Test: TypeAlias = Callable[[X], bool]


def bind(expression: Expression, schema: JsonObject, *, case_sensitive: bool = True) -> Bound:
    """The expression over this schema's columns, without opposites.

    Raises:
        Invalid: an unknown column or transform, or a literal or test that the column's type does not take.
    """
    return _Binder(schema, case_sensitive=case_sensitive).bind(expression, opposite=False)


class _Binder:
    def __init__(self, schema: JsonObject, *, case_sensitive: bool) -> None:
        self._names = Names(schema, case_sensitive=case_sensitive)
        self._by_id = {view.id: view for view in self._names.views}

    def bind(self, expression: Expression, *, opposite: bool) -> Bound:
        if isinstance(expression, Constant):
            return FALSE if expression.value is opposite else TRUE
        if isinstance(expression, Not):
            return self.bind(expression.child, opposite=not opposite)
        if isinstance(expression, Predicate):
            return self._predicate(expression, opposite=opposite)
        children = [self.bind(child, opposite=opposite) for child in expression.children]
        if isinstance(expression, And) is not opposite:
            return _joined(All, children, neutral=TRUE, absorbing=FALSE)
        return _joined(Either, children, neutral=FALSE, absorbing=TRUE)

    def _predicate(self, predicate: Predicate, *, opposite: bool) -> Bound:
        view = self._column(predicate.term.column)
        operation = NEGATED[predicate.operation] if opposite else predicate.operation
        term = _term(view, predicate.term)
        named = Term(view.path if isinstance(predicate.term.column, int) else predicate.term.column)
        source = Predicate(operation, Term(named.column, predicate.term.transform), predicate.values)
        if operation in UNARY:
            return self._unary(operation, term, view, source)
        if term.type is None or (operation in _PREFIXES and term.type.name != "string"):
            kind = term.type or "a struct, list, map or like one"
            raise Invalid(f"the filter has {operation} of {predicate.term}, which is of type {kind}")
        values = [convert(value, term.type, str(predicate.term)) for value in predicate.values]
        if operation in (Operation.IN, Operation.NOT_IN):
            return _set(operation, term, values, source)
        return _comparison(operation, term, values[0], source)

    def _unary(self, operation: Operation, term: BoundTerm, view: FieldView, source: Predicate) -> Bound:
        if operation in _NANS:
            if term.type is None or term.type.name not in ("float", "double"):
                kind = term.type or "a struct, list or map"
                raise Invalid(f"the filter has {operation} of {source.term}, which is of type {kind}")
            return BoundPredicate(operation, term, (), source)
        never_null = self._always_there(view) and (term.transform is None or term.transform.name != "void")
        if never_null:
            return FALSE if operation is Operation.IS_NULL else TRUE
        if term.type is not None and term.type.name == "unknown":
            return TRUE if operation is Operation.IS_NULL else FALSE
        return BoundPredicate(operation, term, (), source)

    def _always_there(self, view: FieldView) -> bool:
        while view.required and view.parent_id is not None:
            view = self._by_id[view.parent_id]
        return view.required

    def _column(self, column: str | int) -> FieldView:
        view = self._by_id.get(column) if isinstance(column, int) else self._names.find(column)
        if view is None:
            name = f"with the id {column}" if isinstance(column, int) else repr(column)
            raise Invalid(f"the filter names the column {name}, which the table's schema does not have")
        outer: FieldView | None = view
        while outer is not None:
            if outer.slot is not Slot.STRUCT:
                raise Invalid(
                    f"the filter names {view.path!r}, which is inside a list or map: it has no one value"
                )
            outer = None if outer.parent_id is None else self._by_id[outer.parent_id]
        return view


def _term(view: FieldView, term: Term) -> BoundTerm:
    source = _primitive(view)
    if term.transform is None:
        return BoundTerm(view.id, view.path, source)
    transform = None if source is None else ValueTransform.of(term.transform, source)
    if transform is None:
        raise Invalid(
            f"the filter applies the transform {term.transform!r} to {view.path!r}, which it does not take"
        )
    if transform.name == "identity":
        return BoundTerm(view.id, view.path, source)
    return BoundTerm(view.id, view.path, transform.result, transform)


def _primitive(view: FieldView) -> Primitive | None:
    if not isinstance(view.type, str):
        return None
    try:
        known = parse_primitive(view.type)
    except Unsupported:
        return None
    return None if known.name in ("variant", "geometry", "geography") else known


def _set(
    operation: Operation, term: BoundTerm, values: Sequence[Comparable | Beyond], source: Predicate
) -> Bound:
    kept = tuple(dict.fromkeys(value for value in values if not isinstance(value, Beyond)))
    if not kept:
        return FALSE if operation is Operation.IN else TRUE
    if len(kept) == 1:
        operation = Operation.EQ if operation is Operation.IN else Operation.NOT_EQ
    return BoundPredicate(operation, term, kept, source)


def _comparison(
    operation: Operation, term: BoundTerm, value: Comparable | Beyond, source: Predicate
) -> Bound:
    if isinstance(value, Beyond):
        always = _TRUE_BELOW if value is Beyond.ABOVE else _TRUE_ABOVE
        return TRUE if operation in always else FALSE
    return BoundPredicate(operation, term, (value,), source)


def _joined(
    kind: type[All] | type[Either], children: list[Bound], *, neutral: Constant, absorbing: Constant
) -> Bound:
    flat: list[Bound] = []
    for child in children:
        if child == absorbing:
            return absorbing
        if isinstance(child, kind):
            flat.extend(child.children)
        elif child != neutral:
            flat.append(child)
    if not flat:
        return neutral
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def compiled(bound: Bound, leaf: Callable[[BoundPredicate], Test[X] | None]) -> Test[X] | None:
    """One function from a leaf test of every predicate; None, of a leaf or of all, is true whatever it is asked."""
    if isinstance(bound, Constant):
        return None if bound.value else lambda _: False
    if isinstance(bound, BoundPredicate):
        return leaf(bound)
    tests = [compiled(child, leaf) for child in bound.children]
    known = [test for test in tests if test is not None]
    if isinstance(bound, All):
        if len(known) < 2:
            return known[0] if known else None
        return lambda asked: all(test(asked) for test in known)
    if len(known) < len(tests):
        return None
    return lambda asked: any(test(asked) for test in known)
