"""What decoding gives: groups of rows with the type that their format states, and data errors by record.

A record is in exactly one group, has exactly one error, or is skipped with a reason. Transport trouble (registry
away) is an exception, so that no record is blamed for it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, TypeAlias

from ingest_plugin.change import Change
from ingest_plugin.kafka import Message
from table_format.jsontypes import JsonObject
from table_format.schema.types import JsonType

Row: TypeAlias = dict[str, Any]


class ErrorKind(StrEnum):
    """Whether one record is bad, or everything of its schema."""

    INVALID = "invalid"
    UNMAPPABLE = "unmappable"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataError:
    """Why a record cannot become a row."""

    kind: ErrorKind
    reason: str


def invalid(reason: str) -> DataError:
    """The record itself is bad."""
    return DataError(kind=ErrorKind.INVALID, reason=reason)


def unmappable(reason: str) -> DataError:
    """Its schema does not fit a table, or not this one."""
    return DataError(kind=ErrorKind.UNMAPPABLE, reason=reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extra:
    """One column beside the rows' own fields: a value per row."""

    type: JsonType
    values: Sequence[Any]
    """In the form that Arrow takes for the type."""


@dataclass(slots=True, kw_only=True)
class Group:
    """Rows of one schema; `positions[i]` is the place of `rows[i]` among the messages decoded."""

    rows: list[Row]
    positions: list[int]
    struct: JsonObject | None = None
    """The Iceberg struct type (without ids) that the format states; None: infer it from the values."""
    schema_key: Hashable | None = None
    """Equal keys mean the same stated type."""
    schema_id: int = 0
    """The registry's id of the schema, where it has one: a higher one is a newer schema."""
    trusted: bool = True
    """Whether values of a stated type are in the form that Arrow takes for it. If not, they are JSON values that are
    checked against it when bound, and fields beside it are inferred."""
    extras: dict[str, "Extra"] = field(default_factory=dict)
    """Columns beside the rows' own fields, such as the key's, by name."""
    single: bool = False
    """The values are no records: each row has them in its one field `value`."""
    key_columns: tuple[str, ...] | None = None
    """Columns that the record's own key names, where a transform knows them."""
    changes: Sequence[Change] | None = None
    """`changes[i]` is what `rows[i]` does; None: all are appended."""

    @property
    def is_stated(self) -> bool:
        """Whether the values are in Arrow's form for a type that is known without looking at them."""
        return self.struct is not None and self.trusted

    def at(self, places: Sequence[int]) -> "Group":
        """The rows at these places of `rows`, with what stands beside them."""
        return replace(
            self,
            rows=[self.rows[place] for place in places],
            positions=[self.positions[place] for place in places],
            changes=None if self.changes is None else [self.changes[place] for place in places],
            extras={
                name: replace(extra, values=[extra.values[place] for place in places])
                for name, extra in self.extras.items()
            },
        )


@dataclass(slots=True, kw_only=True)
class Decoded:
    """Everything about one batch of messages."""

    groups: list[Group] = field(default_factory=list)
    errors: dict[int, DataError] = field(default_factory=dict)
    skipped: dict[int, str] = field(default_factory=dict)
    """Records that are no rows and not bad either, such as heartbeats, by what they are."""


class Decoder(Protocol):
    """One value format."""

    def decode(self, messages: Sequence[Message]) -> Decoded:
        """Rows and data errors of the messages.

        Raises:
            Unavailable: something that the format needs is away; nothing is said about the records.
        """
        ...
