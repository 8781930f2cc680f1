"""Planned files as the REST catalog's JSON ("FileScanTask", "ContentFile"), so that Java and PyIceberg read it.

Bounds are sent as Java 1.11 sends and reads them: the binary form in hexadecimal, not the value. Statistics are
only of the columns that were asked for; delete files have none, since no member for them exists.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from table_format.jsontypes import JsonObject
from table_format.manifest.entries import Content, DataFile, ManifestEntry
from table_format.manifest.partition import PartitionColumn, partition_columns
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import expression_json
from table_format.scan.planning import PlannedFile
from table_format.scan.single_values import JsonValue, single_value_json
from table_format.schema.types import fields_by_id

_T = TypeVar("_T")
_CONTENTS = {
    Content.DATA: "data",
    Content.POSITION_DELETES: "position-deletes",
    Content.EQUALITY_DELETES: "equality-deletes",
}


class TaskWriter:
    """Writes the files of one answer; the JSON of its delete files is collected on the way, each file once."""

    def __init__(self, metadata: TableMetadata, stats_field_ids: frozenset[int] = frozenset()) -> None:
        """Prepare for the files of one table."""
        self._metadata = metadata
        self._stats = stats_field_ids
        self._columns: dict[int, list[PartitionColumn | None]] = {}
        self._numbers: dict[tuple[str, int | None], int] = {}
        self.delete_files: list[JsonObject] = []
        """What `delete-file-references` of the tasks written so far point into."""

    def task(self, planned: PlannedFile) -> JsonObject:
        """The `FileScanTask` of a file; its deletes are added to `delete_files`.

        Raises:
            Invalid: the table has no such partition spec.
        """
        json: JsonObject = {"data-file": self._data_file(planned.entry.data_file)}
        if planned.deletes:
            json["delete-file-references"] = sorted({self._number(each) for each in planned.deletes})
        json["residual-filter"] = expression_json(planned.residual)
        return json

    def scan_tasks(self, planned: Iterable[PlannedFile]) -> JsonObject:
        """The members `file-scan-tasks` and, when there are any, `delete-files` of an answer."""
        tasks = [self.task(each) for each in planned]
        answer: JsonObject = {"delete-files": self.delete_files} if self.delete_files else {}
        return {**answer, "file-scan-tasks": tasks}

    def _number(self, entry: ManifestEntry) -> int:
        file = entry.data_file
        # One Puffin file holds many deletion vectors: the offset tells them apart.
        key = (file.file_path, file.content_offset)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.delete_files)
            self.delete_files.append(self._delete_file(file))
        return number

    def _data_file(self, file: DataFile) -> JsonObject:
        json = self._content_file(file)
        if file.first_row_id is not None:
            json["first-row-id"] = file.first_row_id
        counts = {
            "column-sizes": file.column_sizes,
            "value-counts": file.value_counts,
            "null-value-counts": file.null_value_counts,
            "nan-value-counts": file.nan_value_counts,
        }
        bounds = {"lower-bounds": file.lower_bounds, "upper-bounds": file.upper_bounds}
        for name, numbers in counts.items():
            if kept := self._kept(numbers):
                json[name] = {"keys": list(kept), "values": list(kept.values())}
        for name, values in bounds.items():
            if found := self._kept(values):
                json[name] = {"keys": list(found), "values": [raw.hex().upper() for raw in found.values()]}
        return json

    def _kept(self, values: Mapping[int, _T] | None) -> dict[int, _T]:
        if not self._stats or not values:
            return {}
        return {key: value for key, value in sorted(values.items()) if key in self._stats}

    def _delete_file(self, file: DataFile) -> JsonObject:
        json = self._content_file(file)
        optional = {
            "equality-ids": file.equality_ids,
            "referenced-data-file": file.referenced_data_file,
            "content-offset": file.content_offset,
            "content-size-in-bytes": file.content_size_in_bytes,
        }
        json.update({name: value for name, value in optional.items() if value is not None})
        return json

    def _content_file(self, file: DataFile) -> JsonObject:
        json: JsonObject = {
            "spec-id": file.spec_id,
            "content": _CONTENTS[file.content],
            "file-path": file.file_path,
            "file-format": file.file_format.lower(),
            "partition": self._partition(file),
            "file-size-in-bytes": file.file_size_in_bytes,
            "record-count": file.record_count,
        }
        if file.key_metadata is not None:
            json["key-metadata"] = file.key_metadata.hex().upper()
        if file.split_offsets is not None:
            json["split-offsets"] = file.split_offsets
        if file.sort_order_id is not None:
            json["sort-order-id"] = file.sort_order_id
        return json

    def _partition(self, file: DataFile) -> list[JsonValue]:
        columns = self._columns.get(file.spec_id)
        if columns is None:
            columns = self._columns[file.spec_id] = _readable(self._metadata, file.spec_id)
        return [
            None if column is None or column.type is None else single_value_json(column.type, value)
            for column, value in zip(columns, file.partition, strict=True)
        ]


def _readable(metadata: TableMetadata, spec_id: int) -> list[PartitionColumn | None]:
    """The partition columns whose type a client can know; None where the source column was dropped.

    A client has the table's current schema. Java gives a field whose source is gone the type `unknown` and fails on
    any value of it, and no filter can name such a column.
    """
    current = fields_by_id(metadata.schema())
    fields = metadata.spec(spec_id)["fields"]
    columns = partition_columns(metadata, spec_id)
    return [
        column if field.get("source-id") in current else None
        for column, field in zip(columns, fields, strict=True)
    ]
