"""What services give and take of tables and views: one of them at one version, and a bucket."""

from dataclasses import dataclass

from catalog_server.services.documents import Document, ViewDocument
from catalog_server.store.tables import TableRow
from catalog_server.store.views import ViewRow
from table_format.ident import TableIdent
from table_format.metadata.document import TableMetadata
from table_format.metadata.views import ViewMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class TableHandle:
    """A table at one version; without location when it is only staged.

    Without row when it is staged, or the answer to an earlier request.
    """

    bucket: str
    ident: TableIdent
    metadata_location: str | None
    document: Document
    row: TableRow | None

    @property
    def raw(self) -> bytes:
        """The metadata as JSON text."""
        return self.document.raw

    @property
    def metadata(self) -> TableMetadata:
        """The metadata."""
        return self.document.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewHandle:
    """A view at one version; without its row when it is the answer to an earlier request."""

    bucket: str
    ident: TableIdent
    metadata_location: str
    document: ViewDocument
    row: ViewRow | None

    @property
    def metadata(self) -> ViewMetadata:
        """The metadata."""
        return self.document.metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """What a commit needs to know of a table bucket."""

    id: int
    name: str
    location: str
