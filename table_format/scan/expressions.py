"""Row filters as the REST catalog's JSON has them: parsed, kept as values, written back (OpenAPI "Predicate").

Both wordings of the document are read: `term`/`value` of every released client, and `child`/`left`/`right` with
references and literal objects; the first is written. Knows nothing of schemas: literals stay the JSON values they
were until `binding` gives them a column's type. Reading never recurses over what a client sent.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject

MAX_JSON_DEPTH = 1000
"""Levels of and, or, not in the JSON; chains of one operator cost nothing beyond that."""
MAX_DEPTH = 100
"""Levels of an expression once chains of the same operator are one list."""
MAX_PREDICATES = 20_000
MAX_LITERALS = 100_000

Literal: TypeAlias = bool | int | float | str


class Operation(StrEnum):
    """What a predicate asks of a value, as the JSON names it."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"
    IN = "in"
    NOT_IN = "not-in"


_NEGATED = {
    Operation.IS_NULL: Operation.NOT_NULL,
    Operation.IS_NAN: Operation.NOT_NAN,
    Operation.LT: Operation.GT_EQ,
    Operation.GT: Operation.LT_EQ,
    Operation.EQ: Operation.NOT_EQ,
    Operation.STARTS_WITH: Operation.NOT_STARTS_WITH,
    Operation.IN: Operation.NOT_IN,
}
NEGATED = {**_NEGATED, **{after: before for before, after in _NEGATED.items()}}
"""The operation that is true where the other is false (a comparison of null is neither: both leave nulls out)."""

UNARY = frozenset({Operation.IS_NULL, Operation.NOT_NULL, Operation.IS_NAN, Operation.NOT_NAN})
SETS = frozenset({Operation.IN, Operation.NOT_IN})
_MIRRORED = {
    Operation.LT: Operation.GT,
    Operation.GT: Operation.LT,
    Operation.LT_EQ: Operation.GT_EQ,
    Operation.GT_EQ: Operation.LT_EQ,
    Operation.EQ: Operation.EQ,
    Operation.NOT_EQ: Operation.NOT_EQ,
}
_OPERATIONS = {operation.value: operation for operation in Operation}


@dataclass(frozen=True, slots=True)
class Constant:
    """True or false for every row."""

    value: bool


@dataclass(frozen=True, slots=True)
class And:
    """All of at least two."""

    children: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of at least two."""

    children: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    child: "Expression"


@dataclass(frozen=True, slots=True)
class Term:
    """A column, by its full name or its field id, with a partition transform applied to it or none."""

    column: str | int
    transform: str | None = None

    def __str__(self) -> str:
        name = self.column if isinstance(self.column, str) else f"the field with id {self.column}"
        return name if self.transform is None else f"{self.transform}({name})"


@dataclass(frozen=True, slots=True)
class Predicate:
    """A test of one column; `values` has none, one or, for in and not-in, any number of literals."""

    operation: Operation
    term: Term
    values: tuple[Literal, ...] = ()


Expression: TypeAlias = Constant | And | Or | Not | Predicate

TRUE = Constant(value=True)
FALSE = Constant(value=False)


def all_of(children: Iterable[Expression]) -> Expression:
    """The conjunction, without constants and with conjunctions inside it unfolded."""
    return _joined(And, children, neutral=TRUE, absorbing=FALSE)


def any_of(children: Iterable[Expression]) -> Expression:
    """The disjunction, without constants and with disjunctions inside it unfolded."""
    return _joined(Or, children, neutral=FALSE, absorbing=TRUE)


def _joined(
    kind: type[And] | type[Or], children: Iterable[Expression], *, neutral: Constant, absorbing: Constant
) -> Expression:
    flat: list[Expression] = []
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


def negated(child: Expression) -> Expression:
    """The opposite; of an opposite, what it was the opposite of."""
    if isinstance(child, Constant):
        return FALSE if child.value else TRUE
    return child.child if isinstance(child, Not) else Not(child)


def parse_expression(json: object) -> Expression:
    """The filter that the JSON value says.

    Raises:
        Invalid: not an expression, or beyond one of the limits above.
        Unsupported: a form that the document allows and nobody defines (functions, columns compared to columns).
    """
    return _Parser().parse(json)


class _Parser:
    """One parse: an explicit stack instead of recursion, and what was counted so far."""

    def __init__(self) -> None:
        self._predicates = 0
        self._literals = 0

    def parse(self, json: object) -> Expression:
        """Post-order: operands are pushed on `done`, and joined when their operator comes up again."""
        todo: list[tuple[object, int, int | None]] = [(json, 1, None)]
        done: list[Expression] = []
        while todo:
            node, level, operands = todo.pop()
            if level > MAX_JSON_DEPTH:
                raise Invalid(f"the filter is nested more than {MAX_JSON_DEPTH} levels deep")
            if operands is not None:
                parts = [done.pop() for _ in range(operands)][::-1]
                done.append(_combined(str(node), parts))
                continue
            members = _operands(node)
            if members is None:
                done.append(self._leaf(node))
                continue
            kind, inner = members
            todo.append((kind, level, len(inner)))
            todo.extend((member, level + 1, None) for member in reversed(inner))
        expression = done[0]
        if _depth_exceeds(expression, MAX_DEPTH):
            raise Invalid(f"the filter alternates and, or, not more than {MAX_DEPTH} levels deep")
        return expression

    def _leaf(self, node: object) -> Expression:
        if isinstance(node, bool):
            return Constant(node)
        kind, members = _typed(node)
        if kind in ("true", "false"):
            return Constant(kind == "true")
        if kind == "literal" and isinstance(members.get("value"), bool):
            return Constant(members["value"])
        if kind == "apply":
            raise Unsupported(
                "the filter applies a function; only references to columns and, as a deprecated `transform` term, "
                "partition transforms of columns can be tested"
            )
        operation = _OPERATIONS.get(kind.replace("_", "-"))
        if operation is None:
            raise Invalid(f"the filter has an expression of the unknown type {kind!r}")
        self._predicates += 1
        if self._predicates > MAX_PREDICATES:
            raise Invalid(f"the filter has more than {MAX_PREDICATES} predicates")
        return self._predicate(operation, members)

    def _predicate(self, operation: Operation, members: JsonObject) -> Predicate:
        if operation in UNARY:
            _refuse(operation, members, "value", "values")
            return Predicate(operation, _term(_one_of(operation, members, "child", "term")))
        if operation in SETS:
            _refuse(operation, members, "value")
            term = _term(_one_of(operation, members, "child", "term"))
            return Predicate(operation, term, self._set(operation, members))
        _refuse(operation, members, "values")
        left, right = (
            _one_of(operation, members, "left", "term"),
            _one_of(operation, members, "right", "value"),
        )
        if _is_literal(left) and "left" in members:
            operation, left, right = _mirrored(operation), right, left
        return Predicate(operation, _term(left), (self._literal(right),))

    def _set(self, operation: Operation, members: JsonObject) -> tuple[Literal, ...]:
        values = members.get("values")
        if isinstance(values, dict) and values.get("type") == "literals":
            values = values.get("values")
        if not isinstance(values, list):
            raise Invalid(f"the {operation} predicate of the filter has no list `values`")
        return tuple(self._literal(value) for value in values)

    def _literal(self, json: object) -> Literal:
        self._literals += 1
        if self._literals > MAX_LITERALS:
            raise Invalid(f"the filter has more than {MAX_LITERALS} literals")
        if isinstance(json, dict):
            kind, members = _typed(json)
            if kind == "reference":
                raise Unsupported(
                    "the filter compares two columns; a column can only be compared to literals"
                )
            if kind.lower() != "literal" or "value" not in members:
                raise Invalid(f"the filter has a literal of the unknown type {kind!r}")
            json = members["value"]
        if isinstance(json, int) and not isinstance(json, bool) and not -(2**63) <= json < 2**63:
            raise Invalid(f"the filter has the number {_shown(json)}, which does not fit 64 bits")
        if not isinstance(json, bool | int | float | str):
            raise Invalid(
                f"{_shown(json)} cannot be a literal of a filter: expected a number, text or boolean"
            )
        return json


def _operands(node: object) -> tuple[str, list[object]] | None:
    """Kind and operands of and, or, not; None for anything else."""
    if not isinstance(node, dict):
        return None
    kind = node.get("type")
    if kind in ("and", "or"):
        names = ["left", "right"]
    elif kind == "not":
        names = ["child"]
    else:
        return None
    for name in names:
        if name not in node:
            raise Invalid(f"the expression {kind!r} of the filter has no {name!r}")
    return kind, [node[name] for name in names]


def _combined(kind: str, parts: list[Expression]) -> Expression:
    if kind == "not":
        return negated(parts[0])
    return all_of(parts) if kind == "and" else any_of(parts)


def _depth_exceeds(expression: Expression, limit: int) -> bool:
    level: list[Expression] = [expression]
    for _ in range(limit):
        level = [child for node in level for child in _children(node)]
        if not level:
            return False
    return True


def _children(node: Expression) -> tuple[Expression, ...]:
    if isinstance(node, And | Or):
        return node.children
    return (node.child,) if isinstance(node, Not) else ()


def _typed(node: object) -> tuple[str, JsonObject]:
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        raise Invalid(f"the filter has {_shown(node)} where an expression with a `type` belongs")
    return node["type"], node


def _one_of(operation: Operation, members: JsonObject, *names: str) -> object:
    given = [name for name in names if name in members]
    if len(given) != 1:
        wanted = " or ".join(f"`{name}`" for name in names)
        raise Invalid(f"the {operation} predicate of the filter needs exactly one of {wanted}")
    return members[given[0]]


def _refuse(operation: Operation, members: JsonObject, *names: str) -> None:
    for name in names:
        if name in members:
            raise Invalid(
                f"the {operation} predicate of the filter has `{name}`, which does not belong to it"
            )


def _is_literal(node: object) -> bool:
    return not isinstance(node, dict) or node.get("type") == "literal"


def _mirrored(operation: Operation) -> Operation:
    if operation not in _MIRRORED:
        raise Invalid(f"the {operation} predicate of the filter needs its column on the left")
    return _MIRRORED[operation]


def _term(node: object) -> Term:
    if isinstance(node, str):
        return Term(node)
    kind, members = _typed(node)
    if kind == "transform":
        inner, transform = members.get("term"), members.get("transform")
        column = inner if isinstance(inner, str) else _term(inner).column if _is_reference(inner) else None
        if column is None or not isinstance(transform, str):
            raise Invalid("a transform term of the filter needs the texts `transform` and `term`")
        return Term(column, transform)
    if kind == "reference":
        for name, wanted in (("id", int), ("name", str), ("term", str)):
            value = members.get(name)
            if isinstance(value, wanted) and not isinstance(value, bool):
                return Term(value)
        raise Invalid("a reference of the filter has neither a `name` nor an `id`")
    if kind == "apply":
        raise Unsupported("the filter applies a function; test a column or a `transform` term")
    raise Invalid(f"the filter has a term of the unknown type {kind!r}")


def _is_reference(node: object) -> bool:
    return isinstance(node, dict) and node.get("type") == "reference"


def _shown(json: object) -> str:
    text = str(json)
    return text if len(text) <= 100 else f"{text[:100]}…"


def expression_json(expression: Expression) -> JsonObject | bool:
    """The expression in the wording that every released client reads, chains as balanced trees of pairs."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Predicate):
        return _predicate_json(expression)
    if isinstance(expression, Not):
        return {"type": "not", "child": expression_json(expression.child)}
    kind = "and" if isinstance(expression, And) else "or"
    level: list[Any] = [expression_json(child) for child in expression.children]
    while len(level) > 1:
        paired: list[Any] = [
            {"type": kind, "left": left, "right": right}
            for left, right in zip(level[::2], level[1::2], strict=False)
        ]
        level = paired + level[len(paired) * 2 :]
    balanced: JsonObject = level[0]
    return balanced


def _predicate_json(predicate: Predicate) -> JsonObject:
    term: object = predicate.term.column
    if isinstance(term, int):
        term = {"type": "reference", "id": term}
    if predicate.term.transform is not None:
        term = {"type": "transform", "transform": predicate.term.transform, "term": term}
    json: JsonObject = {"type": predicate.operation.value, "term": term}
    if predicate.operation in UNARY:
        return json
    values = list(predicate.values)
    return {**json, "values": values} if predicate.operation in SETS else {**json, "value": values[0]}
