"""Rows turned into columns, and names matched to a table's columns.

A name matches a column exactly, or else by lower case: engines that ignore case could not read a table with two
columns that differ only by it.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from ingest_plugin.decode.values import Row

MAX_DEPTH = 32
"""Levels of nesting inside one record; what lies deeper is refused, not flattened."""
MAX_COLUMNS = 2000
"""Fields of one struct; a topic that uses values as field names must not grow a table without end."""
MAX_FIELDS = 10_000
"""Columns of one table at all depths, up to which new ones are added."""


def columns_of(rows: Sequence[Row]) -> dict[str, Sequence[Any]]:
    """The values of each field by name, in order of first appearance; a missing field is None."""
    shapes = dict.fromkeys(map(tuple, rows))
    if not shapes:
        return {}
    if len(shapes) == 1:
        (names,) = shapes
        return dict(zip(names, zip(*map(dict.values, rows), strict=True), strict=True))
    union = dict.fromkeys(chain.from_iterable(shapes))
    return {name: [row.get(name) for row in rows] for name in union}


def resolve(names: Iterable[str], known: Iterable[str]) -> dict[str, str | None]:
    """For each name the column that it means, or None."""
    exact = set(known)
    folded = {name.lower(): name for name in exact}
    return {name: name if name in exact else folded.get(name.lower()) for name in names}


def is_blank(value: Any, depth: int = 0) -> bool:
    """Whether the value says nothing about a type: null, or empty all the way down."""
    if value is None:
        return True
    if depth >= MAX_DEPTH:
        return False
    if isinstance(value, dict):
        return all(is_blank(inner, depth + 1) for inner in value.values())
    return isinstance(value, list) and all(is_blank(inner, depth + 1) for inner in value)
