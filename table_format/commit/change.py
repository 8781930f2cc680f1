"""`Change`: one attempt's updates and requirements, plus the metadata files that were written for it.

A change is a value; sending it, and deciding what becomes of its files, is `table_format.commit.retry`'s work.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from table_format.errors import TableFormatError
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata

_log = logging.getLogger(__name__)

MAIN = "main"


@dataclass(frozen=True, slots=True)
class Change:
    """What to send to the catalog; `written` are manifests and lists that only this attempt refers to."""

    updates: list[JsonObject]
    requirements: list[JsonObject]
    written: list[str] = field(default_factory=list)

    @property
    def snapshot_id(self) -> int | None:
        """The id of the snapshot that the change adds, if it adds one."""
        for update in self.updates:
            if update["action"] == "add-snapshot":
                return int(update["snapshot"]["snapshot-id"])
        return None


def assert_same_table(metadata: TableMetadata) -> list[JsonObject]:
    """The requirement that the name still means this table (none for a v1 table without a UUID)."""
    return [] if metadata.uuid is None else [{"type": "assert-table-uuid", "uuid": metadata.uuid}]


def assert_ref(name: str, snapshot_id: int | None) -> JsonObject:
    """The requirement that a branch or tag is where it was; None: that it does not exist."""
    return {"type": "assert-ref-snapshot-id", "ref": name, "snapshot-id": snapshot_id}


def delete_quietly(store: ObjectStore, paths: Sequence[str]) -> None:
    """Delete files that nothing refers to; what cannot be deleted now is found as unreferenced later."""
    if not paths:
        return
    try:
        store.delete_many(paths)
    except TableFormatError as error:
        _log.warning("left %d unreferenced metadata files behind: %s", len(paths), error)
