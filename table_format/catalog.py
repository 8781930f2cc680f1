"""The catalog port: the three calls that ingest and maintenance need of any Iceberg catalog, and one that some have.

Implemented by `table_format.rest` (HTTP) and by the server for its own jobs (in process).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTable:
    """A table as the catalog knew it at one moment."""

    ident: TableIdent
    metadata_location: str
    metadata: TableMetadata
    config: Mapping[str, str] = field(default_factory=dict)
    """Storage settings for this table (may hold credentials: never log)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """What to create; the catalog assigns fresh field ids, spec ids and the location."""

    schema: JsonObject
    partition_spec: JsonObject | None = None
    write_order: JsonObject | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


class TableCatalog(Protocol):
    """Load, commit, create."""

    def load(self, ident: TableIdent) -> LoadedTable:
        """The current table.

        Raises:
            NoSuchTable: there is none.
            Unavailable: the catalog is away.
        """
        ...

    def commit(
        self, ident: TableIdent, requirements: Sequence[JsonObject], updates: Sequence[JsonObject]
    ) -> LoadedTable:
        """Apply the updates if the requirements hold, and give the table as it is after that.

        Raises:
            CommitFailed: certainly not applied (409).
            CommitStateUnknown: may have been applied; reload and look before anything else.
            Invalid: the request itself is wrong (400).
            NoSuchTable: there is none.
            Unavailable: certainly not applied, try later (429, 503 with Retry-After, no connection made).
        """
        ...

    def create(self, ident: TableIdent, table: NewTable) -> LoadedTable:
        """Create the table, and its namespace levels where they are missing.

        Raises:
            AlreadyExists: the name is taken.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableChange:
    """What one of several tables in a commit is to become."""

    ident: TableIdent
    requirements: Sequence[JsonObject]
    updates: Sequence[JsonObject]


@runtime_checkable
class TransactionalCatalog(TableCatalog, Protocol):
    """A catalog that may commit to several tables at once."""

    def commits_together(self) -> bool:
        """Whether this one does.

        Raises:
            Unavailable: the catalog is away.
        """
        ...

    def commit_together(self, changes: Sequence[TableChange]) -> None:
        """Apply all the changes or none.

        Raises:
            CommitFailed: certainly none was applied (409).
            CommitStateUnknown: all may have been applied; reload and look before anything else.
            Invalid: the request itself is wrong.
            NoSuchTable: one of the tables is not there.
            Unavailable: certainly none was applied, try later.
        """
        ...
