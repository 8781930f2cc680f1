"""Which partition is still being written: the newest by time, while commits add to it. Pure.

Merging its files now would mean merging them again soon, and against its writer. By the values of the partitions, not
by the clock: events may come late, or be of another century.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from table_format.jsontypes import JsonObject
from table_format.manifest.lines import FileLine
from table_format.metadata.document import TableMetadata
from table_format.schema.types import FieldView, fields_by_id

_TIMES: Final = frozenset({"year", "month", "day", "hour"})


@dataclass(frozen=True, slots=True)
class OpenWindow:
    """The windows that are left alone: of each spec the place of its time in the partition, and the newest time."""

    newest: Mapping[int, tuple[int, int]]

    def has(self, file: FileLine) -> bool:
        """Whether the file lies in one."""
        found = self.newest.get(file.spec_id)
        return found is not None and file.partition[found[0]] == found[1]


def open_window(files: Sequence[FileLine], metadata: TableMetadata, seconds: int, now_ms: int) -> OpenWindow:
    """What was written to within so many seconds; nothing for 0, or for a table that no time partitions.

    Only commits that bring rows count, not those of maintenance; of a snapshot that is gone, nothing is known but that
    it is old.
    """
    if not seconds:
        return OpenWindow({})
    columns = fields_by_id(metadata.schema())
    places = {spec["spec-id"]: _time_of(spec, columns) for spec in metadata.partition_specs}
    written = {
        snapshot["snapshot-id"]: int(snapshot["timestamp-ms"])
        for snapshot in metadata.snapshots
        if (snapshot.get("summary") or {}).get("operation") != "replace"
    }
    last: dict[tuple[int, int, int], int] = {}
    for file in files:
        place = places.get(file.spec_id)
        time = None if place is None else file.partition[place]
        if place is not None and isinstance(time, int):
            key = (file.spec_id, place, time)
            last[key] = max(last.get(key, 0), written.get(file.snapshot_id or -1, 0))
    newest: dict[int, tuple[int, int]] = {}
    for spec_id, place, time in sorted(last):
        newest[spec_id] = (place, time)
    youngest = now_ms - seconds * 1000
    return OpenWindow(
        {
            spec_id: (place, time)
            for spec_id, (place, time) in newest.items()
            if last[spec_id, place, time] > youngest
        }
    )


def _time_of(spec: JsonObject, columns: Mapping[int, FieldView]) -> int | None:
    """The place of the first partition field that is a time."""
    for place, field in enumerate(spec["fields"]):
        source = columns.get(field.get("source-id"))
        is_date = field["transform"] == "identity" and source is not None and source.type == "date"
        if field["transform"] in _TIMES or is_date:
            return place
    return None
