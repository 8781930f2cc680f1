"""Schemas and partition specs that nothing needs any more, and the change that takes them out of the metadata.

Needed are: the current schema and the default spec, of the table and of versions that writers may still work by; what
a snapshot or one of its manifests names; and a schema for every column that a kept spec partitions by or an equality
delete compares.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from table_format.catalog import LoadedTable
from table_format.commit.change import Change, assert_ref, assert_same_table
from table_format.io.store import ObjectStore
from table_format.jsontypes import JsonObject
from table_format.manifest.entries import ManifestContent, ManifestFile, Status
from table_format.manifest.read import read_manifest
from table_format.metadata.document import TableMetadata
from table_format.scan.plan import snapshot_manifests
from table_format.schema.types import walk


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """What may go."""

    schema_ids: tuple[int, ...]
    spec_ids: tuple[int, ...]


@dataclass(slots=True)
class ListCache:
    """What attempts of one commit loop share: manifest lists by snapshot, column ids of delete manifests by path."""

    lists: dict[int, Sequence[ManifestFile]] = field(default_factory=dict)
    equality_ids: dict[str, frozenset[int]] = field(default_factory=dict)


def unused(
    store: ObjectStore, metadata: TableMetadata, earlier: Iterable[TableMetadata], cache: ListCache
) -> Unused:
    """The schemas and specs of the table that neither it nor the earlier versions of it need.

    Raises:
        NoSuchFile: a manifest list or a manifest is gone.
    """
    versions = [metadata, *earlier]
    spec_ids = {version.default_spec_id for version in versions}
    schema_ids = {version.current_schema_id for version in versions}
    candidates = len(metadata.partition_specs) > 1 or len(metadata.schemas) > 1
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots if candidates else ():
        listed = cache.lists.get(snapshot["snapshot-id"])
        if listed is None:
            listed = cache.lists[snapshot["snapshot-id"]] = snapshot_manifests(store, snapshot)
        manifests.update((manifest.path, manifest) for manifest in listed)
        if snapshot.get("schema-id") is None:
            # An old writer did not say by which schema it wrote: any may be meant.
            schema_ids.update(schema["schema-id"] for schema in metadata.schemas)
        else:
            schema_ids.add(snapshot["schema-id"])
    spec_ids.update(manifest.spec_id for manifest in manifests.values())
    kept_specs = [spec for spec in metadata.partition_specs if spec["spec-id"] in spec_ids]
    columns = {int(one["source-id"]) for spec in kept_specs for one in spec["fields"] if "source-id" in one}
    if any(schema["schema-id"] not in schema_ids for schema in metadata.schemas):
        columns |= _compared(store, metadata, manifests.values(), cache)
    schema_ids |= _with_columns(metadata, columns, schema_ids)
    return Unused(
        schema_ids=tuple(
            sorted(one["schema-id"] for one in metadata.schemas if one["schema-id"] not in schema_ids)
        ),
        spec_ids=tuple(
            sorted(one["spec-id"] for one in metadata.partition_specs if one["spec-id"] not in spec_ids)
        ),
    )


def _compared(
    store: ObjectStore, metadata: TableMetadata, manifests: Iterable[ManifestFile], cache: ListCache
) -> set[int]:
    """The columns that live equality deletes compare."""
    found: set[int] = set()
    for manifest in manifests:
        if manifest.content is not ManifestContent.DELETES:
            continue
        known = cache.equality_ids.get(manifest.path)
        if known is None:
            known = cache.equality_ids[manifest.path] = frozenset(
                column
                for entry in read_manifest(store, manifest, metadata)
                if entry.status is not Status.DELETED
                for column in entry.data_file.equality_ids or ()
            )
        found |= known
    return found


def _with_columns(metadata: TableMetadata, columns: set[int], kept: set[int]) -> set[int]:
    """Schemas to keep for the sake of columns that no kept one has: of each the newest that has it."""
    more: set[int] = set()
    missing = set(columns)
    newest_first: list[JsonObject] = sorted(
        metadata.schemas, key=lambda one: (one["schema-id"] in kept, one["schema-id"]), reverse=True
    )
    for schema in newest_first:
        has = {view.id for view in walk(schema)} & missing
        if has and schema["schema-id"] not in kept:
            more.add(schema["schema-id"])
        missing -= has
    return more


def remove_unused(table: LoadedTable, found: Unused) -> Change | None:
    """The change that takes them out; None without any.

    It holds only while every branch and tag is where it was and there is no other, by the same schema and spec.
    """
    updates: list[JsonObject] = []
    if found.spec_ids:
        updates.append({"action": "remove-partition-specs", "spec-ids": list(found.spec_ids)})
    if found.schema_ids:
        updates.append({"action": "remove-schemas", "schema-ids": list(found.schema_ids)})
    if not updates:
        return None
    metadata = table.metadata
    refs = metadata.refs
    requirements = [
        *assert_same_table(metadata),
        {"type": "assert-current-schema-id", "current-schema-id": metadata.current_schema_id},
        {"type": "assert-default-spec-id", "default-spec-id": metadata.default_spec_id},
        *(assert_ref(name, ref["snapshot-id"]) for name, ref in sorted(refs.items())),
        {"type": "assert-refs", "refs": sorted(refs)},
    ]
    return Change(updates=updates, requirements=requirements)
