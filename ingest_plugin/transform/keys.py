"""Kafka keys beside values: decoded in their own format, for the column `_kafka_key` and for what a change is about.

A null key is a null column. A key that cannot be decoded makes its record a bad one: a row without its key would look
like a row that has none.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest_plugin.decode.formats import SINGLE_COLUMN
from ingest_plugin.decode.json import parse_exactly
from ingest_plugin.decode.plain import text_of
from ingest_plugin.decode.values import DataError, Decoder, Row, invalid
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import ValueFormat
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType


@dataclass(frozen=True, slots=True)
class Key:
    """One decoded key that is not null."""

    ident: Hashable
    """Equal for keys of one type."""
    type: JsonType
    value: Any
    fields: Row | None = None
    """Its fields by name, where it is a record."""
    struct: JsonObject | None = None
    """The type of `fields`; None: JSON without a schema."""


class KeyReader:
    """Reads the keys of a batch."""

    def __init__(self, form: ValueFormat, decoder: Decoder | None) -> None:
        """`decoder` takes keys of the formats that have a schema."""
        self._form = form
        self._decoder = decoder

    def read(self, messages: Sequence[Message]) -> dict[int, Key | DataError]:
        """The keys that are not null, by place among the messages.

        Raises:
            Unavailable: the schema registry is away.
        """
        there = [place for place, message in enumerate(messages) if message.key() is not None]
        if self._decoder is None:
            return {place: self._plain(messages[place].key() or b"") for place in there}
        decoded = self._decoder.decode([messages[place] for place in there])
        found: dict[int, Key | DataError] = {
            there[place]: _of_key(error) for place, error in decoded.errors.items()
        }
        for group in decoded.groups:
            struct = group.struct or {"type": "struct", "fields": []}
            for place, row in zip(group.positions, group.rows, strict=True):
                found[there[place]] = _registered(group.schema_key, struct, row, single=group.single)
        return found

    def _plain(self, data: bytes) -> Key | DataError:
        if self._form is ValueFormat.RAW:
            return Key("raw", "binary", data)
        try:
            text = text_of(data)
            if self._form is ValueFormat.STRING:
                return Key("string", "string", text)
            value = parse_exactly(data)
        except UnicodeDecodeError as error:
            return invalid(f"key: not UTF-8: {error.reason} at byte {error.start}")
        except (ValueError, RecursionError) as error:
            return invalid(f"key: not valid JSON: {error}")
        fields = value if isinstance(value, dict) else {SINGLE_COLUMN: value}
        return Key("json", "string", text, fields)


def _registered(ident: Hashable, struct: JsonObject, row: Row, *, single: bool) -> Key:
    if not single:
        return Key(ident, struct, row, row, struct)
    (column,) = struct["fields"]
    return Key(ident, column["type"], row[SINGLE_COLUMN], row, struct)


def _of_key(error: DataError) -> DataError:
    reason = error.reason if error.reason.startswith("key") else f"key: {error.reason}"
    return DataError(kind=error.kind, reason=reason)


def by_ident(positions: Sequence[int], keys: Mapping[int, Key | DataError]) -> dict[Hashable, list[int]]:
    """Places within `positions` by the type of their key; null keys go with the first type there is."""
    split: dict[Hashable, list[int]] = {}
    nulls: list[int] = []
    for place, position in enumerate(positions):
        key = keys.get(position)
        if isinstance(key, Key):
            split.setdefault(key.ident, []).append(place)
        elif key is None:
            nulls.append(place)
    if nulls:
        first = next(iter(split), None)
        split[first] = sorted([*split.get(first, ()), *nulls])
    return split
