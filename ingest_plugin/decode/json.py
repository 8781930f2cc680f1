"""`json`: one JSON object per record.

Whole numbers are exact whatever their size; numbers with a fraction or an exponent are doubles, as JSON's are.
"""

import json
from collections.abc import Sequence
from typing import Any

import orjson

from ingest_plugin.decode.values import DataError, Decoded, Group, Row, invalid
from ingest_plugin.kafka import Message

# orjson makes a double of a whole number beyond 64 bits, which no longer tells what the number was.
_LONG_NUMBER = b"0" * 20
_DIGITS_AS_ZEROS = bytes(ord("0") if chr(byte) in "0123456789" else ord(" ") for byte in range(256))


class JsonDecoder:
    """Objects to rows; anything else is a data error."""

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows without a stated type; the whole batch in one sweep when nothing is wrong with it."""
        raw = [message.value() for message in messages]
        try:
            rows = [orjson.loads(value) for value in raw]  # type: ignore[arg-type]  # None raises, as bad JSON does
        except orjson.JSONDecodeError:
            return _one_by_one(raw)
        if set(map(type, rows)) <= {dict} and not _has_long_number(b" ".join(raw)):  # type: ignore[arg-type]  # as above
            return Decoded(groups=[Group(rows=rows, positions=list(range(len(rows))))])
        return _one_by_one(raw)


def parse_exactly(text: bytes) -> Any:
    """A JSON value with whole numbers of any size.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    value = orjson.loads(text)
    return json.loads(text) if _has_long_number(text) else value


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
    return _exact(value) if _has_long_number(value) else row


def _has_long_number(text: bytes) -> bool:
    """Whether there is a run of so many digits that it may be a number beyond 64 bits."""
    return _LONG_NUMBER in text.translate(_DIGITS_AS_ZEROS)


def _exact(value: bytes) -> Row | DataError:
    """A valid object again, by a slower reader that keeps whole numbers of any size."""
    try:
        row: Row = json.loads(value)
    except (ValueError, RecursionError) as error:
        return invalid(f"a number of very many digits cannot be read: {error}")
    return row
