"""Lookups: one statement that reads a few indexed rows, as a value that each kind of database runs in its own way.

SQL is written with `?`, as SQLite takes it; `numbered` is the same text for PostgreSQL.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T_co]):
    """A statement, its values, and what the rows found mean."""

    sql: str
    """Read only, on columns found by an index; `?` for each value, and no other question mark."""
    values: tuple[Any, ...]
    answer: Callable[[Sequence[Sequence[Any]]], T_co]


@lru_cache(maxsize=256)
def numbered(sql: str) -> str:
    """The text with `$1`, `$2`, … for its question marks."""
    first, *rest = sql.split("?")
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


def for_driver(connection: Connection, sql: str) -> str:
    """The text as `exec_driver_sql` takes it on that connection."""
    return numbered(sql) if connection.dialect.name == "postgresql" else sql
