"""A topic's table in the catalog: found, created with its namespace, or grown by columns.

Owns the catalog calls around a schema. Two processes may do the same at once: whoever comes second finds it done.
"""

import itertools
from collections.abc import Sequence

from ingest_plugin.keys import ConfigError
from ingest_plugin.partition_by import PartitionTerm, spec_of
from table_format.catalog import LoadedTable, NewTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import AlreadyExists, CommitFailed, CommitStateUnknown, NoSuchNamespace, NoSuchTable
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from table_format.schema import evolve
from table_format.schema.types import with_fresh_ids

ATTEMPTS = 12
# A commit every minute is 1,440 metadata files a day: the catalog deletes those that fall off the log.
PROPERTIES = {"write.metadata.delete-after-commit.enabled": "true"}
_FIRST_WAIT = 0.05


class SchemaConflict(Exception):
    """The table's columns cannot take the observed types by any legal change."""


def find(catalog: TableCatalog, ident: TableIdent) -> LoadedTable | None:
    """The table, or None.

    Raises:
        Unavailable: the catalog is away.
    """
    try:
        return catalog.load(ident)
    except (NoSuchTable, NoSuchNamespace):
        return None


def create(
    catalog: TableCatalog, ident: TableIdent, struct: JsonObject, partition_by: Sequence[PartitionTerm]
) -> LoadedTable:
    """Create the table with these columns; when another process was first, its table.

    Raises:
        ConfigError: a partition expression does not fit the columns.
        CommitStateUnknown: the catalog did not say, and the table is not there: try again.
    """
    counter = itertools.count(1)
    schema = with_fresh_ids({**struct, "schema-id": 0}, lambda: next(counter))
    if isinstance(schema, str):
        raise ConfigError("a table's schema is a struct")
    spec = spec_of(partition_by, schema) if partition_by else None
    try:
        return catalog.create(ident, NewTable(schema=schema, partition_spec=spec, properties=PROPERTIES))
    except AlreadyExists:
        return catalog.load(ident)
    except CommitStateUnknown:
        found = find(catalog, ident)
        if found is None:
            raise
        return found


def grow(
    catalog: TableCatalog, ident: TableIdent, observed: JsonObject, *, clock: Clock, ids: Ids
) -> LoadedTable:
    """Add columns and widen types until rows of the observed struct fit; does nothing when they do.

    Raises:
        SchemaConflict: a column has a type that no legal change makes fit.
        CommitFailed: other writers kept changing the schema.
    """
    failure: CommitFailed | CommitStateUnknown | None = None
    for attempt in range(ATTEMPTS):
        table = catalog.load(ident)
        wanted = evolve.changes(table.metadata.schema(), observed, case_sensitive=False)
        if hopeless := evolve.incompatible(wanted):
            raise SchemaConflict("; ".join(map(str, hopeless)))
        if not wanted:
            return table
        try:
            return _commit_schema(catalog, table, wanted)
        except (CommitFailed, CommitStateUnknown) as error:
            failure = error
            longest = min(2.0, _FIRST_WAIT * 2**attempt)
            clock.sleep(ids.jitter(longest / 2, longest))
    raise failure or CommitFailed(f"the schema of {ident} could not be changed")


def _commit_schema(catalog: TableCatalog, table: LoadedTable, wanted: Sequence[evolve.Change]) -> LoadedTable:
    metadata = table.metadata
    schema, last_column_id = evolve.evolve(metadata.schema(), wanted, metadata.last_column_id)
    requirements: list[JsonObject] = [
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id},
    ]
    if metadata.uuid is not None:
        requirements.append({"type": "assert-table-uuid", "uuid": metadata.uuid})
    next_id = max((known.get("schema-id", 0) for known in metadata.schemas), default=-1) + 1
    updates: list[JsonObject] = [
        {
            "action": "add-schema",
            "schema": {**schema, "schema-id": next_id},
            "last-column-id": last_column_id,
        },
        {"action": "set-current-schema", "schema-id": -1},
    ]
    committed = catalog.commit(table.ident, requirements, updates)
    # A commit's answer need not repeat the storage settings.
    return committed if committed.config else _with_config(committed, table)


def _with_config(committed: LoadedTable, table: LoadedTable) -> LoadedTable:
    return LoadedTable(
        ident=committed.ident,
        metadata_location=committed.metadata_location,
        metadata=committed.metadata,
        config=table.config,
    )
