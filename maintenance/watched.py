"""A catalog that knows afterwards whether any commit through it may have happened without having been answered."""

from collections.abc import Sequence
from typing import Final

from table_format.catalog import LoadedTable, NewTable, TableCatalog
from table_format.errors import CommitFailed, Forbidden, Invalid, NotFound, Unavailable, Unsupported
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject

CERTAINLY_REFUSED: Final = (CommitFailed, Forbidden, Invalid, NotFound, Unavailable, Unsupported)
"""After these nothing of a commit is in the table, nor will be."""


class WatchedCatalog:
    """A catalog that remembers whether the outcome of any commit was in doubt."""

    def __init__(self, catalog: TableCatalog) -> None:
        self._catalog = catalog
        self.in_doubt = False

    def load(self, ident: TableIdent) -> LoadedTable:
        """Load through the catalog."""
        return self._catalog.load(ident)

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create through the catalog."""
        return self._catalog.create(ident, table)

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Commit through the catalog."""
        certain = False
        try:
            table = self._catalog.commit(ident, requirements, updates)
            certain = True
        except CERTAINLY_REFUSED:
            certain = True
            raise
        finally:
            self.in_doubt = self.in_doubt or not certain
        return table
