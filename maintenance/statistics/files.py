"""The statistics files of a run: where they go, what they hold, and their entries in the table's metadata.

Blobs of others in a file that is replaced are carried over as they are: nobody's statistics get lost.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from maintenance.statistics.measure import Measured
from maintenance.statistics.partition_file import content
from maintenance.statistics.partitions import Partitions
from maintenance.statistics.plan import THETA, TYPE_PROPERTY, StatisticsPlan
from table_format.clock import Ids
from table_format.commit.producer import metadata_path
from table_format.commit.summary import ENGINE_NAME
from table_format.errors import Invalid, NoSuchFile, Unsupported
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.metadata.document import TableMetadata
from table_format.scan.puffin import StoredBlob, read_footer, read_payload
from table_format.write.puffin import Blob, packed, statistics_entry, write_puffin

MOST_KEPT_BYTES: Final = 64 << 20
"""Blobs of others that are carried over; a file with more is left as it is."""


@dataclass(slots=True)
class Files:
    """What a run has written so far."""

    opened: list[str] = field(default_factory=list)
    """Every path at which writing may have left an object."""
    updates: dict[str, JsonObject] = field(default_factory=dict)
    """By the member of the metadata that they are entered in."""
    bytes: dict[str, int] = field(default_factory=dict)
    """The files' sizes, by the same."""


def write_statistics(
    store: ObjectStore,
    metadata: TableMetadata,
    planned: StatisticsPlan,
    measured: Measured,
    kept: list[Blob],
    ids: Ids,
    into: Files,
) -> None:
    """Write the Puffin file with a sketch for each column, and with the blobs that are kept.

    Raises:
        Unavailable: the store did not take it.
    """
    blobs = [*kept]
    for column in measured.columns:
        sketch = measured.sketches[column.id]
        payload, codec = packed(sketch.to_bytes())
        blobs.append(
            Blob(
                type=THETA,
                fields=[column.id],
                snapshot_id=planned.snapshot_id,
                sequence_number=planned.sequence_number,
                payload=payload,
                codec=codec,
                properties={"ndv": str(int(sketch.estimate)), TYPE_PROPERTY: column.type},
            )
        )
    path = metadata_path(metadata, f"{planned.snapshot_id}-{ids.uuid()}.stats")
    into.opened.append(path)
    file = write_puffin(store, path, blobs, created_by=ENGINE_NAME)
    entry = statistics_entry(path, planned.snapshot_id, file, blobs)
    into.updates["statistics"] = {
        "action": "set-statistics",
        "snapshot-id": planned.snapshot_id,
        "statistics": entry,
    }
    into.bytes["statistics"] = file.size


def write_partitions(
    store: ObjectStore,
    metadata: TableMetadata,
    snapshot_id: int,
    partitions: Partitions,
    ids: Ids,
    into: Files,
) -> None:
    """Write the file of partition statistics.

    Raises:
        Unavailable: the store did not take it.
    """
    data = content(partitions, metadata.format_version)
    path = metadata_path(metadata, f"partition-stats-{snapshot_id}-{ids.uuid()}.parquet")
    into.opened.append(path)
    store.put(path, data, if_absent=True)
    into.updates["partition-statistics"] = {
        "action": "set-partition-statistics",
        "partition-statistics": {
            "snapshot-id": snapshot_id,
            "statistics-path": path,
            "file-size-in-bytes": len(data),
        },
    }
    into.bytes["partition-statistics"] = len(data)


def kept_blobs(
    store: ObjectStore, metadata: TableMetadata, planned: StatisticsPlan, reaches: Callable[[str], bool]
) -> list[Blob] | str:
    """The blobs of the head's statistics file that this run does not make anew; or why the file must stay.

    Raises:
        Unavailable: the store is away.
    """
    entry = next((e for e in metadata.statistics if e["snapshot-id"] == planned.snapshot_id), None)
    if entry is None:
        return []
    path, ours = entry["statistics-path"], {column.id for column in planned.columns}
    if not reaches(path):
        return "the head has a statistics file outside the table bucket, which is neither read nor replaced"
    try:
        blobs = [
            blob
            for blob in read_footer(store, path, entry["file-size-in-bytes"])
            if not (blob.type == THETA and len(blob.fields) == 1 and blob.fields[0] in ours)
        ]
        if sum(blob.length for blob in blobs) > MOST_KEPT_BYTES:
            return f"the head has a statistics file of {entry['file-size-in-bytes']} bytes, too large to be added to"
        return [_kept(store, path, blob) for blob in blobs]
    except Unsupported as error:
        return f"the head has a statistics file that cannot be added to: {error.message}"
    except (NoSuchFile, Invalid):
        return []  # nothing that anybody could read is replaced


def _kept(store: ObjectStore, path: str, blob: StoredBlob) -> Blob:
    return Blob(
        type=blob.type,
        fields=blob.fields,
        snapshot_id=blob.snapshot_id,
        sequence_number=blob.sequence_number,
        payload=read_payload(store, path, blob),
        codec=blob.codec,
        properties=blob.properties,
    )
