"""What a plan is about, fixed when it is asked for: the request with its snapshot named, and the metadata it needs.

A table moves on, is renamed, loses old metadata files; its plan goes on from what is packed here. The metadata is
cut down to what planning reads: schemas, specs and the snapshots in question.
"""

import zlib
from dataclasses import dataclass

from table_format.errors import Invalid, TooLarge
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import ancestor_ids

_MOST_REQUEST_BYTES = 4 << 20
_LENGTH_BYTES = 4
_LEVEL = 1
# Everything else in a metadata document is of no use to planning, and some of it is long.
_KEPT = (
    "format-version",
    "table-uuid",
    "location",
    "last-updated-ms",
    "last-column-id",
    "last-sequence-number",
    "schema",
    "schemas",
    "current-schema-id",
    "partition-spec",
    "partition-specs",
    "default-spec-id",
    "last-partition-id",
    "next-row-id",
)
_LIVE_FILES = ("total-data-files", "total-delete-files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """One scan of one snapshot, or of what a range of snapshots added."""

    request: JsonObject
    metadata: bytes

    def pack(self) -> bytes:
        """As it is kept in the database."""
        request = jsontext.dumps(self.request)
        return zlib.compress(len(request).to_bytes(_LENGTH_BYTES) + request + self.metadata, _LEVEL)

    @classmethod
    def unpack(cls, packed: bytes) -> "Scan":
        """Back from the database."""
        raw = zlib.decompress(packed)
        end = _LENGTH_BYTES + int.from_bytes(raw[:_LENGTH_BYTES])
        return cls(request=jsontext.loads(raw[_LENGTH_BYTES:end]), metadata=raw[end:])


def fixed(metadata: TableMetadata, request: JsonObject) -> Scan:
    """The scan that a request means on the table as it is now.

    Raises:
        Invalid: a snapshot is not there, or the range is none.
        TooLarge: the request is too long to be kept.
    """
    start, end = request.get("start-snapshot-id"), request.get("end-snapshot-id")
    if start is not None or end is not None:
        if start is None or end is None or request.get("snapshot-id") is not None:
            raise Invalid(
                "Malformed request: give 'snapshot-id' or nothing for one snapshot, or both 'start-snapshot-id' and "
                "'end-snapshot-id' for what came in between"
            )
        _require(metadata, end)
        wanted = _range(metadata, start, end)
    else:
        chosen = request.get("snapshot-id")
        if chosen is None:
            chosen = metadata.current_snapshot_id
        else:
            _require(metadata, chosen)
        wanted = set() if chosen is None else {chosen}
        request = {**request, "snapshot-id": chosen}
    if len(jsontext.dumps(request)) > _MOST_REQUEST_BYTES:
        raise TooLarge(f"scan request too large: filter and columns may take {_MOST_REQUEST_BYTES} bytes")
    kept = {name: metadata.document[name] for name in _KEPT if name in metadata.document}
    kept["snapshots"] = [s for s in metadata.snapshots if s["snapshot-id"] in wanted]
    if end is None and request["snapshot-id"] is not None:
        kept["current-snapshot-id"] = request["snapshot-id"]
    return Scan(request=request, metadata=TableMetadata(kept).to_bytes())


def live_files(metadata: TableMetadata, request: JsonObject) -> int | None:
    """How many files the scanned snapshot says it has; None when it does not say, or a range is scanned."""
    if request.get("end-snapshot-id") is not None:
        return None
    snapshot = metadata.snapshot(request.get("snapshot-id"))
    if snapshot is None:
        return 0
    summary = snapshot.get("summary") or {}
    counts = [summary.get(name) for name in _LIVE_FILES]
    known = [int(count) for count in counts if isinstance(count, str) and count.isascii() and count.isdigit()]
    return sum(known) if len(known) == len(counts) else None


def _require(metadata: TableMetadata, snapshot_id: int) -> None:
    if metadata.snapshot(snapshot_id) is None:
        raise Invalid(f"Cannot find snapshot with ID {snapshot_id}: it may have been expired")


def _range(metadata: TableMetadata, start: int, end: int) -> set[int]:
    """From the end back to the start, which itself may have been expired."""
    wanted: set[int] = set()
    for known in ancestor_ids(metadata, end):
        wanted.add(known)
        if known == start:
            return wanted
    raise Invalid(f"Malformed request: snapshot {start} is not an ancestor of snapshot {end}")
