"""What an engine sends to a catalog, written by hand: loads, appends with the default retry, tables of a given history.

The retry is that of Iceberg's Java library and of PyIceberg by default: four more tries after a 409, 100 ms before the
first of them and twice as long before each further one, each longer by up to a tenth; every try loads the table anew.
"""

import asyncio
import itertools
import random
from dataclasses import dataclass
from typing import Any

from benchmarks.http_load import Connection

RETRIES = 4  # commit.retry.num-retries
MIN_WAIT_MS, MAX_WAIT_MS = 100, 60_000  # commit.retry.min-wait-ms, commit.retry.max-wait-ms
_BATCH = 500

SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": number, "name": f"column_{number}", "required": False, "type": "string"}
        for number in range(1, 31)
    ],
}
_SUMMARY = {
    "operation": "append",
    **{
        f"{what}-{kind}": "1000"
        for what in ("added", "total")
        for kind in ("data-files", "records", "files-size")
    },
}
_ids = itertools.count(1)


@dataclass(slots=True)
class Head:
    """What a writer must know of a table to append to it."""

    uuid: str
    location: str
    snapshot_id: int | None
    sequence_number: int
    timestamp_ms: int

    @classmethod
    def of(cls, document: dict[str, Any]) -> "Head":
        """From table metadata."""
        current = document.get("current-snapshot-id")
        return cls(
            uuid=document["table-uuid"],
            location=document["location"],
            snapshot_id=None if current in (None, -1) else current,
            sequence_number=document.get("last-sequence-number", 0),
            timestamp_ms=document["last-updated-ms"],
        )


async def create(link: Connection, table: str, namespace: str = "bench") -> Head:
    """Create a table as Java does: without a place, everything else spelled out."""
    body = {"name": table, "schema": SCHEMA, "properties": {}, "stage-create": False}
    answer: Any = await link.json("POST", f"/namespaces/{namespace}/tables", body)
    return Head.of(answer["metadata"])


async def load(link: Connection, table: str, query: str = "") -> bool:
    """One loadTable."""
    status, _ = await link.request("GET", f"/namespaces/bench/tables/{table}{query}")
    return status == 200


async def head_of(link: Connection, table: str) -> Head:
    """Load the table as engines do by default, with all its snapshots."""
    loaded: Any = await link.json("GET", f"/namespaces/bench/tables/{table}")
    return Head.of(loaded["metadata"])


async def commit(
    link: Connection, table: str, head: Head, snapshots: int = 1, namespace: str = "bench"
) -> int:
    """Add that many snapshots to the head in one commit and move `head` if it was taken; the status."""
    parent, updates, stamp = head.snapshot_id, [], head.timestamp_ms
    for number in range(1, snapshots + 1):
        snapshot_id = next(_ids)
        stamp += 1
        snapshot = {
            "snapshot-id": snapshot_id,
            "sequence-number": head.sequence_number + number,
            "timestamp-ms": stamp,
            "manifest-list": f"{head.location}/metadata/snap-{snapshot_id}-1-{snapshot_id:032x}.avro",
            "summary": _SUMMARY,
            "schema-id": 0,
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        updates.append({"action": "add-snapshot", "snapshot": snapshot})
        parent = snapshot_id
    updates.append(
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": parent}
    )
    requirements = [
        {"type": "assert-table-uuid", "uuid": head.uuid},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": head.snapshot_id},
    ]
    body = {"requirements": requirements, "updates": updates}
    status, _ = await link.request("POST", f"/namespaces/{namespace}/tables/{table}", body)
    if status == 200:
        head.snapshot_id, head.timestamp_ms = parent, stamp
        head.sequence_number += snapshots
    return status


async def append(link: Connection, table: str) -> bool:
    """One append with the default retry: whether it got in."""
    for attempt in range(RETRIES + 1):
        if attempt:
            wait = min(MIN_WAIT_MS * 2 ** (attempt - 1), MAX_WAIT_MS)
            await asyncio.sleep(wait * random.uniform(1, 1.1) / 1000)
        status = await commit(link, table, await head_of(link, table))
        if status != 409:
            return status == 200
    return False


async def with_history(link: Connection, table: str, snapshots: int) -> Head:
    """A table with that many snapshots, made in few commits."""
    head = await create(link, table)
    done = 0
    while done < snapshots:
        count = min(_BATCH, snapshots - done)
        status = await commit(link, table, head, count)
        if status != 200:
            raise RuntimeError(f"{table}: a commit of {count} snapshots was answered {status}")
        done += count
    return head
