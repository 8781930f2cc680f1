"""`TableMetadata`: a table's metadata as one immutable JSON document plus typed read views.

The document is the truth: every key, known or not, at every level survives our commits. Nobody mutates a
document that was handed to a `TableMetadata`; updates build a new one (copy on write). Source: Iceberg spec,
"Table Metadata Fields".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from table_format.errors import Invalid
from table_format.jsontypes import JsonObject
from table_format.metadata import jsontext
from table_format.metadata.text import text_of
from table_format.metadata.validity import check_document

_HISTORY = ("snapshots", "snapshot-log", "metadata-log", "refs", "statistics", "partition-statistics")
NO_SNAPSHOT = -1  # what old writers put into `current-snapshot-id` for "none"


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """One version of a table's metadata; equal when the documents are equal."""

    document: JsonObject

    @classmethod
    def parse(cls, raw: bytes) -> "TableMetadata":
        """Read the bytes of a metadata file (already decompressed) and check them.

        Raises:
            Invalid: not JSON, or not table metadata that this program understands.
        """
        return cls(check_document(jsontext.loads(raw)))

    def to_bytes(self) -> bytes:
        """The document as compact JSON, keys in their order."""
        return text_of(self.document).raw

    def without_history(self) -> "TableMetadata":
        """What reading and writing rows needs: schemas, specs, orders, properties; the rest may be very large."""
        return TableMetadata({key: value for key, value in self.document.items() if key not in _HISTORY})

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return cast("int", self.document["format-version"])

    @property
    def uuid(self) -> str | None:
        """The table's UUID; v1 tables may have none."""
        return cast("str | None", self.document.get("table-uuid"))

    @property
    def location(self) -> str:
        """The table's base location, as written."""
        return cast("str", self.document["location"])

    @property
    def properties(self) -> Mapping[str, str]:
        """Table properties."""
        return cast("Mapping[str, str]", self.document.get("properties") or {})

    @property
    def last_updated_ms(self) -> int:
        """Milliseconds since the epoch of the last change."""
        return cast("int", self.document["last-updated-ms"])

    @property
    def last_sequence_number(self) -> int:
        """Highest assigned sequence number; 0 for v1."""
        return cast("int", self.document.get("last-sequence-number", 0))

    @property
    def next_row_id(self) -> int:
        """The first row id that no row has; 0 before format version 3."""
        return cast("int", self.document.get("next-row-id", 0))

    @property
    def last_column_id(self) -> int:
        """Highest assigned field id."""
        return cast("int", self.document["last-column-id"])

    @property
    def last_partition_id(self) -> int:
        """Highest assigned partition field id; 999 when there is none."""
        known = self.document.get("last-partition-id")
        if known is not None:
            return cast("int", known)
        ids = [field["field-id"] for spec in self.partition_specs for field in spec["fields"]]
        return max(ids, default=999)

    @property
    def schemas(self) -> Sequence[JsonObject]:
        """All schemas; a v1 document's single `schema` counts as schema 0."""
        known = self.document.get("schemas")
        if known:
            return cast("Sequence[JsonObject]", known)
        schema = cast("JsonObject", self.document["schema"])
        return [schema if "schema-id" in schema else {**schema, "schema-id": 0}]

    @property
    def current_schema_id(self) -> int:
        """Id of the current schema."""
        known = self.document.get("current-schema-id")
        return cast("int", known if known is not None else self.schemas[0].get("schema-id", 0))

    def schema(self, schema_id: int | None = None) -> JsonObject:
        """The schema of that id, or the current one.

        Raises:
            Invalid: there is no such schema.
        """
        wanted = self.current_schema_id if schema_id is None else schema_id
        for schema in self.schemas:
            if schema.get("schema-id", 0) == wanted:
                return schema
        raise Invalid(f"table metadata has no schema with id {wanted}")

    @property
    def partition_specs(self) -> Sequence[JsonObject]:
        """All partition specs; a v1 document's `partition-spec` counts as spec 0."""
        known = self.document.get("partition-specs")
        if known:
            return cast("Sequence[JsonObject]", known)
        fields = [
            field if "field-id" in field else {**field, "field-id": 1000 + position}
            for position, field in enumerate(self.document.get("partition-spec") or [])
        ]
        return [{"spec-id": 0, "fields": fields}]

    @property
    def default_spec_id(self) -> int:
        """Id of the spec that new files use."""
        return cast("int", self.document.get("default-spec-id", 0))

    def spec(self, spec_id: int | None = None) -> JsonObject:
        """The partition spec of that id, or the default one.

        Raises:
            Invalid: there is no such spec.
        """
        wanted = self.default_spec_id if spec_id is None else spec_id
        for spec in self.partition_specs:
            if spec["spec-id"] == wanted:
                return spec
        raise Invalid(f"table metadata has no partition spec with id {wanted}")

    @property
    def sort_orders(self) -> Sequence[JsonObject]:
        """All sort orders; order 0 is unsorted."""
        return cast(
            "Sequence[JsonObject]", self.document.get("sort-orders") or [{"order-id": 0, "fields": []}]
        )

    @property
    def default_sort_order_id(self) -> int:
        """Id of the default sort order."""
        return cast("int", self.document.get("default-sort-order-id", 0))

    @property
    def snapshots(self) -> Sequence[JsonObject]:
        """All snapshots, oldest first as written."""
        return cast("Sequence[JsonObject]", self.document.get("snapshots") or [])

    def snapshot(self, snapshot_id: int | None) -> JsonObject | None:
        """The snapshot of that id, or None."""
        if snapshot_id is None:
            return None
        # Callers nearly always want a recent one, and the newest stands last.
        return next((s for s in reversed(self.snapshots) if s["snapshot-id"] == snapshot_id), None)

    @property
    def current_snapshot_id(self) -> int | None:
        """Id of main's head, or None for an empty table."""
        known = self.document.get("current-snapshot-id")
        return None if known is None or known == NO_SNAPSHOT else cast("int", known)

    @property
    def current_snapshot(self) -> JsonObject | None:
        """Main's head, or None for an empty table."""
        return self.snapshot(self.current_snapshot_id)

    @property
    def refs(self) -> Mapping[str, JsonObject]:
        """Branches and tags; `main` is implied by `current-snapshot-id` where old metadata lacks it."""
        known = cast("dict[str, JsonObject]", self.document.get("refs") or {})
        current = self.current_snapshot_id
        if "main" not in known and current is not None:
            return {**known, "main": {"snapshot-id": current, "type": "branch"}}
        return known

    @property
    def snapshot_log(self) -> Sequence[JsonObject]:
        """History of `main`: {timestamp-ms, snapshot-id}."""
        return cast("Sequence[JsonObject]", self.document.get("snapshot-log") or [])

    @property
    def metadata_log(self) -> Sequence[JsonObject]:
        """Earlier metadata files: {timestamp-ms, metadata-file}."""
        return cast("Sequence[JsonObject]", self.document.get("metadata-log") or [])

    @property
    def statistics(self) -> Sequence[JsonObject]:
        """Statistics (Puffin) files."""
        return cast("Sequence[JsonObject]", self.document.get("statistics") or [])

    @property
    def partition_statistics(self) -> Sequence[JsonObject]:
        """Partition statistics files."""
        return cast("Sequence[JsonObject]", self.document.get("partition-statistics") or [])
