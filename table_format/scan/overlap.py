"""Whether an equality delete file can hold a key of some data file, by the counts and bounds of both.

As Java leaves out deletes that cannot concern a file, and more careful: NaN is in no bound, so that a column of
floating point proves nothing unless both files say that they have none. Unknown metrics prove nothing.
"""

from collections.abc import Callable, Sequence

from table_format.errors import Invalid, Unsupported
from table_format.manifest.entries import Content, DataFile, ManifestEntry
from table_format.metadata.document import TableMetadata
from table_format.scan.comparables import bound_reader
from table_format.scan.equality import key_fields
from table_format.scan.literals import Comparable
from table_format.schema.types import Primitive, parse_primitive

_UNORDERED = frozenset({"uuid", "boolean"})
"""Of the one engines differ on the order; the other has but two values."""


class Overlap:
    """The comparison, for one table; columns are looked up once."""

    def __init__(self, metadata: TableMetadata) -> None:
        """Nothing is looked up yet."""
        self._metadata = metadata
        self._columns: dict[int, _Column | None] = {}

    def concerning(self, data: DataFile, deletes: Sequence[ManifestEntry]) -> tuple[ManifestEntry, ...]:
        """Those of the deletes that can concern the data file."""
        return tuple(entry for entry in deletes if self.may_concern(entry.data_file, data))

    def may_concern(self, delete: DataFile, data: DataFile) -> bool:
        """Whether the delete file can have a row of the data file; true of all but equality deletes."""
        if delete.content is not Content.EQUALITY_DELETES:
            return True
        columns = [self._column(field_id) for field_id in delete.equality_ids or ()]
        return all(column is None or column.may_have_equal(delete, data) for column in columns)

    def _column(self, field_id: int) -> "_Column | None":
        if field_id not in self._columns:
            self._columns[field_id] = _column(self._metadata, field_id)
        return self._columns[field_id]


def _column(metadata: TableMetadata, field_id: int) -> "_Column | None":
    """None for a column that cannot be compared."""
    try:
        [field] = key_fields(metadata, [field_id])
        return _Column(field_id, parse_primitive(field["type"]))
    except (Invalid, Unsupported):
        return None


class _Column:
    """One column in both files."""

    def __init__(self, field_id: int, primitive: Primitive) -> None:
        self._id = field_id
        self._real = primitive.name in ("float", "double")
        self._read: Callable[[bytes], Comparable | None] = bound_reader(primitive)
        self._ordered = primitive.name not in _UNORDERED

    def may_have_equal(self, delete: DataFile, data: DataFile) -> bool:
        """Whether a value, or null, can be in both."""
        if self._may_have_nulls(delete) and self._may_have_nulls(data):
            return True
        if self._only_nulls(delete) or self._only_nulls(data):
            return False  # and the other has no nulls
        if self._real and (self._may_have_nans(delete) and self._may_have_nans(data)):
            return True
        return not self._ordered or self._ranges_meet(delete, data)

    def _ranges_meet(self, delete: DataFile, data: DataFile) -> bool:
        for low, high in ((delete.lower_bounds, data.upper_bounds), (data.lower_bounds, delete.upper_bounds)):
            least, most = self._bound(low), self._bound(high)
            if least is not None and most is not None and least > most:  # type: ignore[operator]
                return False
        return True

    def _bound(self, bounds: dict[int, bytes] | None) -> Comparable | None:
        raw = (bounds or {}).get(self._id)
        return None if raw is None else self._read(raw)

    def _may_have_nulls(self, file: DataFile) -> bool:
        return (file.null_value_counts or {}).get(self._id) != 0

    def _may_have_nans(self, file: DataFile) -> bool:
        return (file.nan_value_counts or {}).get(self._id) != 0

    def _only_nulls(self, file: DataFile) -> bool:
        nulls = (file.null_value_counts or {}).get(self._id)
        return nulls is not None and nulls == (file.value_counts or {}).get(self._id)
