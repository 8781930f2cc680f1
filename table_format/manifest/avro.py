"""The Avro schemas of manifests and manifest lists, as Java writes them: names, field ids, order (Iceberg spec).

One table of columns gives the schema, the writer and what a reader expects, so that they cannot differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from table_format.jsontypes import JsonObject
from table_format.manifest import encode
from table_format.manifest.encode import Writer

_DEFAULT_BLOCK_SIZE = 64 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A field of one of the records; `attribute` is where its value stands in the dataclass."""

    id: int
    name: str
    type: str | JsonObject
    write: Writer
    required: bool = False
    doc: str | None = None
    attribute: str | None = None

    def schema(self) -> JsonObject:
        """The Avro field."""
        field: JsonObject = {"name": self.name, "type": self.type if self.required else ["null", self.type]}
        if self.doc is not None:
            field["doc"] = self.doc
        if not self.required:
            field["default"] = None
        return {**field, "field-id": self.id}

    def writer(self) -> tuple[str, Writer]:
        """Attribute and writer, for `encode.record`."""
        return self.attribute or self.name, self.write if self.required else encode.optional(self.write)


def _pairs(key_id: int, value_id: int, value: str) -> JsonObject:
    return {
        "type": "array",
        "items": {
            "type": "record",
            "name": f"k{key_id}_v{value_id}",
            "fields": [
                {"name": "key", "type": "int", "field-id": key_id},
                {"name": "value", "type": value, "field-id": value_id},
            ],
        },
        "logicalType": "map",
    }


def _listed(element_id: int, element: str | JsonObject) -> JsonObject:
    return {"type": "array", "items": element, "element-id": element_id}


def _long(
    field_id: int, name: str, doc: str | None = None, *, required: bool = False, kind: str = "long"
) -> Column:
    write = encode.write_int if kind == "int" else encode.write_long
    return Column(id=field_id, name=name, type=kind, write=write, required=required, doc=doc)


def _counts(field_id: int, name: str, key_id: int, doc: str) -> Column:
    return Column(
        id=field_id,
        name=name,
        type=_pairs(key_id, key_id + 1, "long"),
        write=encode.write_long_map,
        doc=doc,
    )


def _bounds(field_id: int, name: str, key_id: int, doc: str) -> Column:
    return Column(
        id=field_id,
        name=name,
        type=_pairs(key_id, key_id + 1, "bytes"),
        write=encode.write_bytes_map,
        doc=doc,
    )


def _write_block_size(out: bytearray, _: Any) -> None:
    encode.write_long(out, _DEFAULT_BLOCK_SIZE)


def _write_format(out: bytearray, value: str) -> None:
    # iceberg-go refuses a format in lower case.
    encode.write_string(out, value.upper())


_CONTENT = _long(
    134,
    "content",
    "Contents of the file: 0=data, 1=position deletes, 2=equality deletes",
    required=True,
    kind="int",
)
_FILE_HEAD = (
    Column(
        id=100,
        name="file_path",
        type="string",
        write=encode.write_string,
        required=True,
        doc="Location URI with FS scheme",
    ),
    Column(
        id=101,
        name="file_format",
        type="string",
        write=_write_format,
        required=True,
        doc="File format name: avro, orc, or parquet",
    ),
)
_FILE_SIZES = (
    _long(103, "record_count", "Number of records in the file", required=True),
    _long(104, "file_size_in_bytes", "Total file size in bytes", required=True),
)
_BLOCK_SIZE = Column(
    id=105,
    name="block_size_in_bytes",
    type="long",
    write=_write_block_size,
    required=True,
    attribute="record_count",
)
_METRICS = (
    _counts(108, "column_sizes", 117, "Map of column id to total size on disk"),
    _counts(109, "value_counts", 119, "Map of column id to total count, including null and NaN"),
    _counts(110, "null_value_counts", 121, "Map of column id to null value count"),
    _counts(137, "nan_value_counts", 138, "Map of column id to number of NaN values in the column"),
    _bounds(125, "lower_bounds", 126, "Map of column id to lower bound"),
    _bounds(128, "upper_bounds", 129, "Map of column id to upper bound"),
    Column(
        id=131,
        name="key_metadata",
        type="bytes",
        write=encode.write_bytes,
        doc="Encryption key metadata blob",
    ),
    Column(
        id=132,
        name="split_offsets",
        type=_listed(133, "long"),
        write=encode.array(encode.write_long),
        doc="Splittable offsets",
    ),
)
_EQUALITY_IDS = Column(
    id=135,
    name="equality_ids",
    type=_listed(136, "int"),
    write=encode.array(encode.write_int),
    doc="Equality comparison field IDs",
)
_SORT_ORDER = _long(140, "sort_order_id", "Sort order ID", kind="int")
_FIRST_ROW_ID = _long(142, "first_row_id", "Starting row ID to assign to new rows")
_VECTOR = (
    _long(144, "content_offset", "The offset in the file where the content starts"),
    _long(145, "content_size_in_bytes", "The length of referenced content stored in the file"),
)
_REFERENCED = Column(
    id=143,
    name="referenced_data_file",
    type="string",
    write=encode.write_string,
    doc="Fully qualified location (URI with FS scheme) of a data file that all deletes reference",
)


def data_file_columns(
    format_version: int, partition_fields: Sequence[JsonObject], write_partition: Writer
) -> tuple[Column, ...]:
    """The columns of `r2`, the record of a data or delete file."""
    partition = Column(
        id=102,
        name="partition",
        type={"type": "record", "name": "r102", "fields": list(partition_fields)},
        write=write_partition,
        required=True,
        doc="Partition data tuple, schema based on the partition spec",
    )
    if format_version == 1:
        return (*_FILE_HEAD, partition, *_FILE_SIZES, _BLOCK_SIZE, *_METRICS, _SORT_ORDER)
    tail = (_REFERENCED,) if format_version == 2 else (_FIRST_ROW_ID, _REFERENCED, *_VECTOR)
    return (_CONTENT, *_FILE_HEAD, partition, *_FILE_SIZES, *_METRICS, _EQUALITY_IDS, _SORT_ORDER, *tail)


def entry_schema(format_version: int, columns: Sequence[Column]) -> JsonObject:
    """The schema of a manifest, whose files have these columns."""
    data_file = {"type": "record", "name": "r2", "fields": [column.schema() for column in columns]}
    numbers = (
        [_long(1, "snapshot_id", required=True)]
        if format_version == 1
        else [_long(1, "snapshot_id"), _long(3, "sequence_number"), _long(4, "file_sequence_number")]
    )
    fields = [
        _long(0, "status", required=True, kind="int").schema(),
        *(column.schema() for column in numbers),
        {"name": "data_file", "type": data_file, "field-id": 2},
    ]
    return {"type": "record", "name": "manifest_entry", "fields": fields}


_SUMMARY_COLUMNS = (
    Column(
        id=509,
        name="contains_null",
        type="boolean",
        write=encode.write_boolean,
        required=True,
        doc="True if any file has a null partition value",
    ),
    Column(
        id=518,
        name="contains_nan",
        type="boolean",
        write=encode.write_boolean,
        doc="True if any file has a nan partition value",
    ),
    Column(
        id=510,
        name="lower_bound",
        type="bytes",
        write=encode.write_bytes,
        doc="Partition lower bound for all files",
    ),
    Column(
        id=511,
        name="upper_bound",
        type="bytes",
        write=encode.write_bytes,
        doc="Partition upper bound for all files",
    ),
)
_SUMMARY: JsonObject = {
    "type": "record",
    "name": "r508",
    "fields": [column.schema() for column in _SUMMARY_COLUMNS],
}


def list_columns(format_version: int) -> tuple[Column, ...]:
    """The columns of `manifest_file`, the record of a manifest list."""
    strict, rows = format_version > 1, format_version > 2
    numbers = (
        _long(517, "content", "Contents of the manifest: 0=data, 1=deletes", required=True, kind="int"),
        _long(515, "sequence_number", "Sequence number when the manifest was added", required=True),
        _long(516, "min_sequence_number", "Lowest sequence number in the manifest", required=True),
    )
    return (
        Column(
            id=500,
            name="manifest_path",
            type="string",
            write=encode.write_string,
            required=True,
            doc="Location URI with FS scheme",
            attribute="path",
        ),
        Column(
            id=501,
            name="manifest_length",
            type="long",
            write=encode.write_long,
            required=True,
            doc="Total file size in bytes",
            attribute="length",
        ),
        Column(
            id=502,
            name="partition_spec_id",
            type="int",
            write=encode.write_int,
            required=True,
            doc="Spec ID used to write",
            attribute="spec_id",
        ),
        *(numbers if strict else ()),
        _long(503, "added_snapshot_id", "Snapshot ID that added the manifest", required=True),
        _long(504, "added_files_count", "Added entry count", required=strict, kind="int"),
        _long(505, "existing_files_count", "Existing entry count", required=strict, kind="int"),
        _long(506, "deleted_files_count", "Deleted entry count", required=strict, kind="int"),
        _long(512, "added_rows_count", "Added rows count", required=strict),
        _long(513, "existing_rows_count", "Existing rows count", required=strict),
        _long(514, "deleted_rows_count", "Deleted rows count", required=strict),
        Column(
            id=507,
            name="partitions",
            type=_listed(508, _SUMMARY),
            write=encode.array(encode.record([column.writer() for column in _SUMMARY_COLUMNS])),
            doc="Summary for each partition",
        ),
        Column(
            id=519,
            name="key_metadata",
            type="bytes",
            write=encode.write_bytes,
            doc="Encryption key metadata blob",
        ),
        *(
            (_long(520, "first_row_id", "Starting row ID to assign to new rows in ADDED data files"),)
            if rows
            else ()
        ),
    )


def list_schema(columns: Sequence[Column]) -> JsonObject:
    """The schema of a manifest list."""
    return {"type": "record", "name": "manifest_file", "fields": [column.schema() for column in columns]}


# What readers look for, by field id: the attribute it goes to, and the Avro types it may come in.

Expected = Mapping[int, tuple[str, tuple[str, ...]]]

_NUMBER = ("int", "long")
ENTRY_FIELDS: Expected = {
    0: ("status", _NUMBER),
    1: ("snapshot_id", _NUMBER),
    2: ("data_file", ("record",)),
    3: ("sequence_number", _NUMBER),
    4: ("file_sequence_number", _NUMBER),
}
FILE_FIELDS: Expected = {
    134: ("content", _NUMBER),
    100: ("file_path", ("string",)),
    101: ("file_format", ("string",)),
    102: ("partition", ("record",)),
    103: ("record_count", _NUMBER),
    104: ("file_size_in_bytes", _NUMBER),
    108: ("column_sizes", ("map of int", "map of long")),
    109: ("value_counts", ("map of int", "map of long")),
    110: ("null_value_counts", ("map of int", "map of long")),
    137: ("nan_value_counts", ("map of int", "map of long")),
    125: ("lower_bounds", ("map of bytes", "map of fixed")),
    128: ("upper_bounds", ("map of bytes", "map of fixed")),
    131: ("key_metadata", ("bytes", "fixed")),
    132: ("split_offsets", ("array of int", "array of long")),
    135: ("equality_ids", ("array of int", "array of long")),
    140: ("sort_order_id", _NUMBER),
    142: ("first_row_id", _NUMBER),
    143: ("referenced_data_file", ("string",)),
    144: ("content_offset", _NUMBER),
    145: ("content_size_in_bytes", _NUMBER),
}
LIST_FIELDS: Expected = {
    500: ("path", ("string",)),
    501: ("length", _NUMBER),
    502: ("spec_id", _NUMBER),
    517: ("content", _NUMBER),
    515: ("sequence_number", _NUMBER),
    516: ("min_sequence_number", _NUMBER),
    503: ("added_snapshot_id", _NUMBER),
    504: ("added_files_count", _NUMBER),
    505: ("existing_files_count", _NUMBER),
    506: ("deleted_files_count", _NUMBER),
    512: ("added_rows_count", _NUMBER),
    513: ("existing_rows_count", _NUMBER),
    514: ("deleted_rows_count", _NUMBER),
    507: ("partitions", ("array of record",)),
    519: ("key_metadata", ("bytes", "fixed")),
    520: ("first_row_id", _NUMBER),
}
SUMMARY_FIELDS: Expected = {
    509: ("contains_null", ("boolean",)),
    518: ("contains_nan", ("boolean",)),
    510: ("lower_bound", ("bytes", "fixed")),
    511: ("upper_bound", ("bytes", "fixed")),
}
NAMES: Mapping[str, int] = {
    # Where a writer gave no field ids, its names decide; these four differ from our attributes.
    **{
        name: field_id
        for fields in (ENTRY_FIELDS, FILE_FIELDS, SUMMARY_FIELDS)
        for field_id, (name, _) in fields.items()
    },
}
LIST_NAMES: Mapping[str, int] = {
    **{name: field_id for fields in (LIST_FIELDS, SUMMARY_FIELDS) for field_id, (name, _) in fields.items()},
    "manifest_path": 500,
    "manifest_length": 501,
    "partition_spec_id": 502,
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
