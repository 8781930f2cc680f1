"""The whole way from messages to groups of rows: decode, unwrap or wrap, choose fields, put keys and headers beside.

It is a decoder itself. Where a topic asks for nothing beyond its value format, the format's decoder is used alone.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingest_plugin.change import DELETE
from ingest_plugin.decode.formats import SINGLE_COLUMN
from ingest_plugin.decode.values import DataError, Decoded, Decoder, Extra, Group, Row, invalid
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import (
    HEADER_COLUMN,
    KEY_COLUMN,
    REGISTERED,
    VALUE_COLUMN,
    TopicSettings,
    Transform,
    ValueFormat,
)
from ingest_plugin.transform.debezium import TOMBSTONE, unwrap
from ingest_plugin.transform.fields import FieldSteps, steps_of, without
from ingest_plugin.transform.keys import Key, KeyReader, by_ident
from table_format.jsontypes import JsonObject

HEADER_TYPE: JsonObject = {"type": "map", "key": "string", "value": "binary", "value-required": False}


@dataclass(slots=True)
class Chain:
    """The steps of one topic."""

    settings: TopicSettings
    values: Decoder
    keys: KeyReader | None
    steps: FieldSteps

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows with everything that the topic's settings put beside them, and data errors.

        Raises:
            Unavailable: the schema registry is away.
        """
        keys = {} if self.keys is None else self.keys.read(messages)
        decoded = self._decoded(messages, keys)
        result = Decoded(errors=dict(decoded.errors), skipped=dict(decoded.skipped))
        for group in decoded.groups:
            if group.rows:
                self._add(group, messages, keys, result)
        return result

    def _decoded(self, messages: Sequence[Message], keys: Mapping[int, Key | DataError]) -> Decoded:
        """What the values say; of records without one their keys, where this topic takes them."""
        if not self.takes_tombstones:
            return self.values.decode(messages)
        there = [place for place, message in enumerate(messages) if message.value() is not None]
        if len(there) == len(messages):
            return self.values.decode(messages)
        decoded = self.values.decode([messages[place] for place in there])
        alive = frozenset(there)
        gone = [place for place in range(len(messages)) if place not in alive]
        result = self._tombstones(gone, keys)
        result.errors.update({there[place]: error for place, error in decoded.errors.items()})
        result.groups[:0] = [
            replace(group, positions=[there[place] for place in group.positions]) for group in decoded.groups
        ]
        return result

    def _tombstones(self, gone: Sequence[int], keys: Mapping[int, Key | DataError]) -> Decoded:
        """Records without a value: deletes of their keys in a table of one row per key, else nothing.

        Debezium sends one behind every delete, for compaction: where that has been, it alone may be left.
        """
        result = Decoded()
        groups: dict[Hashable, Group] = {}
        for place in gone:
            key = keys.get(place)
            if not self.settings.keyed or (key is None and self._debezium):
                result.skipped[place] = TOMBSTONE
            elif isinstance(key, DataError):
                result.errors[place] = key
            elif key is None or (key.fields is None and not self._by_record_key):
                result.errors[place] = invalid("the record has neither value nor a key that tells its row")
            else:
                group = groups.get(key.ident)
                if group is None:
                    group = groups[key.ident] = Group(
                        rows=[],
                        positions=[],
                        struct=_key_struct(key) if self._by_record_key else key.struct,
                        schema_key=("key", key.ident),
                        changes=[],
                    )
                row = {KEY_COLUMN: key.value} if self._by_record_key else key.fields
                self._add_tombstone(group, row or {}, place)
        result.groups.extend(map(self._named_as_columns, groups.values()))
        return result

    def _add_tombstone(self, group: Group, fields: Row, place: int) -> None:
        group.rows.append(fields)
        group.positions.append(place)
        group.changes = [*(group.changes or ()), DELETE]

    def _named_as_columns(self, group: Group) -> Group:
        """Key fields under the names of the table's key columns: renamed as values are, or the one for the one."""
        names = [one["name"] for one in group.struct["fields"]] if group.struct else list(group.rows[0])
        key = self.settings.id_columns
        rename = self.settings.rename
        if len(names) == len(key) == 1:
            rename = {names[0]: key[0]}
        rows = [{rename.get(name, name): value for name, value in row.items()} for row in group.rows]
        struct = group.struct
        if struct is not None:
            fields = [{**one, "name": rename.get(one["name"], one["name"])} for one in struct["fields"]]
            struct = {**struct, "fields": fields}
        return replace(group, rows=rows, struct=struct)

    @property
    def _debezium(self) -> bool:
        return self.settings.transform is Transform.FLATTEN_DEBEZIUM

    @property
    def takes_tombstones(self) -> bool:
        """Whether records without a value are told here, and need not be by whoever decodes."""
        typed = self.settings.key_format in (*REGISTERED, ValueFormat.CONNECT_JSON)
        return self._debezium or (self.settings.keyed and (typed or self._by_record_key))

    @property
    def _by_record_key(self) -> bool:
        """Whether a row's key is the column that this chain makes of the record's key."""
        return self.settings.key_format is not None and self.settings.id_columns == (KEY_COLUMN,)

    def _add(
        self,
        group: Group,
        messages: Sequence[Message],
        keys: Mapping[int, Key | DataError],
        result: Decoded,
    ) -> None:
        if group.changes is not None:
            # A tombstone is its key, and has no fields to choose from.
            result.groups.append(group)
            return
        match self.settings.transform:
            case Transform.FLATTEN_DEBEZIUM:
                found = unwrap(group, messages, keys, self.settings.truncate)
                group = found.group
                result.errors.update(found.errors)
                result.skipped.update(found.skipped)
            case Transform.NONE if VALUE_COLUMN not in (group.rows[0] if group.rows else {}):
                group = _whole(group)
            case _:
                pass
        if not self.steps.idle:
            group, errors = self.steps.apply(group)
            result.errors.update(errors)
        if self.settings.key_format is not None:
            bad = {place: key for place in group.positions if isinstance(key := keys.get(place), DataError)}
            result.errors.update(bad)
            group = without(group, bad)
        for one in self._with_keys(group, keys):
            if self.settings.header_column:
                one.extras[HEADER_COLUMN] = _headers(one, messages)
            if one.rows:
                result.groups.append(one)

    def _with_keys(self, group: Group, keys: Mapping[int, Key | DataError]) -> list[Group]:
        """The group with its key column; apart where keys have different types."""
        if self.settings.key_format is None:
            return [replace(group, extras=dict(group.extras))]
        parts = []
        for ident, places in by_ident(group.positions, keys).items():
            part = group if len(places) == len(group.rows) else group.at(places)
            values: list[Any] = []
            kind = None
            for position in part.positions:
                key = keys.get(position)
                values.append(key.value if isinstance(key, Key) else None)
                kind = key.type if isinstance(key, Key) else kind
            extras = dict(part.extras)
            if kind is not None:
                extras[KEY_COLUMN] = Extra(type=kind, values=values)
            schema_key = None if part.schema_key is None else (part.schema_key, ident)
            parts.append(replace(part, extras=extras, schema_key=schema_key))
        return parts


def chain_of(settings: TopicSettings, values: Decoder, keys: KeyReader | None) -> Decoder:
    """The decoder of a topic: the format's own where nothing else is asked for."""
    steps = steps_of(settings)
    plain = settings.transform is Transform.FLATTEN and steps.idle
    if plain and keys is None and not settings.header_column:
        return values
    return Chain(settings, values, keys, steps)


def _key_struct(key: Key) -> JsonObject:
    return {"type": "struct", "fields": [{"name": KEY_COLUMN, "required": False, "type": key.type}]}


def _whole(group: Group) -> Group:
    """The values as one column, unflattened."""
    name = SINGLE_COLUMN if group.single else None
    rows = [{VALUE_COLUMN: row[name] if name else row} for row in group.rows]
    struct = group.struct
    if struct is not None:
        kind = struct["fields"][0]["type"] if group.single else struct
        struct = {"type": "struct", "fields": [{"name": VALUE_COLUMN, "required": False, "type": kind}]}
    return replace(group, rows=rows, struct=struct, single=False)


def _headers(group: Group, messages: Sequence[Message]) -> Extra:
    """Headers as a map: of several with one name the last counts; one without a value is null there."""
    values = []
    for position in group.positions:
        headers = messages[position].headers()
        values.append(list(dict(headers).items()) if headers else None)
    return Extra(type=HEADER_TYPE, values=values)
