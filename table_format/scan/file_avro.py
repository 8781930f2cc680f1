"""Avro data files: records block by block, turned into columns (Iceberg spec, Appendix A, "Avro").

The kernel's own decoder reads them, as it does manifests: dates and times stay numbers, so that no calendar ends.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from table_format.errors import Invalid
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.compiler import Compiler
from table_format.manifest.container import Container, open_ranged, read_block
from table_format.manifest.decode import Malformed, Reader
from table_format.scan.project import FileField, OpenedFile
from table_format.schema.arrow import ArrowArray, ArrowField, ArrowType

Shape: TypeAlias = Callable[[Any], Any]
"""Turns a decoded value into what Arrow takes for the type."""

_BATCH_BYTES: Final = 4 << 20
_MAX_BLOCK: Final = 256 << 20
_UUID_BYTES: Final = 16

_PLAIN: Final[dict[str, ArrowType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.large_binary(),
    "string": pa.large_string(),
}
_UNITS: Final = {"millis": "ms", "micros": "us", "nanos": "ns"}


def open_avro(store: ObjectStore, path: str) -> Iterator[OpenedFile]:
    """Open an Avro file (one value, for `contextmanager`).

    Raises:
        NoSuchFile: it does not exist.
        Invalid: it is not Avro, or of a schema that no data file has.
    """
    size = store.head(path).size
    container = open_ranged(lambda start, end: store.get(path, (start, end)), size, path)
    try:
        compiled = Compiler().compile(container.schema)
        root = _Describer().describe(container.schema, "")
    except Malformed as error:
        raise Invalid(f"{path} is not a readable Avro file: {error}") from None
    if compiled.kind != "record":
        raise Invalid(f"{path} is not a readable Avro file: its schema is no record")
    fields = root.children
    keys = [part.key for part in compiled.parts]
    files = tuple(_file_field(each) for each in fields)

    def batches(positions: Sequence[int], batch_rows: int) -> Iterator[Mapping[int, ArrowArray] | int]:
        if not positions:
            yield from (block.count for block in container.blocks(_MAX_BLOCK) if block.count)
            return
        for records in _records(container, compiled.read, batch_rows):
            yield {at: _column(records, keys[at], fields[at], path) for at in positions}

    yield OpenedFile(files, batches)


def _records(container: Container, read: Reader, batch_rows: int) -> Iterator[list[Any]]:
    """Some records at a time: so many, or those in so many bytes."""
    held: list[Any] = []
    number, size = 0, 0
    for block in container.blocks(_MAX_BLOCK):
        each = len(block.data) // max(block.count, 1)
        for record in read_block(container, block, read, number):
            held.append(record)
            size += each
            if len(held) >= batch_rows or size >= _BATCH_BYTES:
                yield held
                held, size = [], 0
        number += block.count
    if held:
        yield held


def _column(records: list[Any], key: int | str, node: "_Node", path: str) -> ArrowArray:
    shape = node.shape
    values = [shape(record[key]) for record in records]
    try:
        return pa.array(values, node.type)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        raise Invalid(f"{path}: a value of column {node.name!r} is no {node.type}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Node:
    """A type of the file's schema, as Arrow has it."""

    id: int | None
    name: str
    type: ArrowType
    shape: Shape
    children: "tuple[_Node, ...]" = ()


def _file_field(node: _Node) -> FileField:
    return FileField(node.id, node.name, node.type, tuple(_file_field(child) for child in node.children))


def _same(value: Any) -> Any:
    return value


@dataclass(slots=True)
class _Describer:
    """Walks a schema that `Compiler` took, beside it: what it reads, and the ids that it does not keep."""

    named: dict[str, JsonObject] = field(default_factory=dict)

    def describe(self, schema: object, name: str, number: object = None) -> _Node:
        """The type of a schema (checked by `Compiler` before), under that name and id.

        Raises:
            Malformed: it is a union of several types.
        """
        own = number if type(number) is int else None
        if isinstance(schema, list):
            return self._union(schema, name, own)
        if isinstance(schema, dict):
            return self._complex(schema, name, own)
        plain = str(schema)
        if plain in self.named and plain not in _PLAIN:
            return self._complex(self.named[plain], name, own)
        return _Node(own, name, _PLAIN[plain], _same)

    def _union(self, branches: list[object], name: str, number: int | None) -> _Node:
        [branch, *more] = [each for each in branches if each != "null"] or ["null"]
        if more:
            raise Malformed(f"its column {name!r} is a union of several types")
        node = self.describe(branch, name, number)
        inner = node.shape
        shape = _same if inner is _same else lambda value: None if value is None else inner(value)
        return _Node(number, name, node.type, shape, node.children)

    def _complex(self, schema: JsonObject, name: str, number: int | None) -> _Node:
        if isinstance(schema.get("name"), str):
            full, space = schema["name"], schema.get("namespace")
            for known_as in (full, full.rpartition(".")[2], f"{space}.{full}"):
                self.named[known_as] = schema
        match schema["type"]:
            case "record":
                return self._record(schema, name, number)
            case "array":
                return self._array(schema, name, number)
            case "map":
                return self._map(schema, name, number)
            case "enum":
                return _Node(number, name, pa.large_string(), _same)
            case "fixed" | "bytes" | "string" | "int" | "long" as kind:
                return _leaf(schema, kind, name, number)
            case inner:
                return self.describe(inner, name, number)

    def _record(self, schema: JsonObject, name: str, number: int | None) -> _Node:
        children = tuple(
            # Java writes names that Avro does not take in another form, and the true one beside it.
            self.describe(raw["type"], raw.get("iceberg-field-name", raw["name"]), raw.get("field-id"))
            for raw in schema["fields"]
        )
        raws = schema["fields"]
        keys = [r["field-id"] if type(r.get("field-id")) is int else r["name"] for r in raws]
        places = [
            (str(at), key, child.shape) for at, (key, child) in enumerate(zip(keys, children, strict=True))
        ]
        arrow = pa.struct([_arrow(child, str(at)) for at, child in enumerate(children)])
        return _Node(
            number,
            name,
            arrow,
            lambda value: {place: shape(value[key]) for place, key, shape in places},
            children,
        )

    def _array(self, schema: JsonObject, name: str, number: int | None) -> _Node:
        if schema.get("logicalType") == "map":
            pair = self.describe(schema["items"], "entry")
            if len(pair.children) != 2:
                raise Malformed(f"its column {name!r} is a map of no pairs")
            key, value = pair.children
            arrow = _map_of(key, value)
            shape = pair.shape
            return _Node(
                number,
                name,
                arrow,
                lambda pairs: [tuple(shape(each).values()) for each in pairs],
                (key, value),
            )
        item = self.describe(schema["items"], "element", schema.get("element-id"))
        inner = item.shape
        return _Node(
            number,
            name,
            pa.large_list(_arrow(item, "element")),
            _same if inner is _same else lambda values: [inner(value) for value in values],
            (item,),
        )

    def _map(self, schema: JsonObject, name: str, number: int | None) -> _Node:
        identifier = schema.get("key-id")
        key = _Node(identifier if type(identifier) is int else None, "key", pa.large_string(), _same)
        value = self.describe(schema["values"], "value", schema.get("value-id"))
        inner = value.shape
        return _Node(
            number,
            name,
            _map_of(key, value),
            lambda entries: [(each, inner(held)) for each, held in entries.items()],
            (key, value),
        )


def _arrow(node: _Node, name: str) -> ArrowField:
    return pa.field(name, node.type)


def _map_of(key: _Node, value: _Node) -> ArrowType:
    inner: list[Any] = [pa.field("key", key.type, nullable=False), _arrow(value, "value")]
    return pa.map_(*inner)


def _leaf(schema: JsonObject, kind: str, name: str, number: int | None) -> _Node:
    logical = str(schema.get("logicalType"))
    if kind in ("int", "long"):
        return _Node(number, name, _numbered(schema, kind, logical), _same)
    if logical == "uuid" and (kind == "string" or schema.get("size") == _UUID_BYTES):
        return _Node(number, name, pa.binary(_UUID_BYTES), lambda value: value.bytes)
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision = schema.get("precision")
        if type(precision) is not int or not 1 <= precision <= 38:
            raise Malformed(f"its column {name!r} is a decimal of an impossible precision")
        return _Node(number, name, pa.decimal128(precision, schema.get("scale", 0)), _same)
    return _Node(number, name, pa.binary(schema["size"]) if kind == "fixed" else _PLAIN[kind], _same)


def _numbered(schema: JsonObject, kind: str, logical: str) -> ArrowType:
    """The type of a whole number that may be a date or a time."""
    if logical == "date" and kind == "int":
        return pa.date32()
    stem, _, unit = logical.rpartition("-")
    if unit not in _UNITS:
        return _PLAIN[kind]
    if stem == "time":
        return pa.time32("ms") if unit == "millis" else pa.time64(_UNITS[unit])
    if stem in ("timestamp", "local-timestamp"):
        # Iceberg says with its own attribute whether a zone is meant; to Avro, a timestamp alone has one.
        zoned = stem == "timestamp" and schema.get("adjust-to-utc", True) is True
        return pa.timestamp(_UNITS[unit], tz="UTC" if zoned else None)
    return _PLAIN[kind]
