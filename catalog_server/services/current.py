"""A table as it is now: its row and the metadata that the row points to.

A metadata file that is not there is an error only if the row still points to it: commits that came since the pointer
was read may have replaced the file, and then deleted it.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from catalog_server.services.documents import Document, DocumentCache, refuse_gone
from catalog_server.store import pointers
from catalog_server.store.engine import Database
from catalog_server.store.tables import TableRow
from table_format.errors import NoSuchFile
from table_format.ident import TableIdent


async def load_current(
    database: Database, documents: DocumentCache, bucket: str, ident: TableIdent
) -> tuple[TableRow, Document] | None:
    """Row and metadata, or None when there is no such table.

    Raises:
        NoSuchFile: the metadata file is gone though the table still points to it.
        Invalid, Unavailable: it can not be read.
    """
    return await _follow(database, bucket, ident, partial(_document, documents))


async def load_present(
    database: Database, documents: DocumentCache, bucket: str, ident: TableIdent
) -> tuple[TableRow, Document] | None:
    """As `load_current`, for whoever will hand out the file's name: a local file in memory must be on disk too.

    Raises:
        NoSuchFile, Invalid, Unavailable: as `load_current`.
    """
    return await _follow(database, bucket, ident, partial(_present, documents))


async def pointer_to_present(database: Database, bucket: str, ident: TableIdent) -> TableRow | None:
    """The row alone, or None when there is no such table.

    Raises:
        NoSuchFile: the metadata file is gone from a local disk though the table still points to it.
    """
    row = await database.hot(pointers.read(bucket, ident))
    while row is not None:
        try:
            refuse_gone(row.metadata_location)
        except NoSuchFile as error:
            row = await _moved(database, bucket, ident, row, error)
        else:
            return row
    return None


def is_of(document: Document, row: TableRow) -> bool:
    """Whether the metadata is this table's.

    It is not when a dropped table's file was written again at the same address, as Hadoop tables do, and then
    registered through another server while this one remembers the first.
    """
    uuid = document.metadata.uuid
    return uuid is None or uuid.lower() == row.table_uuid


async def _follow(
    database: Database, bucket: str, ident: TableIdent, read: Callable[[TableRow], Awaitable[Document]]
) -> tuple[TableRow, Document] | None:
    row = await database.hot(pointers.read(bucket, ident))
    while row is not None:
        try:
            return row, await read(row)
        except NoSuchFile as error:
            row = await _moved(database, bucket, ident, row, error)
    return None


async def _moved(
    database: Database, bucket: str, ident: TableIdent, row: TableRow, missing: NoSuchFile
) -> TableRow | None:
    """The row as it is now; the missing file is an error only if the row still points to it."""
    now = await database.hot(pointers.read(bucket, ident))
    if now is not None and now.metadata_location == row.metadata_location:
        raise missing
    return now


async def _document(documents: DocumentCache, row: TableRow) -> Document:
    known = await documents.load(row.metadata_location)
    if is_of(known, row):
        return known
    document = await documents.fetch(row.metadata_location)
    documents.put(document)
    return document


async def _present(documents: DocumentCache, row: TableRow) -> Document:
    document = await _document(documents, row)
    refuse_gone(row.metadata_location)
    return document
