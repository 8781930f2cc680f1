"""In which order compaction leaves the rows of a file: what the policy's strategy comes to for one table. Pure.

`sort` and `z-order` follow the table's default sort order; a table without one, or with one that cannot be followed
here, is packed as it was written, and the report says so.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from table_format.errors import Invalid, Unsupported
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile
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
    """The sort order that outputs follow as a whole; None for all but `sort`."""
    note: str | None = None
    """Why it is not what the policy asks for."""

    def unsorted(self, file: DataFile) -> bool:
        """Whether the file is to be sorted for the sake of its order alone, and is not."""
        return self.order_id is not None and file.sort_order_id != self.order_id


def sort_order(metadata: TableMetadata) -> JsonObject:
    """The table's default sort order; one without fields if it has none."""
    wanted = metadata.default_sort_order_id
    unsorted: JsonObject = {"order-id": 0, "fields": []}
    return next((order for order in metadata.sort_orders if order["order-id"] == wanted), unsorted)


def why_not_sorted(metadata: TableMetadata) -> str | None:
    """Why rows of the table cannot be sorted by its sort order; None when they can."""
    order = sort_order(metadata)
    if not order["fields"]:
        return "the table has no sort order"
    try:
        Ordering(order, metadata.schema())
    except (Invalid, Unsupported) as error:
        return f"the table's sort order {order['order-id']} cannot be followed: {error.message}"
    return None


def layout_of(metadata: TableMetadata, wanted: str) -> Layout:
    """What a policy's strategy comes to."""
    if wanted == Strategy.BINPACK or (wanted == AUTO and not sort_order(metadata)["fields"]):
        return Layout(strategy=Strategy.BINPACK)
    reason = why_not_sorted(metadata)
    if reason is not None:
        return Layout(
            strategy=Strategy.BINPACK, note=f"strategy {wanted}: {reason}, so files are packed unsorted"
        )
    if wanted == Strategy.Z_ORDER:
        return Layout(strategy=Strategy.Z_ORDER)
    return Layout(strategy=Strategy.SORT, order_id=metadata.default_sort_order_id)
