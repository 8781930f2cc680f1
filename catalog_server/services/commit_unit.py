"""The database side of a commit: all pointers, places and jobs, in one transaction.

Raising undoes all of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sqlalchemy import Connection

from catalog_server.services.commit_plan import Planned
from catalog_server.store import jobs, places, pointers, table_entries, tables
from catalog_server.store.jobs import JobBirth
from catalog_server.store.keys import key_of
from catalog_server.store.table_entries import Beginning, TableEntry
from catalog_server.store.tables import Birth, TableRow
from catalog_server.store.units import row_locks
from maintenance.ports import JobKind
from table_format.ident import TableIdent


class LostRace(Exception):
    """A pointer is not where it was expected to be: read again and start over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One table's part, its metadata file written (None when nothing changes)."""

    planned: Planned
    new_location: str | None
    onto: TableEntry | None = None
    """The blank table that this metadata is the first of."""


Also: TypeAlias = Callable[[Connection, str], None]
"""What else to store with a table that is born, by its resource id, in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Everything that one commit changes in the database."""

    bucket_id: int
    parts: Sequence[Part]
    now_ms: int
    job_attempts: int
    also: Also | None = None


def run(connection: Connection, unit: Unit) -> list[TableRow]:
    """Apply the unit; the rows as they are after it, in the order of the parts.

    Raises:
        LostRace: a table is not as it was read.
        AlreadyExists: a uuid or a place belongs to another table.
        NoSuchNamespace: a table's namespace is gone.
    """
    rows: dict[TableIdent, TableRow] = {}
    for part in sorted(unit.parts, key=_by_id):
        row = rows[part.planned.ident] = _point(connection, unit, part)
        for kind in part.planned.jobs:
            birth = job_for(row, kind.value, "commit", unit.job_attempts)
            if kind is JobKind.COMPACTION:
                birth = replace(birth, priority=part.planned.benefit)
            jobs.enqueue(connection, birth, unit.now_ms)
        if unit.also is not None:
            unit.also(connection, row.resource_id)
    return [rows[part.planned.ident] for part in unit.parts]


@row_locks
def swap(connection: Connection, unit: Unit) -> list[TableRow]:
    """`run`, for a unit that `only_swaps`: by rows locked, swapped conditionally, or unique.

    Raises:
        LostRace, AlreadyAnswered, AlreadyExists, NoSuchNamespace: as `run`.
    """
    return run(connection, unit)


def only_swaps(unit: Unit) -> bool:
    """Whether the unit moves pointers of tables that stay at their places: names and places are decided on alone."""
    return all(part.planned.current.row is not None and not part.planned.new_places for part in unit.parts)


def job_for(row: TableRow, kind: str, origin: str, max_attempts: int) -> JobBirth:
    """A job of that kind on a table."""
    return JobBirth(
        kind=kind,
        origin=origin,
        bucket_id=row.bucket_id,
        namespace_key=key_of(row.ident.namespace),
        table_name=row.ident.name,
        table_id=row.id,
        table_uuid=row.table_uuid,
        dry_run=False,
        payload={},
        priority=0,
        max_attempts=max_attempts,
        run_after_ms=0,
    )


def _by_id(part: Part) -> int:
    row = part.planned.current.row
    return 0 if row is None else row.id


def _point(connection: Connection, unit: Unit, part: Part) -> TableRow:
    planned = part.planned
    row = planned.current.row
    if row is None:
        return _insert(connection, unit, part)
    if part.new_location is None:
        now = tables.hold(connection, row.bucket_id, row.ident)
        if now is None or now.metadata_location != row.metadata_location:
            raise LostRace
        return now
    # A table of format version 1 may have been without a uuid until now.
    table_uuid = (planned.metadata.uuid or row.table_uuid).lower()
    if table_uuid != row.table_uuid:
        tables.refuse_uuid(connection, table_uuid, row.id)
    if planned.new_places:
        places.refuse_overlap(connection, planned.new_places, row.id)
        places.add_of_table(connection, row.id, planned.new_places)
    change = pointers.Swap(
        table_id=row.id,
        expected=row.metadata_location,
        new=part.new_location,
        table_uuid=table_uuid,
        location=planned.metadata.location,
    )
    if not pointers.swap(connection, change, unit.now_ms):
        raise LostRace
    return pointers.moved(row, change, unit.now_ms)


def _insert(connection: Connection, unit: Unit, part: Part) -> TableRow:
    planned = part.planned
    if part.new_location is None or planned.metadata.uuid is None:
        raise LostRace  # a table that is born always has both
    if part.onto is not None:
        return _begin(connection, unit, part, part.onto)
    if tables.find(connection, unit.bucket_id, planned.ident) is not None:
        raise LostRace
    birth = Birth(
        ident=planned.ident,
        table_uuid=planned.metadata.uuid.lower(),
        location=planned.metadata.location,
        places=planned.new_places,
        metadata_location=part.new_location,
    )
    # Its first metadata file, made a moment ago, is of its life here.
    return tables.create(
        connection, unit.bucket_id, birth, min(unit.now_ms, planned.metadata.last_updated_ms)
    )


def _begin(connection: Connection, unit: Unit, part: Part, blank: TableEntry) -> TableRow:
    metadata = part.planned.metadata
    beginning = Beginning(
        entry=blank,
        metadata_location=part.new_location or "",
        table_uuid=(metadata.uuid or "").lower(),
        location=metadata.location,
        places=part.planned.new_places,
    )
    if not table_entries.begin(connection, beginning, unit.now_ms):
        raise LostRace
    return tables.require(connection, unit.bucket_id, blank.ident)
