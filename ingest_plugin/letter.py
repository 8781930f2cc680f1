"""`Letter`: a dead letter read back from its table, with the accessors of a record."""

import base64
import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from ingest_plugin.kafka import NO_TIMESTAMP

_CREATED = 1
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Letter:
    """A record as it was in the log."""

    _topic: str
    _partition: int
    _offset: int
    _key: bytes | None
    _value: bytes | None
    _timestamp: tuple[int, int]
    _headers: list[tuple[str, bytes | None]] | None

    def topic(self) -> str:
        """Name of the topic."""
        return self._topic

    def partition(self) -> int:
        """Number of the partition."""
        return self._partition

    def offset(self) -> int:
        """Offset in the partition."""
        return self._offset

    def key(self) -> bytes | None:
        """Key bytes, if any."""
        return self._key

    def value(self) -> bytes | None:
        """Value bytes; None for a tombstone."""
        return self._value

    def timestamp(self) -> tuple[int, int]:
        """(kind, milliseconds since the epoch); kind 0 means there is none."""
        return self._timestamp

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Headers in order, if any."""
        return self._headers


def letter_of(row: Mapping[str, Any]) -> Letter:
    """The record that a row of dead letters keeps."""
    moment = row["timestamp"]
    millis = -1 if moment is None else (moment - _EPOCH) // datetime.timedelta(milliseconds=1)
    return Letter(
        row["topic"],
        row["partition"],
        row["offset"],
        row["key"],
        row["value"],
        (NO_TIMESTAMP, -1) if moment is None else (_CREATED, millis),
        None
        if row["headers"] is None
        else [(name, _value(text)) for name, text in orjson.loads(row["headers"])],
    )


def _value(text: object) -> bytes | None:
    if isinstance(text, dict):
        return base64.b64decode(text["base64"])
    return None if text is None else str(text).encode()
