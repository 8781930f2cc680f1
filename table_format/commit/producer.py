"""Making a snapshot on `main`: manifests and manifest list written, the change that publishes them returned.

Owns ids, file names, sequence number and time of a new snapshot. What goes into it is decided by `append` and
`rewrite`. When building fails midway, the files of this attempt are deleted: nothing refers to them yet.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from table_format.catalog import LoadedTable
from table_format.clock import Clock, Ids
from table_format.commit.change import MAIN, Change, assert_ref, assert_same_table, delete_quietly
from table_format.commit.summary import Changes, FileCounts, Operation, summarise
from table_format.errors import AlreadyExists, Internal, Unsupported
from table_format.ident import join
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import DataFile, ManifestContent, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import write_manifest_list
from table_format.manifest.write import write_manifest
from table_format.metadata.document import TableMetadata

_ID_TRIES = 100
ENCRYPTION_PROPERTY = "encryption.key-id"
MAX_ENTRIES = 10_000
"""Entries in one new manifest; a reader that prunes by partition summary wants them small."""


def metadata_path(metadata: TableMetadata, name: str) -> str:
    """Where a metadata file of that name belongs."""
    chosen = metadata.properties.get("write.metadata.path")
    return join(chosen, name) if chosen else join(metadata.location, "metadata", name)


def unused_snapshot_id(metadata: TableMetadata, ids: Ids) -> int:
    """A snapshot id that the table does not know.

    Raises:
        Internal: the source of ids repeats itself.
    """
    taken = {snapshot["snapshot-id"] for snapshot in metadata.snapshots}
    for _ in range(_ID_TRIES):
        candidate = ids.snapshot_id()
        if candidate not in taken:
            return candidate
    raise Internal("no unused snapshot id was drawn: the source of ids repeats itself")


def check_writable(table: LoadedTable) -> None:
    """Refuse a table to which no snapshot can be added here.

    Raises:
        Unsupported: its files are encrypted.
    """
    metadata = table.metadata
    head = metadata.current_snapshot or {}
    if head.get("key-id") is not None or metadata.properties.get(ENCRYPTION_PROPERTY):
        raise Unsupported(f"table {table.ident} is encrypted: its files can be neither read nor written here")


class SnapshotProducer:
    """One attempt at one snapshot; use as a context manager around everything up to `finish`."""

    def __init__(self, store: ObjectStore, table: LoadedTable, *, clock: Clock, ids: Ids) -> None:
        """Draw ids and the sequence number.

        Raises:
            Unsupported: the table cannot be written.
        """
        metadata = table.metadata
        check_writable(table)
        self.store = store
        self.metadata = metadata
        self.snapshot_id = unused_snapshot_id(metadata, ids)
        self.sequence_number = metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
        self.parent = metadata.current_snapshot
        self._clock = clock
        self._uuid = ids.uuid()
        self._manifests = 0
        self._written: list[str] = []
        self._finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._finished:
            # The one that was refused because a file is in the way is the last begun, and that file is not ours.
            own = self._written[:-1] if isinstance(error, AlreadyExists) else self._written
            delete_quietly(self.store, own)

    @property
    def parent_id(self) -> int | None:
        """Id of the snapshot that this one follows."""
        return None if self.parent is None else int(self.parent["snapshot-id"])

    def write_manifest(
        self, entries: Iterable[ManifestEntry], spec_id: int, content: ManifestContent
    ) -> ManifestFile:
        """Write one manifest of this attempt."""
        path = metadata_path(self.metadata, f"{self._uuid}-m{self._manifests}.avro")
        self._manifests += 1
        self._written.append(path)
        return write_manifest(
            self.store,
            path,
            entries,
            metadata=self.metadata,
            spec_id=spec_id,
            content=content,
            snapshot_id=self.snapshot_id,
        )

    def write_added(
        self,
        files: Iterable[tuple[DataFile, int | None]],
        content: ManifestContent = ManifestContent.DATA,
    ) -> list[ManifestFile]:
        """Write manifests that add these files, each with its data sequence number (None: this commit's)."""
        by_spec: dict[int, list[ManifestEntry]] = {}
        for file, sequence_number in files:
            by_spec.setdefault(file.spec_id, []).append(
                ManifestEntry(
                    status=Status.ADDED,
                    snapshot_id=self.snapshot_id,
                    sequence_number=sequence_number,
                    file_sequence_number=None,
                    data_file=file,
                )
            )
        return [
            self.write_manifest(entries[start : start + MAX_ENTRIES], spec_id, content)
            for spec_id, entries in sorted(by_spec.items())
            for start in range(0, len(entries), MAX_ENTRIES)
        ]

    def finish(
        self,
        operation: Operation,
        manifests: Sequence[ManifestFile],
        changes: Changes,
        *,
        extra: Mapping[str, str],
        recount: FileCounts | None = None,
    ) -> Change:
        """Write the manifest list and give the change that makes this snapshot main's head."""
        summary = summarise(operation, changes, self._parent_summary(), extra=extra, recount=recount)
        path = metadata_path(self.metadata, f"snap-{self.snapshot_id}-1-{self._uuid}.avro")
        self._written.append(path)
        version = self.metadata.format_version
        first_row_id = self.metadata.next_row_id if version > 2 else None
        added_rows = write_manifest_list(
            self.store,
            path,
            manifests,
            format_version=version,
            snapshot_id=self.snapshot_id,
            parent_snapshot_id=self.parent_id,
            sequence_number=self.sequence_number,
            first_row_id=first_row_id,
        )
        snapshot = self._snapshot(path, summary)
        if first_row_id is not None:
            snapshot |= {"first-row-id": first_row_id, "added-rows": added_rows}
        self._finished = True
        main = {**self.metadata.refs.get(MAIN, {"type": "branch"}), "snapshot-id": self.snapshot_id}
        return Change(
            updates=[
                {"action": "add-snapshot", "snapshot": snapshot},
                {"action": "set-snapshot-ref", "ref-name": MAIN, **main},
            ],
            requirements=[*assert_same_table(self.metadata), assert_ref(MAIN, self.parent_id)],
            written=list(self._written),
        )

    def _parent_summary(self) -> Mapping[str, str] | None:
        return None if self.parent is None else (self.parent.get("summary") or {})

    def _snapshot(self, manifest_list: str, summary: Mapping[str, str]) -> JsonObject:
        snapshot: JsonObject = {"snapshot-id": self.snapshot_id}
        if self.parent is not None:
            snapshot["parent-snapshot-id"] = self.parent_id
        if self.metadata.format_version > 1:
            snapshot["sequence-number"] = self.sequence_number
        return snapshot | {
            # Never behind the table: a machine whose clock lags must not write history backwards.
            "timestamp-ms": max(self._clock.now_ms(), self.metadata.last_updated_ms),
            "summary": dict(summary),
            "manifest-list": manifest_list,
            "schema-id": self.metadata.current_schema_id,
        }
