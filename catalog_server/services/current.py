"""A table as it is now: its row and the metadata that the row points to."""

from catalog_server.services.documents import Document, DocumentCache
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
    row = database.hot(pointers.read, bucket, ident)
    while row is not None:
        try:
            return row, await _document(documents, row)
        except NoSuchFile:
            # Commits that came since the pointer was read may have replaced the file, and then deleted it.
            now = database.hot(pointers.read, bucket, ident)
            if now is not None and now.metadata_location == row.metadata_location:
                raise
            row = now
    return None


async def _document(documents: DocumentCache, row: TableRow) -> Document:
    known = await documents.load(row.metadata_location)
    if is_of(known, row):
        return known
    document = await documents.fetch(row.metadata_location)
    documents.put(document)
    return document


def is_of(document: Document, row: TableRow) -> bool:
    """Whether the metadata is this table's.

    It is not when a dropped table's file was written again at the same address, as Hadoop tables do, and then
    registered through another server while this one remembers the first.
    """
    uuid = document.metadata.uuid
    return uuid is None or uuid.lower() == row.table_uuid
