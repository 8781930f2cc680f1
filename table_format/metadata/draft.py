"""`Draft`: a table's metadata while the updates of one commit are applied to it, and what a commit leaves behind.

Copy on write: the base document and everything in it stay untouched; a list is copied once, when it first changes.
`finish` gives the base itself when nothing changed. Semantics are those of Java's TableMetadata.Builder.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import specs
from table_format.metadata.columns import Column, by_id, changed_initial_defaults
from table_format.metadata.document import NO_SNAPSHOT, TableMetadata
from table_format.metadata.snapshots import MAIN

SKEW_MS = 60_000
PREVIOUS_VERSIONS_MAX = "write.metadata.previous-versions-max"
_PREVIOUS_VERSIONS_DEFAULT = 100

VersionsToKeep: TypeAlias = Callable[[Mapping[str, str]], int]
"""How many earlier metadata files a table with these properties keeps in its log: at least 1."""
_NUMBER = re.compile(r"-?\d{1,9}", re.ASCII)


class Draft:
    """The state that the update functions change; one per commit attempt."""

    def __init__(self, base: TableMetadata | None, *, format_version: int, now_ms: int) -> None:
        self.base = base
        self.now_ms = now_ms
        self.document: JsonObject = _blank(format_version) if base is None else _complete(base)
        self.changed = base is None
        # "-1" in set-current-schema and its like means what the last add resolved to, added or reused.
        self.last_schema_id: int | None = None
        self.last_spec_id: int | None = None
        self.last_order_id: int | None = None
        self.added_snapshots: set[int] = set()
        self.layout_changed = base is None
        self._removed_snapshots = False
        self._main_dropped = False
        self._main_moves: list[int] = []
        self._copied: set[str] = set()

    @property
    def format_version(self) -> int:
        """The format version so far."""
        return cast("int", self.document["format-version"])

    @property
    def last_updated_ms(self) -> int:
        """When this commit happens: now, but never before the base."""
        return self.now_ms if self.base is None else max(self.now_ms, self.base.last_updated_ms)

    def put(self, key: str, value: object) -> None:
        """Set a top-level member."""
        self.document[key] = value
        self.changed = True

    def rows(self, key: str) -> list[Any]:
        """The top-level array, as a copy that may be changed."""
        if key not in self._copied:
            self.document[key] = list(self.document.get(key) or [])
            self._copied.add(key)
        self.changed = True
        return cast("list[Any]", self.document[key])

    def entries(self, key: str) -> JsonObject:
        """The top-level object, as a copy that may be changed."""
        if key not in self._copied:
            self.document[key] = dict(self.document.get(key) or {})
            self._copied.add(key)
        self.changed = True
        return cast("JsonObject", self.document[key])

    def find(self, key: str, id_key: str, wanted: object) -> JsonObject | None:
        """The element of a top-level array with that id (newest first), or None."""
        rows = cast("list[JsonObject]", self.document.get(key) or [])
        return next((row for row in reversed(rows) if row[id_key] == wanted), None)

    def current_columns(self) -> dict[int, Column]:
        """Columns of the current schema by field id.

        Raises:
            Invalid: there is no schema yet.
        """
        schema = self.find("schemas", "schema-id", self.document["current-schema-id"])
        if schema is None:
            raise Invalid("Cannot add a partition spec or sort order before a schema is added")
        return by_id(schema)

    def main_moved(self, snapshot_id: int, timestamp_ms: int) -> None:
        """Note that `main` now points at the snapshot, from that time on."""
        self.put("current-snapshot-id", snapshot_id)
        self.rows("snapshot-log").append({"timestamp-ms": timestamp_ms, "snapshot-id": snapshot_id})
        self._main_moves.append(snapshot_id)

    def main_dropped(self) -> None:
        """Note that there is no current snapshot any more."""
        self._main_dropped = True
        self.put("current-snapshot-id", _no_snapshot(self.format_version))

    def snapshots_removed(self) -> None:
        """Note that the snapshot log may hold entries without a snapshot."""
        self._removed_snapshots = True

    def finish(
        self, previous_location: str | None, versions_to_keep: VersionsToKeep | None = None
    ) -> TableMetadata:
        """The finished metadata, or the base itself when nothing changed.

        `versions_to_keep` says how long the metadata log may be, from the properties; None: as these say alone.

        Raises:
            Invalid: the updates together do not make valid metadata.
        """
        if not self.changed:
            return cast("TableMetadata", self.base)
        if self.base is None:
            self._complete_new()
        if self.document.get("table-uuid") is None and (self.base is None or self.format_version > 1):
            raise Invalid(f"UUID is required in format v{self.format_version}: add an assign-uuid update")
        if self.layout_changed:
            self._check_layout()
        self._correct_snapshot_log()
        self._check_log_times()
        self._log_previous(previous_location, versions_to_keep or _previous_versions_max)
        self.document["last-updated-ms"] = self.last_updated_ms
        self._keep_legacy_members()
        return TableMetadata(self.document)

    def _complete_new(self) -> None:
        """Give a table built from updates alone the parts that its updates left out."""
        if not self.document.get("location"):
            raise Invalid("a new table needs a location: add a set-location update")
        if not self.document["schemas"]:
            raise Invalid("a new table needs a schema: add an add-schema update")
        if not self.document["partition-specs"]:
            self.document["partition-specs"] = [specs.UNPARTITIONED]
        if self.find("sort-orders", "order-id", self.document["default-sort-order-id"]) is None:
            self.rows("sort-orders").insert(0, specs.UNSORTED)

    def _check_layout(self) -> None:
        columns: Mapping[int, Column] = self.current_columns()
        spec = self.find("partition-specs", "spec-id", self.document["default-spec-id"])
        order = self.find("sort-orders", "order-id", self.document["default-sort-order-id"])
        specs.check_compatible((spec or specs.UNPARTITIONED)["fields"], columns, "partition field")
        specs.check_compatible((order or specs.UNSORTED)["fields"], columns, "sort field")
        self._check_initial_defaults(columns)

    def _check_initial_defaults(self, columns: Mapping[int, Column]) -> None:
        """Rows older than a column have its initial default for a value: another one would change them."""
        if self.base is None or self.base.current_snapshot_id is None or self._main_dropped:
            return  # no rows, or a replacement of the whole table
        changed = changed_initial_defaults(by_id(self.base.schema()), columns)
        if changed:
            raise Invalid(
                f"Cannot change the initial-default of column {changed[0].path}: rows that are there have it as "
                "their value; change the write-default"
            )

    def _correct_snapshot_log(self) -> None:
        """Drop entries that never were current after a commit, and all history before a removed snapshot."""
        current = self.document["current-snapshot-id"]
        passing = {moved for moved in self._main_moves if moved != current} & self.added_snapshots
        if not passing and not self._removed_snapshots:
            return
        known = {snapshot["snapshot-id"] for snapshot in self.document["snapshots"]}
        kept: list[JsonObject] = []
        for entry in self.document["snapshot-log"]:
            if entry["snapshot-id"] in passing:
                continue
            if entry["snapshot-id"] in known:
                kept.append(entry)
            elif self._removed_snapshots:
                # A gap would make the entry before it seem current for the time of the missing one.
                kept.clear()
        self.document["snapshot-log"] = kept

    def _check_log_times(self) -> None:
        """Readers refuse a log that runs backwards by more than the tolerated clock skew."""
        if not self._main_moves:
            return
        last: int | None = None
        for entry in self.document["snapshot-log"][-len(self._main_moves) - 1 :]:
            if last is not None and entry["timestamp-ms"] < last - SKEW_MS:
                raise Invalid(
                    f"Invalid snapshot timestamp {entry['timestamp-ms']}: more than a minute before the last "
                    f"snapshot log entry at {last}"
                )
            last = entry["timestamp-ms"]
        if last is not None and self.last_updated_ms < last - SKEW_MS:
            raise Invalid(
                f"Invalid snapshot timestamp {last}: more than a minute after this server's time "
                f"{self.last_updated_ms}"
            )

    def _log_previous(self, previous_location: str | None, versions_to_keep: VersionsToKeep) -> None:
        if self.base is None or previous_location is None:
            return
        keep = versions_to_keep(self.document["properties"])
        log = self.rows("metadata-log")
        if len(log) >= keep:
            del log[: len(log) - keep + 1]
        log.append({"timestamp-ms": self.base.last_updated_ms, "metadata-file": previous_location})

    def _keep_legacy_members(self) -> None:
        """Format v1 readers look at the single `schema` and `partition-spec`; later formats have none."""
        if self.format_version > 1:
            self.document.pop("schema", None)
            self.document.pop("partition-spec", None)
            return
        schema = self.find("schemas", "schema-id", self.document["current-schema-id"])
        spec = self.find("partition-specs", "spec-id", self.document["default-spec-id"])
        self.document["schema"] = schema
        self.document["partition-spec"] = (spec or specs.UNPARTITIONED)["fields"]


def _no_snapshot(format_version: int) -> int | None:
    """How "no current snapshot" is written: older readers want -1, v3 wants null."""
    return NO_SNAPSHOT if format_version < 3 else None


def _complete(base: TableMetadata) -> JsonObject:
    """The base's members with the optional ones that we always write filled in, equal in meaning."""
    known = base.document
    filled: JsonObject = {
        "schemas": base.schemas,
        "current-schema-id": base.current_schema_id,
        "partition-specs": base.partition_specs,
        "default-spec-id": base.default_spec_id,
        "last-partition-id": base.last_partition_id,
        "sort-orders": base.sort_orders,
        "default-sort-order-id": base.default_sort_order_id,
        "properties": base.properties,
        "current-snapshot-id": _no_snapshot(base.format_version),
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
    document = dict(known)
    for key, value in filled.items():
        if document.get(key) is None:
            document[key] = value
    if MAIN not in (known.get("refs") or {}):
        document["refs"] = dict(base.refs)
    return document


def _blank(format_version: int) -> JsonObject:
    document: JsonObject = {
        "format-version": format_version,
        "table-uuid": None,
        "location": None,
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": 0,
        "current-schema-id": 0,
        "schemas": [],
        "default-spec-id": 0,
        "partition-specs": [],
        "last-partition-id": specs.FIRST_PARTITION_ID - 1,
        "default-sort-order-id": 0,
        "sort-orders": [],
        "properties": {},
        "current-snapshot-id": _no_snapshot(format_version),
        "refs": {},
        "snapshots": [],
        "statistics": [],
        "partition-statistics": [],
        "snapshot-log": [],
        "metadata-log": [],
    }
    if format_version == 1:
        del document["last-sequence-number"]
    if format_version >= 3:
        document["next-row-id"] = 0
    return document


def _previous_versions_max(properties: Mapping[str, str]) -> int:
    text = properties.get(PREVIOUS_VERSIONS_MAX, "")
    # A setting that is no number must not make every later commit fail.
    return max(1, int(text)) if _NUMBER.fullmatch(text) else _PREVIOUS_VERSIONS_DEFAULT
