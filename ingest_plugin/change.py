"""What a record does to its table: the one value that transforms emit and writers consume. Pure data, no I/O.

A row of a topic with `upsert.enable` has a `Change` beside it; rows without one are appended. The key columns' values
are fields of the row itself, also of one that deletes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Op(StrEnum):
    """What to do with the row."""

    APPEND = "append"
    """Add it, whatever rows of its key there are."""
    UPSERT = "upsert"
    """It takes the place of the row of its key, if there is one."""
    DELETE = "delete"
    """No row of its key is to be left; only the row's key columns mean anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePosition:
    """Where in the source's own log a change stands: comparable within one `source` only.

    For one key positions never decrease as the source made the changes; rows of one statement or transaction may
    share a position, so only a strictly smaller one tells an older change.
    """

    source: str
    at: tuple[int, ...]

    def is_before(self, other: "SourcePosition") -> bool:
        """Whether this surely is the older change of a key; False when the two cannot be compared."""
        return self.source == other.source and len(self.at) == len(other.at) and self.at < other.at

    def __str__(self) -> str:
        return f"{self.source}@{'.'.join(map(str, self.at))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one row does."""

    op: Op
    position: SourcePosition | None = None
    """None: the source does not say; then the order of the log decides alone."""
    unchanged: frozenset[str] = frozenset()
    """Top-level columns that the source did not send because they did not change (PostgreSQL's external values).

    The row has null there; an upsert must keep what the table has.
    """
    before: Mapping[str, object] | None = None
    """The row before the change as far as the source sent it: columns that are not of the key may be missing, null,
    or a type's zero. Never a row to write; None when the source sent none."""
    snapshot: bool = False
    """The source re-read the row (`r`): it may be older than a change that stands before it in the log."""


APPEND = Change(op=Op.APPEND)
UPSERT = Change(op=Op.UPSERT)
DELETE = Change(op=Op.DELETE)

_LETTERS: Mapping[str, Op] = {"c": Op.UPSERT, "r": Op.UPSERT, "i": Op.UPSERT, "u": Op.UPSERT, "d": Op.DELETE}


def op_of(text: object) -> Op | None:
    """The operation that a field such as Debezium's `op` or AutoMQ's `cdc.field` names; None for another text.

    The first letter counts, in any case: c, r, i (create, read, insert), u (update), d (delete).
    """
    return _LETTERS.get(text[:1].lower()) if isinstance(text, str) else None
