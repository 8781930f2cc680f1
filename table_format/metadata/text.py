"""The JSON text of table metadata, whose long arrays are taken over from the text of the version before.

A commit adds one snapshot to perhaps ten thousand; writing only what is new costs a tenth of writing them all. The text
is the same, to the byte, as without a version before (but for 1e16, which beside integers beyond 64 bits is 1e+16).
"""

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext

# Arrays that grow by a commit and are long; each element stays the same object from version to version.
_LONG = ("snapshots", "snapshot-log")
_LONG_FROM = 50

_Piece: TypeAlias = bytes | memoryview


@dataclass(frozen=True, slots=True)
class MetadataText:
    """Compact JSON of one document, and where in it the long arrays stand, brackets included."""

    document: JsonObject
    raw: bytes
    spans: Mapping[str, tuple[int, int]]


def text_of(document: JsonObject, before: MetadataText | None = None) -> MetadataText:
    """The text of a document, cheaper with the text of the version that it came from.

    Raises:
        Invalid: a value that JSON can not express.
    """
    pieces: list[_Piece] = []
    spans: dict[str, tuple[int, int]] = {}
    at = 0

    def add(piece: _Piece) -> None:
        nonlocal at
        pieces.append(piece)
        at += len(piece)

    for key, value in document.items():
        add(b"," if pieces else b"{")
        add(jsontext.dumps(key) + b":")
        start = at
        for piece in _value(key, value, before):
            add(piece)
        if key in _LONG:
            spans[key] = (start, at)
    add(b"}" if pieces else b"{}")
    return MetadataText(document, b"".join(pieces), spans)


def _value(key: str, value: object, before: MetadataText | None) -> list[_Piece]:
    if before is None or key not in before.spans or not isinstance(value, list):
        return [jsontext.dumps(value)]
    known = before.document[key]
    count = len(known)
    # The same objects, not equal ones: 1 and 1.0 are equal, their text is not.
    if count < _LONG_FROM or count > len(value) or not all(map(operator.is_, known, value)):
        return [jsontext.dumps(value)]
    start, end = before.spans[key]
    old = memoryview(before.raw)[start:end]
    if count == len(value):
        return [old]
    return [old[:-1], b",", jsontext.dumps(value[count:])[1:]]
