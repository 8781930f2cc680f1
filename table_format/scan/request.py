"""What a client asks of a scan, checked against a table: which snapshot, schema and columns.

The members are those of the OpenAPI document's "PlanTableScanRequest". Reads metadata only, no manifest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.scan.expressions import TRUE, Expression
from table_format.scan.plan import ancestor_ids, find_snapshot
from table_format.schema.types import FieldView, walk


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """One request; without ids it asks for the head of `main`.

    `start_snapshot_id` is exclusive and `end_snapshot_id` inclusive; the two go together and exclude `snapshot_id`.
    `select` and `stats_fields` are full column names; None for all columns, and for no column statistics.
    """

    snapshot_id: int | None = None
    start_snapshot_id: int | None = None
    end_snapshot_id: int | None = None
    filter: Expression = TRUE
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    select: tuple[str, ...] | None = None
    stats_fields: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Check what needs no table.

        Raises:
            Invalid: a point in time and a range, or half a range.
        """
        ends = (self.start_snapshot_id, self.end_snapshot_id)
        if self.snapshot_id is not None and ends != (None, None):
            raise Invalid(
                "a scan is of one snapshot (snapshot-id) or of a range (start- and end-snapshot-id)"
            )
        if (ends[0] is None) != (ends[1] is None):
            raise Invalid("a range of snapshots needs both start-snapshot-id and end-snapshot-id")

    @property
    def incremental(self) -> bool:
        """Whether it asks for what a range of snapshots appended."""
        return self.end_snapshot_id is not None


def wanted_snapshot(metadata: TableMetadata, request: ScanRequest) -> JsonObject | None:
    """The snapshot to be scanned (of a range its end); None for a table without snapshots.

    Raises:
        Invalid: the table has no such snapshot.
    """
    given = request.end_snapshot_id if request.incremental else request.snapshot_id
    wanted = metadata.current_snapshot_id if given is None else given
    return None if wanted is None else find_snapshot(metadata, wanted)


def wanted_schema(metadata: TableMetadata, request: ScanRequest, snapshot: JsonObject | None) -> JsonObject:
    """The schema by whose names the filter is to be understood: the table's, or the snapshot's where asked for.

    Raises:
        Invalid: the snapshot's schema is not in the metadata any more.
    """
    if not request.use_snapshot_schema or snapshot is None:
        return metadata.schema()
    schema_id = snapshot.get("schema-id")
    return metadata.schema(schema_id if isinstance(schema_id, int) else None)


def appended_snapshots(metadata: TableMetadata, start: int, end: int) -> list[JsonObject]:
    """The snapshots after `start` up to `end` that only appended, newest first.

    `start` itself may have been expired: its id as somebody's parent is enough.

    Raises:
        Invalid: `start` is no ancestor of `end`, or a snapshot between them is gone.
    """
    line: list[int] = []
    for snapshot_id in ancestor_ids(metadata, end):
        if snapshot_id == start:
            break
        line.append(snapshot_id)
    else:
        raise Invalid(
            f"start snapshot {start} is not an ancestor of end snapshot {end}, or one between them was expired"
        )
    snapshots = [find_snapshot(metadata, snapshot_id) for snapshot_id in line]
    return [
        snapshot for snapshot in snapshots if (snapshot.get("summary") or {}).get("operation") == "append"
    ]


def check_selected(
    metadata: TableMetadata, request: ScanRequest, schema: JsonObject, snapshot: JsonObject | None
) -> None:
    """Check the names of `select`; those of the snapshot's own schema are fine too (PyIceberg sends them).

    Raises:
        Invalid: there is no such column.
    """
    if not request.select:
        return
    own = wanted_schema(metadata, _with_snapshot_schema(request), snapshot)
    names = [Names(known, case_sensitive=request.case_sensitive) for known in (schema, own)]
    for name in request.select:
        if name != "*" and not any(known.find(name) for known in names):
            raise Invalid(f"select: the table has no column {name!r}")


def _with_snapshot_schema(request: ScanRequest) -> ScanRequest:
    return ScanRequest(snapshot_id=request.snapshot_id, use_snapshot_schema=True)


def stats_field_ids(request: ScanRequest, schema: JsonObject) -> frozenset[int]:
    """Ids of the columns whose statistics the client wants; of a struct, list or map also those inside.

    Raises:
        Invalid: there is no such column.
    """
    names = Names(schema, case_sensitive=request.case_sensitive)
    wanted: set[int] = set()
    for name in request.stats_fields or ():
        view = names.find(name)
        if view is None:
            raise Invalid(f"stats-fields: the table has no column {name!r}")
        wanted.add(view.id)
    inside = True
    while inside:
        found = {view.id for view in names.views if view.parent_id in wanted} - wanted
        wanted |= found
        inside = bool(found)
    return frozenset(wanted)


class Names:
    """The columns of a schema by full name."""

    def __init__(self, schema: JsonObject, *, case_sensitive: bool) -> None:
        """Index them."""
        self.views: Sequence[FieldView] = list(walk(schema))
        self._case_sensitive = case_sensitive
        self._by_path: dict[str, list[FieldView]] = {}
        for view in self.views:
            self._by_path.setdefault(self._key(view.path), []).append(view)

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()

    def find(self, name: str) -> FieldView | None:
        """The column of that name, or None.

        Raises:
            Invalid: two columns are of that name when case does not count.
        """
        found = self._by_path.get(self._key(name), [])
        if len(found) > 1:
            both = " and ".join(repr(view.path) for view in found[:2])
            raise Invalid(f"the name {name!r} could be {both}: ask with case-sensitive true")
        return found[0] if found else None
