"""ORC files: columns with the ids in their attributes (Iceberg spec, Appendix A, "ORC").

ORC lacks some of Iceberg's types: time is a long, uuid and fixed are binary there, and an attribute says so. Arrow
refuses timestamps that nanoseconds cannot hold.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from table_format.errors import Invalid
from table_format.io.fileio import pyarrow_input
from table_format.io.store import ObjectStore
from table_format.scan.project import FileField, OpenedFile, inner_fields
from table_format.schema.arrow import ArrowArray, ArrowField, ArrowType, compute

_ID: Final = b"iceberg.id"
_LONG, _BINARY, _LENGTH = b"iceberg.long-type", b"iceberg.binary-type", b"iceberg.length"
_UUID_BYTES: Final = 16
_MOST_ROWS: Final = 8192
"""Of one batch; a stripe is decoded batch by batch."""


def open_orc(store: ObjectStore, path: str) -> Iterator[OpenedFile]:
    """Open an ORC file (one value, for `contextmanager`).

    Raises:
        NoSuchFile: it does not exist.
        Invalid: it is not ORC, or two columns share a name.
    """
    with pyarrow_input(store, path) as handle:
        try:
            # The stubs know neither open files nor columns by expression.
            source: Any = handle
            fragment: Any = ds.OrcFileFormat().make_fragment(source)
            arrow = fragment.physical_schema
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{path} is not a readable ORC file: {error}") from error
        if len(set(arrow.names)) != len(arrow.names):
            raise Invalid(f"{path} has two columns of one name")
        fields = tuple(_field(field) for field in arrow)

        def batches(positions: Sequence[int], batch_rows: int) -> Iterator[Mapping[int, ArrowArray] | int]:
            rows = min(batch_rows, _MOST_ROWS)
            columns = {str(at): compute.field(fields[at].name) for at in positions}
            scanner = fragment.scanner(
                columns=columns, batch_size=rows, use_threads=False, batch_readahead=1, fragment_readahead=1
            )
            for batch in scanner.to_batches():
                for start in range(0, batch.num_rows, rows):
                    part = batch.slice(start, rows)
                    yield dict(zip(positions, part.columns, strict=True)) if positions else part.num_rows

        yield OpenedFile(fields, batches)


def _field(field: ArrowField) -> FileField:
    attributes = field.metadata or {}
    number = attributes.get(_ID)
    return FileField(
        int(number) if number is not None else None,
        field.name,
        field.type,
        tuple(_field(inner) for inner in inner_fields(field.type)),
        _meant(attributes),
    )


def _meant(attributes: Mapping[bytes, bytes]) -> ArrowType:
    if attributes.get(_LONG, b"").upper() == b"TIME":
        return pa.time64("us")
    match attributes.get(_BINARY, b"").upper():
        case b"UUID":
            return pa.binary(_UUID_BYTES)
        case b"FIXED" if attributes.get(_LENGTH, b"").isdigit():
            return pa.binary(int(attributes[_LENGTH]))
    return None
