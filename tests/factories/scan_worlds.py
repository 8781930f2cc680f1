"""Random tables to be scanned, as manifests without data: files of known rows with honest metrics, and filters on them.

A filter is a nested tuple: ("and", left, right), ("or", left, right), ("not", child), ("is-null", column),
("lt", column, value), ("in", column, [values]). Values are internal ones (days, `Decimal`, `UUID`, bytes).
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyiceberg.transforms
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import PrimitiveType

from table_format.io.store import ObjectStore
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import write_manifest_list
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata
from tests.factories.manifests import new_metadata

Filter = tuple[Any, ...]
Row = dict[str, Any]
SNAPSHOT = 4_611_686_018_427_387_905

COLUMNS = {
    "i": "int",
    "l": "long",
    "f": "float",
    "g": "double",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "z": "timestamptz",
    "p": "decimal(9, 2)",
    "b": "binary",
    "x": "fixed[2]",
    "u": "uuid",
    "o": "boolean",
    "c": "time",
}
TRANSFORMS = {
    "i": ("identity", "bucket[3]", "truncate[2]", "truncate[3]", "void"),
    "l": ("identity", "bucket[3]", "truncate[2]", "truncate[3]"),
    "f": ("identity",),
    "g": ("identity",),
    "s": ("identity", "bucket[3]", "truncate[1]", "truncate[2]"),
    "d": ("identity", "bucket[3]", "year", "month", "day"),
    "t": ("identity", "bucket[3]", "year", "month", "day", "hour"),
    "z": ("year", "month", "day", "hour"),
    "p": ("identity", "bucket[3]", "truncate[3]"),
    "b": ("identity", "bucket[3]", "truncate[1]"),
    "x": ("identity", "bucket[3]"),
    "u": ("identity", "bucket[3]"),
    "o": ("identity",),
    "c": ("identity", "bucket[3]"),
}
_HOUR = 3_600_000_000


def _single(value: float) -> float:
    packed: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return packed


_NUMBERS = st.integers(-5, 5)
_MICROS = st.builds(
    lambda days, hours, rest: days * 24 * _HOUR + hours * _HOUR + rest,
    st.sampled_from([-800, -366, -32, -31, -1, 0, 1, 30, 31, 365, 400]),
    st.integers(0, 23),
    st.sampled_from([0, 0, 1, 999_999]),
)
_REALS = st.sampled_from([-2.5, -1.0, 0.0, 0.5, 1.0, 2.25, 1e10])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": _NUMBERS | st.sampled_from([-(2**31), -(2**31) + 1, 2**31 - 1]),
    "l": _NUMBERS | st.sampled_from([-(2**63), -(2**63) + 1, 2**63 - 1]),
    "f": _REALS,
    "g": _REALS,
    "s": st.text("aäb\U0001f600", max_size=3),
    "d": st.sampled_from([-800, -366, -365, -32, -31, -1, 0, 1, 30, 31, 365, 400]),
    "t": _MICROS,
    "z": _MICROS,
    "p": st.integers(-500, 500).map(lambda cents: Decimal(cents).scaleb(-2)),
    "b": st.binary(max_size=2),
    "x": st.sampled_from([b"\x00\x00", b"ab", b"\xff\xff"]),
    "u": st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=1 << 127), UUID(int=(1 << 128) - 1)]),
    "o": st.booleans(),
    "c": st.integers(0, 23).map(lambda hour: hour * _HOUR),
}


@dataclass(frozen=True)
class ScannedFile:
    """A data file and the rows it is said to have."""

    path: str
    rows: list[Row]


@dataclass(frozen=True)
class World:
    """A table in a store, and what its files hold."""

    metadata: TableMetadata
    files: list[ScannedFile]
    columns: dict[str, str]
    spec: list[tuple[str, str]]


@st.composite
def drafts(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]], list[list[tuple[list[Row], bool]]]]:
    """Columns, spec, and manifests of files: the rows of each and whether it has all metrics."""
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), min_size=1, max_size=3, unique=True))
    spec = draw(
        st.lists(
            st.sampled_from([(name, transform) for name in names for transform in TRANSFORMS[name]]),
            max_size=2,
            unique_by=lambda field: (field[0], field[1].partition("[")[0]),
        )
    )
    row = st.fixed_dictionaries({name: _cell(name) for name in names})
    file = st.tuples(st.lists(row, min_size=1, max_size=3), st.booleans())
    manifests = draw(st.lists(st.lists(file, min_size=1, max_size=3), min_size=1, max_size=3))
    return names, spec, manifests


def _cell(name: str) -> st.SearchStrategy[Any]:
    cell = st.none() | VALUES[name] | VALUES[name]
    return cell | st.just(math.nan) if COLUMNS[name] in ("float", "double") else cell


@st.composite
def filters(draw: st.DrawFn, names: Sequence[str]) -> Filter:
    """A filter on some of the columns."""
    return draw(st.recursive(_predicates(names), _joined, max_leaves=4))


def _joined(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    pair = st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    return pair | st.tuples(st.just("not"), inner)


def _predicates(names: Sequence[str]) -> st.SearchStrategy[Filter]:
    return st.sampled_from(list(names)).flatmap(_predicate)


def _predicate(name: str) -> st.SearchStrategy[Filter]:
    kind, value = COLUMNS[name], VALUES[name]
    if kind == "boolean":
        compared = st.tuples(st.sampled_from(["eq", "not-eq"]), st.just(name), value)
    else:
        operations = st.sampled_from(["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"])
        compared = st.tuples(operations, st.just(name), value)
    choices = [
        compared,
        compared,
        st.tuples(st.sampled_from(["is-null", "not-null"]), st.just(name)),
        st.tuples(st.sampled_from(["in", "not-in"]), st.just(name), st.lists(value, min_size=1, max_size=3)),
    ]
    if kind in ("float", "double"):
        choices.append(st.tuples(st.sampled_from(["is-nan", "not-nan"]), st.just(name)))
    if kind == "string":
        choices.append(st.tuples(st.sampled_from(["starts-with", "not-starts-with"]), st.just(name), value))
    return st.one_of(choices)


def build(store: ObjectStore, draft: Any, location: str = "memory://t") -> World:
    """The drafted table, written; files of several partitions are split."""
    names, spec, manifests = draft
    columns = {name: COLUMNS[name] for name in names}
    metadata = _complete(new_metadata(columns, spec), location)
    files: list[ScannedFile] = []
    written: list[ManifestFile] = []
    for number, manifest in enumerate(manifests):
        entries = []
        for rows, honest in manifest:
            for partition, part in _split(rows, columns, spec):
                path = f"{location}/data/{len(files):04}.parquet"
                files.append(ScannedFile(path, part))
                entries.append(_entry(_data_file(path, part, partition, columns, honest=honest)))
        written.append(
            write_manifest(
                store,
                f"{location}/metadata/m{number}.avro",
                entries,
                metadata=metadata,
                spec_id=0,
                content=ManifestContent.DATA,
                snapshot_id=SNAPSHOT,
            )
        )
    write_manifest_list(
        store,
        f"{location}/metadata/list.avro",
        [replace(each, sequence_number=1, min_sequence_number=1) for each in written],
        format_version=2,
        snapshot_id=SNAPSHOT,
        parent_snapshot_id=None,
        sequence_number=1,
    )
    return World(metadata, files, columns, spec)


def _complete(metadata: TableMetadata, location: str) -> TableMetadata:
    spec = metadata.partition_specs[0]
    return TableMetadata(
        {
            **metadata.document,
            "location": location,
            "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
            "last-sequence-number": 1,
            "last-updated-ms": 1_700_000_000_000,
            "last-partition-id": max([field["field-id"] for field in spec["fields"]], default=999),
            "sort-orders": [{"order-id": 0, "fields": []}],
            "default-sort-order-id": 0,
            "properties": {},
            "current-snapshot-id": SNAPSHOT,
            "refs": {"main": {"type": "branch", "snapshot-id": SNAPSHOT}},
            "snapshots": [
                {
                    "snapshot-id": SNAPSHOT,
                    "sequence-number": 1,
                    "timestamp-ms": 1_700_000_000_000,
                    "manifest-list": f"{location}/metadata/list.avro",
                    "summary": {"operation": "append"},
                    "schema-id": 0,
                }
            ],
            "snapshot-log": [{"snapshot-id": SNAPSHOT, "timestamp-ms": 1_700_000_000_000}],
            "metadata-log": [],
        }
    )


def _split(
    rows: list[Row], columns: dict[str, str], spec: list[tuple[str, str]]
) -> list[tuple[tuple[Any, ...], list[Row]]]:
    parts: dict[str, tuple[tuple[Any, ...], list[Row]]] = {}
    for row in rows:
        partition = tuple(partition_value(row[name], columns[name], transform) for name, transform in spec)
        parts.setdefault(repr(partition), (partition, []))[1].append(row)
    return list(parts.values())


def partition_value(value: Any, kind: str, transform: str) -> Any:
    """What a writer stores as partition value."""
    return _wrapped(_transformed(value, kind, transform), kind)


def wrapped_files(world: World) -> set[str]:
    """Files of partitions whose value wrapped around at truncation; Java and PyIceberg look for them elsewhere."""
    found: set[str] = set()
    for name, transform in world.spec:
        if transform.startswith("truncate") and world.columns[name] in ("int", "long"):
            for file in world.files:
                value = partition_value(file.rows[0][name], world.columns[name], transform)
                if value is not None and value % int(transform[9:-1]):
                    found.add(file.path)
    return found


def _transformed(value: Any, kind: str, transform: str) -> Any:
    """By PyIceberg, which shares no code with us."""
    if value is None or transform == "void":
        return None
    if transform == "identity":
        return value
    parsed: Any = pyiceberg.transforms.parse_transform(transform)
    return parsed.transform(_type(kind))(value)


def _wrapped(value: Any, kind: str) -> Any:
    """Truncation in the width of the type, as Java does it (PyIceberg's goes below the least value)."""
    bits = {"int": 32, "long": 64}.get(kind)
    if bits is None or value is None:
        return value
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _type(kind: str) -> Any:
    return PrimitiveType.model_validate(kind)


def _data_file(
    path: str, rows: list[Row], partition: tuple[Any, ...], columns: dict[str, str], *, honest: bool
) -> DataFile:
    counts: dict[int, int] = {}
    nulls: dict[int, int] = {}
    nans: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for number, (name, kind) in enumerate(columns.items(), 1):
        cells = [row[name] for row in rows]
        present = [cell for cell in cells if cell is not None and cell == cell]  # noqa: PLR0124 - NaN
        counts[number] = len(cells)
        nulls[number] = sum(cell is None for cell in cells)
        if kind in ("float", "double"):
            nans[number] = len(cells) - len(present) - nulls[number]
        if present:
            lower[number], upper[number] = _bounds(present, kind, cut=len(rows) % 2 == 0)
    return DataFile(
        file_path=path,
        partition=partition,
        record_count=len(rows),
        file_size_in_bytes=100,
        value_counts=counts if honest else None,
        null_value_counts=nulls if honest else None,
        nan_value_counts=nans if honest else None,
        lower_bounds=lower if honest else None,
        upper_bounds=upper if honest else None,
    )


def _bounds(present: list[Any], kind: str, *, cut: bool) -> tuple[bytes, bytes]:
    least, most = min(present), max(present)
    if cut and kind == "string" and len(most) > 1:
        return least[:1].encode(), (chr(ord(most[0]) + 1)).encode()
    return to_bytes(_type(kind), least), to_bytes(_type(kind), most)


def _entry(file: DataFile) -> ManifestEntry:
    return ManifestEntry(
        status=Status.ADDED,
        snapshot_id=SNAPSHOT,
        sequence_number=None,
        file_sequence_number=None,
        data_file=file,
    )


def filter_json(node: Filter, columns: dict[str, str]) -> Any:
    """The filter as a client sends it."""
    match node:
        case ("and" | "or", left, right):
            return {"type": node[0], "left": filter_json(left, columns), "right": filter_json(right, columns)}
        case ("not", child):
            return {"type": "not", "child": filter_json(child, columns)}
        case (operation, name):
            return {"type": operation, "term": name}
        case (operation, name, list(values)):
            return {
                "type": operation,
                "term": name,
                "values": [value_json(each, columns[name]) for each in values],
            }
        case (operation, name, value):
            return {"type": operation, "term": name, "value": value_json(value, columns[name])}
    raise AssertionError(node)


def value_json(value: Any, kind: str) -> Any:
    """A value as a JSON single value, by Python's own formatting."""
    plain = python_value(value, kind)
    if isinstance(plain, bytes):
        return plain.hex().upper()
    if isinstance(plain, date | time):
        return plain.isoformat()
    return str(plain) if isinstance(plain, Decimal | UUID) else plain


def python_value(value: Any, kind: str) -> Any:
    """A value as Python names it, and PyIceberg's literals take it."""
    match kind:
        case "date":
            return date(1970, 1, 1) + timedelta(days=value)
        case "timestamp":
            return datetime(1970, 1, 1) + timedelta(microseconds=value)  # noqa: DTZ001 - it has no zone
        case "timestamptz":
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
        case "time":
            return (datetime(1970, 1, 1) + timedelta(microseconds=value)).time()  # noqa: DTZ001
    return value


_OPPOSITE = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
_OPPOSITE |= {after: before for before, after in _OPPOSITE.items()}


def holds(node: Filter, row: Row, *, opposite: bool = False) -> bool:
    """Whether a row passes, by Iceberg's rules: null and NaN are unequal to all, and neither less nor greater."""
    match node:
        case ("and" | "or", left, right):
            both = (holds(left, row, opposite=opposite), holds(right, row, opposite=opposite))
            return all(both) if (node[0] == "and") is not opposite else any(both)
        case ("not", child):
            return holds(child, row, opposite=not opposite)
    operation = _OPPOSITE[node[0]] if opposite else node[0]
    value = row[node[1]]
    nan = isinstance(value, float) and math.isnan(value)
    match operation:
        case "is-null":
            return value is None
        case "not-null":
            return value is not None
        case "is-nan":
            return nan
        case "not-nan":
            return not nan
        case "not-eq" | "not-in" | "not-starts-with":
            return not holds((_OPPOSITE[operation], *node[1:]), row)
    return value is not None and not nan and _compare(operation, value, node[2])


def _compare(operation: str, value: Any, literal: Any) -> bool:
    match operation:
        case "lt":
            return bool(value < literal)
        case "lt-eq":
            return bool(value <= literal)
        case "gt":
            return bool(value > literal)
        case "gt-eq":
            return bool(value >= literal)
        case "in":
            return value in literal
        case "starts-with":
            return bool(value.startswith(literal))
    return bool(value == literal)
