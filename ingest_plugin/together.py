"""A commit that takes another table along: the same port, with a second table's change in each request.

Whether it happened is told by the first table alone, since both change or neither. Metadata files of the second
change are left to the removal of unreferenced files when it was refused: a refusal may be that of a copy.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from table_format.catalog import LoadedTable, NewTable, TableCatalog, TableChange, TransactionalCatalog
from table_format.errors import CommitStateUnknown, TableFormatError
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject


@dataclass(frozen=True, slots=True)
class CommitAfter:
    """A `TableCatalog` that does something before each commit; what that raises comes out, and nothing is committed."""

    catalog: TableCatalog
    first: Callable[[], None]

    def load(self, ident: TableIdent) -> LoadedTable:
        """The current table."""
        return self.catalog.load(ident)

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create a table."""
        return self.catalog.create(ident, table)

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Apply the updates, after the other thing."""
        self.first()
        return self.catalog.commit(ident, requirements, updates)


@dataclass(frozen=True, slots=True)
class CommitTogether:
    """A `TableCatalog` for one commit loop; `beside` gives the other table's change for its newest version."""

    catalog: TransactionalCatalog
    beside: Callable[[], TableChange | None]

    def load(self, ident: TableIdent) -> LoadedTable:
        """The current table."""
        return self.catalog.load(ident)

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create a table."""
        return self.catalog.create(ident, table)

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Apply the updates and those of the other table, or neither.

        Raises:
            CommitFailed: one of the tables has moved on.
            CommitStateUnknown: it may have happened; it has when the table shows it.
            Unavailable: certainly nothing was applied.
        """
        other = self.beside()
        if other is None:
            return self.catalog.commit(ident, requirements, updates)
        own = TableChange(ident=ident, requirements=requirements, updates=updates)
        self.catalog.commit_together([own, other])
        try:
            return self.catalog.load(ident)
        except TableFormatError as error:
            raise CommitStateUnknown(f"the commit to {ident} was applied; then: {error}") from error
