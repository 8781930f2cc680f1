"""How a write unit keeps its promises when several processes write at once."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ROW_LOCKS = "__keeps_promises_by_row_locks__"


def row_locks(fn: F) -> F:
    """Mark a unit that may run beside other such units, in any process.

    It decides by nothing but rows that it locks first (`FOR UPDATE`), or changes conditionally, or inserts under a
    unique index. Every other unit has the database to itself, and needs no such care.
    """
    setattr(fn, _ROW_LOCKS, True)
    return fn


def has_row_locks(fn: Callable[..., Any]) -> bool:
    """Whether the unit is marked."""
    return getattr(fn, _ROW_LOCKS, False) is True
