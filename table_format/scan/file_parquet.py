"""Parquet files: columns with their field ids, rows in batches whose size follows from the rows' size.

A large row group is read page by page, so that memory holds one batch and a buffer a column, never the group.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from table_format.errors import Invalid
from table_format.io.fileio import pyarrow_input
from table_format.io.store import ObjectStore
from table_format.scan.project import OpenedFile, fields_with_ids
from table_format.schema.arrow import ArrowArray, field_id

BATCH_BYTES: Final = 16 << 20
_WHOLE_GROUP_BYTES: Final = 64 << 20
"""A row group up to that size is fetched column by column at once; of a larger one only pieces are held."""
_LONG_VALUE: Final = 4 << 10
_UNLIKE: Final = 32
_DICTIONARY_BYTES: Final = 3
"""A value, at most, of a column that is read as a dictionary."""
_NO_DICTIONARY: Final = 1 << 62
_ONCE_EACH: Final = ("parquet-cpp-arrow ", "parquet-mr ", "parquet-rs ", "DuckDB ", "Trino ")
"""What writers call themselves that look values up as they fill a dictionary, so that none is in it twice."""
_PIECE_BYTES: Final = (64 << 10, 4 << 20)
"""The least and the most of a column that is fetched ahead."""


def open_parquet(store: ObjectStore, path: str, *, dictionaries: bool = False) -> Iterator[OpenedFile]:
    """Open a Parquet file (one value, for `contextmanager`).

    With `dictionaries`, columns of text and bytes come as dictionaries where the file clearly stores them so.

    Raises:
        NoSuchFile: it does not exist.
        Invalid: it is not Parquet.
    """
    with pyarrow_input(store, path) as handle:
        try:
            metadata = pq.read_metadata(handle)
            ahead = _ahead(metadata)
            # INT96 timestamps (old Spark and Hive files) as nanoseconds would silently wrap beyond 1677 and 2262.
            parquet = pq.ParquetFile(
                handle,
                metadata=metadata,
                read_dictionary=_stored_as_dictionary(metadata) if dictionaries else None,
                coerce_int96_timestamp_unit="us",
                buffer_size=ahead,
                pre_buffer=not ahead,  # else all of a column chunk is fetched, whatever the buffer
            )
            arrow = parquet.schema_arrow
        except (pa.ArrowInvalid, OSError) as error:
            raise Invalid(f"{path} is not a readable Parquet file: {error}") from error
        with parquet:
            fields = fields_with_ids(list(arrow), field_id)

            def batches(
                positions: Sequence[int], batch_rows: int
            ) -> Iterator[Mapping[int, ArrowArray] | int]:
                if not positions:
                    yield from _counts(metadata.num_rows, batch_rows)
                    return
                names = {fields[position].name: position for position in positions}
                rows = min(batch_rows, _fitting_rows(metadata, names))
                for groups in _runs(metadata):
                    for batch in parquet.iter_batches(
                        batch_size=rows, row_groups=groups, columns=list(names)
                    ):
                        yield {
                            names[name]: column
                            for name, column in zip(batch.schema.names, batch.columns, strict=True)
                            if name in names
                        }

            yield OpenedFile(fields, batches)


def _counts(rows: int, batch_rows: int) -> Iterator[int]:
    for start in range(0, rows, batch_rows):
        yield min(rows - start, batch_rows)


def _runs(metadata: pq.FileMetaData) -> Iterator[list[int]]:
    """Row groups that are read together: what is fetched ahead is fetched for all of them at once."""
    run: list[int] = []
    size = 0
    for at in range(metadata.num_row_groups):
        run.append(at)
        size += metadata.row_group(at).total_byte_size
        if size >= _WHOLE_GROUP_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _ahead(metadata: pq.FileMetaData) -> int:
    """How many bytes of a column to fetch at a time; 0 for all of it in a row group."""
    if not metadata.num_row_groups or not metadata.num_columns:
        return 0
    largest = max(metadata.row_group(at).total_byte_size for at in range(metadata.num_row_groups))
    if largest <= _WHOLE_GROUP_BYTES:
        return 0
    least, most = _PIECE_BYTES
    return max(least, min(most, _WHOLE_GROUP_BYTES // metadata.num_columns))


def _stored_as_dictionary(metadata: pq.FileMetaData) -> list[str]:
    """The top-level columns of text and bytes whose values, stored one by one, would take more bytes than they do.

    A length takes four bytes. So the dictionaries of such a column take fewer bytes than its rows' indices in memory.
    None where it is not known that a dictionary holds no value twice, which the format does not forbid: Arrow would
    number its values anew and leave the rows' numbers as they are, so that rows got each other's values.
    """
    if not (metadata.created_by or "").startswith(_ONCE_EACH):
        return []
    sizes: dict[str, int] = {}
    values = 0
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        values += group.num_rows
        for place in range(group.num_columns):
            chunk = group.column(place)
            if chunk.physical_type == "BYTE_ARRAY" and "." not in chunk.path_in_schema:
                size = chunk.total_uncompressed_size if chunk.has_dictionary_page else _NO_DICTIONARY
                sizes[chunk.path_in_schema] = sizes.get(chunk.path_in_schema, 0) + size
    return [path for path, size in sizes.items() if size <= _DICTIONARY_BYTES * values]


def _fitting_rows(metadata: pq.FileMetaData, names: Mapping[str, int]) -> int:
    """How many rows of these columns make up a batch, by the row group with the largest rows."""
    width = 1
    for at in range(metadata.num_row_groups):
        group = metadata.row_group(at)
        if group.num_rows:
            chunks = (group.column(place) for place in range(group.num_columns))
            sizes = [
                chunk.total_uncompressed_size // group.num_rows
                for chunk in chunks
                # A name may hold dots: too many columns counted only makes a batch smaller.
                if chunk.path_in_schema in names or chunk.path_in_schema.split(".", 1)[0] in names
            ]
            longest = max(sizes, default=0)
            # Values so long are rarely all alike, and a batch is made of those that happen to follow each other.
            unlike = longest * _UNLIKE if longest >= _LONG_VALUE else 0
            width = max(width, sum(sizes), 8 * len(names), unlike)
    return max(1, BATCH_BYTES // width)
