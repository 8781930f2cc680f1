"""`string` and `raw`: key and value as two columns, text or bytes. A missing key or value is null, not an error."""

from collections.abc import Sequence

from ingest_plugin.decode.values import Decoded, Group, Row, invalid
from ingest_plugin.kafka import Message
from table_format.jsontypes import JsonObject

KEY_COLUMN, VALUE_COLUMN = "_kafka_key", "_kafka_value"


def _struct(kind: str) -> JsonObject:
    return {
        "type": "struct",
        "fields": [{"name": name, "required": False, "type": kind} for name in (KEY_COLUMN, VALUE_COLUMN)],
    }


class RawDecoder:
    """Bytes as they are."""

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Every message is a row."""
        rows: list[Row] = [{KEY_COLUMN: message.key(), VALUE_COLUMN: message.value()} for message in messages]
        return Decoded(
            groups=[
                Group(rows=rows, positions=list(range(len(rows))), struct=_struct("binary"), schema_key=0)
            ]
        )


class StringDecoder:
    """UTF-8 text."""

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Messages whose key and value are UTF-8, and errors for the others."""
        group = Group(rows=[], positions=[], struct=_struct("string"), schema_key=0)
        result = Decoded(groups=[group])
        for position, message in enumerate(messages):
            try:
                row = {KEY_COLUMN: _text(message.key()), VALUE_COLUMN: _text(message.value())}
            except UnicodeDecodeError as error:
                result.errors[position] = invalid(f"not UTF-8: {error.reason} at byte {error.start}")
                continue
            group.rows.append(row)
            group.positions.append(position)
        return result


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8")
