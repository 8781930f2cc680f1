"""Data and delete files of any format, opened: which of their columns are which, and their rows batch by batch.

Owns what the formats share: field ids of the file, else of the table's name mapping. What a format stores how is
the work of `file_parquet`, `file_orc` and `file_avro`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import orjson
import pyarrow as pa

from table_format.errors import Invalid, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
from table_format.metadata.document import TableMetadata
from table_format.scan.file_avro import open_avro
from table_format.scan.file_orc import open_orc
from table_format.scan.file_parquet import open_parquet
from table_format.scan.project import FileField, OpenedFile, has_ids
from table_format.schema.arrow import ArrowArray, kinds

NAME_MAPPING_PROPERTY: Final = "schema.name-mapping.default"
_FORMATS: Final = {"PARQUET": open_parquet, "ORC": open_orc, "AVRO": open_avro}
_TITLES: Final = {"PARQUET": "Parquet", "ORC": "ORC", "AVRO": "Avro"}


def read_name_mapping(metadata: TableMetadata) -> Sequence[JsonObject] | None:
    """The table's name mapping for files without field ids, or None.

    Raises:
        Invalid: the property is not a name mapping.
    """
    text = metadata.properties.get(NAME_MAPPING_PROPERTY)
    if text is None:
        return None
    try:
        mapping = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"table property {NAME_MAPPING_PROPERTY} is not valid JSON: {error}") from None
    if not isinstance(mapping, list) or not all(isinstance(entry, dict) for entry in mapping):
        raise Invalid(f"table property {NAME_MAPPING_PROPERTY} is not a list of objects")
    return mapping


@dataclass(frozen=True, slots=True)
class SourceFile:
    """An open file whose columns are identified."""

    data_file: DataFile
    opened: OpenedFile

    @property
    def fields(self) -> tuple[FileField, ...]:
        """The top-level columns, with what is inside."""
        return self.opened.fields

    def batches(self, positions: Sequence[int], batch_rows: int) -> Iterator[Mapping[int, ArrowArray] | int]:
        """Batches of the top-level columns at these positions, by position; a plain row count when there are none.

        A batch has `batch_rows` rows at most, fewer where rows are large.

        Raises:
            Invalid: the file's content is damaged.
        """
        try:
            yield from self.opened.batches(positions, batch_rows)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, MemoryError):
                raise
            raise Invalid(f"{self.data_file.file_path} cannot be read: {error}") from error


@contextmanager
def open_file(
    store: ObjectStore,
    data_file: DataFile,
    name_mapping: Sequence[JsonObject] | None,
    *,
    dictionaries: bool = False,
) -> Iterator[SourceFile]:
    """Open a file and find its columns' ids; with `dictionaries`, columns that are stored so are read as such.

    Raises:
        Invalid: not of its format, or no column has an id and there is no name mapping.
        Unsupported: another file format, or an encrypted file.
    """
    path, name = data_file.file_path, data_file.file_format.upper()
    opener: Callable[..., Iterator[OpenedFile]] | None = _FORMATS.get(name)
    if opener is None:
        raise Unsupported(f"{path} is {data_file.file_format}: only Parquet, ORC and Avro files can be read")
    if dictionaries and opener is open_parquet:
        opener = partial(open_parquet, dictionaries=True)
    if data_file.key_metadata is not None:
        raise Unsupported(f"{path} is encrypted")
    with contextmanager(opener)(store, path) as opened:
        fields = opened.fields
        if not has_ids(fields):
            if name_mapping is None:
                raise Invalid(
                    f"{path} has no field ids and the table has no name mapping: "
                    f"set the table property {NAME_MAPPING_PROPERTY}"
                )
            fields = _mapped(fields, name_mapping)
        yield SourceFile(data_file, replace(opened, fields=fields))


def _mapped(fields: Sequence[FileField], mapping: Sequence[JsonObject]) -> tuple[FileField, ...]:
    ids = {name: entry for entry in mapping for name in entry.get("names", [])}
    return tuple(_mapped_field(field, field.name, ids) for field in fields)


def _mapped_field(field: FileField, name: str, ids: Mapping[str, JsonObject]) -> FileField:
    entry = ids.get(name, {})
    inside = {name: child for child in entry.get("fields", []) for name in child.get("names", [])}
    # Writers name the inner fields of lists and maps as they like; the mapping always says element, key, value.
    fixed = {1: ("element",), 2: ("key", "value")}
    inner = field.children
    names = [child.name for child in inner] if kinds.is_struct(field.type) else fixed.get(len(inner), ())
    children = tuple(_mapped_field(child, n, inside) for child, n in zip(inner, names, strict=True))
    return replace(field, id=entry.get("field-id"), children=children)
