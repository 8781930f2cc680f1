"""Partition and sort transforms by name: their canonical text, and which column types they take.

Transforms unknown to us are kept where a table already has them, and refused where one is to be added.
"""

import re

from table_format.metadata.members import INT_MAX

VOID = "void"
_PLAIN = frozenset({"identity", "year", "month", "day", "hour", VOID})
_WITH_WIDTH = re.compile(r"(bucket|truncate)\[(\d{1,10})\]", re.ASCII)

_TIMESTAMPS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})
_DATES = _TIMESTAMPS | {"date"}
_SOURCES: dict[str, frozenset[str]] = {
    "year": _DATES,
    "month": _DATES,
    "day": _DATES,
    "hour": _TIMESTAMPS,
    "bucket": _DATES | {"int", "long", "time", "string", "uuid", "fixed", "binary", "decimal"},
    "truncate": frozenset({"int", "long", "string", "binary", "decimal"}),
}
_NOT_IDENTITY = frozenset({"variant", "geometry", "geography"})


def canonical(text: str) -> str | None:
    """The transform as the specification writes it (`bucket[16]`), or None when it is unknown."""
    lower = text.lower()
    if lower in _PLAIN:
        return lower
    match = _WITH_WIDTH.fullmatch(lower)
    if match is None or not 1 <= int(match[2]) <= INT_MAX:
        return None
    return f"{match[1]}[{int(match[2])}]"


def takes(transform: str, primitive: str) -> bool:
    """Whether a canonical transform applies to a column of that (canonical) primitive type."""
    head = re.split(r"[\[(]", primitive, maxsplit=1)[0]
    if transform == "identity":
        return head not in _NOT_IDENTITY
    if transform == VOID:
        return True
    return head in _SOURCES[transform.partition("[")[0]]
