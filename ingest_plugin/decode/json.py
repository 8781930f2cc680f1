"""`json`: one JSON object per record."""

from collections.abc import Sequence

import orjson

from ingest_plugin.decode.values import DataError, Decoded, Group, Row, invalid
from ingest_plugin.kafka import Message


class JsonDecoder:
    """Objects to rows; anything else is a data error."""

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows without a stated type; the whole batch in one sweep when nothing is wrong with it."""
        raw = [message.value() for message in messages]
        try:
            rows = [orjson.loads(value) for value in raw]  # type: ignore[arg-type]  # None raises, as bad JSON does
        except orjson.JSONDecodeError:
            return _one_by_one(raw)
        if set(map(type, rows)) <= {dict}:
            return Decoded(groups=[Group(rows=rows, positions=list(range(len(rows))))])
        return _one_by_one(raw)


def _one_by_one(raw: Sequence[bytes | None]) -> Decoded:
    group = Group(rows=[], positions=[])
    result = Decoded(groups=[group])
    for position, value in enumerate(raw):
        row = _row(value)
        if isinstance(row, DataError):
            result.errors[position] = row
        else:
            group.rows.append(row)
            group.positions.append(position)
    return result


def _row(value: bytes | None) -> Row | DataError:
    if value is None:
        return invalid("the value is null (a tombstone)")
    if not value:
        return invalid("the value is empty")
    try:
        row = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        return invalid(f"not valid JSON: {error}")
    if not isinstance(row, dict):
        return invalid(f"a JSON {type(row).__name__}, not an object")
    return row
