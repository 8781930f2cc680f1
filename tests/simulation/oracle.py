"""What must hold, told without the code under test: the rows of each snapshot, the chain of versions, needed files.

It watches the pointers in the database. Whatever moves one is followed: the new version's place in the chain, and for
each new snapshot the rows that it must have, which its writer's effect makes of its parent's, and the rows that plain
Parquet reading with the delete rules finds in it.

| invariant | asserted in |
|---|---|
| I1 an acknowledged row is there exactly once | `_appeared` (as expected, none twice), `check_answers` |
| I2 any other row is there once or never | `_appeared` (an operation applied twice), `check_answers` |
| I3 no file is missing that a snapshot or the metadata log names | `deleting`, before each; `check_all` |
| I4 the pointer's versions are one chain | `_moved` (version + 1, the log's tail is the version before, time) |
| I5 sequence numbers grow, a snapshot follows the head of the branch that it moves | `_moved`, `_appeared` |
| I6 requests of one Idempotency-Key have one effect, as answered | `_marked`, `_appeared`, `check_answers` |
| I7 ingest's offsets never go back, and are found from the head | `_appeared`, `_check_offset` |
| I8 a deleted row never comes back | `_appeared`, at each maintenance commit too |
| I9 after quiet and grace nothing unreferenced is left, nor of a purged table | `check_nothing_left`, `check_all` |
| I10 a transaction moves all its tables or none, in whatever moment one looks | `changed` |
| I11 a load answers with a version that was current after it was asked | `answered` |
| rows of format version 3 keep their ids and last change; ids are never given twice | `_lineage` |
| branches and tags go only when somebody drops them | `_moved` |
"""

import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq
from pyroaring import BitMap64

from table_format.catalog import LoadedTable
from table_format.errors import TableFormatError
from table_format.io.memory import MemoryObjectStore
from table_format.manifest.entries import Content, ManifestEntry, ManifestFile, Status
from table_format.manifest.lists import read_manifest_list
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from tests.simulation.kernel import Violation

Row = tuple[int, str, int]
"""id, name, version; a version is written once in a world."""
Ids = tuple[int | None, int | None]
"""A row's id and the sequence number of its last change; none while the table does not know them."""
OP = "sim.op"
MARK = "sim.mark"
"""A table property; each request that sets it gives it a value of its own."""


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
    lineage: dict[int, Ids] = field(default_factory=dict)
    """By version; of snapshots that give rows ids."""


@dataclass(frozen=True)
class Found:
    """What is read in one."""

    rows: frozenset[Row]
    lineage: dict[int, Ids]


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
    pointers: list[str] = field(default_factory=list)
    """Every version that was current."""
    marks: set[str] = field(default_factory=set)
    """Every value that the mark had."""
    dropped_refs: set[str] = field(default_factory=set)
    """Branches that somebody asked to drop."""
    doomed: frozenset[str] = frozenset()
    """What it needed when its purge began."""

    def copy(self) -> "History":
        return replace(
            self,
            expected=dict(self.expected),
            applied=dict(self.applied),
            pointers=list(self.pointers),
            marks=set(self.marks),
            dropped_refs=set(self.dropped_refs),
        )

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
        self.transactions: dict[str, list[tuple[str, str]]] = {}
        """By operation: all operations of its transaction, each with its table's UUID."""
        self.times: dict[int, int] = {}
        """When the row of that version says it was, in milliseconds."""
        self.expires_before_ms: Callable[[], int] = lambda: 0
        self.counts: Counter[str] = Counter()
        self._applied: list[str] = []
        self._manifests: dict[tuple[str, int | None], list[ManifestEntry]] = {}
        self._lists: dict[str, list[ManifestFile]] = {}
        self._files: dict[str, list[dict[str, Any]]] = {}
        self._reaches: dict[str, frozenset[str]] = {}

    def copy(self, store: MemoryObjectStore, raw: Any, complain: Callable[[str], None]) -> "Oracle":
        """The same knowledge in another world."""
        other = Oracle(store, raw, complain)
        other.histories = {uuid: history.copy() for uuid, history in self.histories.items()}
        other.effects = dict(self.effects)
        other.times = dict(self.times)
        other.transactions = dict(self.transactions)
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
                if begun and history.state != "purging":
                    history.doomed = frozenset(self.needed(history))
                history.state = "purging" if begun else "dropped"
        self._check_transactions()

    def _check_transactions(self) -> None:
        """Whoever looks after a unit of work sees all of a transaction or nothing of it."""
        for op in self._applied:
            for uuid, other in self.transactions.get(op, ()):
                if other not in self.histories[uuid].applied:
                    self._complain(f"{op} was applied, and {other} of the same transaction was not")
        self._applied.clear()

    def moment(self) -> dict[str, int]:
        """Where each table's pointers are; for `answered`."""
        return {uuid: len(history.pointers) for uuid, history in self.histories.items()}

    def answered(self, asked: Mapping[str, int], table: LoadedTable) -> None:
        """A client was given this version, after having asked at that moment."""
        uuid = str(table.metadata.uuid)
        current_since = self.histories[uuid].pointers[max(asked.get(uuid, 0) - 1, 0) :]
        if table.metadata_location not in current_since:
            self._complain(
                f"a load was answered with {table.metadata_location}, which was replaced before it was asked"
            )

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
        return History(uuid, location, document, version, place, pointers=[location])

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
        history.pointers.append(location)
        self._marked(history, before)
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
            if name in document.get("refs", {}):
                continue
            if name in history.dropped_refs:
                history.dropped_refs.discard(name)
            else:
                self._complain(f"the {ref['type']} {name} is gone in {location}")
        if history.head is not None and history.head not in history.snapshots():
            self._complain(f"the head {history.head} is no snapshot of {location}")
        self._check_offset(history)

    def _marked(self, history: History, before: dict[str, Any]) -> None:
        """A mark that comes a second time was set by a request that had its effect twice."""
        mark = history.document["properties"].get(MARK)
        if mark != before["properties"].get(MARK):
            if mark in history.marks:
                self._complain(f"a request set the mark {mark} twice: again in {history.location}")
            history.marks.add(mark)

    def _appeared(self, history: History, before: dict[str, Any], snapshot: dict[str, Any]) -> None:
        parent = snapshot.get("parent-snapshot-id")
        moved = [
            name
            for name, ref in history.document.get("refs", {}).items()
            if ref["snapshot-id"] == snapshot["snapshot-id"]
        ]
        heads = [before.get("refs", {}).get(name, {}).get("snapshot-id") for name in moved]
        if parent not in heads:
            self._complain(f"{snapshot} does not follow the head of {moved}, {heads}")
            return
        base = history.expected.get(parent) if parent is not None else Holding(frozenset(), None)
        if base is None:
            self._complain(f"{snapshot} follows a snapshot that never was")
            return
        summary = snapshot.get("summary", {})
        op = summary.get(OP)
        found = self.read(history, snapshot)
        actual = found.rows
        if op is not None:
            if op in history.applied:
                self._complain(
                    f"{op} was applied twice: in {history.applied[op]} and {snapshot['snapshot-id']}"
                )
            history.applied[op] = snapshot["snapshot-id"]
            self._applied.append(op)
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
            if young or summary.get("operation") not in ("delete", "overwrite"):
                self._complain(f"{snapshot} takes rows that are young: {young}")
            expected = Holding(base.rows - gone, base.offset)
            self.counts["expirations of rows"] += 1
        lineage = self._lineage(history, before, snapshot, base, found)
        history.expected[snapshot["snapshot-id"]] = replace(expected, lineage=lineage)
        if actual != expected.rows:
            self._complain(
                f"{summary} in {snapshot['snapshot-id']}: lost {sorted(expected.rows - actual)}, "
                f"too many {sorted(actual - expected.rows)}"
            )

    def _lineage(
        self,
        history: History,
        before: dict[str, Any],
        snapshot: dict[str, Any],
        base: Holding,
        found: Found,
    ) -> dict[int, Ids]:
        """The ids of the rows in a snapshot that gives them some: kept from the parent, or never given before."""
        if "first-row-id" not in snapshot:
            return {}
        first, end = before.get("next-row-id") or 0, history.document["next-row-id"]
        told = f"in {snapshot['snapshot-id']} of {history.location}"
        if end < first:
            self._complain(f"the next row id goes back from {first} to {end} {told}")
        if len({row_id for row_id, _ in found.lineage.values()}) != len(found.lineage):
            self._complain(f"two rows have one id {told}: {found.lineage}")
        for version, (row_id, changed) in found.lineage.items():
            known = base.lineage.get(version)
            if known is not None and known != (row_id, changed):
                self._complain(f"the row {version} was {known} and is {row_id, changed} {told}")
            elif known is None and (row_id is None or not first <= row_id < end):
                self._complain(
                    f"the new row {version} has the id {row_id}, not one of [{first}, {end}) {told}"
                )
            elif known is None and base.lineage and changed != snapshot["sequence-number"]:
                self._complain(f"the new row {version} was last changed by {changed} {told}")
        self.counts["snapshots with row ids"] += 1
        return found.lineage

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

    def read(self, history: History, snapshot: dict[str, Any]) -> Found:
        """The rows of a snapshot, by the spec's rules and nothing else; a row that is there twice is a violation."""
        try:
            return self._read(history, snapshot)
        except (TableFormatError, OSError) as error:
            self._complain(
                f"snapshot {snapshot['snapshot-id']} of {history.location} cannot be read: {error}"
            )
            return Found(frozenset(), {})

    def _read(self, history: History, snapshot: dict[str, Any]) -> Found:
        data: list[ManifestEntry] = []
        positions: list[ManifestEntry] = []
        equalities: list[ManifestEntry] = []
        for entry in self._entries(history, snapshot):
            content = entry.data_file.content
            kind = {Content.DATA: data, Content.POSITION_DELETES: positions}.get(content, equalities)
            kind.append(entry)
        unpartitioned = {s["spec-id"] for s in history.document["partition-specs"] if not s["fields"]}
        found: Counter[Row] = Counter()
        lineage: dict[int, Ids] = {}
        for entry in data:
            sequence = entry.sequence_number or 0
            file = entry.data_file
            gone = {
                row["pos"]
                for delete in positions
                if (delete.sequence_number or 0) >= sequence
                for row in self._deleted(delete)
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
                    lineage[row["version"]] = _ids(entry, place, row)
        twice = [row for row, number in found.items() if number > 1]
        if twice:
            self._complain(f"rows are there twice in {snapshot['snapshot-id']}: {twice}")
        return Found(frozenset(found), lineage)

    def _entries(self, history: History, snapshot: dict[str, Any]) -> Iterable[ManifestEntry]:
        location = snapshot["manifest-list"]
        if location not in self._lists:
            self._lists[location] = read_manifest_list(self._store, location)
        for manifest in self._lists[location]:
            # Two branches may give the rows of one old manifest other ids.
            known = (manifest.path, manifest.first_row_id)
            if known not in self._manifests:
                metadata = TableMetadata(history.document)
                self._manifests[known] = read_manifest(self._store, manifest, metadata)
            for entry in self._manifests[known]:
                if entry.status is not Status.DELETED:
                    yield entry

    def _content(self, path: str) -> list[dict[str, Any]]:
        if path not in self._files:
            self._files[path] = pq.read_table(io.BytesIO(self._store.get(path))).to_pylist()
        return self._files[path]

    def _deleted(self, delete: ManifestEntry) -> list[dict[str, Any]]:
        """Rows of a position delete file, or what a deletion vector says in their form."""
        file = delete.data_file
        if file.file_format != "PUFFIN":
            return self._content(file.file_path)
        known = f"{file.file_path}@{file.content_offset}"
        if known not in self._files:
            start, size = file.content_offset or 0, file.content_size_in_bytes or 0
            blob = self._store.get(file.file_path, (start, start + size))
            self._files[known] = [
                {"file_path": file.referenced_data_file, "pos": place}
                for place in BitMap64.deserialize(blob[8:-4])
            ]
        return self._files[known]

    # what is needed

    def needed(self, history: History) -> set[str]:
        """Every file that the table as it is needs."""
        document = history.document
        paths = {history.location, *(entry["metadata-file"] for entry in document.get("metadata-log", []))}
        for member in ("statistics", "partition-statistics"):
            paths.update(entry["statistics-path"] for entry in document.get(member, []))
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
                found = self.read(history, snapshot)
                if expected is None or found.rows != expected.rows:
                    self._complain(f"snapshot {snapshot['snapshot-id']} reads otherwise than it did")
                elif "first-row-id" in snapshot and found.lineage != expected.lineage:
                    self._complain(f"rows of snapshot {snapshot['snapshot-id']} have other ids than they had")
        for history in self.histories.values():
            if history.state == "purged":
                left = [path for path in history.doomed if self._store.exists(path)]
                if left:
                    self._complain(f"{history.uuid} was purged, and left {left}")

    def check_nothing_left(self) -> None:
        """After a quiet time, and runs of the remover longer apart than its ages: only what is needed is there."""
        for history in self.histories.values():
            if history.state == "lives":
                there = {info.path for info in self._store.list(history.place)}
                if left := there - self.needed(history):
                    self._complain(f"{history.uuid} keeps what nobody needs: {sorted(left)}")
                self.counts["tables without garbage"] += 1

    def check_answers(self, acked: Iterable[tuple[str, str]], refused: Iterable[tuple[str, str]]) -> None:
        """What was acknowledged happened, what was refused did not: (table uuid, operation)."""
        for uuid, op in acked:
            if op not in self.histories[uuid].applied:
                self._complain(f"{op} was acknowledged and never happened")
        for uuid, op in refused:
            if op in self.histories[uuid].applied:
                self._complain(f"{op} was refused and happened")


def _ids(entry: ManifestEntry, place: int, row: Mapping[str, Any]) -> Ids:
    """What the row's file stores of it, or else what it inherits."""
    first = entry.data_file.first_row_id
    row_id, changed = row.get("_row_id"), row.get("_last_updated_sequence_number")
    if row_id is None and first is not None:
        row_id = first + place
    if changed is None and first is not None:
        changed = entry.sequence_number
    return row_id, changed
