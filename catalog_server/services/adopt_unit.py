"""The database side of registering metadata that exists already, in one transaction. Raising undoes all of it."""

from dataclasses import dataclass

from sqlalchemy import Connection

from catalog_server.services import drop_unit
from catalog_server.store import dropped, places, pointers, tables, unreferenced
from catalog_server.store.tables import Birth, TableRow
from table_format.errors import CommitFailed, VersionConflict
from table_format.ident import TableIdent


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """Metadata that exists already, to become a table's current one."""

    bucket_id: int
    ident: TableIdent
    metadata_location: str
    location: str
    places: tuple[str, ...]
    directories: tuple[str, ...]
    """Where files that the metadata names lie outside the places."""
    table_uuid: str
    overwrite: bool
    expected: str | None
    """Where the metadata of the table to be overwritten must be, to be known that it is as its caller read it."""
    now_ms: int


def adopt(connection: Connection, adoption: Adoption) -> TableRow:
    """Insert a table with existing metadata, or with `overwrite` point an existing one at it.

    The metadata of a dropped table brings that table back: with its id, policies and tags, and no more to be purged.

    Raises:
        AlreadyExists: the name is taken (without `overwrite`), or the uuid or a place is another table's, or
            a file lies in one.
        NoSuchNamespace: the namespace is not there.
        NoSuchTable: there is nothing to overwrite that is as expected.
        VersionConflict: the table to be overwritten is not as expected.
        CommitFailed: the pointer moved, or the files are being purged.
        Forbidden: the table to be overwritten is protected.
    """
    row = tables.find(connection, adoption.bucket_id, adoption.ident)
    before = dropped.by_uuid(connection, adoption.bucket_id, adoption.table_uuid)
    if row is not None and not adoption.overwrite:
        raise tables.taken(adoption.ident)
    if adoption.expected is not None:
        _check_expected(adoption, row, adoption.expected)
    own = tuple(one for one in (row and row.id, before and before.table_id) if one)
    places.refuse_inside(connection, adoption.directories, own)
    if before is not None:
        drop_unit.call_purge_off(connection, before, "registered", now_ms=adoption.now_ms)
    if row is None:
        if before is None:
            return _new_of(connection, adoption)
        row = drop_unit.put_back(connection, before, adoption.ident, adoption.now_ms)
    else:
        if row.protected:
            raise tables.protected(row.ident, "overwritten")
        if before is not None:
            # Older files of it may lie where its metadata does not point any more: those places go along.
            held = dropped.places_of(connection, before.table_id)
            places.refuse_overlap(connection, held, row.id)
            dropped.forget(connection, before)
            places.add_of_table(connection, row.id, held)
    tables.refuse_uuid(connection, adoption.table_uuid, row.id)
    places.refuse_overlap(connection, adoption.places, row.id)
    for table_uuid in {row.table_uuid, adoption.table_uuid}:
        unreferenced.forget_all(connection, table_uuid)
    places.add_of_table(connection, row.id, adoption.places)
    change = pointers.Swap(
        table_id=row.id,
        expected=row.metadata_location,
        new=adoption.metadata_location,
        table_uuid=adoption.table_uuid,
        location=adoption.location,
    )
    if not pointers.swap(connection, change, adoption.now_ms):
        raise CommitFailed(f"Commit failed: {adoption.ident} changed concurrently; reload and retry")
    return pointers.moved(row, change, adoption.now_ms)


def _check_expected(adoption: Adoption, row: TableRow | None, expected: str) -> None:
    if row is None:
        raise tables.missing(adoption.ident)
    # There already: the answer to the same request was lost.
    if row.metadata_location not in (expected, adoption.metadata_location):
        raise VersionConflict(
            f"Table {row.ident} was changed since it was read: its metadata is {row.metadata_location} now, not "
            f"{expected}; read it again and retry"
        )


def _new_of(connection: Connection, adoption: Adoption) -> TableRow:
    birth = Birth(
        ident=adoption.ident,
        table_uuid=adoption.table_uuid,
        location=adoption.location,
        places=adoption.places,
        metadata_location=adoption.metadata_location,
    )
    return tables.create(connection, adoption.bucket_id, birth, adoption.now_ms)
