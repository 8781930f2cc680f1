"""How a table wants its data files: `FileOptions`, and one Parquet file in the making: `DataFileWriter`.

A file is returned only after it is durable under its path; one that failed or was aborted does not appear.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from table_format.errors import Internal, Invalid
from table_format.io.fileio import pyarrow_output
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, Partition
from table_format.schema.arrow import to_arrow
from table_format.write.encodings import dictionary_columns
from table_format.write.metrics import Leaf, count_nans, leaves, metrics

MEBIBYTE = 1024 * 1024
_ROWS_BETWEEN_LOOKS = 1024
"""What the writer does by default."""
_BETWEEN_LOOKS = 4 * MEBIBYTE
_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "brotli": "brotli", "lz4": "lz4"}
_CODECS |= {"uncompressed": "none", "none": "none"}
# codec -> (default, lowest, highest level)
_LEVELS = {"zstd": (3, -7, 22), "gzip": (6, 1, 9), "brotli": (4, 0, 11)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOptions:
    """What all files of one write have in common."""

    schema: JsonObject
    arrow: pa.Schema
    leaves: tuple[Leaf, ...]
    row_group_bytes: int
    parquet: Mapping[str, Any]
    """Arguments for pyarrow's writer."""

    @classmethod
    def of(cls, schema: JsonObject, properties: Mapping[str, str]) -> "FileOptions":
        """The options that the table's properties ask for.

        Raises:
            Invalid: an unknown codec, or a number that is none.
            Unsupported: a column type that is not written.
        """
        codec = properties.get("write.parquet.compression-codec", "zstd").strip().lower()
        if codec not in _CODECS:
            known = ", ".join(sorted(_CODECS))
            raise Invalid(f"write.parquet.compression-codec is {codec!r}; choose one of {known}")
        return cls(
            schema=schema,
            arrow=to_arrow(schema),
            leaves=tuple(leaves(schema, properties)),
            row_group_bytes=_positive(properties, "write.parquet.row-group-size-bytes", 128 * MEBIBYTE),
            parquet={
                "compression": _CODECS[codec],
                "compression_level": _level(properties, codec),
                "data_page_size": _positive(properties, "write.parquet.page-size-bytes", MEBIBYTE),
                "dictionary_pagesize_limit": _positive(
                    properties, "write.parquet.dict-size-bytes", 2 * MEBIBYTE
                ),
                "write_page_index": True,
                # Integers for short decimals, as the specification wants; no Arrow schema, which would make
                # readers that know it choose other types than the table's.
                "store_decimal_as_integer": True,
                "store_schema": False,
            },
        )

    def suited_to(self, table: pa.Table) -> "FileOptions":
        """The options for a file of such rows: dictionaries where they pay, pages looked at often enough.

        The writer looks at a page's size after so many rows; long values would make pages that readers must hold whole.
        """
        own: dict[str, Any] = {
            "use_dictionary": dictionary_columns(table, self.parquet["dictionary_pagesize_limit"])
        }
        longest = max((column.nbytes for column in table.columns), default=0) // max(table.num_rows, 1)
        rows = max(1, _BETWEEN_LOOKS // max(longest, 1))
        if rows < _ROWS_BETWEEN_LOOKS:
            own["write_batch_size"] = rows
        return replace(self, arrow=table.schema, parquet={**self.parquet, **own})


def _level(properties: Mapping[str, str], codec: str) -> int | None:
    """The compression level; -1 means the codec's default, as other writers take it."""
    if codec not in _LEVELS:
        return None
    default, lowest, highest = _LEVELS[codec]
    text = properties.get("write.parquet.compression-level", "null").strip()
    if text in ("null", "-1"):
        return default
    if not text.isascii() or not text.removeprefix("-").isdigit() or not lowest <= int(text) <= highest:
        raise Invalid(
            f"write.parquet.compression-level is {text!r}; {codec} takes {lowest} to {highest}, -1 is its default"
        )
    return int(text)


def _positive(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key)
    if text is None or text == "null":
        return default
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise Invalid(f"{key} is {text!r}; write a positive whole number")
    return int(text)


class DataFileWriter:
    """One Parquet file in the making; `finish` or `abort` ends it."""

    def __init__(self, store: ObjectStore, path: str, options: FileOptions) -> None:
        self.path = path
        self.rows = 0
        self._options = options
        self._nans: dict[int, int] = {}
        self._footers: list[pq.FileMetaData] = []
        self._sink = pyarrow_output(store, path)
        try:
            self._writer = pq.ParquetWriter(
                self._sink, options.arrow, metadata_collector=self._footers, **options.parquet
            )
            # What Java writes; it makes a lost table's files readable on their own.
            self._writer.add_key_value_metadata({"iceberg.schema": orjson.dumps(options.schema).decode()})
        except BaseException:
            self._sink.abort()
            raise

    def write_group(self, table: pa.Table) -> None:
        """Write the rows as one row group."""
        for batch in table.to_batches():
            count_nans(batch, self._options.leaves, self._nans)
        self._writer.write_table(table, row_group_size=table.num_rows)
        self.rows += table.num_rows

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._sink.tell())

    def finish(self, partition: Partition, spec_id: int) -> DataFile:
        """Make the file durable and describe it.

        Raises:
            Unavailable: the store did not take it; it does not appear.
        """
        self._writer.close()
        size = self.size
        found = metrics(self._footers[0], self._options.leaves, self._nans)
        if found.record_count != self.rows:
            raise Internal(f"{self.path}: wrote {self.rows} rows, the footer says {found.record_count}")
        self._sink.close()
        return DataFile(
            file_path=self.path,
            spec_id=spec_id,
            partition=partition,
            record_count=found.record_count,
            file_size_in_bytes=size,
            column_sizes=found.column_sizes,
            value_counts=found.value_counts,
            null_value_counts=found.null_value_counts,
            nan_value_counts=found.nan_value_counts,
            lower_bounds=found.lower_bounds,
            upper_bounds=found.upper_bounds,
            split_offsets=found.split_offsets,
        )

    def abort(self) -> None:
        """Discard the file unless it is finished."""
        self._sink.abort()
        # Else pyarrow would try to write a footer into the discarded file when the writer is collected.
        self._writer.is_open = False
