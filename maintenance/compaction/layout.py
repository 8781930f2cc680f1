"""In which order compaction leaves the rows of a file: what the policy's strategy comes to for one table. Pure.

`sort` and `z-order` follow the policy's sort order, or else the table's default one; where there is none, or it cannot
be followed, files are packed as they were written, and the report says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from maintenance.setting_rules import SortField
from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest.lines import FileLine
from table_format.metadata import columns
from table_format.metadata.document import TableMetadata
from table_format.write.ordering import Ordering

AUTO: Final = "auto"


class Strategy(StrEnum):
    """How the rows of a group are laid out."""

    BINPACK = "binpack"
    SORT = "sort"
    Z_ORDER = "z-order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What is done for one table."""

    strategy: Strategy
    order_id: int | None = None
    """The sort order of the table that outputs follow as a whole; None where they follow none of its own."""
    fields: tuple[JsonObject, ...] | None = None
    """What rows are sorted by, where that is not the table's default sort order."""
    note: str | None = None
    """Why it is not what the policy asks for."""

    def unsorted(self, file: FileLine) -> bool:
        """Whether the file is to be sorted for the sake of its order alone, and is not."""
        return self.order_id is not None and file.sort_order_id != self.order_id


def sort_order(metadata: TableMetadata) -> JsonObject:
    """The table's default sort order; one without fields if it has none."""
    wanted = metadata.default_sort_order_id
    unsorted: JsonObject = {"order-id": 0, "fields": []}
    return next((order for order in metadata.sort_orders if order["order-id"] == wanted), unsorted)


def why_not_sorted(metadata: TableMetadata, asked: Sequence[SortField] = ()) -> str | None:
    """Why rows of the table cannot be sorted by the policy's sort order, or else by its own; None when they can."""
    which = "the policy's sort order" if asked else f"the table's sort order {metadata.default_sort_order_id}"
    try:
        order = _order(metadata, asked)
        if not order["fields"]:
            return "the table has no sort order"
        Ordering(order, metadata.schema())
    except _NoColumn as error:
        return str(error)
    except (Invalid, Unsupported) as error:
        return f"{which} cannot be followed: {error.message}"
    return None


def layout_of(metadata: TableMetadata, wanted: str, asked: Sequence[SortField] = ()) -> Layout:
    """What a policy's strategy and sort order come to."""
    if wanted == Strategy.BINPACK or (wanted == AUTO and not (asked or sort_order(metadata)["fields"])):
        return Layout(strategy=Strategy.BINPACK)
    reason = why_not_sorted(metadata, asked)
    if reason is not None:
        return Layout(
            strategy=Strategy.BINPACK, note=f"strategy {wanted}: {reason}, so files are packed unsorted"
        )
    order = _order(metadata, asked)
    fields = tuple(order["fields"]) if asked else None
    if wanted == Strategy.Z_ORDER:
        return Layout(strategy=Strategy.Z_ORDER, fields=fields)
    return Layout(strategy=Strategy.SORT, order_id=order.get("order-id"), fields=fields)


class _NoColumn(Exception):
    """The policy's sort order names a column that the table has not."""


def _order(metadata: TableMetadata, asked: Sequence[SortField]) -> JsonObject:
    """The sort order that is followed; without an id where the policy asks for one that the table does not have.

    Raises:
        _NoColumn: the table lacks a column of it.
    """
    if not asked:
        return sort_order(metadata)
    ids = {column.path: column.id for column in columns.columns(metadata.schema())}
    fields: list[JsonObject] = []
    for field in asked:
        if field.column not in ids:
            raise _NoColumn(
                f"the policy's sort order names a column {field.column!r} that the table does not have"
            )
        fields.append(
            {
                "source-id": ids[field.column],
                "transform": field.transform,
                "direction": field.direction,
                "null-order": field.null_order,
            }
        )
    same = (
        order["order-id"] for order in metadata.sort_orders if _meaning(order) == _meaning({"fields": fields})
    )
    known = next(same, None)
    return {"fields": fields} if known is None else {"order-id": known, "fields": fields}


def _meaning(order: JsonObject) -> list[tuple[object, ...]]:
    return [
        (field.get("source-id"), field["transform"], field["direction"].lower(), field["null-order"].lower())
        for field in order["fields"]
    ]
