"""What must hold, told without the code under test: the rows of each snapshot, the chain of versions, needed files.

It watches the pointers in the database. Whatever moves one is followed: the new version's place in the chain, and for
each new snapshot the rows that it must have, which its writer's effect makes of its parent's, and the rows that plain
Parquet reading with the delete rules finds in it.
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq

from table_format.errors import TableFormatError
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import read_manifest_list
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from tests.simulation.kernel import Violation

Row = tuple[int, str, int]
"""id, name, version; a version is written once in a world."""
OP = "sim.op"


@dataclass(frozen=True, kw_only=True)
class Effect:
    """What one operation of a writer does to rows."""

    add: frozenset[Row] = frozenset()
    drop_ids: frozenset[int] = frozenset()
    """Every row with such an id goes, before those that are added come."""
    drop_rows: frozenset[Row] = frozenset()
    offset: int | None = None

    def on(self, rows: frozenset[Row]) -> frozenset[Row]:
        return frozenset(r for r in rows - self.drop_rows if r[0] not in self.drop_ids) | self.add


@dataclass(frozen=True)
class Holding:
    """What one snapshot must hold."""

    rows: frozenset[Row]
    offset: int | None


@dataclass
class History:
    """One table's life, by its UUID."""

    uuid: str
    location: str
    document: dict[str, Any]
    version: int
    place: str = ""
    """Of its files."""
    expected: dict[int, Holding] = field(default_factory=dict)
    applied: dict[str, int] = field(default_factory=dict)
    state: str = "lives"
    rolled_back: bool = False

    def copy(self) -> "History":
        return replace(self, expected=dict(self.expected), applied=dict(self.applied))

    @property
    def head(self) -> int | None:
        found = self.document.get("current-snapshot-id")
        return None if found in (None, -1) else found

    def rows(self) -> frozenset[Row]:
        """What the table must hold now."""
        return frozenset() if self.head is None else self.expected[self.head].rows

    def snapshots(self) -> dict[int, dict[str, Any]]:
        return {s["snapshot-id"]: s for s in self.document.get("snapshots", [])}


class Oracle:
    """Watches one world."""

    def __init__(self, store: MemoryObjectStore, raw: Any, complain: Callable[[str], None]) -> None:
        self._store = store
        self._raw = raw
        self._complain = complain
        self.histories: dict[str, History] = {}
        self.effects: dict[str, Effect] = {}
        self.times: dict[int, int] = {}
        """When the row of that version says it was, in milliseconds."""
        self.expires_before_ms: Callable[[], int] = lambda: 0
        self.counts: Counter[str] = Counter()
        self._manifests: dict[str, list[ManifestEntry]] = {}
        self._lists: dict[str, list[ManifestFile]] = {}
        self._files: dict[str, list[dict[str, Any]]] = {}
        self._reaches: dict[str, frozenset[str]] = {}

    def copy(self, store: MemoryObjectStore, raw: Any, complain: Callable[[str], None]) -> "Oracle":
        """The same knowledge in another world."""
        other = Oracle(store, raw, complain)
        other.histories = {uuid: history.copy() for uuid, history in self.histories.items()}
        other.effects = dict(self.effects)
        other.times = dict(self.times)
        other._manifests, other._lists = dict(self._manifests), dict(self._lists)
        other._files, other._reaches = dict(self._files), dict(self._reaches)
        return other

    # watching

    def changed(self) -> None:
        """After each unit of work on the database."""
        alive = {}
        for uuid, location, version, place in self._raw.execute(
            "SELECT table_uuid, metadata_location, version, location FROM tables WHERE metadata_location <> ''"
        ):
            alive[uuid] = location
            history = self.histories.get(uuid)
            if history is None:
                self.histories[uuid] = self._born(uuid, location, version, place)
            elif location != history.location:
                self._moved(history, location, version)
            history = self.histories[uuid]
            history.version = version  # renaming and restoring count, too
            if history.state != "lives":
                if history.state == "purging":
                    self._complain(f"{uuid} was restored although its purge had begun")
                history.state = "lives"
                self.counts["restored"] += 1
        dropped = {
            uuid: (location, begun)
            for uuid, location, begun in self._raw.execute(
                "SELECT table_uuid, metadata_location, purge_begun FROM dropped_tables"
            )
        }
        for uuid, history in self.histories.items():
            if uuid in alive:
                continue
            location, begun = dropped.get(uuid, (None, None))
            if location is None:
                history.state = "purged" if history.state == "purging" else "forgotten"
            else:
                if location != history.location:
                    self._complain(f"{uuid} was dropped at {location}, but was at {history.location}")
                history.state = "purging" if begun else "dropped"

    def _document(self, location: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._store.get(location))
        except TableFormatError as error:
            self._complain(f"a pointer names {location}, which cannot be read: {error}")
            raise Violation(location) from error
        return found

    def _born(self, uuid: str, location: str, version: int, place: str) -> History:
        document = self._document(location)
        if document["table-uuid"].lower() != uuid:
            self._complain(f"{location} is of {document['table-uuid']}, not {uuid}")
        return History(uuid, location, document, version, place)

    def _moved(self, history: History, location: str, version: int) -> None:
        before, document = history.document, self._document(location)
        self.counts["versions"] += 1
        log = [entry["metadata-file"] for entry in document.get("metadata-log", [])]
        if version != history.version + 1 or not log or log[-1] != history.location:
            self._complain(
                f"the chain breaks: version {version} at {location} follows {log[-1:]}, but the pointer was at "
                f"{history.location}, version {history.version}"
            )
        if document["last-updated-ms"] < before["last-updated-ms"]:
            self._complain(f"time goes back in {location}")
        known = history.snapshots()
        history.location, history.document, history.version = location, document, version
        last = before.get("last-sequence-number", 0)
        for snapshot in document.get("snapshots", []):
            if snapshot["snapshot-id"] in known:
                continue
            if snapshot["snapshot-id"] in history.expected:
                self._complain(f"snapshot {snapshot['snapshot-id']} comes a second time in {location}")
            if snapshot["sequence-number"] <= last:
                self._complain(f"sequence numbers do not grow in {location}: {snapshot}")
            last = snapshot["sequence-number"]
            self._appeared(history, before, snapshot)
        if document.get("last-sequence-number", 0) < last:
            self._complain(f"the last sequence number of {location} is behind its snapshots")
        for name, ref in before.get("refs", {}).items():
            if name not in document.get("refs", {}):
                self._complain(f"the {ref['type']} {name} is gone in {location}")
        if history.head is not None and history.head not in history.snapshots():
            self._complain(f"the head {history.head} is no snapshot of {location}")
        self._check_offset(history)

    def _appeared(self, history: History, before: dict[str, Any], snapshot: dict[str, Any]) -> None:
        parent = snapshot.get("parent-snapshot-id")
        head = before.get("current-snapshot-id")
        if parent != (None if head in (None, -1) else head):
            self._complain(f"{snapshot} does not follow the head {head}")
            return
        base = history.expected.get(parent) if parent is not None else Holding(frozenset(), None)
        if base is None:
            self._complain(f"{snapshot} follows a snapshot that never was")
            return
        summary = snapshot.get("summary", {})
        op = summary.get(OP)
        actual = self.read(history, snapshot)
        if op is not None:
            if op in history.applied:
                self._complain(
                    f"{op} was applied twice: in {history.applied[op]} and {snapshot['snapshot-id']}"
                )
            history.applied[op] = snapshot["snapshot-id"]
            effect = self.effects[op]
            offset = base.offset if effect.offset is None else effect.offset
            if effect.offset is not None and base.offset is not None and effect.offset <= base.offset:
                self._complain(f"the offset goes back from {base.offset} to {effect.offset}")
            expected = Holding(effect.on(base.rows), offset)
            self.counts["writes"] += 1
        elif summary.get("operation") == "replace":
            expected = base
            self.counts["compactions"] += 1
        else:
            gone = base.rows - actual
            young = [row for row in gone if self.times[row[2]] >= self.expires_before_ms()]
            if young or summary.get("operation") != "delete":
                self._complain(f"{snapshot} takes rows that are young: {young}")
            expected = Holding(base.rows - gone, base.offset)
            self.counts["expirations of rows"] += 1
        history.expected[snapshot["snapshot-id"]] = expected
        if actual != expected.rows:
            self._complain(
                f"{summary} in {snapshot['snapshot-id']}: lost {sorted(expected.rows - actual)}, "
                f"too many {sorted(actual - expected.rows)}"
            )

    def _check_offset(self, history: History) -> None:
        """Whoever resumes finds how far ingest came: at the head, its nearest kept ancestor, or one kept loose."""
        if history.head is None or history.rolled_back:
            return
        wanted = history.expected[history.head].offset if history.head in history.expected else None
        if wanted is None:
            return
        snapshots = history.snapshots()
        current: int | None = history.head
        chain = []
        while current in snapshots:
            chain.append(snapshots[current])
            current = snapshots[current].get("parent-snapshot-id")
        loose = [s for i, s in snapshots.items() if s not in chain]
        chain += sorted(loose, key=lambda s: s["sequence-number"], reverse=True)
        found = next(
            (json.loads(s["summary"]["ingest.offsets"]) for s in chain if "ingest.offsets" in s["summary"]),
            None,
        )
        if found != {"topic": {"0": wanted}}:
            self._complain(f"the offset is {wanted}, but {history.location} says {found}")

    # reading

    def read(self, history: History, snapshot: dict[str, Any]) -> frozenset[Row]:
        """The rows of a snapshot, by the spec's rules and nothing else; a row that is there twice is a violation."""
        try:
            return self._read(history, snapshot)
        except (TableFormatError, OSError) as error:
            self._complain(
                f"snapshot {snapshot['snapshot-id']} of {history.location} cannot be read: {error}"
            )
            return frozenset()

    def _read(self, history: History, snapshot: dict[str, Any]) -> frozenset[Row]:
        data: list[ManifestEntry] = []
        positions: list[ManifestEntry] = []
        equalities: list[ManifestEntry] = []
        for entry in self._entries(history, snapshot):
            content = entry.data_file.content
            kind = {Content.DATA: data, Content.POSITION_DELETES: positions}.get(content, equalities)
            kind.append(entry)
        unpartitioned = {s["spec-id"] for s in history.document["partition-specs"] if not s["fields"]}
        found: Counter[Row] = Counter()
        for entry in data:
            sequence = entry.sequence_number or 0
            file = entry.data_file
            gone = {
                row["pos"]
                for delete in positions
                if (delete.sequence_number or 0) >= sequence
                for row in self._content(delete.data_file.file_path)
                if row["file_path"] == file.file_path
            }
            keys = [
                row
                for delete in equalities
                if (delete.sequence_number or 0) > sequence
                and (
                    delete.data_file.spec_id in unpartitioned
                    or (delete.data_file.spec_id, delete.data_file.partition)
                    == (file.spec_id, file.partition)
                )
                for row in self._content(delete.data_file.file_path)
            ]
            content = self._content(file.file_path)
            if len(content) != file.record_count:
                self._complain(f"{file.file_path} has {len(content)} rows, not {file.record_count}")
            for place, row in enumerate(content):
                if place not in gone and not any(all(row[k] == v for k, v in key.items()) for key in keys):
                    found[row["id"], row["name"], row["version"]] += 1
        twice = [row for row, number in found.items() if number > 1]
        if twice:
            self._complain(f"rows are there twice in {snapshot['snapshot-id']}: {twice}")
        return frozenset(found)

    def _entries(self, history: History, snapshot: dict[str, Any]) -> Iterable[ManifestEntry]:
        location = snapshot["manifest-list"]
        if location not in self._lists:
            self._lists[location] = read_manifest_list(self._store, location)
        for manifest in self._lists[location]:
            if manifest.path not in self._manifests:
                metadata = TableMetadata(history.document)
                self._manifests[manifest.path] = read_manifest(self._store, manifest, metadata)
            for entry in self._manifests[manifest.path]:
                if entry.status is not Status.DELETED:
                    yield entry

    def _content(self, path: str) -> list[dict[str, Any]]:
        if path not in self._files:
            self._files[path] = pq.read_table(io.BytesIO(self._store.get(path))).to_pylist()
        return self._files[path]

    # what is needed

    def needed(self, history: History) -> set[str]:
        """Every file that the table as it is needs."""
        document = history.document
        paths = {history.location, *(entry["metadata-file"] for entry in document.get("metadata-log", []))}
        paths.update(s["statistics-path"] for s in document.get("statistics", []))
        for snapshot in document.get("snapshots", []):
            location = snapshot["manifest-list"]
            if location not in self._reaches:
                files = {entry.data_file.file_path for entry in self._entries(history, snapshot)}
                manifests = {manifest.path for manifest in self._lists[location]}
                self._reaches[location] = frozenset({location, *files, *manifests})
            paths |= self._reaches[location]
        return paths

    def deleting(self, paths: Sequence[str], by: object) -> None:
        """Before files go."""
        self.counts["deletes"] += len(paths)
        for history in self.histories.values():
            if history.state in ("lives", "dropped"):
                bad = self.needed(history).intersection(paths)
                if bad:
                    self._complain(f"{by} deletes what {history.uuid} ({history.state}) needs: {sorted(bad)}")

    # the end

    def check_all(self) -> None:
        """Everything that is kept is there, and reads as it must."""
        for history in self.histories.values():
            if history.state not in ("lives", "dropped"):
                continue
            missing = [path for path in self.needed(history) if not self._store.exists(path)]
            if missing:
                self._complain(f"{history.uuid} ({history.state}) needs what is gone: {missing}")
            for snapshot in history.document.get("snapshots", []):
                expected = history.expected.get(snapshot["snapshot-id"])
                if expected is None or self.read(history, snapshot) != expected.rows:
                    self._complain(f"snapshot {snapshot['snapshot-id']} reads otherwise than it did")

    def check_answers(self, acked: Iterable[tuple[str, str]], refused: Iterable[tuple[str, str]]) -> None:
        """What was acknowledged happened, what was refused did not: (table uuid, operation)."""
        for uuid, op in acked:
            if op not in self.histories[uuid].applied:
                self._complain(f"{op} was acknowledged and never happened")
        for uuid, op in refused:
            if op in self.histories[uuid].applied:
                self._complain(f"{op} was refused and happened")
