"""A table schema as a tree that takes Python values and gives Arrow arrays, a whole column at a time.

`take` checks the kinds of all values of a column in one sweep and returns the same sequence when nothing has to be
changed; Arrow's own conversion alone would cut 1.5 to 1, read text as a list of letters and drop unknown fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Protocol

import pyarrow as pa

from ingest_plugin.bind.coerce import TRUSTED_TIME, Coercion, Mismatch, coercion, mismatch
from ingest_plugin.bind.columns import columns_of, is_blank, resolve
from ingest_plugin.decode.values import Row
from table_format.errors import Unsupported
from table_format.jsontypes import JsonObject
from table_format.schema.arrow import ArrowArray, ArrowType, arrow_primitive
from table_format.schema.types import JsonType, parse_primitive

# Values of these kinds are what a null-tolerant sweep leaves out.
_NONE = frozenset({type(None)})
_TEXT = frozenset({str, type(None)})


class Node(Protocol):
    """One type; `arrow` is what `array` gives."""

    @property
    def arrow(self) -> ArrowType:
        """The Arrow type (uuid as 16 bytes: Arrow builds no extension arrays inside structs)."""
        ...

    def take(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values as Arrow takes them.

        Raises:
            Mismatch: one does not fit.
        """
        ...

    def array(self, values: Sequence[Any]) -> ArrowArray:
        """The values as an array; raises also what Arrow raises for a value out of range."""
        ...


@dataclass(frozen=True, slots=True)
class LeafNode:
    """A primitive type."""

    arrow: ArrowType
    coercion: Coercion | None
    """None: the values come in the right form already."""

    def take(self, values: Sequence[Any]) -> Sequence[Any]:
        """The values, converted where needed."""
        how = self.coercion
        if how is None:
            return values
        kinds = set(map(type, values)) - _NONE
        if kinds <= how.direct:
            return values
        return [
            value if value is None or type(value) in how.direct else how.convert(value) for value in values
        ]

    def array(self, values: Sequence[Any]) -> ArrowArray:
        """The values as an array; text of timestamps is parsed by Arrow when all of it is plain."""
        if (
            self.coercion is not None
            and pa.types.is_timestamp(self.arrow)
            and set(map(type, values)) <= {str}
        ):
            try:
                return pa.array(values, pa.large_string()).cast(self.arrow)
            except pa.ArrowInvalid:
                pass  # a form that Arrow does not read, or a value to be named: the sweep below knows
        return pa.array(self.take(values), self.arrow)


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    arrow: ArrowType
    element: Node
    required: bool

    def take(self, values: Sequence[Any]) -> Sequence[Any]:
        """The lists, their elements converted where needed."""
        _check_kind(values, list, "an array")
        flat = list(chain.from_iterable(value for value in values if value))
        if self.required and None in flat:
            raise Mismatch("an element is null, but elements are required")
        taken = self.element.take(flat)
        if taken is flat:
            return values
        stream = iter(taken)
        return [None if value is None else list(islice(stream, len(value))) for value in values]

    def array(self, values: Sequence[Any]) -> ArrowArray:
        """The lists as an array."""
        return pa.array(self.take(values), self.arrow)


@dataclass(frozen=True, slots=True)
class MapNode:
    """A map; values come as objects or, where keys are no text, as pairs."""

    arrow: ArrowType
    value: Node
    trusted: bool

    def take(self, values: Sequence[Any]) -> Sequence[Any]:
        """The maps, their values converted where needed."""
        if self.trusted:
            return self._take_pairs(values)
        _check_kind(values, dict, "an object")
        flat = list(chain.from_iterable(value.values() for value in values if value))
        taken = self.value.take(flat)
        if taken is flat:
            return values
        stream = iter(taken)
        return [None if value is None else dict(zip(value, stream, strict=False)) for value in values]

    def _take_pairs(self, values: Sequence[Any]) -> Sequence[Any]:
        """The maps as they came or as pairs, when something inside had to be changed."""
        pairs = [value.items() if isinstance(value, dict) else value for value in values if value]
        flat = [inner for some in pairs for _, inner in some]
        taken = self.value.take(flat)
        if taken is flat:
            return values
        stream = iter(taken)
        return [
            value
            if not value
            else [(key, next(stream)) for key, _ in (value.items() if isinstance(value, dict) else value)]
            for value in values
        ]

    def array(self, values: Sequence[Any]) -> ArrowArray:
        """The maps as an array."""
        return pa.array(self.take(values), self.arrow)


@dataclass(frozen=True, slots=True)
class StructNode:
    """A struct: fields by name, and which of them must not be null."""

    arrow: ArrowType
    fields: dict[str, Node]
    required: frozenset[str]

    def take(self, values: Sequence[Any]) -> Sequence[Any]:
        """The objects, with columns' names and converted values where needed."""
        _check_kind(values, dict, "an object")
        rows: list[Row] = [value for value in values if value is not None]
        columns = columns_of(rows)
        targets = target_columns(columns, self.fields)
        for name in self.required:
            if rows and None in targets.get(name, (None,)):
                raise Mismatch(f"required field '{name}' is missing or null")
        taken = {name: self._take(name, column) for name, column in targets.items()}
        if all(taken[name] is columns.get(name) for name in targets):
            return values
        stream = iter(zip(*taken.values(), strict=True))
        return [None if value is None else dict(zip(taken, next(stream), strict=True)) for value in values]

    def _take(self, name: str, column: Sequence[Any]) -> Sequence[Any]:
        try:
            return self.fields[name].take(column)
        except Mismatch as error:
            raise Mismatch(f"field '{name}': {error}") from None

    def array(self, values: Sequence[Any]) -> ArrowArray:
        """The objects as an array."""
        return pa.array(self.take(values), self.arrow)


def target_columns(columns: dict[str, Sequence[Any]], fields: dict[str, Node]) -> dict[str, Sequence[Any]]:
    """The columns under the table's names.

    Raises:
        Mismatch: a field that says something has no column, or two fields of a record mean one column.
    """
    targets: dict[str, Sequence[Any]] = {}
    for name, target in resolve(columns, fields).items():
        column = columns[name]
        if target is None:
            if not all(map(is_blank, column)):
                raise Mismatch(f"field '{name}' is no column of the table")
        elif target in targets:
            targets[target] = [_either(name, a, b) for a, b in zip(targets[target], column, strict=True)]
        else:
            targets[target] = column
    return targets


def _either(name: str, first: Any, second: Any) -> Any:
    if first is not None and second is not None:
        raise Mismatch(f"two fields are named '{name}' but for upper and lower case")
    return second if first is None else first


def _check_kind(values: Sequence[Any], kind: type, wanted: str) -> None:
    if not set(map(type, values)) <= {kind, type(None)}:
        raise mismatch(wanted, next(v for v in values if v is not None and type(v) is not kind))


def node_of(json_type: JsonType, *, trusted: bool) -> Node:
    """The node for an Iceberg type; `trusted` values are in Arrow's form already, only names may differ by case.

    Raises:
        Unsupported: a type that cannot be written.
    """
    if isinstance(json_type, str):
        primitive = parse_primitive(json_type)
        arrow = pa.binary(16) if primitive.name == "uuid" else arrow_primitive(primitive)
        if trusted:
            return LeafNode(arrow, TRUSTED_TIME if primitive.name == "time" else None)
        return LeafNode(arrow, coercion(primitive))
    match json_type["type"]:
        case "struct":
            return struct_node(json_type, trusted=trusted)
        case "list":
            element = node_of(json_type["element"], trusted=trusted)
            required = bool(json_type.get("element-required", False))
            return ListNode(pa.large_list(pa.field("element", element.arrow)), element, required)
        case _:
            key = node_of(json_type["key"], trusted=trusted)
            value = node_of(json_type["value"], trusted=trusted)
            return MapNode(pa.map_(key.arrow, value.arrow), value, trusted)


def struct_node(json_type: JsonObject, *, trusted: bool) -> StructNode:
    """The node for a struct or a whole schema.

    Raises:
        Unsupported: a type that cannot be written, or a field with a write default: here a field that a record leaves
            out looks like one that is null.
    """
    for field in json_type["fields"]:
        if field.get("write-default") is not None:
            raise Unsupported(f"column '{field['name']}' has a write-default, which ingest cannot fill in")
    fields = {field["name"]: node_of(field["type"], trusted=trusted) for field in json_type["fields"]}
    arrow = pa.struct([pa.field(name, node.arrow) for name, node in fields.items()])
    required = frozenset(field["name"] for field in json_type["fields"] if field.get("required", False))
    return StructNode(arrow, fields, required)
