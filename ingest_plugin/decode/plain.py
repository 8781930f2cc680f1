"""`string` and `raw`: bytes as text or as they are. A missing key or value is null, not an error."""

from collections.abc import Sequence

from ingest_plugin.decode.values import Decoded, Group, Row, invalid
from ingest_plugin.kafka import Message
from ingest_plugin.topic_settings import KEY_COLUMN, VALUE_COLUMN
from table_format.jsontypes import JsonObject


def _struct(kind: str, *, with_key: bool) -> JsonObject:
    names = (KEY_COLUMN, VALUE_COLUMN) if with_key else (VALUE_COLUMN,)
    return {
        "type": "struct",
        "fields": [{"name": name, "required": False, "type": kind} for name in names],
    }


class RawDecoder:
    """Bytes as they are; with the key in the same form, unless it has one of its own."""

    def __init__(self, *, with_key: bool = True) -> None:
        self._with_key = with_key
        self._struct = _struct("binary", with_key=with_key)

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Every message is a row."""
        rows: list[Row]
        if self._with_key:
            rows = [{KEY_COLUMN: message.key(), VALUE_COLUMN: message.value()} for message in messages]
        else:
            rows = [{VALUE_COLUMN: message.value()} for message in messages]
        return Decoded(
            groups=[Group(rows=rows, positions=list(range(len(rows))), struct=self._struct, schema_key=0)]
        )


class StringDecoder:
    """UTF-8 text; with the key in the same form, unless it has one of its own."""

    def __init__(self, *, with_key: bool = True) -> None:
        self._with_key = with_key
        self._struct = _struct("string", with_key=with_key)

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Messages whose key and value are UTF-8, and errors for the others."""
        group = Group(rows=[], positions=[], struct=self._struct, schema_key=0)
        result = Decoded(groups=[group])
        for position, message in enumerate(messages):
            try:
                row = {VALUE_COLUMN: text_of(message.value())}
                if self._with_key:
                    row = {KEY_COLUMN: text_of(message.key()), **row}
            except UnicodeDecodeError as error:
                result.errors[position] = invalid(f"not UTF-8: {error.reason} at byte {error.start}")
                continue
            group.rows.append(row)
            group.positions.append(position)
        return result


def text_of(data: bytes | None) -> str | None:
    """The text, or null.

    Raises:
        UnicodeDecodeError: it is no UTF-8.
    """
    return None if data is None else data.decode("utf-8")
