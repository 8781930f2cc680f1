"""Decoded rows of a topic with a key, sorted by what they do to its table: rows to be put, keys whose rows go.

What happened later is told by the order of the log, never by a timestamp. A row without its key is a data error:
nobody could tell which row it means.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ingest_plugin.change import DELETE, UPSERT, Change, Op, op_of
from ingest_plugin.decode.values import DataError, Decoded, Group, Row, invalid
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import KEY_COLUMN

STEPS = 2
"""Changes that one record may make: where it gives its row another key, the old key's row goes first."""


@dataclass(slots=True, kw_only=True)
class KeyedGroup:
    """Rows of one schema that do the same; `step` is when, among the steps of one record."""

    group: Group
    step: int

    def add(self, row: Row, position: int) -> None:
        """One more change."""
        self.group.rows.append(row)
        self.group.positions.append(position)


@dataclass(slots=True, kw_only=True)
class KeyedChanges:
    """One batch of messages: what is put, and of which only the key counts."""

    puts: list[KeyedGroup] = field(default_factory=list)
    deletes: list[KeyedGroup] = field(default_factory=list)
    errors: dict[int, DataError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How a topic's records name the row they mean."""

    columns: tuple[str, ...]
    operation_field: tuple[str, ...] = ()
    """Path of the field whose value names the operation (`cdc.field`)."""
    tombstones_decoded: bool = False
    """Whether the decoder itself gives records without a value, as deletes."""

    @property
    def are_record_keys(self) -> bool:
        """Whether a row's key is the record's key as it is, so that records without a value are decoded, too."""
        return self.columns == (KEY_COLUMN,)

    def sort(self, decoded: Decoded, empty: Container[int] = ()) -> KeyedChanges:
        """The decoded rows by what they do; those at `empty` are of records without a value, and delete."""
        result = KeyedChanges(errors=dict(decoded.errors))
        for group in decoded.groups:
            beside = [name for name in self.columns if name in group.extras]
            parts = _Parts(
                old=_like(group, 0, beside, self.columns), gone=_like(group, 1, beside, self.columns)
            )
            for place, row in enumerate(group.rows):
                position = group.positions[place]
                change = self._change(row) if group.changes is None else group.changes[place]
                if position in empty:
                    change = DELETE
                trouble = change if isinstance(change, DataError) else None
                if not isinstance(change, DataError):
                    told = {**row, **{name: group.extras[name].values[place] for name in beside}}
                    trouble = self._sort_one(told if beside else row, (place, position), change, parts)
                if trouble is not None:
                    result.errors[position] = trouble
            if parts.put:
                whole = len(parts.put) == len(group.rows)
                result.puts.append(KeyedGroup(group=group if whole else group.at(parts.put), step=1))
            result.deletes.extend(part for part in (parts.old, parts.gone) if part.group.rows)
        return result

    def _change(self, row: Row) -> Change | DataError:
        if not self.operation_field:
            return UPSERT
        value: Any = row
        for name in self.operation_field:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return UPSERT
        op = op_of(value)
        if op is None:
            return invalid(f"cdc.field {'.'.join(self.operation_field)} is {value!r}, which is no operation")
        return DELETE if op is Op.DELETE else UPSERT

    def _sort_one(
        self, row: Row, where: tuple[int, int], change: Change, parts: "_Parts"
    ) -> DataError | None:
        place, position = where
        key = self._key(row)
        if isinstance(key, DataError):
            return key
        if change.unchanged:
            names = ", ".join(sorted(change.unchanged))
            return invalid(f"the source left out the unchanged value of {names}; let it send whole rows")
        before = None if change.before is None else self._key(change.before)
        if before is not None and not isinstance(before, DataError) and before != key:
            parts.old.add(before, position)
        if change.op is Op.DELETE:
            parts.gone.add(key, position)
        else:
            parts.put.append(place)
        return None

    def _key(self, row: Mapping[str, Any]) -> Row | DataError:
        key: Row = {}
        for name in self.columns:
            value = row.get(name)
            if value is None:
                value = _by_other_case(row, name)
            if value is None:
                return invalid(f"the record has no value for key column '{name}'")
            key[name] = value
        return key

    def of_tombstones(
        self, messages: Sequence[Message], positions: Sequence[int], *, text: bool
    ) -> KeyedChanges:
        """What records without a value delete: the rows of their keys; with `text` a key is text, even `123`."""
        result = KeyedChanges()
        part = KeyedGroup(group=Group(rows=[], positions=[]), step=1)
        for position in positions:
            key = self._key_of(messages[position].key(), as_text=text)
            if isinstance(key, DataError):
                result.errors[position] = key
            else:
                part.add(key, position)
        if part.group.rows:
            result.deletes.append(part)
        return result

    def _key_of(self, data: bytes | None, *, as_text: bool) -> Row | DataError:
        """The key columns in a record's key: a JSON object that has them, or the one column's value itself."""
        if data is None:
            return invalid("the record has neither value nor key")
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError:
            return invalid("a record without value deletes by its key, and the key is not text")
        value = _json_or(text)
        if isinstance(value, dict):
            return self._key(value)
        if len(self.columns) > 1:
            names = ", ".join(self.columns)
            return invalid(f"a record without value deletes by its key, and the key does not tell {names}")
        if value is None or (isinstance(value, list) and not as_text):
            return invalid("a record without value deletes by its key, and the key is not one value")
        return {self.columns[0]: value if isinstance(value, str) or not as_text else text}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What becomes of one group."""

    old: KeyedGroup
    gone: KeyedGroup
    put: list[int] = field(default_factory=list)
    """Places of the rows that are put."""


def _like(group: Group, step: int, beside: Sequence[str], columns: Sequence[str]) -> KeyedGroup:
    """An empty group for keys of the group's rows; columns that stand beside those are fields of a key."""
    if not beside:
        part = replace(group, rows=[], positions=[], changes=None, extras={})
        return KeyedGroup(group=part, step=step)
    whole = len(beside) == len(columns)
    fields = [{"name": name, "required": False, "type": group.extras[name].type} for name in beside]
    own = [] if whole or group.struct is None else group.struct["fields"]
    struct = {"type": "struct", "fields": [*own, *fields]}
    return KeyedGroup(
        group=Group(rows=[], positions=[], struct=struct, trusted=whole or group.is_stated), step=step
    )


def _by_other_case(row: Mapping[str, Any], name: str) -> Any:
    folded = name.lower()
    return next((value for known, value in row.items() if known.lower() == folded), None)


def _json_or(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
