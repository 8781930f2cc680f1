"""One topic's rows in its table's columns: finds or makes the table, grows it, and binds batches to it.

Nothing here writes rows. The table is changed only by legal schema changes; a record that would need another one is
a data error.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pyarrow as pa
import structlog

from ingest_plugin import status, tables
from ingest_plugin.bind import identity
from ingest_plugin.bind.columns import columns_of
from ingest_plugin.bind.compile import Binder, Bound
from ingest_plugin.bind.observe import observe_rows, stated_over, without_clashes
from ingest_plugin.change import Change
from ingest_plugin.decode.values import DataError, Group, invalid, unmappable
from ingest_plugin.kafka import Message
from ingest_plugin.partition_by import spec_of
from ingest_plugin.topic_settings import METADATA_COLUMN, TopicSettings, ValueFormat
from ingest_plugin.write.dead_letters import MAX_MILLIS, micros_of
from table_format.catalog import LoadedTable, TableCatalog
from table_format.clock import Clock, Ids
from table_format.errors import Internal
from table_format.jsontypes import JsonObject
from table_format.schema import evolve
from table_format.schema.arrow import ArrowArray, to_arrow
from table_format.schema.conform import conform
from table_format.write.deletes import key_schema

log = structlog.get_logger("frazil.ingest.bind")

METADATA_FIELD: JsonObject = {
    "name": METADATA_COLUMN,
    "required": False,
    "doc": "where in Kafka the row comes from",
    "type": {
        "type": "struct",
        "fields": [
            {"name": "partition", "required": False, "type": "int"},
            {"name": "offset", "required": False, "type": "long"},
            {"name": "timestamp", "required": False, "type": "timestamptz"},
        ],
    },
}
_METADATA_ARROW = pa.struct(
    [("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))]
)


@dataclass(slots=True, kw_only=True)
class BoundRows:
    """A record batch without the rows that did not fit; `places` are its rows' places among the messages."""

    batch: pa.RecordBatch | None
    places: Sequence[int]
    changes: Sequence[Change] | None = None
    """What each row of the batch does; None: all are appended."""
    errors: dict[int, DataError] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class TopicBinder:
    """Binds one topic."""

    settings: TopicSettings
    catalog: TableCatalog
    clock: Clock
    ids: Ids
    table: LoadedTable | None = None
    _binders: dict[tuple[int, bool], Binder] = field(default_factory=dict)
    _extra_binders: dict[tuple[int, frozenset[str]], Binder] = field(default_factory=dict)
    _settled: dict[tuple[Hashable, int], identity.Labels] = field(default_factory=dict)
    """Schemas that fit a version of the table, and under which names."""

    def adopt(self, table: LoadedTable | None) -> None:
        """Go on with this version of the table."""
        before = self.table
        if before is None or table is None or _schema_key(before) != _schema_key(table):
            self._binders, self._extra_binders, self._settled = {}, {}, {}
        if table is not None and self.settings.keyed and _has(table, self.settings.id_columns):
            table = tables.let_deletes_reach(self.catalog, table, self.settings.id_columns)
        self.table = table

    def open(self) -> LoadedTable | None:
        """Find the table, and make its explicit columns be there; None when it is to be created later.

        Raises:
            SchemaConflict: the table's columns contradict the explicit schema.
            Unavailable: the catalog is away.
        """
        table = tables.find(self.catalog, self.settings.ident)
        explicit = self._explicit()
        if table is not None and explicit["fields"]:
            named = {field["name"].lower() for field in explicit["fields"]}
            others = [f for f in table.metadata.schema()["fields"] if f["name"].lower() not in named]
            self.adopt(table)
            struct: JsonObject = {"type": "struct", "fields": [*others, *explicit["fields"]]}
            table = self._grown(tables.Wanted(struct=self._with_required_key(struct)))
        if table is not None:
            self._compare_partitioning(table)
        self.adopt(table)
        return self.table

    def ensure_table(self) -> LoadedTable | None:
        """The table, created from what is known without any record; None when nothing is.

        Raises:
            ConfigError: the table cannot be created as configured.
            Unavailable: the catalog is away.
        """
        if self.table is None and self.open() is None:
            self._create(self._with_metadata(self._explicit()))
        return self.table

    def bind(self, group: Group, messages: Sequence[Message]) -> BoundRows:
        """The group's rows as a batch of the table's schema.

        Raises:
            ConfigError: the table cannot be created as configured.
            Unavailable: the catalog is away.
        """
        if not group.rows:
            return BoundRows(batch=None, places=())
        columns = None if group.is_stated else columns_of(group.rows)
        try:
            table = self._fitting_table(group, columns)
        except tables.SchemaConflict as error:
            reason = unmappable(f"does not fit the table: {error}")
            return BoundRows(batch=None, places=(), errors=dict.fromkeys(group.positions, reason))
        if table is None:
            reason = invalid("the table does not exist yet, and the record has no field of a known type")
            return BoundRows(batch=None, places=(), errors=dict.fromkeys(group.positions, reason))
        group = self._labelled(group, table)
        bound = self._bound(table, group, columns)
        places = [group.positions[place] for place in bound.kept]
        errors = {group.positions[place]: invalid(reason) for place, reason in bound.errors.items()}
        if not places:
            return BoundRows(batch=None, places=(), errors=errors)
        arrays = bound.arrays
        if METADATA_COLUMN in _column_names(table) and self.settings.metadata_columns:
            whole = len(places) == len(messages)
            arrays[METADATA_COLUMN] = _metadata_array(messages if whole else [messages[p] for p in places])
        changes = None if group.changes is None else [group.changes[place] for place in bound.kept]
        return BoundRows(
            batch=_batch(arrays, table, len(places)), places=places, changes=changes, errors=errors
        )

    def key_is_text(self) -> bool:
        """Whether the key is one column of text, as far as the table or the settings tell."""
        known = self._explicit() if self.table is None else self.table.metadata.schema()
        key = {name.lower() for name in self.settings.id_columns}
        kinds = [field["type"] for field in known["fields"] if field["name"].lower() in key]
        return kinds == ["string"]

    def bind_keys(self, group: Group) -> BoundRows:
        """The key columns of the group's rows as a batch; of its columns the others are only looked at.

        Raises:
            ConfigError: the table cannot be created as configured, or has no such key.
            Unavailable: the catalog is away.
        """
        columns = None if group.is_stated else columns_of(group.rows)
        try:
            table = self._fitting_table(group, columns)
        except tables.SchemaConflict as error:
            reason = unmappable(f"does not fit the table: {error}")
            return BoundRows(batch=None, places=(), errors=dict.fromkeys(group.positions, reason))
        if table is None:
            raise Internal("a key without a type")
        ids = tables.key_ids(table.metadata.schema(), self.settings.id_columns)
        keys = key_schema(table.metadata.schema(), ids)
        group = self._labelled(group, table)
        bound = Binder(keys, trusted=group.is_stated, reserved=frozenset()).bind(group.rows)
        errors = {group.positions[place]: invalid(reason) for place, reason in bound.errors.items()}
        if not bound.kept:
            return BoundRows(batch=None, places=(), errors=errors)
        places = [group.positions[place] for place in bound.kept]
        arrays = pa.RecordBatch.from_arrays(list(bound.arrays.values()), names=list(bound.arrays))
        return BoundRows(batch=conform(arrays, to_arrow(keys)), places=places, errors=errors)

    def _bound(self, table: LoadedTable, group: Group, columns: dict[str, Sequence[Any]] | None) -> Bound:
        """The rows' own fields, and the columns beside them, for the rows that fit both."""
        bound = self._binder(table, trusted=group.is_stated).bind(group.rows, columns)
        if not group.extras:
            return bound
        beside = [{name: extra.values[place] for name, extra in group.extras.items()} for place in bound.kept]
        extra = self._extra_binder(table, frozenset(group.extras)).bind(beside)
        if not extra.errors:
            return replace(bound, arrays={**bound.arrays, **extra.arrays})
        # Rare: what stands beside a row does not fit. Everything is bound anew without those rows.
        bad = {bound.kept[place]: reason for place, reason in extra.errors.items()}
        kept = [place for place in bound.kept if place not in bad]
        rest = self._binder(table, trusted=group.is_stated).bind([group.rows[place] for place in kept])
        return Bound(arrays={**rest.arrays, **extra.arrays}, kept=kept, errors={**bound.errors, **bad})

    def _extra_binder(self, table: LoadedTable, names: frozenset[str]) -> Binder:
        key = (table.metadata.current_schema_id, names)
        if key not in self._extra_binders:
            schema = table.metadata.schema()
            own = [field for field in schema["fields"] if field["name"] in names]
            self._extra_binders[key] = Binder({**schema, "fields": own}, trusted=True, reserved=frozenset())
        return self._extra_binders[key]

    def conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch bound to an earlier version of the table, in the current one's columns."""
        return batch if self.table is None else conform(batch, to_arrow(self.table.metadata.schema()))

    def _fitting_table(self, group: Group, columns: dict[str, Sequence[Any]] | None) -> LoadedTable | None:
        """The table after whatever these rows ask of it; None when there is none and nothing to make it of."""
        key = group.schema_key
        if self.table is not None and key is not None and self._is_settled(key, self.table):
            return self.table
        observed = group.struct if columns is None else self._observe(columns, group.struct)
        wanted = self._with_metadata(_with_extras(observed or {"type": "struct", "fields": []}, group))
        if self.table is None:
            created = self._create(cast("JsonObject", identity.plain(wanted)))
            if created is None:
                return None
        asked = tables.Wanted(
            struct=self._with_required_key(wanted), schema_id=group.schema_id, pinned=self._pinned()
        )
        table = self._grown(asked)
        self.adopt(table)
        if key is not None:
            self._settled[key, table.metadata.current_schema_id] = tables.labels(table, asked)
        return table

    def _is_settled(self, schema_key: Hashable, table: LoadedTable) -> bool:
        return (schema_key, table.metadata.current_schema_id) in self._settled

    def _labelled(self, group: Group, table: LoadedTable) -> Group:
        """The group's rows under the table's names, where its schema has others for them."""
        if group.schema_key is None:
            return group
        found = self._settled.get((group.schema_key, table.metadata.current_schema_id))
        return replace(group, rows=[found.row(row) for row in group.rows]) if found else group

    def _pinned(self) -> frozenset[str]:
        """Columns that settings speak of by their name."""
        names = [*self.settings.id_columns, *(term.column for term in self.settings.partition_by)]
        return frozenset(name.lower() for name in (*names, *self.settings.own_columns))

    def _observe(self, columns: dict[str, Sequence[Any]], stated: JsonObject | None = None) -> JsonObject:
        """The type of these values beside what is stated of them, by the settings or by their own schema."""
        explicit = self._explicit() if stated is None else stated
        known = explicit if self.table is None else self._own_columns(self.table)
        if stated is not None:
            known = stated_over(stated, known)
        own = {name: values for name, values in columns.items() if name.lower() not in self._reserved()}
        observed = observe_rows(own, known, grow=self.settings.explicit.extra == "add")
        observed = without_clashes(observed, self._with_metadata(known))
        pinned = {field["name"]: field for field in explicit["fields"] if isinstance(field["type"], str)}
        before = {field["name"]: field for field in known["fields"]}
        # What the settings say about a column is not widened by what the data say.
        fields = [
            before[f["name"]] if f["name"] in pinned and f["name"] in before else f
            for f in observed["fields"]
        ]
        return {"type": "struct", "fields": fields}

    def _explicit(self) -> JsonObject:
        types = self.settings.explicit.types() if self.settings.value_format is ValueFormat.JSON else {}
        fields = [{"name": name, "required": False, "type": kind} for name, kind in types.items()]
        return {"type": "struct", "fields": fields}

    def _own_columns(self, table: LoadedTable) -> JsonObject:
        fields = [
            field for field in table.metadata.schema()["fields"] if field["name"] not in self._reserved()
        ]
        return {"type": "struct", "fields": fields}

    def _reserved(self) -> frozenset[str]:
        return self.settings.own_columns

    def _with_metadata(self, struct: JsonObject) -> JsonObject:
        if not self.settings.metadata_columns:
            return struct
        others = [field for field in struct["fields"] if field["name"] != METADATA_COLUMN]
        return {**struct, "fields": [*others, METADATA_FIELD]}

    def _create(self, wanted: JsonObject) -> LoadedTable | None:
        key = {name.lower() for name in self.settings.id_columns}
        fields = [
            {"name": change.name, "required": change.name.lower() in key, "type": change.type}
            | ({"doc": change.doc} if change.doc else {})
            for change in evolve.changes({"type": "struct", "fields": []}, wanted)
            if isinstance(change, evolve.AddField)
        ]
        if not fields:
            return None
        struct: JsonObject = {"type": "struct", "fields": fields}
        created = tables.create(
            self.catalog,
            self.settings.ident,
            struct,
            self.settings.partition_by,
            self.settings.id_columns,
        )
        self.adopt(created)
        log.info(status.TABLE_CREATED, table=str(self.settings.ident), columns=len(fields))
        return self.table

    def _with_required_key(self, wanted: JsonObject) -> JsonObject:
        """No row comes without its key, whatever its schema allows."""
        key = {name.lower() for name in self.settings.id_columns}
        if not key:
            return wanted
        fields = [
            {**field, "required": True} if field["name"].lower() in key else field
            for field in wanted["fields"]
        ]
        return {**wanted, "fields": fields}

    def _grown(self, wanted: tables.Wanted) -> LoadedTable:
        """The table in a schema that the wanted rows fit; asks the catalog only when something is missing."""
        if self.table is not None and self._fits(self.table, wanted):
            return self.table
        table = tables.grow(self.catalog, self.settings.ident, wanted, clock=self.clock, ids=self.ids)
        log.info(
            status.SCHEMA_CHANGED, table=str(self.settings.ident), schema=table.metadata.current_schema_id
        )
        return table

    def _fits(self, table: LoadedTable, wanted: tables.Wanted) -> bool:
        try:
            return tables.fits(table, wanted)
        except tables.SchemaConflict:
            return False  # another process may have changed the table: the newest version decides

    def _binder(self, table: LoadedTable, *, trusted: bool) -> Binder:
        key = (table.metadata.current_schema_id, trusted)
        if key not in self._binders:
            self._binders[key] = Binder(table.metadata.schema(), trusted=trusted, reserved=self._reserved())
        return self._binders[key]

    def _compare_partitioning(self, table: LoadedTable) -> None:
        terms = self.settings.partition_by
        if not terms:
            return
        have = [(field["source-id"], field["transform"]) for field in table.metadata.spec()["fields"]]
        wanted = [
            (field["source-id"], field["transform"])
            for field in spec_of(terms, table.metadata.schema())["fields"]
        ]
        if have != wanted:
            log.warning(status.PARTITION_BY_DIFFERS, table=str(table.ident), used=table.metadata.spec())


def _with_extras(struct: JsonObject, group: Group) -> JsonObject:
    if not group.extras:
        return struct
    extras = [{"name": name, "required": False, "type": extra.type} for name, extra in group.extras.items()]
    others = [one for one in struct["fields"] if one["name"] not in group.extras]
    return {**struct, "fields": [*others, *extras]}


def _schema_key(table: LoadedTable) -> tuple[str | None, int]:
    return table.metadata.uuid, table.metadata.current_schema_id


def _column_names(table: LoadedTable) -> set[str]:
    return {field["name"] for field in table.metadata.schema()["fields"]}


def _has(table: LoadedTable, names: Iterable[str]) -> bool:
    """Whether the table has these columns yet: they may come with the first rows."""
    return {name.lower() for name in names} <= {name.lower() for name in _column_names(table)}


def _batch(arrays: dict[str, ArrowArray], table: LoadedTable, count: int) -> pa.RecordBatch:
    """The arrays in the table's columns; a batch without any still has its rows."""
    schema = to_arrow(table.metadata.schema())
    if not arrays:
        return pa.RecordBatch.from_arrays([pa.nulls(count, field.type) for field in schema], schema=schema)
    return conform(pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays)), schema)


def _metadata_array(messages: Sequence[Message]) -> ArrowArray:
    arrays: list[ArrowArray] = [
        pa.array([message.partition() for message in messages], pa.int32()),
        pa.array([message.offset() for message in messages], pa.int64()),
        _timestamps(messages),
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(_METADATA_ARROW))


def _timestamps(messages: Sequence[Message]) -> ArrowArray:
    stamps = [message.timestamp() for message in messages]
    millis = [stamp[1] for stamp in stamps]
    if all(stamp[0] for stamp in stamps) and min(millis) >= 0 and max(millis) <= MAX_MILLIS:
        return pa.array(millis, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    return pa.array([micros_of(message) for message in messages], pa.timestamp("us", "UTC"))
