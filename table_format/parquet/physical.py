"""Whether a Parquet file's columns are, one for one, those of a table's schema (spec Appendix A, "Parquet").

Stricter than reading needs to be: same order, an id on every field, the standard form of lists and maps, the types that
the specification writes. What is not so can be read all the same, but is not copied as it is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.parquet.thrift import Struct
from table_format.schema.types import FieldView, Primitive, children, parse_primitive

Annotation: TypeAlias = "tuple[str | int | bool, ...] | None"

_MAX_DEPTH: Final = 100
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = 0, 1, 2, 4, 5, 6, 7
_UNITS: Final = {1: "millis", 2: "micros", 3: "nanos"}
_SIMPLE: Final = {1: "string", 2: "map", 3: "list", 6: "date", 14: "uuid"}
_CONVERTED: Final[dict[int, Annotation]] = {
    0: ("string",),
    1: ("map",),
    2: ("map",),
    3: ("list",),
    6: ("date",),
    7: ("time", True, "millis"),
    8: ("time", True, "micros"),
    9: ("timestamp", True, "millis"),
    10: ("timestamp", True, "micros"),
    17: ("int", 32, True),
    18: ("int", 64, True),
}
_NO_WORDS: Final[dict[tuple[int, Annotation], Annotation]] = {
    (INT32, ("int", 32, True)): None,
    (INT64, ("int", 64, True)): None,
}
# Iceberg's types without parameters: physical type and annotations that are taken.
_FORMS: Final[dict[str, tuple[int, tuple[Annotation, ...]]]] = {
    "boolean": (BOOLEAN, (None,)),
    "int": (INT32, (None,)),
    "long": (INT64, (None,)),
    "float": (FLOAT, (None,)),
    "double": (DOUBLE, (None,)),
    "date": (INT32, (("date",),)),
    "time": (INT64, (("time", False, "micros"), ("time", True, "micros"))),
    "timestamp": (INT64, (("timestamp", False, "micros"),)),
    "timestamptz": (INT64, (("timestamp", True, "micros"),)),
    "timestamp_ns": (INT64, (("timestamp", False, "nanos"),)),
    "timestamptz_ns": (INT64, (("timestamp", True, "nanos"),)),
    "string": (BYTE_ARRAY, (("string",),)),
    "binary": (BYTE_ARRAY, (None,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One element of a file's schema; `kind` is the physical type of a leaf, None of a group."""

    name: bytes
    field_id: int | None
    repetition: int
    kind: int | None
    length: int | None
    annotation: Annotation
    children: "tuple[Node, ...]"
    element: Struct


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A leaf column: the nodes from the top to it, the root left out."""

    nodes: tuple[Node, ...]

    @property
    def leaf(self) -> Node:
        """The node that has the values."""
        return self.nodes[-1]

    @property
    def path(self) -> tuple[bytes, ...]:
        """The names, as column chunks give them."""
        return tuple(node.name for node in self.nodes)

    @property
    def repeated(self) -> bool:
        """Whether a row may have any number of values."""
        return any(node.repetition == REPEATED for node in self.nodes)

    @property
    def shape(self) -> tuple[object, ...]:
        """What must be equal in two files whose chunks are put into one."""
        return tuple(
            (node.name, node.field_id, node.repetition, node.kind, node.length, node.annotation)
            for node in self.nodes
        )


def tree(elements: Sequence[Struct]) -> tuple[Node, ...]:
    """The top-level fields of a file's schema.

    Raises:
        Invalid: the elements make up no tree.
    """
    if not elements:
        raise Invalid("its schema is empty")
    found, end = _children(elements, 1, elements[0].integer(5) or 0, 0)
    if end != len(elements):
        raise Invalid("its schema has more elements than fields")
    return found


def _children(
    elements: Sequence[Struct], start: int, number: int, depth: int
) -> tuple[tuple[Node, ...], int]:
    if depth > _MAX_DEPTH:
        raise Invalid("its schema is nested too deeply")
    nodes = []
    for _ in range(number):
        if start >= len(elements):
            raise Invalid("its schema has fewer elements than fields")
        element = elements[start]
        inner, start = _children(elements, start + 1, element.integer(5) or 0, depth + 1)
        kind = element.integer(1)
        if (kind is None) is not bool(inner):
            raise Invalid("its schema has a field that is neither a column nor a group")
        annotation = _annotation(element)
        nodes.append(
            Node(
                name=element.binary(4) or b"",
                field_id=element.integer(9),
                repetition=element.number(3),
                kind=kind,
                length=element.integer(2) if kind == FIXED else None,
                annotation=annotation if kind is None else _NO_WORDS.get((kind, annotation), annotation),
                children=inner,
                element=element,
            )
        )
    return tuple(nodes), start


def _annotation(element: Struct) -> Annotation:
    logical = element.struct(10)
    if logical is None:
        converted = element.integer(6)
        if converted == 5:
            return ("decimal", element.integer(8) or 0, element.integer(7) or 0)
        return None if converted is None else _CONVERTED.get(converted, ("converted", converted))
    if len(logical.fields) != 1:
        return ("unknown",)
    (number,) = logical.fields
    inner = logical.struct(number) or Struct()
    if number in _SIMPLE:
        return (_SIMPLE[number],)
    if number == 5:
        return ("decimal", inner.number(2), inner.number(1))
    if number in (7, 8):
        unit = inner.struct(2) or Struct()
        name = _UNITS.get(next(iter(unit.fields), 0), "unknown")
        return ("time" if number == 7 else "timestamp", bool(inner.flag(1)), name)
    if number == 10:
        return ("int", inner.number(1), bool(inner.flag(2)))
    return ("logical", number)


def columns_of(nodes: Sequence[Node], above: tuple[Node, ...] = ()) -> Iterator[Column]:
    """The leaf columns, in file order."""
    for node in nodes:
        if node.children:
            yield from columns_of(node.children, (*above, node))
        else:
            yield Column(nodes=(*above, node))


def check_physical(nodes: Sequence[Node], schema: JsonObject) -> None:
    """Make sure that the file's fields are the schema's.

    Raises:
        Unsupported: they are not; which one.
    """
    _check_fields(children(schema, None), nodes)


def _check_fields(views: Sequence[FieldView], nodes: Sequence[Node]) -> None:
    if [view.id for view in views] != [node.field_id for node in nodes]:
        raise Unsupported("it has other columns than the table, or the same in another order or without ids")
    for view, node in zip(views, nodes, strict=True):
        if node.repetition not in (REQUIRED, OPTIONAL):
            raise _unusual(view)
        _check_field(view, node)


def _check_field(view: FieldView, node: Node) -> None:
    if isinstance(view.type, str):
        if node.children or not _fits(parse_primitive(view.type), node):
            raise Unsupported(f"column {view.path!r} is stored otherwise than as {view.type}")
        return
    inner = children(view.type, view)
    kind = view.type["type"]
    if kind == "struct":
        if not node.children or node.annotation is not None:
            raise _unusual(view)
        _check_fields(inner, node.children)
        return
    wanted, number = (("list",), 1) if kind == "list" else (("map",), 2)
    if node.annotation != wanted or len(node.children) != 1:
        raise _unusual(view)
    (middle,) = node.children
    if middle.repetition != REPEATED or len(middle.children) != number:
        raise _unusual(view)
    _check_fields(inner, middle.children)


def _unusual(view: FieldView) -> Unsupported:
    return Unsupported(f"column {view.path!r} is stored in an unusual form")


def _fits(primitive: Primitive, node: Node) -> bool:
    if primitive.name == "decimal":
        precision = primitive.precision or 0
        roomy = {INT32: precision <= 9, INT64: precision <= 18, FIXED: True}.get(node.kind or 0, False)
        return roomy and node.annotation == ("decimal", precision, primitive.scale or 0)
    if primitive.name == "uuid":
        return (node.kind, node.length, node.annotation) == (FIXED, 16, ("uuid",))
    if primitive.name == "fixed":
        return (node.kind, node.length, node.annotation) == (FIXED, primitive.length, None)
    form = _FORMS.get(primitive.name)
    return form is not None and node.kind == form[0] and node.annotation in form[1]
