"""A topic's table in the catalog: found, created with its namespace, or grown by columns.

Owns the catalog calls around a schema. Two processes may do the same at once: whoever comes second finds it done.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ingest_plugin.bind import identity
from ingest_plugin.keys import ConfigError
from ingest_plugin.partition_by import PartitionTerm, spec_of
from table_format.catalog import LoadedTable, NewTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import (
    AlreadyExists,
    CommitFailed,
    CommitStateUnknown,
    Invalid,
    NoSuchNamespace,
    NoSuchTable,
)
from table_format.ident import TableIdent
from table_format.jsontypes import JsonObject
from table_format.schema import evolve
from table_format.schema.types import with_fresh_ids
from table_format.write.deletes import key_schema, reach

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
    catalog: TableCatalog,
    ident: TableIdent,
    struct: JsonObject,
    partition_by: Sequence[PartitionTerm],
    key: Sequence[str] = (),
) -> LoadedTable:
    """Create the table with these columns, `key` as its identifier fields; when another process was first, its table.

    Raises:
        ConfigError: a partition expression does not fit the columns, or a column of the key is missing or unfit.
        CommitStateUnknown: the catalog did not say, and the table is not there: try again.
    """
    counter = itertools.count(1)
    schema = with_fresh_ids({**struct, "schema-id": 0}, lambda: next(counter))
    if isinstance(schema, str):
        raise ConfigError("a table's schema is a struct")
    if key:
        schema = _identified(schema, key)
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


def _identified(schema: JsonObject, key: Sequence[str]) -> JsonObject:
    ids = key_ids(schema, key)
    try:
        key_schema(schema, ids)
    except Invalid as error:
        raise ConfigError(f"id.columns: {error}") from None
    return {**schema, "identifier-field-ids": list(ids)}


def key_ids(schema: JsonObject, key: Iterable[str]) -> tuple[int, ...]:
    """The ids of the key's columns, in the schema's order; names match whatever their case.

    Raises:
        ConfigError: a column is missing: by fewer columns other rows would be meant.
    """
    wanted = {name.lower(): name for name in key}
    found = {
        field["name"].lower(): int(field["id"])
        for field in schema["fields"]
        if field["name"].lower() in wanted
    }
    if missing := sorted(wanted.keys() - found.keys()):
        names = ", ".join(repr(wanted[name]) for name in missing)
        raise ConfigError(f"id.columns names {names}, which the table does not have")
    return tuple(found.values())


def let_deletes_reach(catalog: TableCatalog, table: LoadedTable, key: Sequence[str]) -> LoadedTable:
    """The table with a spec under which deletes by the key reach every row that may have it, added where needed.

    Raises:
        ConfigError: the table cannot hold deletes by this key.
        CommitStateUnknown: the catalog did not answer: try again.
    """
    ids = key_ids(table.metadata.schema(), key)
    try:
        key_schema(table.metadata.schema(), ids)
    except Invalid as error:
        raise ConfigError(f"id.columns: {error}") from None
    if table.metadata.format_version < 2:
        raise ConfigError(
            f"table {table.ident} is of format version 1, which has no deletes; upgrade it to version 2"
        )
    if reach(table.metadata, ids) is not None:
        return table
    requirements: list[JsonObject] = []
    if table.metadata.uuid is not None:
        requirements.append({"type": "assert-table-uuid", "uuid": table.metadata.uuid})
    unpartitioned = {
        "spec-id": max(spec["spec-id"] for spec in table.metadata.partition_specs) + 1,
        "fields": [],
    }
    committed = catalog.commit(table.ident, requirements, [{"action": "add-spec", "spec": unpartitioned}])
    return committed if committed.config else _with_config(committed, table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What rows ask of the table: their struct, with hints of which column a field is, and whose names those are."""

    struct: JsonObject
    schema_id: int = 0
    pinned: frozenset[str] = frozenset()
    """Columns (lower case) that keep their names: settings speak of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What has to be done to one version of the table."""

    renames: Sequence[evolve.Rename]
    changes: Sequence[evolve.Change]
    memory: str | None
    """The new text of the property that remembers which columns are which; None: it stays."""

    @property
    def empty(self) -> bool:
        return not (self.renames or self.changes or self.memory is not None)


def fits(table: LoadedTable, wanted: Wanted) -> bool:
    """Whether nothing has to be done before such rows fit the table.

    Raises:
        SchemaConflict: no legal change makes them fit.
    """
    return _plan(table, wanted).empty


def labels(table: LoadedTable, wanted: Wanted) -> identity.Labels:
    """The table's names for the rows' fields."""
    if not _speaks_of_identity(table, wanted):
        return identity.Labels()
    memory = identity.read_memory(table.metadata.properties)
    schema = table.metadata.schema()
    return identity.identify(schema, memory, wanted.struct, wanted.schema_id, wanted.pinned).labels


def grow(catalog: TableCatalog, ident: TableIdent, wanted: Wanted, *, clock: Clock, ids: Ids) -> LoadedTable:
    """Add and rename columns and widen types until such rows fit; does nothing when they do.

    Raises:
        SchemaConflict: a column has a type that no legal change makes fit.
        CommitFailed: other writers kept changing the schema.
    """
    failure: CommitFailed | CommitStateUnknown | None = None
    for attempt in range(ATTEMPTS):
        table = catalog.load(ident)
        plan = _plan(table, wanted)
        if plan.empty:
            return table
        try:
            return _commit_schema(catalog, table, plan)
        except (CommitFailed, CommitStateUnknown) as error:
            failure = error
            longest = min(2.0, _FIRST_WAIT * 2**attempt)
            clock.sleep(ids.jitter(longest / 2, longest))
    raise failure or CommitFailed(f"the schema of {ident} could not be changed")


def _speaks_of_identity(table: LoadedTable, wanted: Wanted) -> bool:
    return identity.PROPERTY in table.metadata.properties or identity.has_hints(wanted.struct)


def _plan(table: LoadedTable, wanted: Wanted) -> _Plan:
    """Raises SchemaConflict."""
    schema = table.metadata.schema()
    if not _speaks_of_identity(table, wanted):
        return _Plan(renames=(), changes=_changes(schema, wanted.struct), memory=None)
    memory = identity.read_memory(table.metadata.properties)
    found = identity.identify(schema, memory, wanted.struct, wanted.schema_id, wanted.pinned)
    if found.conflicts:
        raise SchemaConflict("; ".join(found.conflicts))
    renames = [
        evolve.Rename(path=name, field_id=field_id, name=name) for field_id, name in found.renames.items()
    ]
    renamed, last_column_id = evolve.evolve(schema, renames, table.metadata.last_column_id)
    changes = _changes(renamed, found.struct)
    after = evolve.evolve(renamed, changes, last_column_id)[0]
    told = identity.write_memory(identity.remembered(schema, after, memory, wanted.struct, wanted.schema_id))
    is_new = told != identity.write_memory(memory)
    return _Plan(renames=renames, changes=changes, memory=told if is_new else None)


def _changes(schema: JsonObject, struct: JsonObject) -> list[evolve.Change]:
    found = evolve.changes(schema, struct, case_sensitive=False)
    if hopeless := evolve.incompatible(found):
        raise SchemaConflict("; ".join(map(str, hopeless)))
    return found


def _commit_schema(catalog: TableCatalog, table: LoadedTable, plan: _Plan) -> LoadedTable:
    metadata = table.metadata
    requirements: list[JsonObject] = [
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": metadata.last_column_id},
    ]
    if metadata.uuid is not None:
        requirements.append({"type": "assert-table-uuid", "uuid": metadata.uuid})
    updates: list[JsonObject] = []
    if plan.renames or plan.changes:
        renamed, last_column_id = evolve.evolve(metadata.schema(), plan.renames, metadata.last_column_id)
        schema, last_column_id = evolve.evolve(renamed, plan.changes, last_column_id)
        next_id = max((known.get("schema-id", 0) for known in metadata.schemas), default=-1) + 1
        added = {**schema, "schema-id": next_id}
        updates.append({"action": "add-schema", "schema": added, "last-column-id": last_column_id})
        updates.append({"action": "set-current-schema", "schema-id": -1})
    if plan.memory is not None:
        updates.append({"action": "set-properties", "updates": {identity.PROPERTY: plan.memory}})
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
